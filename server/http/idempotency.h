/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_IDEMPOTENCY_H
#define HTTP_IDEMPOTENCY_H

#include <stddef.h>
#include <stdint.h>

/*
 * What each Idempotency-Key made: a bounded map from key to the hash of the request and the ids of the resources. A
 * batch may make a part of what it asks for: that part is remembered, and the rest is tried again. Any thread; own
 * lock, a leaf.
 */

struct idempotency;

/* A key whose resources are being made: reserved for one request, which commits or aborts it. */
struct idempotency_entry;

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

/*
 * n: how many resources the request asks for, which its hash covers. now_us: CLOCK_MONOTONIC. *ret_entry is NULL unless
 * the verdict reserves.
 */
enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_ids, size_t n,
                                           struct idempotency_entry **ret_entry);
/* ids: 0 = not made. */
void idempotency_commit(struct idempotency *idempotency, struct idempotency_entry *entry, const uint64_t *ids);
/* Forgets the key, unless it has made something. */
void idempotency_abort(struct idempotency *idempotency, struct idempotency_entry *entry);

#endif
