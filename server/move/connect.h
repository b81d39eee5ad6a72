/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_CONNECT_H
#define MOVE_CONNECT_H

#include <stdint.h>

#include "message/header.h"
#include "move/engine.h"
#include "route.h"
#include "session.h"

struct connect_request;

/*
 * engine_connect: opens a link without a transfer. Sends HELLO or a notice and waits for its answer, so that the first
 * transfer finds the link up. Thread: the holder of the progress lock, but any for connect_request_new.
 */

/* Makes a request. Returns 0 or -ENOMEM. Any thread. */
int connect_request_new(struct engine *engine, const struct engine_connect *spec, struct connect_request **ret_connect);
/* Frees one that was never begun. */
void connect_request_free(struct connect_request *connect);
/* Connects and sends HELLO; ends it on failure. */
void connect_request_begin(struct engine *engine, struct connect_request *connect);
/* Tries a path again, for route.probes, beside the transfer, which goes on first. */
void connect_probe(struct engine *engine, const struct route *route, struct transport *transport);
/* Ends all: the engine is stopping. */
void connect_requests_cancel(struct engine *engine);
/* The link has ended: ends those on it. */
void connect_requests_link_ended(struct session *session, const char *detail);
/* A name was resolved: tries again. */
void connect_requests_resolved(struct engine *engine);
void connect_requests_tick(struct engine *engine, uint64_t now_us);

void connect_on_hello(struct session *session, const struct wire_header *header, struct payload *payload);
/* Puts a DECLINE or a RENEW to the operations, and answers it. */
void connect_on_notice(struct session *session, const struct wire_header *header, struct payload *payload);
/* The answer to a HELLO, or to a notice. */
void connect_on_answer(struct session *session, const struct wire_header *header, struct payload *payload);

#endif
