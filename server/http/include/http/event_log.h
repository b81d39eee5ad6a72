/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_LOG_H
#define HTTP_EVENT_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "memory/region.h"
#include "operations/operations.h"

struct engine_peer_view;
struct metrics;

/*
 * The last events of this worker, for GET /v1/events: a ring, in which each event has a number. Made before the layers
 * that report to it, and freed after them.
 *
 * Lock order: the log's lock comes before those of the operation store and of the region table.
 */
struct event_log;

struct event_log_config {
        uint64_t epoch;
        size_t kept;             /* events; 0 = EVENTS_KEPT */
        struct metrics *metrics; /* may be NULL */
};

enum { EVENTS_KEPT = 2048 };

/* 0 or -ENOMEM. */
int event_log_new(const struct event_log_config *config, struct event_log **ret_log);

/* Gives a reference back: nothing may be reported once that of event_log_new is. Takes NULL; returns NULL. */
struct event_log *event_log_free(struct event_log *log);

/* The callbacks of struct operation_observer, region_observer and engine_observer; log is the context. Any thread. */
void event_log_operation(void *log, struct operation_store *store, struct operation *operation,
                         enum operation_change change);
void event_log_region(void *log, struct region_table *table, uint64_t id, struct region *deleted,
                      enum region_change change);
void event_log_peer(void *log, const struct engine_peer_view *peer);

/* ---- the events for the program around the worker ---- */

struct event_watch;

/*
 * Watches the events after the one of an id (NULL: from now on). told is called after each event, under the log's lock,
 * by the thread that published it. 0; -EINVAL: after is not an event's id; -ENOMEM.
 */
int event_watch_new(struct event_log *log, const char *after, void (*told)(void *context), void *context,
                    struct event_watch **ret_watch);

/* Takes NULL; returns NULL. From then on told is not called. */
struct event_watch *event_watch_free(struct event_watch *watch);

/*
 * The next event as GET /v1/events has it, for free(). A gap is {"type":"missed","missed":N}, or {"type":"restarted"}
 * where the id was of an earlier worker. 1; 0: there is none; -ENOMEM. One thread at a time.
 */
int event_watch_take(struct event_watch *watch, char **ret_json);

#endif
