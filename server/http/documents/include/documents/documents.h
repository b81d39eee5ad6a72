/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DOCUMENTS_H
#define HTTP_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/metadata.h>
#include <ferry/status.h>

#include "http/event_log.h"
#include "operations/operations.h"

struct device_inventory;
struct engine_facts;
struct engine_peer_view;
struct http_limits;
struct region;

/* The resources as JSON, and the log of events as the HTTP server reads it. Below every thread of HTTP. */

/* ---- problems ---- */

#define PROBLEM_DRAINING "The worker was told to stop and takes no new work"
#define PROBLEM_PREPARING "The region is being prepared"
#define PROBLEM_UNMADE "The region could not be made"

/* The HTTP status of an error; 500 for one that has none in the table, since it occurs inside operations only. */
unsigned problem_status(int error);

/* Retry-After of an error, s; 0 = none. */
unsigned problem_retry_after(int error);

/* Writes the members of a problem document into an open object. */
void problem_members(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                     const struct ferry_json_errors *errors);

/*
 * Writes a problem document (RFC 9457): type (/docs#error-CODE), title, status, detail, code, retryable, and
 * errors if there are any, the first of which is the detail. detail NULL or "" = the title again.
 */
void problem_write(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                   const struct ferry_json_errors *errors);

/* Adds "error" to the open object of a resource that has failed. detail "" = the title. */
void problem_add_error(struct ferry_json_writer *writer, int error, const char *detail);

/* ---- resources ---- */

/* Adds a time, unless it is 0, and a text, unless it is NULL or "". */
void document_add_time(struct ferry_json_writer *writer, const char *key, uint64_t unix_ms);
void document_add_text(struct ferry_json_writer *writer, const char *key, const char *text);

/* The field "transports" of an operation: the transports that may carry its bytes. Pure. */

/* Decodes the names into bits of enum engine_carrier. false: errors has why. */
bool carriers_decode(struct json_object *list, unsigned *ret_carriers, struct ferry_json_errors *errors);

/* Writes the document of GET /v1/devices. */
void device_json_write(struct ferry_json_writer *writer, const struct device_inventory *inventory,
                       const struct engine_facts *facts);

/* Writes what the holder of an operation's metadata may know of it. expires_unix_ms: 0 = left out. */
void operation_json_offer(struct ferry_json_writer *writer, enum ferry_status status, uint64_t expires_unix_ms);

/* Writes an operation as JSON. */
void operation_json_write(struct ferry_json_writer *writer, const struct operation_view *view);

/* Writes its members only, into an open object. */
void operation_json_members(struct ferry_json_writer *writer, const struct operation_view *view);

/* Writes a peer as JSON. */
void peer_json_write(struct ferry_json_writer *writer, const struct engine_peer_view *peer);

/* Its addresses, each of which may be "". */
void peer_json_addresses(struct ferry_json_writer *writer, const char *url, const char *data);

/* Writes a region as JSON. */
void region_json_write(struct ferry_json_writer *writer, const struct region *region);

/* ---- the log of events ---- */

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

#endif
