/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESPONDER_READ_H
#define TRANSFER_RESPONDER_READ_H

struct engine;
struct payload;
struct peer;
struct wire_header;

/* READs: a responder sends bytes. Thread: the holder of the progress lock. */

void responder_on_read(struct engine *engine, struct peer *peer, const struct wire_header *header,
                       struct payload *payload);
/* The link may have room: answers READs of the peer's responders. */
void responders_send(struct peer *peer);
/* Bytes may have arrived: retries the held READs. */
void responders_retry_held(struct engine *engine);

#endif
