/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENTS_H
#define HTTP_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/event_log.h"

struct http_latch;
struct http_limits;
struct http_server;
struct run_queue;

/* The event log, as the HTTP server uses it. Any thread. */

/* The types of events: name, family, verb. The family is the part before the dot, and names the JSON member with the
 * object. */
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

/* Parses a list like "operation.ended,region", in which a family stands for all its types, into 1u << EVENT_* bits.
 * 0: a word is unknown. */
unsigned event_types_from_text(const char *text);

/* The limits with events: limit.near when 90 % are in use, limit.cleared when it is less than 80 % again. */
enum event_limit {
        EVENT_LIMIT_CONNECTIONS,
        EVENT_LIMIT_MEMORY,
        EVENT_LIMIT_OPERATIONS,
        EVENT_LIMIT_REGIONS,
        EVENT_LIMIT_WAITERS,
        EVENT_LIMIT_COUNT
};

/* Sets the maxima. Call before the server starts. */
void event_log_limits(struct event_log *log, const struct http_limits *limits,
                      const struct operation_limits *operations);
/* Reports that so much of a limit is in use. */
void event_log_used(struct event_log *log, enum event_limit limit, uint64_t used);

/* Its told is called after each event, under the log's lock, by the thread that published it. */
struct event_listener {
        void (*told)(void *context);
        void *context;
        struct event_listener *prev, *next; /* the log's; prev NULL = it does not listen */
};
void event_log_listen(struct event_log *log, struct event_listener *listener);
void event_log_unlisten(struct event_log *log, struct event_listener *listener);

struct event_filter {
        unsigned types;    /* 1u << EVENT_*, ored */
        int kind;          /* only operations of this kind pass; -1 = any event */
        const char *label; /* only operations with this label pass; borrowed; NULL = any event */
};

/* A reader's place in the log. */
struct event_place {
        uint64_t next;  /* number of the event to read next */
        bool restarted; /* the reader's last event is of an earlier worker, which it has not been told yet */
};

enum { EVENT_ID_SIZE = 48 };

/* Formats the id of the event before the place: "EPOCH-NUMBER". */
void event_place_format(const struct event_log *log, const struct event_place *place, char text[EVENT_ID_SIZE]);

/* The place after the event of an id; "NUMBER" alone means this worker's epoch. false: not an event's id. */
bool event_place_parse(struct event_log *log, const char *text, struct event_place *ret_place);

/* The places before the oldest event kept, and after the newest. */
struct event_place event_place_oldest(struct event_log *log);
struct event_place event_place_newest(struct event_log *log);

/* Whether event_log_read would find an event or a gap. Moves the place past events that do not pass the filter. */
bool event_log_has(struct event_log *log, const struct event_filter *filter, struct event_place *place);

/* One event, in the form of a stream; json is the document inside. */
struct event_text {
        char *text; /* owned; NULL = not made yet */
        size_t size;
        const char *json;
        size_t json_size;
};

/*
 * Makes the text of an event. write adds the object that the event is about, as the member family, or the members that
 * follow id, type and time, if that is NULL. 0 or -ENOMEM.
 */
int event_text_make(const char *id, const char *type, uint64_t unix_ms, const char *family,
                    void (*write)(struct ferry_json_writer *writer, const void *object), const void *object,
                    struct event_text *ret_text);

/* Events that a reader missed. */
struct event_gap {
        uint64_t missed; /* events no longer kept, of any type */
        bool restarted;
};

/*
 * Calls take, under the log's lock, for each event from place on that passes the filter, and advances place. Ends at
 * the newest event, or after an event for which take returned false. 0; -ENOMEM and place is at the event that failed.
 */
int event_log_read(struct event_log *log, const struct event_filter *filter, struct event_place *place,
                   bool (*take)(void *context, const struct event_text *event), void *context,
                   struct event_gap *ret_gap);

/* ---- readers ---- */

/*
 * Readers that have read all events. Each HTTP thread lists the idle readers of its own connections and wakes them; the
 * thread that publishes an event only wakes the HTTP threads. An idle reader needs no thread and no timer.
 */

enum {
        EVENT_READERS_MAX = 4096,     /* streams */
        EVENT_BEAT_MS = 10000,        /* interval of keep-alives on an idle stream */
        EVENT_DELIVERY_US = 20 * 1000 /* least time between two rounds, so that a burst of events costs few rounds */
};

struct event_reader {
        /* Called after the reader was taken off the list; may free it. */
        void (*wake)(struct event_reader *reader);
        struct http_latch *left; /* the client's end; NULL = watched elsewhere */
        bool beats;              /* also woken every EVENT_BEAT_MS */
        unsigned n_reloads;      /* of the secrets by which it was allowed: also woken when they are replaced */
        struct event_filter filter;
        struct event_place place;
        struct event_reader *previous, *next; /* previous NULL = not listed */
};

struct event_readers {
        struct http_server *server;
        struct run_queue *queue; /* of the thread */
        atomic_bool told;        /* any thread: an event was published, a client has left, or there are new secrets */
        atomic_size_t n_idle;    /* written by the thread */
        /* The thread's own: */
        struct event_reader *idle;
        uint64_t due_us;   /* time of the next round, because told was seen; 0 = none */
        uint64_t round_us; /* time of the last round */
        uint64_t beat_us;  /* time of the next keep-alives; 0 = none */
};

/* ---- the thread itself: */

/*
 * Lists a reader that has read all. false, and not listed: an event has come meanwhile, the client has left, the
 * secrets have been replaced, or the server stops.
 */
bool event_reader_idle(struct event_readers *readers, struct event_reader *reader);
/* Takes the reader off the list, if it is listed. */
void event_reader_leave(struct event_readers *readers, struct event_reader *reader);

/* Runs a round if one is due: wakes the readers that have something to read, or are due a keep-alive. */
void event_readers_run(struct event_readers *readers);

/* Wakes all; after events_stopped was set and the thread has ended. */
void event_readers_end(struct event_readers *readers);

/* Whether event_readers_run must be called at once, and else its next deadline; 0 = none. */
bool event_readers_called(const struct event_readers *readers);
uint64_t event_readers_due(const struct event_readers *readers);

/* ---- any thread: */

/* Wakes the thread for a round, if it lists any reader. */
void event_readers_tell(struct event_readers *readers);

#endif
