/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_IDEMPOTENCY_H
#define HTTP_IDEMPOTENCY_H

#include <stddef.h>
#include <stdint.h>

struct http_request;

/*
 * What each Idempotency-Key made: a bounded map from key to the hash of the request and the ids of the resources. A
 * batch may make a part of what it asks for: that part is remembered, and the rest is tried again. Any thread; own
 * lock, a leaf.
 */

struct idempotency;

enum { IDEMPOTENCY_KEEP_US = 600 * 1000 * 1000 };

enum idempotency_verdict {
        IDEMPOTENCY_NEW,      /* reserved: commit or abort must follow */
        IDEMPOTENCY_REPLAY,   /* ret_ids is what the first request made */
        IDEMPOTENCY_RETRY,    /* the same, but for those that are 0; reserved: commit or abort must follow */
        IDEMPOTENCY_CONFLICT, /* the key was used for another request */
        IDEMPOTENCY_BUSY,     /* the first request is still making it */
        IDEMPOTENCY_FULL,     /* no room and nothing to forget, or memory is short */
};

/* Remembers at most max keys; the least recently made goes first. 0 or -errno. */
int idempotency_new(size_t max, struct idempotency **ret_idempotency);
struct idempotency *idempotency_free(struct idempotency *idempotency);

/* n: how many resources the request asks for, which its hash covers. now_us: CLOCK_MONOTONIC. */
enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_ids, size_t n);
/* ids: 0 = not made. */
void idempotency_commit(struct idempotency *idempotency, const char *key, const uint64_t *ids);
void idempotency_abort(struct idempotency *idempotency, const char *key);

/* ---- for the handlers of POST ---- */

enum replay { REPLAY_MAKE, REPLAY_AGAIN, REPLAY_ANSWERED };

/*
 * What the request's Idempotency-Key says: make the n resources (then call replay_commit; an answer without that
 * forgets the key again), show the resources ret_ids again and make those that are 0, or nothing, because the request
 * has been answered.
 */
enum replay replay_begin(struct http_request *request, uint64_t *ret_ids, size_t n);
void replay_commit(struct http_request *request, const uint64_t *ids);
void replay_abort(struct http_request *request);

#endif
