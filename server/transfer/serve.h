/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_SERVE_H
#define TRANSFER_SERVE_H

struct engine;
struct payload;
struct peer;
struct wire_header;

/* READ to DATA: a responder sends bytes. Thread: who holds the progress lock. */

void serve_on_read(struct engine *engine, struct peer *peer, const struct wire_header *header, struct payload *payload);
/* There may be room for the answers of the peer's responders. */
void serve_peer(struct peer *peer);
/* Bytes that responders wait for may be there. */
void serve_held(struct engine *engine);

#endif
