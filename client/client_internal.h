/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <ferry/buffer.h>
#include <ferry/ferry.h>
#include <ferry/util.h>

#include "url.h"

struct http_try;
struct json_object;

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

enum connection_state { CONNECTION_CLOSED, CONNECTION_CONNECTING, CONNECTION_OPEN };

/* All fields belong to the one thread that uses the handle, except for those that ferry_abort uses. */
struct ferry {
        unsigned generation; /* see handle_is_ours; constant */
        atomic_bool aborted; /* any thread */
        int wake; /* an eventfd, readable once it is aborted; -1 = none: it belongs to a ferry_aio; constant */

        /* connection.c */
        CURLM *multi;
        bool multi_shared; /* it belongs to a ferry_aio */
        CURL *easy;
        CURLU *url; /* base, taken apart */
        enum connection_state connection;
        curl_socket_t socket; /* of an open connection */
        uint64_t used_ms;     /* ferry_clock_ms() at the end of its last request */
        unsigned look_skips;  /* so many calls do not look for their answer before they sleep */
        int socket_error;     /* errno of the last socket that could not be made */

        char *base;         /* "http://host:port/prefix", without a final slash */
        const char *prefix; /* within it: what every path begins with, or "" */
        char *host;         /* the header's value */
        bool tls;
        char *unix_socket; /* NULL = TCP */
        char *authorization;
        char *ca_file, *cert_file, *key_file;
        unsigned connect_timeout_ms, timeout_ms, retries;
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

/* ---- reply.c ---- */

void reply_clear(struct reply *reply);

/* Empties the reply for the next try; secret, gateway_ms and lost stay. */
void reply_restart(struct reply *reply);

/* ---- request_head.c ---- */

/* Request line, headers and the empty line behind them. 0; -EINVAL: they are too long; -ENOMEM. */
int request_head(const struct ferry *f, const struct request *request, struct ferry_buffer *ret_head);

/* Whether a request asks for "100 Continue": a long source, which cannot give its bytes again for a repetition. Pure.
 */
bool request_asks_consent(const struct ferry_exchange *e);

/* ---- http_try.c: one try ---- */

/* Sends once. 0 when an answer came, of any status; -errno as in ferry.h, reply->fault says why. */
int http_try_once(struct ferry *f, const struct request *request, struct reply *reply);

/* Waits; the connections stay. Ends early when the handle is aborted. */
void http_try_pause(struct ferry *f, uint64_t ms);

/* ---- handle.c ---- */

/* Whether this process made the handle. A forked child shares the connections of its parent's, whose answers would get
 * mixed up. */
bool handle_is_ours(const struct ferry *f);

/* The header that carries a token, a secret. 0; -EKEYREJECTED when it has a character that no token has; -ENOMEM. */
int handle_authorization(const char *token, char **ret_header);

/* A handle for the same worker in another multi handle. 0; -ENOMEM. */
int handle_clone(const struct ferry *f, CURLM *multi, struct ferry **ret_ferry);

/* ---- call_send.c: tries, problems ---- */

/* Whether to repeat after a try that had the result, and after how long. Prepares the reply for the next one. */
bool call_retry(struct ferry *f, const struct request *request, struct reply *reply, int result, unsigned tries,
                uint64_t *ret_delay_ms);

/*
 * Sends, repeats where that is allowed, and classifies the answer: 0 for 2xx and 304, FERRY_E_* for a problem, -errno.
 * Sets f->problem. reply is filled whenever an answer came; the caller clears it in any case.
 */
int call_send(struct ferry *f, const struct request *request, struct reply *ret_reply);

/* ---- request_check.c ---- */

/* What is wrong with a request before anything is sent, as a sentence; NULL = nothing. Pure. */
const char *request_check(const struct ferry_exchange *e);

/* ---- problem.c ---- */

void problem_clear(struct ferry *f);

/* Fills f->problem from the outcome of call_send. Pure but for the handle. Returns the result that the caller sees. */
int problem_classify(struct ferry *f, const struct request *request, const struct reply *reply, int result);

/* Whether 502, 503 or 504 is a gateway's own answer, not a worker's. Pure. */
bool problem_is_gateway(const struct reply *reply);

/* A problem document, with its error. 0; -EPROTO when it is none, with *ret_field. */
int problem_decode(struct json_object *json, struct ferry_problem *problem, const char **ret_field);

/* Records that an answer was not a worker's; why is part of a sentence. Returns -EPROTO. */
int problem_protocol(struct ferry *f, const char *why, const char *what);

/* Records wrong arguments. Returns -EINVAL. */
int problem_argument(struct ferry *f, const char *why);

/* Records that the handle is not ours. Returns -ECHILD. */
int problem_forked(struct ferry *f);

/* Records that a wait has ended although the worker was there. Returns -ETIMEDOUT. */
int problem_late(struct ferry *f);

/* ---- call.c: what the calls have in common ---- */

/* Decodes one answer. 0, or -EPROTO with *ret_field naming the field that is wrong, or -ENOMEM. */
typedef int (*call_decoder)(struct json_object *json, void *target, const char **ret_field);

/* The answer is a JSON object, decoded into target. *ret_text, when wanted, is its text for free(). */
int call_decode(struct ferry *f, const struct request *request, call_decoder decode, void *target, char **ret_text);

/* Whether an answer is JSON: 0, or -EPROTO with f->problem set. */
int call_check_type(struct ferry *f, const struct reply *reply);

/* The second half of call_decode: a good answer's body. */
int call_decode_reply(struct ferry *f, const struct reply *reply, call_decoder decode, void *target);

/* The answer must have one of the content types, a list that ends with NULL. */
int call_text(struct ferry *f, const char *path, const char *const *types, char **ret_text);

/* Performs a request whose answer's body is ignored. */
int call_plain(struct ferry *f, const struct request *request);

/* A DELETE; see ferry_delete_region. */
int call_delete(struct ferry *f, const char *collection, const char *id);

/* The bytes of a region or an operation. Borrowed; key NULL = the handle's token. */
struct content {
        const char *collection, *id, *key;
};

/* As ferry_get_region_content_to(), and into memory. */
int content_get(struct ferry *f, const struct content *content, uint64_t offset, uint64_t size, ferry_sink sink,
                void *context, uint64_t *ret_size);
int content_get_buffer(struct ferry *f, const struct content *content, uint64_t offset, void *buffer, size_t size,
                       size_t *ret_size);

/* A PUT of the request's body. */
int content_put(struct ferry *f, const struct content *content, uint64_t offset, struct request *request);

/* GET of a JSON object as text, which is wiped wherever it was kept. */
int call_get_text(struct ferry *f, const char *path, char **ret_json);

/* The path collection + id + suffix. 0, or -EINVAL with f->problem set. */
int call_path(struct ferry *f, const char *collection, const char *id, const char *suffix, struct path *path);

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

/* 0; -errno with f->problem set. operation_request_clear in any case. */
int operation_request_make(struct ferry *f, const struct operation_specs *specs, const struct ferry_sizes *sizes,
                           struct operation_request *ret_request);
void operation_request_clear(struct operation_request *request);

/* Turns the descriptors into those that the program knows, of size bytes each. 0; -ENOMEM. */
int operation_give_descriptors(struct ferry_operation *ours, size_t size);

/* Gives an operation in our layout to the program, ours is empty then. 0; -ENOMEM. */
int operation_give(struct ferry_operation *ours, struct ferry_operation *theirs, const struct ferry_sizes *sizes);

/* ferry_operation_results in our layout: of the answer to a batch, and of a page of ids. 0; -errno. */
int results_decode_batch(struct ferry *f, const struct reply *reply, struct ferry_operation_results *ret_results);
int results_decode_page(struct ferry *f, const struct reply *reply, struct ferry_operation_results *ret_results);

/* Gives results in our layout to the program, ours are empty then. 0; -ENOMEM. */
int results_give(struct ferry_operation_results *ours, struct ferry_operation_results *theirs,
                 const struct ferry_sizes *sizes);

/* Whether a wait for them is over. */
bool results_are_done(const struct ferry_operation_results *results, enum ferry_wait_for wait_for);

/* The path of a GET of several operations. 0, or -EINVAL with f->problem set. */
int results_path(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for, struct path *path);

/* A request that is answered with an operation. As call_decode. */
int operation_get(struct ferry *f, const struct request *request, struct ferry_operation *ret_operation);

/* A request that is answered with an operation, which is given to the program; ret_operation NULL = not wanted. */
int operation_call(struct ferry *f, const struct request *request, struct ferry_operation *ret_operation,
                   const struct ferry_sizes *sizes);

/* The same for a page. */
int operation_list_give(struct ferry_operation_list *ours, struct ferry_operation_list *theirs,
                        const struct ferry_sizes *sizes);

/* A request that is answered with a region, which is given to the program. */
int region_call(struct ferry *f, const struct request *request, struct ferry_region *ret_region,
                const struct ferry_sizes *sizes);

/* ferry_get_operation in our layout; of a request the deadline and awaits are taken. */
int operation_fetch(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision, const struct request *how,
                    struct ferry_operation *ret_operation);

/* A random Idempotency-Key. 0 or -EIO. */
int call_key(char key[CLIENT_KEY_TEXT_SIZE]);

#endif
