/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/buffer.h>
#include <ferry/encoding.h>

#include "headers.h"
#include "http/server.h"
#include "query.h"

struct MHD_Connection;
struct MHD_Response;
struct ferry_json;
struct ferry_json_errors;
struct ferry_json_writer;
struct http_listener;
struct idempotency_entry;
struct metric;
struct operation;
struct region;

enum {
        REQUEST_ID_SIZE = 65,
        REQUEST_HEADERS_MAX = 6,         /* of an answer, beside those that every answer has */
        REQUEST_HEADERS_TEXT_SIZE = 272, /* of their values together */
        REQUEST_DISCARD_MAX = 64 << 20,  /* bytes of a refused body that are read, so that the client sees the answer */
};

/*
 * One request, from its target to the end of its answer. Owned by libmicrohttpd's thread of the connection: all
 * functions here are called from its handlers only. While it is parked (wait.h), nobody touches it.
 */
struct http_request {
        struct http_server *server;
        struct http_listener *listener;
        struct MHD_Connection *connection;
        struct request_note *note; /* for the log, at the end; owned; NULL = it will not be logged */

        /*
         * Borrowed from the connection until the answer is queued. libmicrohttpd promises no more, and takes their
         * memory for an answer of its own when it does not like the rest of the request.
         */
        const char *method, *path, *version;
        struct http_headers headers;
        struct http_query query;
        const struct http_route *route;       /* NULL = there is none */
        _Atomic(struct metric *) *usual;      /* the server's, of the route (counters.h); NULL = no route */
        char resource_id[FERRY_ID_TEXT_SIZE]; /* what stood for {id}; "" = none, or too long to be one */
        char id[REQUEST_ID_SIZE];
        bool cross_origin;
        bool target_fault; /* the raw target hides a NUL, which would cut the decoded path short */
        bool head_fault;   /* libmicrohttpd has passed over a part of the head */
        bool slash_hidden; /* its path has %2F, which is not the slash that parts names */

        /* Where it stands. */
        enum { REQUEST_NEW, REQUEST_BEGIN, REQUEST_DATA, REQUEST_END } phase;
        bool must_close; /* the message's end is in doubt */
        bool answered;
        bool sent;   /* the client has been sent the whole answer */
        bool broken; /* no answer could be made: the connection is closed */
        bool chunked;
        unsigned status;
        struct MHD_Response *deferred;                /* an answer that waits for the end of the body; owned */
        void (*resume)(struct http_request *request); /* called instead of the handler after it was parked */

        /* The body. */
        uint64_t content_length; /* 0 when chunked */
        uint64_t discarded;
        struct ferry_buffer body; /* of a JSON route; json lies in it */
        struct ferry_json *json;  /* owned; NULL = the body was empty, which only HTTP_BODY_OPTIONAL_JSON lets by */

        /* What the handler holds; given back when the request ends. */
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

/* What glibc's malloc keeps at hand for each thread; beyond it a request costs 2,000 instructions more. */
_Static_assert(sizeof(struct http_request) <= 1032, "a request's memory is quickly had");

struct http_request *request_new(struct http_listener *listener, struct MHD_Connection *connection, const char *target);

/* Keeps what the log will say of it; method and headers are there. */
void request_note(struct http_request *request);

/* Gives everything back. Takes NULL; returns NULL. */
struct http_request *request_free(struct http_request *request);

/* Makes state the request's, which has none; clean is called with it when the request ends, or is dropped before. */
void request_keep(struct http_request *request, void *state, void (*clean)(struct http_request *request));

/* Gives the state back now, where there is one. */
void request_drop(struct http_request *request);

/* ---- answering: exactly one answer for each request ---- */

/* Adds a header to the answer to come, or leaves it out when there is no room; name is a literal. */
void request_header(struct http_request *request, const char *name, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The same of two texts that are short together, without printf. */
void request_header_text(struct http_request *request, const char *name, const char *prefix, const char *text);

/* Adds the ETag of a revision; what it is. */
const char *request_etag(struct http_request *request, uint64_t revision);

/*
 * Sends response (owned from here on; NULL closes the connection), with Request-Id and the headers added. Before the
 * body has arrived the answer is kept until it has, unless the client waits for 100 Continue or the rest is too long.
 */
void request_answer(struct http_request *request, unsigned status, struct MHD_Response *response);

/* What was written, one document; 500 when memory was short. The writer is empty afterwards. */
void request_answer_json(struct http_request *request, unsigned status, struct ferry_json_writer *writer);
void request_answer_empty(struct http_request *request, unsigned status);

/* Text from malloc, given up. */
void request_answer_text(struct http_request *request, const char *type, char *text, size_t size);

/* A problem. error is FERRY_E_*, or a negative errno, which is logged and shown as internal without the detail, or as
 * limit-reached where memory or files are short. */
void request_problem(struct http_request *request, int error, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Logs a negative errno; what people see of it. */
int request_log_failure(const struct http_request *request, int error);

/* A problem about one place of the body. */
void request_problem_at(struct http_request *request, int error, const char *pointer, const char *detail);

/* A problem about the body. errors->error says which. */
void request_problem_body(struct http_request *request, const struct ferry_json_errors *errors);

/* ---- what several handlers need ---- */

/* What the problems of an id that names nothing say. */
#define OPERATION_GONE_DETAIL "The operation was deleted or has been kept long enough"
#define OPERATION_UNKNOWN_DETAIL "No operation of this id"

/* The operation of {id}, kept in request->operation. NULL: the request has been answered with 404 or 410. */
struct operation *request_find_operation(struct http_request *request);

/* The region of {id}, with a reference. NULL: the request has been answered with 404. */
struct region *request_find_region(struct http_request *request);

/* The same, with its memory held: region_stream_end follows. NULL: answered with 404, or 409 where it is not ready. */
struct region *request_stream_region(struct http_request *request);

/* Milliseconds to wait (0 = do not), from wait_ms or Prefer; the latter is acknowledged in the answer. Capped. */
uint64_t request_wait_ms(struct http_request *request);
/* Whether it is more than 0. */
bool request_waits(const struct http_request *request);

/* Answers with request->operation as it is now. 410 when it was deleted. */
void request_answer_operation(struct http_request *request, unsigned status);

/* The address at which the client reached the worker; "" = a Unix socket. */
void request_local_host(const struct http_request *request, char host[], size_t size);

#endif
