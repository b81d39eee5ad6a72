/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENTS_H
#define HTTP_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/event_log.h"

struct ferry_json_writer;
struct http_limits;
struct operation_limits;

/* What the HTTP server does with the event log. Any thread, but for what says otherwise. */

/* Types of events, each of a family: what stands before the dot, and is the member that has the object. */
#define EVENT_TYPES(X)                                                                                                 \
        X(OPERATION_CREATED, "operation", "created")                                                                   \
        X(OPERATION_CHANGED, "operation", "changed")                                                                   \
        X(OPERATION_ENDED, "operation", "ended")                                                                       \
        X(REGION_CREATED, "region", "created")                                                                         \
        X(REGION_CHANGED, "region", "changed")                                                                         \
        X(REGION_DELETED, "region", "deleted")                                                                         \
        X(PEER_CONNECTED, "peer", "connected")                                                                         \
        X(PEER_DISCONNECTED, "peer", "disconnected")                                                                   \
        X(LIMIT_NEAR, "limit", "near")                                                                                 \
        X(LIMIT_CLEARED, "limit", "cleared")

enum event_type {
#define X(name, family, verb) EVENT_##name,
        EVENT_TYPES(X)
#undef X
                EVENT_TYPE_COUNT
};

/* "operation.ended"; NULL for a value outside the enum. */
const char *event_type_name(int type);

/* Bits of the types in a list like "operation.ended,region", where a family stands for all of its own. 0: not one. */
unsigned event_types_from_text(const char *text);

/* The limits that are watched: an event tells when 90 % are in use, and when it is less than 80 % again. */
enum event_limit {
        EVENT_LIMIT_CONNECTIONS,
        EVENT_LIMIT_MEMORY,
        EVENT_LIMIT_OPERATIONS,
        EVENT_LIMIT_REGIONS,
        EVENT_LIMIT_WAITERS,
        EVENT_LIMIT_COUNT
};

void event_log_limits(struct event_log *log, const struct http_limits *limits,
                      const struct operation_limits *operations);
void event_log_used(struct event_log *log, enum event_limit limit, uint64_t used);

/* told is called after each event, under the log's lock, by the thread that brought it. NULL: no more. */
void event_log_listen(struct event_log *log, void (*told)(void *context), void *context);

struct event_filter {
        unsigned types;    /* 1u << EVENT_*, ored */
        int kind;          /* of operations, which alone pass then; -1 = any */
        const char *label; /* the same; borrowed; NULL = any */
};

/* A reader's place: the number of the event that comes next. */
struct event_place {
        uint64_t next;
        bool restarted; /* its last event was another worker's: not told yet */
};

enum { EVENT_ID_SIZE = 48 };

/* "EPOCH-NUMBER" of the event before the place. */
void event_place_format(const struct event_log *log, const struct event_place *place, char text[EVENT_ID_SIZE]);

/* The place after that event; "NUMBER" alone is of this worker. false: it is no event's id. */
bool event_place_parse(struct event_log *log, const char *text, struct event_place *ret_place);

/* The place before the oldest event that is kept, and the one after the newest. */
struct event_place event_place_oldest(struct event_log *log);
struct event_place event_place_newest(struct event_log *log);

/* Whether event_log_read would have something. */
bool event_log_has(struct event_log *log, const struct event_filter *filter, const struct event_place *place);

/* One event, as a stream has it; the JSON inside it is the object. Valid during the call only. */
struct event_text {
        const char *text;
        size_t size;
        const char *json;
        size_t json_size;
};

/* What a reader was not told. */
struct event_gap {
        uint64_t missed; /* events that are not kept any more, whatever their type */
        bool restarted;
};

/*
 * Calls take, under the log's lock, for the events from place on that pass, and moves the place on. It ends when take
 * says false, which has taken the event nevertheless, or at the newest. -ENOMEM: place stands before what it was for.
 */
int event_log_read(struct event_log *log, const struct event_filter *filter, struct event_place *place,
                   bool (*take)(void *context, const struct event_text *event), void *context,
                   struct event_gap *ret_gap);

#endif
