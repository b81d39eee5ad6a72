/* SPDX-License-Identifier: Apache-2.0 */
#include "documents_internal.h"

#include <string.h>

#include "base/metrics.h"
#include "base/util.h"
#include "documents/documents.h"
#include "http/server.h"
#include "move/engine.h"

/*
 * Reports of the layers below, as events: operations, regions, peers, and the use of limits. An object is read under
 * the log's lock, so that events come in the order of the states that they show. Thread: any that makes a change; it
 * must not block.
 */

/* ---- limits ---- */

static uint64_t near_at(uint64_t max)
{
        return max - max / 10;
}

static uint64_t clear_below(uint64_t max)
{
        return max - max / 5;
}

void event_log_limits(struct event_log *log, const struct http_limits *limits,
                      const struct operation_limits *operations)
{
        const struct {
                const char *name;
                uint64_t max;
        } all[] = {
                [EVENT_LIMIT_CONNECTIONS] = { "connections_max", limits->connections_max },
                [EVENT_LIMIT_MEMORY] = { "memory_limit", limits->memory_limit },
                [EVENT_LIMIT_OPERATIONS] = { "operations_max", operations->operations_max },
                [EVENT_LIMIT_REGIONS] = { "regions_max", limits->regions_max },
                [EVENT_LIMIT_WAITERS] = { "waiters_max", limits->waiters_max },
        };

        _Static_assert(FERRY_ARRAY_SIZE(all) == EVENT_LIMIT_COUNT, "every limit has its maximum");
        (void)pthread_mutex_lock(&log->lock);
        for (size_t i = 0; i < EVENT_LIMIT_COUNT; i++) {
                log->levels[i].name = all[i].name;
                log->levels[i].max = all[i].max;
                log->levels[i].gauge = metric_get(log->near, &all[i].name);
                atomic_store(&log->levels[i].threshold, all[i].max ? near_at(all[i].max) : UINT64_MAX);
        }
        (void)pthread_mutex_unlock(&log->lock);
}

struct usage {
        const struct level *level;
        uint64_t used;
};

static void write_limit(struct ferry_json_writer *writer, const void *object)
{
        const struct usage *usage = object;

        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "name", usage->level->name);
        ferry_json_add_uint(writer, "used", usage->used);
        ferry_json_add_uint(writer, "max", usage->level->max);
        ferry_json_end_object(writer);
}

/* Whether an event is due. */
static bool crosses(const struct level *level, uint64_t used)
{
        uint64_t threshold = atomic_load(&level->threshold);

        return threshold && (atomic_load(&level->near) ? used < threshold : used >= threshold);
}

void event_log_used(struct event_log *log, enum event_limit limit, uint64_t used)
{
        struct level *level = &log->levels[limit];

        if (!crosses(level, used)) /* nearly always, so without the lock */
                return;
        (void)pthread_mutex_lock(&log->lock);
        if (crosses(level, used)) {
                bool near = !atomic_load(&level->near);
                const struct usage usage = { level, used };

                atomic_store(&level->near, near);
                metric_set(level->gauge, near);
                atomic_store(&level->threshold, near ? clear_below(level->max) : near_at(level->max));
                event_log_publish_object(log, near ? EVENT_LIMIT_NEAR : EVENT_LIMIT_CLEARED, write_limit, &usage);
        }
        (void)pthread_mutex_unlock(&log->lock);
}

/* ---- what the layers below report ---- */

/* The lock is held. OPERATION_CHANGED is ignored once the operation has ended or was deleted. */
static void publish_operation(struct event_log *log, struct operation_store *store, struct operation *operation,
                              enum operation_change change)
{
        static const enum event_type type_of[] = { [OPERATION_MADE] = EVENT_OPERATION_CREATED,
                                                   [OPERATION_CHANGED] = EVENT_OPERATION_CHANGED,
                                                   [OPERATION_ENDED] = EVENT_OPERATION_ENDED };
        struct event *event = event_log_next(log, type_of[change]);

        operation_get_view(store, operation, &event->view);
        if (change == OPERATION_CHANGED && (event->view.done || event->view.deleted))
                return;
        stpcpy(event->label, event->view.label);
        stpcpy(event->request_id, event->view.request_id);
        event->view.label = event->label;
        event->view.request_id = event->request_id;
        event->view.brief = true;
        event->view.descriptors = NULL; /* they belong to the operation */
        event_log_publish(log, event);
}

/* Reads the operation under the lock, so that no event shows an older state than the event before it. */
void event_log_operation(void *context, struct operation_store *store, struct operation *operation,
                         enum operation_change change)
{
        struct event_log *log = context;

        (void)pthread_mutex_lock(&log->lock);
        if (operation_announce(operation))
                publish_operation(log, store, operation, OPERATION_MADE);
        if (change != OPERATION_MADE)
                publish_operation(log, store, operation, change);
        (void)pthread_mutex_unlock(&log->lock);
        if (change != OPERATION_CHANGED)
                event_log_used(log, EVENT_LIMIT_OPERATIONS, operation_store_live(store));
}

static void write_region(struct ferry_json_writer *writer, const void *object)
{
        region_json_write(writer, object);
}

void event_log_region(void *context, struct region_table *table, uint64_t id, struct region *deleted,
                      enum region_change change)
{
        static const enum event_type type_of[] = { [REGION_LISTED] = EVENT_REGION_CREATED,
                                                   [REGION_CHANGED] = EVENT_REGION_CHANGED,
                                                   [REGION_UNLISTED] = EVENT_REGION_DELETED };
        struct event_log *log = context;
        struct region *region = deleted ? region_ref(deleted) : region_find(table, id);
        uint64_t bytes;
        size_t n;

        (void)pthread_mutex_lock(&log->lock);
        if (region && (deleted || !region_deleted(region)))
                event_log_publish_object(log, type_of[change], write_region, region);
        (void)pthread_mutex_unlock(&log->lock);
        region_unref(region);
        region_totals(table, &n, &bytes);
        event_log_used(log, EVENT_LIMIT_REGIONS, n);
        event_log_used(log, EVENT_LIMIT_MEMORY, bytes);
}

static void write_peer(struct ferry_json_writer *writer, const void *object)
{
        peer_json_write(writer, object);
}

void event_log_peer(void *context, const struct engine_peer_view *peer)
{
        struct event_log *log = context;

        (void)pthread_mutex_lock(&log->lock);
        event_log_publish_object(log,
                                 peer->state == ENGINE_PEER_CONNECTED ? EVENT_PEER_CONNECTED : EVENT_PEER_DISCONNECTED,
                                 write_peer, peer);
        (void)pthread_mutex_unlock(&log->lock);
}
