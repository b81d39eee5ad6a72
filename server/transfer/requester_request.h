/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUESTER_REQUEST_H
#define TRANSFER_REQUESTER_REQUEST_H

#include <stdbool.h>

struct chunk;
struct peer;
struct requester;

/* Sends a requester's READs and WRITEs. Thread: the holder of the progress lock. */

/* Requests the next chunk. false: no chunk is free, or there is no room for a message. */
bool requester_request_next(struct requester *requester);
/* Has the peer's requesters send round-robin, while their shared window has room. */
void requesters_send(struct peer *peer);
/* A part of a WRITE was sent or confirmed: frees its chunk if that was the last. */
void requester_chunk_written(struct requester *requester, struct chunk *chunk);

#endif
