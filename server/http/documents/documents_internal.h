/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DOCUMENTS_INTERNAL_H
#define HTTP_DOCUMENTS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <ferry/json_write.h>

#include "documents/documents.h"

struct metric;
struct metric_family;

/* The ring of events (event_log.c), for what publishes to it (event_observers.c). */

/* The use of a limit. */
struct level {
        const char *name; /* in /v1/limits; NULL = not watched yet */
        uint64_t max;     /* set before anything is counted against it */
        /* The next event is due at so many in use or more or, while near, at fewer; 0 = not watched yet. */
        _Atomic uint64_t threshold;
        atomic_bool near;     /* written under the lock */
        struct metric *gauge; /* the same for users; may be NULL */
};

/*
 * One event. The text of an operation's event is made when a reader first needs it, which is rare; that of others when
 * the event is published.
 */
struct event {
        enum event_type type;
        uint64_t unix_ms;
        struct event_text text;
        struct operation_view view; /* of an operation; its texts are the two below */
        char label[OPERATION_LABEL_SIZE], request_id[OPERATION_REQUEST_SIZE];
};

struct event_log {
        atomic_uint refs;
        uint64_t epoch;
        size_t kept;
        struct metric *published[EVENT_TYPE_COUNT];
        struct metric_family *near;
        struct level levels[EVENT_LIMIT_COUNT];
        pthread_mutex_t lock;             /* guards all below */
        struct event *events;             /* the ring: kept + 1, one of which is being written */
        uint64_t newest;                  /* its number; 0 = none */
        struct event_listener *listeners; /* utlist */
};

/* ---- under the lock: */

/* The place of the next event, to fill in and publish. */
struct event *event_log_next(struct event_log *log, enum event_type type);

void event_log_publish(struct event_log *log, const struct event *event);

/* Publishes an event about object, which write formats. Without memory the event is lost. */
void event_log_publish_object(struct event_log *log, enum event_type type,
                              void (*write)(struct ferry_json_writer *writer, const void *object), const void *object);

#endif
