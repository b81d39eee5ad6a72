/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REPLAY_H
#define HTTP_REPLAY_H

#include <stddef.h>
#include <stdint.h>

struct http_request;

/* The Idempotency-Key of a POST, for its handler; the map of keys is idempotency.h. */
enum replay { REPLAY_MAKE, REPLAY_AGAIN, REPLAY_ANSWERED };

/*
 * REPLAY_MAKE: make the n resources, then call replay_commit; otherwise the key is forgotten with the request.
 * REPLAY_AGAIN: answer with the resources ret_ids; make those that are 0, then commit. REPLAY_ANSWERED: return.
 */
enum replay replay_begin(struct http_request *request, uint64_t *ret_ids, size_t n);
void replay_commit(struct http_request *request, const uint64_t *ids);

/* Drops a reservation that was not committed. */
void replay_abort(struct http_request *request);

#endif
