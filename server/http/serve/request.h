/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/buffer.h>
#include <ferry/encoding.h>

#include "headers.h"
#include "http_internal.h"
#include "query.h"
#include "resources.h"

struct MHD_Response;
struct ferry_json_field;
struct http_connection;
struct idempotency_entry;

enum {
        REQUEST_ID_SIZE = 65,
        REQUEST_HEADERS_MAX = 6,         /* of an answer, beyond those that every answer has */
        REQUEST_HEADERS_TEXT_SIZE = 272, /* of their values together */
        REQUEST_DISCARD_MAX =
                64 << 20, /* bytes to read of a body that was refused amid it, so that the client reads the answer */
};

/*
 * One request, from its target to the end of its answer. Belongs to the HTTP thread of its connection: all functions
 * here are called from libmicrohttpd's callbacks only. While it is parked, nothing touches it.
 */
struct http_request {
        struct http_server *server;
        struct http_connection *connection;
        struct request_note *note; /* for the log line at the end; owned; NULL = not logged */

        /*
         * Borrowed from the connection until the answer is queued. libmicrohttpd promises no more: it reuses their
         * memory when it refuses the rest of the request by itself.
         */
        const char *method, *path, *version;
        const char *target_end; /* where the raw target ended; not to be read (head.h) */
        struct http_headers headers;
        struct http_query query;
        const struct http_route *route;       /* NULL = none */
        char resource_id[FERRY_ID_TEXT_SIZE]; /* the text in place of {id}; "" = none, or longer than any id */
        char id[REQUEST_ID_SIZE];
        bool cross_origin;
        bool target_fault; /* the raw target has %00, which would cut the decoded path short */
        bool head_fault;   /* libmicrohttpd has skipped a part of the head (head.h) */
        bool slash_hidden; /* the path has %2F, which must not be taken for a separator */

        enum { REQUEST_NEW, REQUEST_BEGIN, REQUEST_DATA, REQUEST_END } phase;
        bool must_close; /* what follows is not read, or may not be a request: close after the answer */
        bool answered;
        bool sent;   /* the whole answer was sent */
        bool broken; /* no answer can be made: close the connection */
        bool chunked;
        unsigned status;
        uint64_t active_us; /* when it would have begun if it had never been parked; while it is, the time until then */
        struct MHD_Response *deferred;                /* an answer to send after the end of the body; owned */
        void (*resume)(struct http_request *request); /* called instead of the handler after it was parked */

        /* The body. */
        uint64_t content_length; /* 0 when chunked */
        uint64_t discarded;
        struct ferry_buffer body; /* of a JSON route */
        size_t json_room;         /* of bodies_max, for json */
        struct json_object
                *json; /* owned, until the handler returns; NULL = null, or as HTTP_BODY_OPTIONAL_JSON empty */

        /* The handler's; released when the request ends. */
        struct operation *operation;                 /* a reference */
        void *state;                                 /* the endpoint's own; NULL = none */
        void (*clean)(struct http_request *request); /* frees state */
        uint64_t idempotency_hash;                   /* of target and body */
        struct idempotency_entry *reserved;          /* neither committed nor aborted; NULL = none */
        uint64_t target_hash;

        uint32_t n_headers, n_headers_text;
        struct {
                const char *name, *value;
        } answer_headers[REQUEST_HEADERS_MAX];
        char headers_text[REQUEST_HEADERS_TEXT_SIZE];
};

/* glibc's malloc caches blocks up to this size for each thread; a larger one costs 2,000 instructions more. */
_Static_assert(sizeof(struct http_request) <= 1032, "a request fits into malloc's thread cache");

struct http_request *request_new(struct http_server *server, struct http_connection *connection, const char *target);

/* Whether the head announces a body. Call once the headers are set. */
static inline bool request_has_body(const struct http_request *request)
{
        return request->chunked || request->content_length;
}

/* Copies what the log line needs. Call once method and headers are set. */
void request_note(struct http_request *request);

/* The request is parked from now on, to go on with resume. wait.c only. */
void request_park(struct http_request *request, void (*resume)(struct http_request *));

/* It is parked no more. */
void request_unpark(struct http_request *request);

/* Logs and frees. Takes NULL; returns NULL. */
struct http_request *request_free(struct http_request *request);

/* Sets the request's state, which must be NULL. clean frees it: at request_drop or at the end of the request. */
void request_keep(struct http_request *request, void *state, void (*clean)(struct http_request *request));

/* Frees the state now, if any. */
void request_drop(struct http_request *request);

/* ---- answering: exactly one answer for each request ---- */

/* Adds a header to the answer; dropped silently when there is no room. name must be a literal. */
void request_header(struct http_request *request, const char *name, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The same with the value prefix followed by text, without printf. */
void request_header_text(struct http_request *request, const char *name, const char *prefix, const char *text);

/* Adds the ETag of a revision, and returns it ("" = no room). */
const char *request_etag(struct http_request *request, uint64_t revision);

/*
 * Sends response (takes ownership; NULL closes the connection), with Request-Id and the added headers. An answer before
 * the body ends the connection, of which gate_linger drops the rest; one amid the body is deferred until its end.
 */
void request_answer(struct http_request *request, unsigned status, struct MHD_Response *response);

/* Answers with the document in writer, which is empty afterwards; a problem when memory was short. */
void request_answer_json(struct http_request *request, unsigned status, struct ferry_json_writer *writer);
void request_answer_empty(struct http_request *request, unsigned status);

/* Answers 200 with text, which was malloc'ed and is owned from here on. */
void request_answer_text(struct http_request *request, const char *type, char *text, size_t size);

/* Answers with a problem. error: FERRY_E_*, or a negative errno, which is logged and shown without the detail (see
 * request_log_failure). */
void request_problem(struct http_request *request, int error, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The same for an error that is retryable as a rule, and not here. */
void request_problem_lasting(struct http_request *request, int error, const char *detail);

/* Logs a negative errno. Returns the FERRY_E_* to show: no-space where memory or files are short, else internal. */
int request_log_failure(const struct http_request *request, int error);

/* Answers with a problem about one place of the body. */
void request_problem_at(struct http_request *request, int error, const char *pointer, const char *detail);

/*
 * The JSON body as it arrives and is parsed, and the room that all bodies share (bodies_max).
 * Appends a piece; answers where it is one too many.
 */
void request_append_body(struct http_request *request, const char *data, size_t size);

/* Parses the body, with room for the most that its tree may take. false: answered with what is wrong with it. */
bool request_parse_body(struct http_request *request);

/* Decodes the parsed body by fields (ferry_json_decode). false: answered with what is wrong with it. */
bool request_decode(struct http_request *request, const struct ferry_json_field *fields, size_t n, void *target);

/* Frees what it was parsed into. */
void request_drop_json(struct http_request *request);

/* Answers with a problem about the body; errors->error is its code. */
void request_problem_body(struct http_request *request, const struct ferry_json_errors *errors);

/* ---- what several handlers need ---- */

/* Details of the problems about an id that names nothing. */
#define OPERATION_GONE_DETAIL "The operation was deleted or has been kept long enough"
#define OPERATION_UNKNOWN_DETAIL "No operation of this id"

/* Finds the operation of {id} and keeps it in request->operation. NULL: answered with 404 or 410. */
struct operation *request_look_up_operation(struct http_request *request);

/* Checks If-Match and If-None-Match against request->operation. false: answered with 412. */
bool request_check_operation(struct http_request *request);

/* Both in turn. */
struct operation *request_find_operation(struct http_request *request);

/* Finds the region of {id}; the caller gets a reference. NULL: answered with 404 or 412. */
struct region *request_find_region(struct http_request *request);

/* Finds the region of {id} and pins its memory: the caller calls region_stream_end. NULL: answered; 409 = not ready. */
struct region *request_stream_region(struct http_request *request);

/* Milliseconds to wait (0 = not at all), capped: wait_ms, else Prefer, which the answer acknowledges. */
uint64_t request_wait_ms(struct http_request *request);
/* Whether the client asks for a wait at all. */
bool request_waits(const struct http_request *request);

/* Answers with the present state of request->operation; 410 when it was deleted. */
void request_answer_operation(struct http_request *request, unsigned status);

#endif
