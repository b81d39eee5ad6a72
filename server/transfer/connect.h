/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_CONNECT_H
#define TRANSFER_CONNECT_H

#include <stdint.h>

#include "peer.h"
#include "transfer/engine.h"

struct connect;

/*
 * Connecting for its own sake: a HELLO goes to the peer, and when its answer is back the link stands, so that the first
 * transfer finds it. Thread: who holds the progress lock, but for connect_new.
 */

int connect_new(struct engine *engine, const struct engine_connect *spec, struct connect **ret_connect);
/* Of one that was never begun. */
void connect_free(struct connect *connect);
/* Connects and greets, or ends it. */
void connect_begin(struct engine *engine, struct connect *connect);
/* Ends all: the engine is stopping. */
void connects_cancel(struct engine *engine);
/* The link has ended: no answer will come. */
void connects_link_ended(struct peer *peer, const char *detail);
/* A name is resolved. */
void connects_resolved(struct engine *engine);
void connects_tick(struct engine *engine, uint64_t now_us);

void connect_on_hello(struct engine *engine, struct peer *peer, const struct wire_header *header,
                      struct payload *payload);
void connect_on_hello_ack(struct engine *engine, struct peer *peer, const struct wire_header *header,
                          struct payload *payload);

#endif
