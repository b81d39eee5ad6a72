/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/buffer.h>
#include <ferry/encoding.h>

#include "base/pool.h"
#include "serve/fields.h"
#include "serve/serve.h"

struct MHD_Response;
struct ferry_json_field;
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
        const char *target_end; /* where the raw target ended; not to be read (head.c) */
        struct http_headers headers;
        struct http_query query;
        const struct http_route *route;       /* NULL = none */
        char resource_id[FERRY_ID_TEXT_SIZE]; /* the text in place of {id}; "" = none, or longer than any id */
        char id[REQUEST_ID_SIZE];
        bool cross_origin;
        bool target_fault; /* the raw target has %00, which would cut the decoded path short */
        bool head_fault;   /* libmicrohttpd has skipped a part of the head (head.c) */
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

/* Whether the head announces a body. Call once the headers are set. */
static inline bool request_has_body(const struct http_request *request)
{
        return request->chunked || request->content_length;
}

/* Sets the request's state, which must be NULL. clean frees it: at request_drop or at the end of the request. */
void request_keep(struct http_request *request, void *state, void (*clean)(struct http_request *request));

/* Frees the state now, if any. */
void request_drop(struct http_request *request);

/* ---- answering: exactly one answer for each request ---- */

/* Adds a header to the answer; dropped silently when there is no room. name must be a literal. */
void request_header(struct http_request *request, const char *name, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Adds a header whose value is prefix followed by text, without printf. */
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

/* Answers with a problem whose error is retryable as a rule, and not here. */
void request_problem_lasting(struct http_request *request, int error, const char *detail);

/* Logs a negative errno. Returns the FERRY_E_* to show: no-space where memory or files are short, else internal. */
int request_log_failure(const struct http_request *request, int error);

/* Answers with a problem about one place of the body. */
void request_problem_at(struct http_request *request, int error, const char *pointer, const char *detail);

/* Decodes the parsed body by fields (ferry_json_decode). false: answered with what is wrong with it. */
bool request_decode(struct http_request *request, const struct ferry_json_field *fields, size_t n, void *target);

/* Answers with a problem about the body; errors->error is its code. */
void request_problem_body(struct http_request *request, const struct ferry_json_errors *errors);

/* ---- waiting ---- */

enum wait_result {
        WAIT_PARKED,   /* the handler must return; resume is called later, on the connection's thread */
        WAIT_NEEDLESS, /* it is done, or the server stops, or the client has left: answer with the present state */
        WAIT_FULL,     /* too many are parked, or memory is short */
};

/*
 * Parks the request for at most wait_ms, until request->operation is done or deleted or, with revision not 0, has a
 * higher revision. resume must answer. Only from a handler, after the body.
 */
enum wait_result wait_park(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                           void (*resume)(struct http_request *request));

/* Parks the request until the flag is set, which must stay until the request is answered, or for at most wait_ms. */
enum wait_result wait_park_flag(struct http_request *request, struct wait_flag *flag, uint64_t wait_ms,
                                void (*resume)(struct http_request *request));

/* Parks for work that ends soon by itself: a client that shuts its direction down still gets the answer. */
enum wait_result wait_park_work(struct http_request *request, struct wait_flag *flag, uint64_t wait_ms,
                                void (*resume)(struct http_request *request));

/* Answers after WAIT_FULL. */
void wait_refuse(struct http_request *request);

/*
 * Answers a request that cannot say how far its work is, if its wait ended too soon: 410 where the client has shut down
 * its direction, 503 where the server stops. before: what had not happened. false: neither, not answered.
 */
bool wait_abandoned(struct http_request *request, const char *before);

/*
 * Park the request as wait_park and wait_park_flag do, and have it answered in any case: at once where there is no
 * need to wait, and with a refusal after WAIT_FULL.
 */
void wait_or_answer(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                    void (*answer)(struct http_request *request));
void wait_flag_or_answer(struct http_request *request, struct wait_flag *flag, uint64_t wait_ms,
                         void (*answer)(struct http_request *request));

/* ---- work for a request ---- */

/* Longer than the time-outs of fetching, resolving and connecting together, of HTTP after it, and of the registry. */
enum { WORK_WAIT_MS = 30000, WORK_DETAIL_SIZE = 256 };

/*
 * What a request waits for: the first member of a struct that is its state. References: the request's, and that of the
 * work, which runs on other threads, is bounded in time, and touches neither the server nor the request.
 */
struct http_work {
        atomic_uint references;
        struct wait_flag over;
        /* Written by the work until over: */
        int error; /* FERRY_E_*; 0 = done */
        char detail[WORK_DETAIL_SIZE];
        void *owned; /* freed with it */
};

/* Zeroed, with both references. NULL: no memory. */
void *work_new(size_t size);
void work_unref(struct http_work *work);

/* Makes it the request's state or, where it could not be begun, frees it. Returns error. */
int work_begun(struct http_request *request, struct http_work *work, int error);

/* Ends the work, and drops its reference. */
void work_end(struct http_work *work, int error, const char *detail);

/* Whether the request's work is over. false: answered; awaited: what had not happened; late: the same as a title. */
bool work_is_over(struct http_request *request, const char *awaited, const char *late);

/* ---- its content ---- */

/*
 * The bytes of a request's content on their way between its connection and memory. Those of host memory are copied at
 * once; work that reads many of them, such as a digest, is done by another thread. Those of a GPU are copied by a
 * thread that waits for this GPU (base/pool.h), through buffers, and the request is parked meanwhile, at most
 * for the stall limit: a GPU that stands still holds up no thread of HTTP.
 *
 * It is the request's state, and ends with it. All functions: the request's thread.
 */
struct content_copy;

/* Callbacks: one at a time, on the request's thread or on one that waits for the GPU. */
struct content_copy_ops {
        /* Moves the next bytes. 0, -errno or FERRY_E_*. */
        int (*move)(void *content, void *bytes, size_t size);
        /* Nothing touches the content any more. done: as of content_copy_close. */
        void (*close)(void *content, bool done);
};

/* content: owned from here on, unless it fails. devices: none = host memory. 0 or -ENOMEM. */
int content_copy_open(struct http_request *request, const struct content_copy_ops *ops, void *content,
                      struct pool_devices devices);

/* Closes the request's copying now: at once, or when the GPU has ended what is under way. done: every byte has moved.
 */
void content_copy_close(struct http_request *request, bool done);

void *content_copy_content(const struct http_request *request);

/*
 * Starts work that reads so many bytes of the content's memory, such as a digest. With size not 0, the bytes of a
 * response of that size are copied ahead after it. work: NULL = none; 0, -errno or FERRY_E_*. content_copy_await must
 * follow; it says whether the request was answered.
 */
void content_copy_begin(struct http_request *request, int (*work)(void *content), uint64_t reads, uint64_t size);

/*
 * Whether everything begun has ended; its first error is content_copy_error. false: the request is parked until then,
 * and resume is called, or it was answered.
 */
bool content_copy_await(struct http_request *request, void (*resume)(struct http_request *request));
int content_copy_error(const struct http_request *request);

/* Takes bytes of an upload. 0; -EINPROGRESS: parked (the bytes come again) or answered; else the error of a move. */
int content_copy_take(struct http_request *request, const char *data, size_t size);

/* Moves what content_copy_take has left in its buffer, and waits for it; as content_copy_await. */
bool content_copy_flush(struct http_request *request, void (*resume)(struct http_request *request));

/* The response of these bytes, so many as content_copy_begin was told. For HEAD nothing need be open. NULL: no memory.
 */
struct MHD_Response *content_copy_response(struct http_request *request, uint64_t size);

/* ---- the Idempotency-Key of a POST, for its handler ---- */

enum replay { REPLAY_MAKE, REPLAY_AGAIN, REPLAY_ANSWERED };

/*
 * REPLAY_MAKE: make the n resources, then call replay_commit; otherwise the key is forgotten with the request.
 * REPLAY_AGAIN: answer with the resources ret_ids; make those that are 0, then commit. REPLAY_ANSWERED: return.
 */
enum replay replay_begin(struct http_request *request, uint64_t *ret_ids, size_t n);
void replay_commit(struct http_request *request, const uint64_t *ids);

#endif
