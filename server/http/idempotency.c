/* SPDX-License-Identifier: Apache-2.0 */
#include "idempotency.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "http_internal.h"
#include "request.h"

struct entry {
        UT_hash_handle hh;
        uint64_t hash;
        uint64_t made_us;
        uint64_t id; /* 0 = still being made */
        char key[];
};

struct idempotency {
        pthread_mutex_t lock;
        size_t max;
        struct entry *entries; /* in the order in which they were made; under the lock */
};

int idempotency_new(size_t max, struct idempotency **ret_idempotency)
{
        struct idempotency *idempotency = calloc(1, sizeof(*idempotency));

        if (!idempotency)
                return -ENOMEM;
        idempotency->max = max;
        int error = pthread_mutex_init(&idempotency->lock, NULL);
        if (error) {
                free(idempotency);
                return -error;
        }
        *ret_idempotency = idempotency;
        return 0;
}

static void entry_remove(struct idempotency *idempotency, struct entry *entry)
{
        HASH_DEL(idempotency->entries, entry);
        free(entry);
}

struct idempotency *idempotency_free(struct idempotency *idempotency)
{
        struct entry *entry, *next;

        if (!idempotency)
                return NULL;
        HASH_ITER (hh, idempotency->entries, entry, next)
                entry_remove(idempotency, entry);
        pthread_mutex_destroy(&idempotency->lock);
        free(idempotency);
        return NULL;
}

/* Forgets what is too old, then, if there is still no room, the oldest that is not being made. */
static bool make_room(struct idempotency *idempotency, uint64_t now_us)
{
        struct entry *entry, *next;

        HASH_ITER (hh, idempotency->entries, entry, next) {
                if (now_us - entry->made_us < IDEMPOTENCY_KEEP_US)
                        break;
                if (entry->id)
                        entry_remove(idempotency, entry);
        }
        if (HASH_COUNT(idempotency->entries) < idempotency->max)
                return true;
        HASH_ITER (hh, idempotency->entries, entry, next) {
                if (!entry->id)
                        continue;
                entry_remove(idempotency, entry);
                return true;
        }
        return false;
}

static enum idempotency_verdict begin_locked(struct idempotency *idempotency, const char *key, uint64_t hash,
                                             uint64_t now_us, uint64_t *ret_id)
{
        struct entry *entry;

        if (!idempotency->max)
                return IDEMPOTENCY_FULL;
        HASH_FIND_STR(idempotency->entries, key, entry);
        if (entry && entry->id && now_us - entry->made_us >= IDEMPOTENCY_KEEP_US) {
                entry_remove(idempotency, entry);
                entry = NULL;
        }
        if (entry) {
                if (entry->hash != hash)
                        return IDEMPOTENCY_CONFLICT;
                if (!entry->id)
                        return IDEMPOTENCY_BUSY;
                *ret_id = entry->id;
                return IDEMPOTENCY_REPLAY;
        }
        if (!make_room(idempotency, now_us))
                return IDEMPOTENCY_FULL;
        entry = calloc(1, sizeof(*entry) + strlen(key) + 1);
        if (!entry)
                return IDEMPOTENCY_FULL;
        strcpy(entry->key, key);
        entry->hash = hash;
        entry->made_us = now_us;
        HASH_ADD_STR(idempotency->entries, key, entry);
        return IDEMPOTENCY_NEW;
}

enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_id)
{
        pthread_mutex_lock(&idempotency->lock);
        enum idempotency_verdict verdict = begin_locked(idempotency, key, hash, now_us, ret_id);
        pthread_mutex_unlock(&idempotency->lock);
        return verdict;
}

void idempotency_commit(struct idempotency *idempotency, const char *key, uint64_t id)
{
        struct entry *entry;

        pthread_mutex_lock(&idempotency->lock);
        HASH_FIND_STR(idempotency->entries, key, entry);
        if (entry)
                entry->id = id;
        pthread_mutex_unlock(&idempotency->lock);
}

void idempotency_abort(struct idempotency *idempotency, const char *key)
{
        struct entry *entry;

        pthread_mutex_lock(&idempotency->lock);
        HASH_FIND_STR(idempotency->entries, key, entry);
        if (entry && !entry->id)
                entry_remove(idempotency, entry);
        pthread_mutex_unlock(&idempotency->lock);
}

enum replay replay_begin(struct http_request *request, uint64_t *ret_id)
{
        const char *key = request->headers.idempotency_key;

        if (!key)
                return REPLAY_MAKE;
        if (!headers_idempotency_key_valid(key)) {
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "Idempotency-Key must be 1 to 255 visible ASCII characters");
                return REPLAY_ANSWERED;
        }
        switch (idempotency_begin(request->server->idempotency, key, request->idempotency_hash, clock_now_us(),
                                  ret_id)) {
        case IDEMPOTENCY_NEW:
                request->idempotency_reserved = true;
                return REPLAY_MAKE;
        case IDEMPOTENCY_REPLAY:
                request_header(request, "Idempotency-Replayed", "true");
                return REPLAY_AGAIN;
        case IDEMPOTENCY_CONFLICT:
                request_problem(request, FERRY_E_IDEMPOTENCY_CONFLICT, "Use a new key for a new request");
                return REPLAY_ANSWERED;
        case IDEMPOTENCY_BUSY:
                request_header(request, "Retry-After", "1");
                request_problem(request, FERRY_E_IDEMPOTENCY_CONFLICT,
                                "The first request with this key is not answered yet; try again");
                return REPLAY_ANSWERED;
        case IDEMPOTENCY_FULL:
                request_problem(request, FERRY_E_LIMIT_REACHED, "No further Idempotency-Key can be remembered now");
                return REPLAY_ANSWERED;
        }
        __builtin_unreachable();
}

void replay_commit(struct http_request *request, uint64_t id)
{
        if (!request->idempotency_reserved)
                return;
        request->idempotency_reserved = false;
        idempotency_commit(request->server->idempotency, request->headers.idempotency_key, id);
}

void replay_abort(struct http_request *request)
{
        if (!request->idempotency_reserved)
                return;
        request->idempotency_reserved = false;
        idempotency_abort(request->server->idempotency, request->headers.idempotency_key);
}
