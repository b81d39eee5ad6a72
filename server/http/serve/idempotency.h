/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_IDEMPOTENCY_H
#define HTTP_IDEMPOTENCY_H

#include <stddef.h>
#include <stdint.h>

/*
 * A bounded map from Idempotency-Key to the hash of its request and the ids of the resources it made. A batch may make
 * some of its resources only: a retry gets those, and makes the others. Any thread; own lock, a leaf.
 */

struct http_request;
struct idempotency;

/* A key whose resources are being made: reserved for one request, which commits or aborts it. */
struct idempotency_entry;

enum { IDEMPOTENCY_KEEP_US = 600 * 1000 * 1000 };

enum idempotency_verdict {
        IDEMPOTENCY_NEW,      /* reserved: commit or abort must follow */
        IDEMPOTENCY_REPLAY,   /* ret_ids: the resources of the first request */
        IDEMPOTENCY_RETRY,    /* the same, 0 = not made yet; reserved: commit or abort must follow */
        IDEMPOTENCY_CONFLICT, /* the key was used for another request */
        IDEMPOTENCY_BUSY,     /* another request with this key is making them */
        IDEMPOTENCY_FULL,     /* all keys are reserved, or memory is short */
};

/* Remembers at most max keys; forgets the oldest first. 0 or -ENOMEM. */
int idempotency_new(size_t max, struct idempotency **ret_idempotency);
struct idempotency *idempotency_free(struct idempotency *idempotency);

/*
 * n: number of resources that the request asks for. now_us: CLOCK_MONOTONIC. *ret_entry is NULL unless the key was
 * reserved.
 */
enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_ids, size_t n,
                                           struct idempotency_entry **ret_entry);
/* ids: 0 = not made. */
void idempotency_commit(struct idempotency *idempotency, struct idempotency_entry *entry, const uint64_t *ids);
/* Forgets the key, unless it has made something. */
void idempotency_abort(struct idempotency *idempotency, struct idempotency_entry *entry);

/* ---- the Idempotency-Key of a POST, for its handler ---- */

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
