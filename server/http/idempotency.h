/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_IDEMPOTENCY_H
#define HTTP_IDEMPOTENCY_H

#include <stddef.h>
#include <stdint.h>

struct http_request;

/*
 * What each Idempotency-Key made: a bounded map from key to the hash of the request and the id of the resource. Any
 * thread; own lock, a leaf.
 */

struct idempotency;

enum { IDEMPOTENCY_KEEP_US = 600 * 1000 * 1000 };

enum idempotency_verdict {
        IDEMPOTENCY_NEW,      /* reserved: commit or abort must follow */
        IDEMPOTENCY_REPLAY,   /* *ret_id is what the first request made */
        IDEMPOTENCY_CONFLICT, /* the key was used for another request */
        IDEMPOTENCY_BUSY,     /* the first request is still making it */
        IDEMPOTENCY_FULL,     /* no room and nothing to forget, or memory is short */
};

/* Remembers at most max keys; the least recently made goes first. 0 or -errno. */
int idempotency_new(size_t max, struct idempotency **ret_idempotency);
struct idempotency *idempotency_free(struct idempotency *idempotency);

/* now_us: CLOCK_MONOTONIC. */
enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_id);
void idempotency_commit(struct idempotency *idempotency, const char *key, uint64_t id);
void idempotency_abort(struct idempotency *idempotency, const char *key);

/* ---- for the handlers of POST ---- */

enum replay { REPLAY_MAKE, REPLAY_AGAIN, REPLAY_ANSWERED };

/*
 * What the request's Idempotency-Key says: make the resource (then call replay_commit; an answer without that forgets
 * the key again), show the resource *ret_id again, or nothing, because the request has been answered.
 */
enum replay replay_begin(struct http_request *request, uint64_t *ret_id);
void replay_commit(struct http_request *request, uint64_t id);
void replay_abort(struct http_request *request);

#endif
