/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_FERRY_H
#define FERRY_FERRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ferry/error.h>
#include <ferry/status.h>

/*
 * libferry: the REST interface of a Ferry worker, one function a call.
 *
 * Results. 0 is success. A positive result is a FERRY_E_* number: the worker understood and said no. A negative result
 * is -errno: the request or its answer was lost, or the arguments are wrong:
 *   -EINVAL        an argument is not valid; nothing was sent
 *   -ENOMEM        memory is short
 *   -ECONNREFUSED  nothing listens there, or there is no such unix socket
 *   -EHOSTUNREACH  the host name is not known or the host cannot be reached
 *   -ETIMEDOUT     no connection, no answer, or no end within the time
 *   -ECONNRESET    the connection broke before the answer was whole
 *   -EPROTO        an answer came that is not a worker's (HTML, not JSON, a field that must be there is not)
 *   -EMSGSIZE      the answer is larger than answer_max
 *   -EACCES        TLS failed (certificate, CA, client certificate), or the unix socket may not be opened
 *   -EIO           anything else
 * ferry_last_problem() and ferry_last_message() tell more. Outputs (ret_…) are set on success only, but where stated.
 *
 * Threads. A handle is used by one thread at a time; different handles are independent.
 *
 * Retries. Calls that may be repeated without harm (all GETs, PUTs and DELETEs; POSTs that carry an Idempotency-Key,
 * which every create does; cancel, renew and ferry_connect_peer) are repeated when the connection failed and when the
 * worker answered 429 or 503, with the wait that Retry-After asks for, else with a growing one. Workers are reached
 * directly: proxies of the environment are not used, redirects are not followed.
 */

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define FERRY_FOREVER UINT64_MAX      /* as timeout_ms of a wait */
#define FERRY_SIZE_UNKNOWN UINT64_MAX /* as size of a source: until its end */

enum {
        FERRY_ID_SIZE = 40,   /* an id and its NUL, with room for the future */
        FERRY_TIME_SIZE = 40, /* RFC 3339, "2026-01-31T12:00:00.000Z" */
        FERRY_E_OTHER = 9999, /* no, with a code this library does not know: see ferry_last_problem */
};

/* ---- the handle ---- */

struct ferry;

/* Zero-initialise; zero means the default. All strings are copied. */
struct ferry_options {
        const char *token;           /* sent as "Authorization: Bearer" */
        const char *ca_file;         /* PEM; NULL = the system's */
        const char *cert_file;       /* PEM, client certificate */
        const char *key_file;        /* PEM, its key */
        unsigned connect_timeout_ms; /* 0 = 5000 */
        unsigned timeout_ms;         /* of an answer, beside the wait asked for; for content, of a silence; 0 = 30000 */
        int retries;                 /* how often a request is repeated; 0 = 4, negative = never */
        size_t answer_max;           /* bytes of an answer kept in memory; 0 = 64 MiB */
};

/*
 * A handle for the worker at url: "http://host:port", "https://host:port", "unix:/path.sock". options may be NULL.
 * Connects with the first call and keeps connections. 0; -EINVAL; -ENOMEM.
 */
int ferry_new(const char *url, const struct ferry_options *options, struct ferry **ret_ferry);

/* Closes the connections. Takes NULL; returns NULL. */
struct ferry *ferry_free(struct ferry *f);

/* Version of the library, "0.1.0". Any thread. */
const char *ferry_version(void);

/* What went wrong in the latest call on a handle. */
struct ferry_problem {
        int http_status; /* 0 = there was no answer */
        int error;       /* FERRY_E_*; 0 = not a worker's problem */
        bool retryable;
        uint64_t retry_after_ms; /* 0 = not given */
        char code[64];           /* as sent, also when this library does not know it */
        char title[128];
        char detail[512];     /* the worker's, or the reason of a lost request */
        char pointer[128];    /* of the first complaint about the body; "" = none */
        char request_id[128]; /* of the latest answer, also after success */
        char *body;           /* the answer as it came, NUL-terminated; NULL = none */
        size_t body_size;
};

/* Never NULL. Valid until the next call on the handle. After a success all but http_status and request_id is empty. */
const struct ferry_problem *ferry_last_problem(const struct ferry *f);

/* The same as one line for people; "" after a success. Valid until the next call on the handle. */
const char *ferry_last_message(const struct ferry *f);

/* Wipes and frees a string that holds a secret (metadata). Takes NULL. Any thread. */
void ferry_secret_free(char *secret);

/* ---- the worker ---- */

struct ferry_worker_info {
        char name[128];
        char epoch[32];
        char version[32];
        char ucx_version[32];
        uint64_t uptime_ms;
        char *json; /* the whole answer, with the addresses */
};
void ferry_worker_info_clear(struct ferry_worker_info *info);

int ferry_get_worker(struct ferry *f, struct ferry_worker_info *ret_info);

/* The answers as JSON text, for free(). */
int ferry_get_root(struct ferry *f, char **ret_json);
int ferry_get_devices(struct ferry *f, char **ret_json);
int ferry_get_limits(struct ferry *f, char **ret_json);

/* The answers as text, for free(). */
int ferry_get_metrics(struct ferry *f, char **ret_text);
int ferry_get_openapi(struct ferry *f, char **ret_yaml);

/* 0, or why not (FERRY_E_DRAINING). Never repeated after a 503. */
int ferry_get_livez(struct ferry *f);
int ferry_get_readyz(struct ferry *f);

/* ---- peers ---- */

/* Another worker that the worker of a handle is connected to. */
struct ferry_peer {
        char worker[128]; /* its name */
        char epoch[32];
        char transport[64];  /* what bytes will go over */
        uint64_t connect_us; /* 0 = reused */
        bool reused;         /* the connection was there already */
        char *json;          /* the whole answer */
};
void ferry_peer_clear(struct ferry_peer *peer);

/*
 * Has the worker connect to the one whose HTTP server is at url ("http://host:port"), so that the first transfer need
 * not. FERRY_E_PEER_UNREACHABLE, FERRY_E_PEER_REFUSED, FERRY_E_FORBIDDEN (--allow-peer), FERRY_E_INVALID_PARAMETER.
 */
int ferry_connect_peer(struct ferry *f, const char *url, struct ferry_peer *ret_peer);

/* ---- regions ---- */

struct ferry_region {
        char id[FERRY_ID_SIZE];
        uint64_t size;
        char device[32];
        char name[128];
        char path[256]; /* that local programs of the same user can open and map; "" = none */
        char state[16]; /* "preparing", "ready", "failed" */
        bool sealed;    /* nobody but the worker can write it */
        uint64_t in_use;
        char created_at[FERRY_TIME_SIZE];
};

struct ferry_region_spec {
        uint64_t size;
        const char *device;          /* NULL = "cpu" */
        const char *name;            /* NULL = none */
        const char *idempotency_key; /* NULL = a random one */
        bool sealed;                 /* nobody but the worker shall write it */
};

struct ferry_region_list {
        struct ferry_region *items;
        size_t n;
        char *next; /* after of the next page; NULL = this was the last */
};
void ferry_region_list_clear(struct ferry_region_list *list);

/* Returns when the region is ready, beyond the answer's usual time-out by 4 s per GiB at most. */
int ferry_create_region(struct ferry *f, const struct ferry_region_spec *spec, struct ferry_region *ret_region);
int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region);

/* A page of at most limit (0 = the worker's default), from the start (after NULL) or after an earlier page's next. */
int ferry_list_regions(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list);

/*
 * FERRY_E_REGION_IN_USE while an operation has it. When the answer of a first attempt was lost and the repeated one
 * says that the region is gone, that is success. The same holds for ferry_delete_operation.
 */
int ferry_delete_region(struct ferry *f, const char *id);

/* Takes bytes. 0, or a negative errno that ends the transfer and becomes its result. */
typedef int (*ferry_sink)(void *context, const void *data, size_t size);

/* Gives up to size bytes: how many, 0 at the end, or a negative errno that ends the transfer and becomes its result. */
typedef ssize_t (*ferry_source)(void *context, void *buffer, size_t size);

/*
 * Reads size bytes from offset (less when the region ends before). The buffer form may have overwritten the buffer also
 * when it fails. *ret_size (may be NULL) is how many came. Not repeated once sink or fd has taken a byte.
 */
int ferry_get_region_content(struct ferry *f, const char *id, uint64_t offset, void *buffer, size_t size,
                             size_t *ret_size);
/* size 0 = up to the end of the region. */
int ferry_get_region_content_to(struct ferry *f, const char *id, uint64_t offset, uint64_t size, ferry_sink sink,
                                void *context, uint64_t *ret_size);
int ferry_get_region_content_fd(struct ferry *f, const char *id, uint64_t offset, uint64_t size, int fd,
                                uint64_t *ret_size);

/* Writes exactly size bytes at offset. Not repeated once a byte was taken from source or fd. */
int ferry_put_region_content(struct ferry *f, const char *id, uint64_t offset, const void *data, size_t size);
int ferry_put_region_content_from(struct ferry *f, const char *id, uint64_t offset, ferry_source source, void *context,
                                  uint64_t size);
int ferry_put_region_content_fd(struct ferry *f, const char *id, uint64_t offset, int fd, uint64_t size);

/* ---- operations ---- */

/* A slice of a region, or a row of slices of one size: blocks of a cache, rows of a matrix. */
struct ferry_descriptor {
        const char *region;
        uint64_t offset;
        uint64_t size;   /* of each; 0, given to a create = the rest of the region */
        uint64_t count;  /* 0 and 1 = one; never 0 in an answer */
        uint64_t stride; /* from the start of one to that of the next; 0, given to a create = size; 0 in an answer = one
                          */
};

struct ferry_operation {
        char id[FERRY_ID_SIZE];
        int kind;   /* enum ferry_kind; -1 = one that this library does not know */
        int status; /* enum ferry_status; -1 = one that this library does not know: look at done */
        bool done;
        bool cancel_requested;
        uint64_t revision;
        uint64_t bytes_total, bytes_done;
        uint64_t readers, readers_done; /* 0 = not asked for */
        uint64_t duration_us;           /* once done */
        uint64_t connect_us;            /* once done: what connecting took; 0 = nothing had to be connected */
        char transport[64];             /* what carried the bytes; "" = nothing yet */
        int error;                      /* FERRY_E_*; FERRY_E_OTHER = see error_code; 0 = none */
        char error_code[64];
        char error_detail[512];
        char created_at[FERRY_TIME_SIZE];
        char ended_at[FERRY_TIME_SIZE];   /* "" = it runs */
        char expires_at[FERRY_TIME_SIZE]; /* "" = it does not */
        size_t n_descriptors;
        struct ferry_descriptor *descriptors; /* owned, with their region strings */
        char *metadata;                       /* JSON text, a secret; NULL = not asked for */
};
/* Frees what the operation owns (wipes the metadata) and zeroes it. */
void ferry_operation_clear(struct ferry_operation *operation);

struct ferry_operation_spec {
        enum ferry_kind kind;
        enum ferry_layout layout;
        const struct ferry_descriptor *descriptors;
        size_t n_descriptors;
        const char *remote_metadata; /* active: JSON text as the peer gave it … */
        const char *remote_url;      /* … or where the worker fetches it */
        uint32_t readers;            /* readable: 0 = one */
        uint64_t ttl_ms;             /* passive: 0 = the worker's default */
        uint64_t timeout_ms;         /* active: 0 = none */
        bool verify;                 /* active: checksums */
        bool include_metadata;       /* passive: fill metadata of the result */
        uint64_t wait_ms;            /* answer only when done, or after so long; rounded up to whole seconds */
        const char *idempotency_key; /* NULL = a random one */
};

/* NULL or zero = any. Names as ferry_kind_name and ferry_status_name give them. */
struct ferry_operation_query {
        const char *kind, *status;
        unsigned limit;
        const char *after;
};

struct ferry_operation_list {
        struct ferry_operation *items;
        size_t n;
        char *next; /* after of the next page; NULL = this was the last */
};
void ferry_operation_list_clear(struct ferry_operation_list *list);

/* ret_operation goes to ferry_operation_clear; what it held before is overwritten. */
int ferry_create_operation(struct ferry *f, const struct ferry_operation_spec *spec,
                           struct ferry_operation *ret_operation);

/*
 * wait_ms 0: as it is now. Else: when it is done, or (revision not 0) has passed that revision, or after wait_ms, which
 * the worker caps (60 s); done tells which. A failed transfer is not an error of this call: look at status and error.
 */
int ferry_get_operation(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision,
                        struct ferry_operation *ret_operation);

/*
 * Waits until the operation is done, over as many requests as it takes; lost connections are borne until the time is
 * over (with FERRY_FOREVER: until the worker was away for a minute). 0; -ETIMEDOUT, then *ret_operation has the latest
 * state if any was seen, else it is zero; as ferry_get_operation.
 */
int ferry_wait_operation(struct ferry *f, const char *id, uint64_t timeout_ms, struct ferry_operation *ret_operation);

/* The same, and calls progress (0, or a negative errno that ends the wait) at the start and every interval_ms. */
struct ferry_watch {
        uint64_t timeout_ms;
        unsigned interval_ms; /* 0 = 500 */
        int (*progress)(void *context, const struct ferry_operation *operation);
        void *context;
};
int ferry_watch_operation(struct ferry *f, const char *id, const struct ferry_watch *watch,
                          struct ferry_operation *ret_operation);

int ferry_list_operations(struct ferry *f, const struct ferry_operation_query *query,
                          struct ferry_operation_list *ret_list);

/* Cancels and forgets. */
int ferry_delete_operation(struct ferry *f, const char *id);

/* Asks for its end; the memory may be reused when it is done. ret_operation may be NULL. */
int ferry_cancel_operation(struct ferry *f, const char *id, struct ferry_operation *ret_operation);

/* Starts the time to live of a passive operation anew; ttl_ms 0 = as long as at first. ret_operation may be NULL. */
int ferry_renew_operation(struct ferry *f, const char *id, uint64_t ttl_ms, struct ferry_operation *ret_operation);

/* The metadata as JSON text, a secret, for ferry_secret_free(). */
int ferry_get_operation_metadata(struct ferry *f, const char *id, char **ret_json);

/* ---- any other request ---- */

struct ferry_answer {
        int http_status;
        char content_type[128];
        char etag[128];
        char location[256];
        char *body; /* NUL-terminated; NULL = none, or the sink took it */
        size_t body_size;
};
void ferry_answer_clear(struct ferry_answer *answer);

/* Zero-initialise. */
struct ferry_exchange {
        const char *method;       /* "GET" */
        const char *path;         /* "/v1/worker?x=y", from the worker's base URL, already encoded */
        const char *content_type; /* NULL = none is sent */
        const void *body;         /* NULL = none */
        size_t size;              /* of body */
        ferry_source source;      /* instead of body */
        void *source_context;
        uint64_t source_size; /* or FERRY_SIZE_UNKNOWN */
        ferry_sink sink;      /* takes the body of a 2xx answer */
        void *sink_context;
        const char *const *headers;  /* "Name: value", ended by NULL; NULL = none */
        const char *idempotency_key; /* sent, and lets a POST be repeated; NULL = none */
        uint64_t wait_ms;            /* how long the worker may take beyond timeout_ms */
        bool no_status_retry;        /* hand a 429 or 503 over at once */
};

/*
 * One exchange. 0 for 2xx and 3xx; a positive number for a problem answer; -EPROTO for any other; -errno. *ret_answer
 * is set whenever an answer came, also with a problem (else zero), and goes to ferry_answer_clear.
 */
int ferry_exchange_perform(struct ferry *f, const struct ferry_exchange *exchange, struct ferry_answer *ret_answer);

/* The short form. A POST is not repeated. */
int ferry_request(struct ferry *f, const char *method, const char *path, const char *content_type, const void *body,
                  size_t size, struct ferry_answer *ret_answer);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
