/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REPLAY_H
#define HTTP_REPLAY_H

#include <stddef.h>
#include <stdint.h>

struct http_request;

/* What the Idempotency-Key of a POST asks of its handler; the map of keys is idempotency.h. */
enum replay { REPLAY_MAKE, REPLAY_AGAIN, REPLAY_ANSWERED };

/*
 * REPLAY_MAKE: make the n resources, then call replay_commit; a request that ends without that forgets its key.
 * REPLAY_AGAIN: show the resources ret_ids again, and make those that are 0. REPLAY_ANSWERED: nothing.
 */
enum replay replay_begin(struct http_request *request, uint64_t *ret_ids, size_t n);
void replay_commit(struct http_request *request, const uint64_t *ids);

/* Gives up what the request has reserved and not committed. */
void replay_abort(struct http_request *request);

#endif
