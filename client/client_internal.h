/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include <curl/curl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <ferry/buffer.h>
#include <ferry/ferry.h>
#include <ferry/json.h>
#include <ferry/util.h>

#include "url.h"

struct ferry_json_writer;

static inline void cleanup_secret(char **secret)
{
        ferry_secret_free(*secret);
}

enum {
        CLIENT_CONNECT_TIMEOUT_MS = 5000,
        CLIENT_TIMEOUT_MS = 30000,
        CLIENT_RETRIES = 4,
        CLIENT_MESSAGE_SIZE = 1024,
        CLIENT_KEY_TEXT_SIZE = 33,             /* of an Idempotency-Key: 128 bits in hexadecimal, NUL */
        CLIENT_ANSWER_MAX = 64 * 1024 * 1024,  /* bytes of an answer kept in memory */
        CLIENT_PROBLEM_BODY_MAX = 1024 * 1024, /* bytes of a refusal, whatever answer_max says */
};

/* All fields belong to the one thread that uses the handle, except for those that ferry_abort uses. */
struct ferry {
        unsigned generation; /* see handle_is_ours; constant */
        atomic_bool aborted; /* any thread */
        int wake;            /* an eventfd, readable once it is aborted; constant */

        /* http.c */
        CURLM *multi;
        CURL *easy;
        uint64_t wait_max_ms;     /* the longest wait that is asked for, as a gateway gave up a longer one … */
        uint64_t wait_max_end_ms; /* … until then */

        char *base;     /* "http://host:port/prefix", without a final slash */
        bool tls;       /* by https */
        bool by_socket; /* a Unix socket's */
        char *authorization;
        unsigned timeout_ms, retries;
        size_t answer_max;
        struct ferry_problem problem;
        char message[CLIENT_MESSAGE_SIZE];
};

/* A request, with the options that only the library sets. */
struct request {
        struct ferry_exchange exchange;
        bool awaits;               /* of a wait, which goes on by itself after an answer of a gateway */
        bool repeatable;           /* a POST that may be repeated although it has no Idempotency-Key */
        int sink_status;           /* the sink takes the body of this status only; 0 = of any 2xx */
        uint64_t deadline_ms;      /* ferry_clock_ms() at which to give up; 0 = the handle's time-outs alone */
        bool secret;               /* wipe the answer's body when it is freed */
        const char *authorization; /* the header, instead of the handle's; NULL = the handle's */
};

/* An answer, whole or as far as it came. */
struct reply {
        int status; /* 0 = none */
        char content_type[128];
        char etag[128];
        char location[256];
        char request_id[128];
        char content_range[128];
        char retry_after[64];
        char content_digest[128];
        uint64_t retry_after_ms;
        struct ferry_buffer body;
        bool secret;

        bool delivered;              /* the sink has taken bytes */
        bool consumed;               /* the source has given bytes */
        uint64_t gateway_ms;         /* ferry_clock_ms() of the first of the latest answers of a gateway; 0 = none */
        bool lost;                   /* an earlier try may have reached the worker, and its answer was lost */
        char fault[CURL_ERROR_SIZE]; /* why there is no answer */
};

/* ---- problem.c: requests, replies, and what came of them; pure but for the handle ---- */

/* What is wrong with a request before anything is sent, as a sentence; NULL = nothing. */
const char *request_check(const struct ferry_exchange *e);

/* Sets a JSON body, which is borrowed. */
void request_set_body(struct request *request, const char *body);

void reply_clear(struct reply *reply);

/* Empties the reply for the next try; secret, gateway_ms and lost stay. */
void reply_restart(struct reply *reply);

/* Takes a line of the head, not NUL-terminated, if it has one of the headers of a reply. */
void reply_take_header(struct reply *reply, const char *line, size_t size);

/* Empties what reply_take_header has filled. */
void reply_forget_head(struct reply *reply);

void problem_clear(struct ferry *f);

/* Fills f->problem from the outcome of call_send. Pure but for the handle. Returns the result that the caller sees. */
int problem_classify(struct ferry *f, const struct request *request, const struct reply *reply, int result);

/* Whether 502, 503 or 504 is a gateway's own answer, not a worker's. Pure. */
bool problem_is_gateway(const struct reply *reply);

/* A call_decoder of a problem document, with its error. */
int problem_decode(struct json_object *json, void *problem, struct ferry_json_errors *errors);

/* Records that an answer was not a worker's; why is part of a sentence. Returns -EPROTO. */
int problem_protocol(struct ferry *f, const char *why, const char *what);

/* Records wrong arguments. Returns -EINVAL. */
int problem_argument(struct ferry *f, const char *why);

/*
 * Records that an argument is missing (reserved is NULL), or that its reserved room, of size bytes, has a field of a
 * later version. 0; -EINVAL; -ENOTSUP. f NULL = no handle to tell why.
 */
int problem_reserved(struct ferry *f, const void *reserved, size_t size);

#define ARGUMENT_CHECK(f, argument)                                                                                    \
        problem_reserved(f, (argument) ? (argument)->reserved : NULL, sizeof((argument)->reserved))

/* Records that the handle is not ours. Returns -ECHILD. */
int problem_forked(struct ferry *f);

/* Records that a wait has ended although the worker was there. Returns -ETIMEDOUT. */
int problem_late(struct ferry *f);

/* ---- http.c ---- */

/*
 * One request and its answer by libcurl, which keeps the connections in a multi handle: of a handle that blocks, for
 * one request at a time, or of a ferry_aio.
 */

/* One try under way, between http_try_begin and http_try_end. Must not move. */
struct http_try {
        struct ferry *f; /* whose settings and multi handle it uses */
        CURL *easy;      /* that no other try uses; of http_handle_new or a copy */
        const struct request *request;
        struct reply *reply;

        struct curl_slist *headers;
        uint64_t wait_ms;  /* how long it asks the worker to wait */
        uint64_t start_ms; /* times are those of ferry_clock_ms */
        uint64_t moved_ms; /* when a byte of a body was last sent or received */
        curl_off_t moved;  /* bytes of both bodies until then */
        uint64_t source_left;
        bool source_ended;
        bool in_head;         /* the lines that come are of an answer's head, not trailers */
        size_t head_size;     /* bytes of all lines so far */
        unsigned connections; /* over which the request went; libcurl repeats it where a kept one was dead */
        int socket_error;     /* errno of the last socket that could not be made */
        int abort;            /* -errno of a callback that ended the transfer */
};

/* A multi handle that keeps so many connections. NULL when memory is short. */
CURLM *http_multi_new(long connections);

/* A handle with what all requests have in common. NULL when memory is short. */
CURL *http_handle_new(const struct ferry_options *options, const char *unix_socket);

/* Starts a try, whose f, easy, request and reply are set and all else is zero. 0; -ENOMEM: it has ended. */
int http_try_begin(struct http_try *t);

/* Ends a try with libcurl's code, or early with another one. 0 when an answer came, of any status; -errno as in
 * ferry.h, reply->fault says why. */
int http_try_end(struct http_try *t, CURLcode code);

/* How many ms a try may go on without a byte; UINT64_MAX: libcurl itself knows when it has to end. */
uint64_t http_time_left(struct http_try *t);

/* ---- handle.c ---- */

/* Whether this process made the handle. A forked child shares the connections of its parent's, whose answers would get
 * mixed up. */
bool handle_is_ours(const struct ferry *f);

/* The header that carries a token, a secret. 0; -EKEYREJECTED when it has a character that no token has; -ENOMEM. */
int handle_authorization(const char *token, char **ret_header);

/* A handle for the same worker, with connections of its own, of which it keeps so many. 0; -ENOMEM; -EMFILE, -ENFILE.
 */
int handle_clone(const struct ferry *f, long connections, struct ferry **ret_ferry);

/*
 * Keeps SIGPIPE from the program. TLS libraries send without MSG_NOSIGNAL: a broken connection would kill the program.
 * The signal's disposition belongs to the program, so the guard blocks the signal in this thread and discards it before
 * unblocking.
 */
struct sigpipe_guard {
        bool held; /* else there was no need */
        sigset_t mask;
        bool pending; /* it was there before: not ours to take away */
};

/* needed: whether TLS is in use. Where it is not, the guard does nothing, and saves four system calls. */
struct sigpipe_guard sigpipe_block(bool needed);
void sigpipe_restore(const struct sigpipe_guard *guard);

/* ---- retry.c: the tries of a call ---- */

enum {
        RETRY_FIRST_MS = 50,
        RETRY_LONGEST_MS = 2000,
        RETRY_AFTER_LONGEST_MS = 10000, /* a worker that asks for more is handed to the caller */
        RETRY_GATEWAY_FIRST_MS = 100,
        RETRY_GATEWAY_MS = 60000, /* of nothing but answers of a gateway, where the caller has no deadline */
};

/* What is known after a try. */
struct retry_facts {
        int result;          /* 0 = an answer came; -errno */
        int status;          /* of the answer */
        bool allowed;        /* the request may be repeated without harm, and nothing of it was given away yet */
        bool by_status;      /* 429 and 503 count as well, and a gateway's answer */
        bool gateway;        /* a gateway has answered in the worker's place: the worker itself may be fine */
        uint64_t gateway_ms; /* time since the first of such answers */
        unsigned tries;      /* how many were made, 1 after the first */
        unsigned retries;    /* how many more than one may be made */
        bool has_retry_after;
        uint64_t retry_after_ms;
        uint32_t random; /* spreads the callers of a worker that comes back */
};

/* The pause after n answers of a gateway, from 1. Pure. */
uint64_t retry_gateway_pause(unsigned n);

/* Whether to repeat, and after how long. Pure. */
bool retry_decide(const struct retry_facts *facts, uint64_t *ret_delay_ms);

/* Waits; the connections stay. Ends early when the handle is aborted. */
void call_pause(struct ferry *f, uint64_t ms);

/* Whether to repeat after a try that had the result, and after how long. Prepares the reply for the next one. */
bool call_retry(struct ferry *f, const struct request *request, struct reply *reply, int result, unsigned tries,
                uint64_t *ret_delay_ms);

/*
 * Sends, repeats where that is allowed, and classifies the answer: 0 for 2xx and 304, FERRY_E_* for a problem, -errno.
 * Sets f->problem. reply is filled whenever an answer came; the caller clears it in any case.
 */
int call_send(struct ferry *f, const struct request *request, struct reply *ret_reply);

/* ---- call.c: what the calls have in common ---- */

/* Decodes one answer, whole or not at all. 0; -EPROTO with a complaint; -ENOMEM. */
typedef int (*call_decoder)(struct json_object *json, void *target, struct ferry_json_errors *errors);

/* Decodes by a table alone. Returns 0 or -EPROTO. */
#define DECODE(json, fields, target, errors)                                                                           \
        (ferry_json_decode(json, fields, FERRY_ARRAY_SIZE(fields), target, "", errors) ? 0 : -EPROTO)

/* {"code":…,"detail":…}, why something failed: FERRY_E_*, FERRY_E_OTHER. json NULL = nothing has. */
int call_decode_error(struct json_object *json, int *error, char code[64], char detail[512],
                      struct ferry_json_errors *errors);

/* A list in an answer, {"<key>":[…],"next":"…"}. */
struct call_list {
        const char *key;
        size_t item_size;
        call_decoder decode;
        void (*clear)(void *item); /* NULL = items own nothing */
};

/* What each list of ferry.h has. */
struct call_page {
        const struct call_list *list; /* set before */
        void *items;
        size_t n;
        char *next;
};

/* A call_decoder. */
int call_decode_page(struct json_object *json, void *page, struct ferry_json_errors *errors);

/* The answer is a JSON object, decoded into target (decode NULL: as it is). *ret_text, when wanted, is its text. */
int call_decode(struct ferry *f, const struct request *request, call_decoder decode, void *target, char **ret_text);

/* GETs the path, and decodes the answer (call_decode). */
int call_get(struct ferry *f, const char *path, call_decoder decode, void *target, char **ret_text);
int call_get_page(struct ferry *f, const struct path *path, struct call_page *page, char **ret_text);

/* The second half of call_decode: a good answer's body. */
int call_decode_reply(struct ferry *f, const struct reply *reply, call_decoder decode, void *target);

/* The answer must have one of the content types, a list that ends with NULL. */
int call_text(struct ferry *f, const char *path, const char *const *types, char **ret_text);

/* Performs a request whose answer's body is ignored. */
int call_plain(struct ferry *f, const struct request *request);

/* A DELETE; see ferry_delete_region. */
int call_delete(struct ferry *f, const char *collection, const char *id);

/* The path collection + id + suffix. 0, or -EINVAL with f->problem set. */
int call_path(struct ferry *f, const char *collection, const char *id, const char *suffix, struct path *path);

/* A random Idempotency-Key. 0 or -EIO. */
int call_key(char key[CLIENT_KEY_TEXT_SIZE]);

/* ---- operation.c ---- */

/* A call_decoder, and the lists of operations. */
int operation_decode(struct json_object *json, void *operation, struct ferry_json_errors *errors);
extern const struct call_list operation_list;

/* A request that is answered with an operation; ret_operation NULL = not wanted. */
int operation_call(struct ferry *f, const struct request *request, struct ferry_operation *ret_operation);

/* The answer of n operations, listed under key. 0; -errno. */
int results_decode(struct ferry *f, const struct reply *reply, const char *key, size_t n,
                   struct ferry_operation_results *ret_results);

/* Whether a wait for them is over. */
bool results_are_done(const struct ferry_operation_results *results, enum ferry_wait_for wait_for);

/* The path of a GET of several operations. 0, or -EINVAL with f->problem set. */
int results_path(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for, struct path *path);

/* ---- regions.c ---- */

int region_decode(struct json_object *json, void *region, struct ferry_json_errors *errors);
extern const struct call_list region_list;

/* ---- operations.c ---- */

/* The POST that makes an operation. The request points into the struct, which must not move. */
struct operation_request {
        struct request request;
        char *body; /* may hold the peer's metadata */
        char *idempotency_key;
        char path[80];
};

/* The program's specs. A batch goes to a path of its own, also one of one operation. */
struct operation_specs {
        const struct ferry_operation_spec *items;
        size_t n;
        bool batch;
};

/* Returns 0, or -errno with f->problem set. The caller clears the request (operation_request_clear) in any case. */
int operation_request_make(struct ferry *f, const struct operation_specs *specs, struct operation_request *ret_request);
void operation_request_clear(struct operation_request *request);

/*
 * Adds the member remote_metadata; none for NULL. Checks that it is one JSON value, so that it cannot break out of the
 * body; the worker checks the rest. 0; -EINVAL; -ENOMEM.
 */
int operation_add_metadata(struct ferry_json_writer *writer, const char *metadata);

/* ---- wait.c ---- */

/* How long a wait over many requests has been, and may be. Times are those of ferry_clock_ms. */
struct wait_time {
        uint64_t deadline_ms;        /* UINT64_MAX = none */
        uint64_t away_ms;            /* without one: gives up a worker that does not answer for so long; 0 = 60000 */
        uint64_t seen_ms;            /* when the worker last answered */
        uint64_t asked_ms, slice_ms; /* of the latest request: when, and for how long it is parked */
        unsigned n_gateway;          /* answers of a gateway since the worker's last one */
};

enum { WAIT_REQUEST_MS = 30000 }; /* of one parked request */

void wait_start(struct wait_time *t, uint64_t timeout_ms);

/* Begins a request that is parked for at most most_ms. Returns when it fails; 0 = by the handle's own limits. */
uint64_t wait_ask(struct wait_time *t, uint64_t most_ms);

/*
 * Whether the wait goes on after a request with that result, which did not bring what is waited for, and after what
 * pause. Else *result becomes that of the wait.
 */
bool wait_goes_on(struct wait_time *t, struct ferry *f, int *result, uint64_t *ret_pause_ms);

#endif
