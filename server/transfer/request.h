/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUEST_H
#define TRANSFER_REQUEST_H

#include <stdbool.h>

struct chunk;
struct peer;
struct requester;

/* Sends a requester's READs and WRITEs. Thread: the holder of the progress lock. */

/* Requests the next chunk. false: no chunk is free, or there is no room for a message. */
bool request_next(struct requester *requester);
/* Lets the peer's requesters send in turn, while their shared window has room. */
void requests_send(struct peer *peer);
/* A part of a WRITE was sent or confirmed: frees its chunk if that was the last. */
void request_chunk_is_written(struct requester *requester, struct chunk *chunk);

#endif
