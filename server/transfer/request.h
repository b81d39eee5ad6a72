/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUEST_H
#define TRANSFER_REQUEST_H

#include <stdbool.h>

struct chunk;
struct peer;
struct requester;

/* What a requester sends: READs, and WRITEs with their bytes. Thread: who holds the progress lock. */

/* Asks for the next chunk. false: none is free, or there is no room for a message. */
bool request_next(struct requester *requester);
/* The peer's requesters ask in turn, while the window that they share has room. */
void requests_send(struct peer *peer);
/* A part of a WRITE is sent, or confirmed: its chunk may be over. */
void request_chunk_is_written(struct requester *requester, struct chunk *chunk);

#endif
