/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/metrics.h"
#include "base/util.h"
#include "registry_internal.h"

enum {
        ANSWER_BASE = 64 * 1024,
        ANSWER_EACH = 4096, /* above the base64 size of a worker's key and value */
};

struct registry_lookup {
        struct registry_lookup *prev, *next; /* while it is queued */
        struct registry *registry;
        struct registry_query query;
        char name[REGISTRY_NAME_SIZE]; /* "" = all */
        registry_found found;
        void *context;
};

/* With the lock held. */
static void count_lookup(struct registry *registry, int change)
{
        registry->n_lookups += (size_t)change;
        metric_set(registry->lookups, (int64_t)registry->n_lookups);
}

/* Ends the lookup. */
static void finish(struct registry_lookup *lookup, int error, const char *detail, const struct registry_page *page)
{
        struct registry *registry = lookup->registry;

        pthread_mutex_lock(&registry->lock);
        count_lookup(registry, -1);
        pthread_mutex_unlock(&registry->lock);
        lookup->found(lookup->context, error, detail, page);
        free(lookup);
}

static void on_range(void *context, int error, const char *detail, struct json_object *answer)
{
        struct registry_lookup *lookup = context;
        const size_t max = lookup->query.limit;
        FERRY_CLEANUP(cleanup_free) struct registry_entry *entries = NULL;
        struct etcd_range range;

        if (!error) {
                entries = calloc(max, sizeof(*entries));
                if (!entries || !etcd_read_range(answer, lookup->registry->prefix, entries, max, &range)) {
                        error = FERRY_E_PEER_UNREACHABLE;
                        detail = entries ? "its answer is not one of etcd's" : "memory is short";
                }
        }
        if (error) {
                finish(lookup, error == FERRY_E_NOT_FOUND ? FERRY_E_PEER_UNREACHABLE : error, detail, NULL);
                return;
        }
        const struct registry_page page = {
                .entries = entries,
                .n = range.n,
                .n_skipped = range.n_skipped,
                .cursor =
                        range.cursor > lookup->query.after ? range.cursor : 0, /* must grow, else clients would loop */
                .revision = range.revision,
        };
        finish(lookup, 0, "", &page);
}

static void ask(struct registry_lookup *lookup, const char *path, char *body, uint64_t watch_ms, registry_called called)
{
        const struct registry_question question = { .path = path,
                                                    .body = body,
                                                    .answer_max = ANSWER_BASE + lookup->query.limit * ANSWER_EACH,
                                                    .watch_ms = watch_ms };

        if (registry_ask(lookup->registry, &question, called, lookup) < 0)
                finish(lookup, FERRY_E_PEER_UNREACHABLE, "memory is short", NULL);
}

static void ask_range(struct registry_lookup *lookup)
{
        const struct registry_query *query = &lookup->query;
        char key[REGISTRY_KEY_SIZE];

        etcd_key(lookup->registry->prefix, lookup->name, key);
        ask(lookup, "/v3/kv/range", *lookup->name ? etcd_get(key) : etcd_list(key, query->after, query->limit), 0,
            on_range);
}

/* The watch has ended by a change, a timeout or a failure: the answer is the current state. */
static void on_watched(void *context, int error, const char *detail, struct json_object *answer)
{
        struct registry_lookup *lookup = context;

        (void)answer;
        if (error == FERRY_E_CANCELLED)
                finish(lookup, error, detail, NULL);
        else
                ask_range(lookup);
}

static void begin(struct registry_lookup *lookup)
{
        const struct registry_query *query = &lookup->query;

        if (query->wait_ms)
                ask(lookup, "/v3/watch", etcd_watch(lookup->registry->prefix, query->revision + 1), query->wait_ms,
                    on_watched);
        else
                ask_range(lookup);
}

static struct registry_lookup *take_queued(struct registry *registry)
{
        pthread_mutex_lock(&registry->lock);
        struct registry_lookup *queued = FERRY_STEAL(registry->queued);
        pthread_mutex_unlock(&registry->lock);
        return queued;
}

void lookups_take(struct registry *registry)
{
        struct registry_lookup *queued = take_queued(registry), *lookup, *next;

        DL_FOREACH_SAFE (queued, lookup, next) {
                DL_DELETE(queued, lookup);
                begin(lookup);
        }
}

void lookups_cancel(struct registry *registry)
{
        struct registry_lookup *queued = take_queued(registry), *lookup, *next;

        DL_FOREACH_SAFE (queued, lookup, next) {
                DL_DELETE(queued, lookup);
                finish(lookup, FERRY_E_CANCELLED, "the worker is shutting down", NULL);
        }
}

int registry_find(struct registry *registry, const struct registry_query *query, registry_found found, void *context)
{
        struct registry_lookup *lookup = calloc(1, sizeof(*lookup)), *queued;
        int r = 0;

        if (!lookup)
                return -ENOMEM;
        lookup->registry = registry;
        lookup->query = *query;
        lookup->found = found;
        lookup->context = context;
        if (query->name && strlen(query->name) < sizeof(lookup->name))
                strcpy(lookup->name, query->name);
        lookup->query.name = NULL;
        if (*lookup->name || lookup->query.limit < 1)
                lookup->query.limit = 1;
        if (lookup->query.limit > REGISTRY_PAGE_MAX)
                lookup->query.limit = REGISTRY_PAGE_MAX;
        pthread_mutex_lock(&registry->lock);
        if (registry->stopped)
                r = FERRY_E_CANCELLED;
        else if (registry->n_lookups >= REGISTRY_LOOKUPS_MAX)
                r = FERRY_E_LIMIT_REACHED;
        if (!r) {
                count_lookup(registry, 1);
                DL_APPEND(registry->queued, lookup);
        }
        pthread_mutex_unlock(&registry->lock);
        if (r) {
                free(lookup);
                return r;
        }
        r = registry->wake(registry->wake_context);
        if (r == 0)
                return 0;
        /* The thread could not be started, unless another call has done so since, and it has taken the lookup. */
        pthread_mutex_lock(&registry->lock);
        DL_FOREACH (registry->queued, queued)
                if (queued == lookup)
                        break;
        if (queued) {
                DL_DELETE(registry->queued, lookup);
                count_lookup(registry, -1);
        }
        pthread_mutex_unlock(&registry->lock);
        free(queued);
        return queued ? r : 0;
}
