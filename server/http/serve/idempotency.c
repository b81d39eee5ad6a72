/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"

/*
 * Idempotency-Keys: a POST that comes again with its key gets what the first one made. A key is reserved while its
 * resources are being made, and another request with it is told to come later; what an earlier attempt of a batch has
 * made stays, and the rest is made.
 *
 * Thread: any. Lock: the map's, a leaf.
 */

/* ---- the map of keys ---- */

struct idempotency_entry {
        UT_hash_handle hh;
        uint64_t hash;
        uint64_t made_us;
        bool busy; /* reserved by a request */
        size_t n;  /* resources */
        char *key; /* stored after the ids */
        uint64_t ids[];
};

struct idempotency {
        pthread_mutex_t lock;
        size_t max;
        struct idempotency_entry *entries; /* oldest first; guarded by lock */
};

int idempotency_new(size_t max, struct idempotency **ret_idempotency)
{
        struct idempotency *idempotency = calloc(1, sizeof(*idempotency));

        if (!idempotency)
                return -ENOMEM;
        idempotency->max = max;
        (void)pthread_mutex_init(&idempotency->lock, NULL);
        *ret_idempotency = idempotency;
        return 0;
}

static void entry_remove(struct idempotency *idempotency, struct idempotency_entry *entry)
{
        HASH_DEL(idempotency->entries, entry);
        free(entry);
}

struct idempotency *idempotency_free(struct idempotency *idempotency)
{
        struct idempotency_entry *entry, *next;

        if (!idempotency)
                return NULL;
        HASH_ITER (hh, idempotency->entries, entry, next)
                entry_remove(idempotency, entry);
        pthread_mutex_destroy(&idempotency->lock);
        free(idempotency);
        return NULL;
}

/* Forgets expired keys and then, if there is still no room, the oldest that is not reserved. */
static bool make_room(struct idempotency *idempotency, uint64_t now_us)
{
        struct idempotency_entry *entry, *next;

        HASH_ITER (hh, idempotency->entries, entry, next) {
                if (now_us - entry->made_us < IDEMPOTENCY_KEEP_US)
                        break;
                if (!entry->busy)
                        entry_remove(idempotency, entry);
        }
        if (HASH_COUNT(idempotency->entries) < idempotency->max)
                return true;
        HASH_ITER (hh, idempotency->entries, entry, next) {
                if (entry->busy)
                        continue;
                entry_remove(idempotency, entry);
                return true;
        }
        return false;
}

/* Adds a reserved key. NULL when memory is short. The lock is held. */
static struct idempotency_entry *entry_add(struct idempotency *idempotency, const char *key, size_t n)
{
        struct idempotency_entry *entry = calloc(1, sizeof(*entry) + n * sizeof(entry->ids[0]) + strlen(key) + 1);

        if (!entry)
                return NULL;
        entry->busy = true;
        entry->n = n;
        entry->key = strcpy((char *)&entry->ids[n], key);
        HASH_ADD_KEYPTR(hh, idempotency->entries, entry->key, strlen(key), entry);
        if (entry->hh.tbl)
                return entry;
        free(entry);
        return NULL;
}

/* The ids of an earlier request; reserves the key again where some were not made. The lock is held. */
static enum idempotency_verdict entry_replay(struct idempotency_entry *entry, uint64_t *ret_ids)
{
        memcpy(ret_ids, entry->ids, entry->n * sizeof(entry->ids[0]));
        for (size_t i = 0; i < entry->n; i++)
                entry->busy = entry->busy || !entry->ids[i];
        return entry->busy ? IDEMPOTENCY_RETRY : IDEMPOTENCY_REPLAY;
}

/* The verdict on a key. The lock is held. */
static enum idempotency_verdict begin_locked(struct idempotency *idempotency, const char *key, uint64_t hash,
                                             uint64_t now_us, uint64_t *ret_ids, size_t n,
                                             struct idempotency_entry **ret_entry)
{
        struct idempotency_entry *entry;
        enum idempotency_verdict verdict;

        if (!idempotency->max)
                return IDEMPOTENCY_FULL;
        HASH_FIND_STR(idempotency->entries, key, entry);
        if (entry && !entry->busy && now_us - entry->made_us >= IDEMPOTENCY_KEEP_US) {
                entry_remove(idempotency, entry);
                entry = NULL;
        }
        if (entry) {
                if (entry->hash != hash || entry->n != n) /* a client can make two bodies of one hash */
                        return IDEMPOTENCY_CONFLICT;
                if (entry->busy)
                        return IDEMPOTENCY_BUSY;
                verdict = entry_replay(entry, ret_ids);
                *ret_entry = verdict == IDEMPOTENCY_RETRY ? entry : NULL;
                return verdict;
        }
        if (!make_room(idempotency, now_us))
                return IDEMPOTENCY_FULL;
        entry = entry_add(idempotency, key, n);
        if (!entry)
                return IDEMPOTENCY_FULL;
        entry->hash = hash;
        entry->made_us = now_us;
        *ret_entry = entry;
        return IDEMPOTENCY_NEW;
}

enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_ids, size_t n,
                                           struct idempotency_entry **ret_entry)
{
        *ret_entry = NULL;
        pthread_mutex_lock(&idempotency->lock);
        enum idempotency_verdict verdict = begin_locked(idempotency, key, hash, now_us, ret_ids, n, ret_entry);
        pthread_mutex_unlock(&idempotency->lock);
        return verdict;
}

void idempotency_commit(struct idempotency *idempotency, struct idempotency_entry *entry, const uint64_t *ids)
{
        pthread_mutex_lock(&idempotency->lock);
        memcpy(entry->ids, ids, entry->n * sizeof(ids[0]));
        entry->busy = false;
        pthread_mutex_unlock(&idempotency->lock);
}

void idempotency_abort(struct idempotency *idempotency, struct idempotency_entry *entry)
{
        bool made = false;

        pthread_mutex_lock(&idempotency->lock);
        for (size_t i = 0; i < entry->n; i++)
                made = made || entry->ids[i];
        if (made)
                entry->busy = false; /* keeps what an earlier request made */
        else
                entry_remove(idempotency, entry);
        pthread_mutex_unlock(&idempotency->lock);
}

/* ---- the key of a request ---- */

enum replay replay_begin(struct http_request *request, uint64_t *ret_ids, size_t n)
{
        const char *key = request->headers.idempotency_key;

        if (!key)
                return REPLAY_MAKE;
        if (!headers_idempotency_key_valid(key)) {
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "Idempotency-Key must be 1 to 255 visible ASCII characters");
                return REPLAY_ANSWERED;
        }
        switch (idempotency_begin(request->server->idempotency, key, request->idempotency_hash, clock_now_us(), ret_ids,
                                  n, &request->reserved)) {
        case IDEMPOTENCY_NEW:
                return REPLAY_MAKE;
        case IDEMPOTENCY_RETRY:
        case IDEMPOTENCY_REPLAY:
                request_header(request, "Idempotency-Replayed", "true");
                return REPLAY_AGAIN;
        case IDEMPOTENCY_CONFLICT:
                request_problem(request, FERRY_E_IDEMPOTENCY_CONFLICT, "Use a new key for a new request");
                return REPLAY_ANSWERED;
        case IDEMPOTENCY_BUSY:
                request_header(request, "Retry-After", "1");
                request_problem(request, FERRY_E_IDEMPOTENCY_CONFLICT,
                                "The first request with this key has not been answered yet; try again");
                return REPLAY_ANSWERED;
        case IDEMPOTENCY_FULL:
                request_problem(request, FERRY_E_LIMIT_REACHED, "idempotency_max is %llu, and as many keys are in use",
                                (unsigned long long)request->server->config.limits.idempotency_max);
                return REPLAY_ANSWERED;
        }
        __builtin_unreachable();
}

void replay_commit(struct http_request *request, const uint64_t *ids)
{
        if (request->reserved)
                idempotency_commit(request->server->idempotency, FERRY_STEAL(request->reserved), ids);
}

void replay_abort(struct http_request *request)
{
        if (request->reserved)
                idempotency_abort(request->server->idempotency, FERRY_STEAL(request->reserved));
}
