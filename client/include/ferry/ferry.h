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
 * libferry: the REST interface of a Ferry worker, one function a call
 *
 * Where to begin. ferry_new() makes a handle for one worker, ferry_create_region() allocates memory there, and
 * ferry_put_region_content() fills it. ferry_create_operation() with FERRY_READABLE offers that memory; the metadata of
 * the offer goes to a peer, over any channel. The peer's ferry_create_operation() with FERRY_READ moves the bytes, and
 * ferry_wait_operation() waits for their arrival. FERRY_WRITABLE and FERRY_WRITE work in the other direction.
 *
 * Results. 0 is success. A positive result is a FERRY_E_* number: the worker refused. A negative result is -errno.
 * ferry_last_problem() and ferry_last_message() tell more. Outputs (ret_…) are set on success only, unless stated.
 *
 * Errors. The common errors, which every call that sends a request can return:
 *   -EINVAL        an argument is not valid; nothing was sent
 *   -ENOTSUP       an argument has a field that this version of the library does not know; nothing was sent
 *   -ENOMEM        memory is short
 *   -EMFILE, -ENFILE   no descriptor is left for a connection
 *   -ECANCELED     ferry_abort() was called
 *   -ECHILD        this process was forked after the handle was made; nothing was sent
 *   -ECONNREFUSED  nothing listens there, or the unix socket does not exist
 *   -EHOSTUNREACH  the host name is unknown, or the host cannot be reached, by a proxy either
 *   -ETIMEDOUT     no connection, no answer, or no end within the time limit, of a proxy either
 *   -ECONNRESET    the connection broke before the answer was complete, or a success came before the whole body had
 *                  gone out
 *   -EPROTO        the answer is not a worker's (HTML, not JSON, a required field is missing)
 *   -EMSGSIZE      the answer is larger than answer_max
 *   -EACCES        TLS failed (certificate, CA, client certificate), or the unix socket may not be opened
 *   -EIO           anything else
 *   FERRY_E_UNAUTHENTICATED, FERRY_E_FORBIDDEN, FERRY_E_HOST_REFUSED, FERRY_E_LIMIT_REACHED, FERRY_E_DRAINING,
 *   FERRY_E_INTERNAL, FERRY_E_OTHER (a code that this library does not know)
 *   FERRY_E_TOO_LARGE  the body is larger than the worker, or a proxy in front of it, takes
 * "Errors:" at a call, and ERRORS of its manual page, list what it can return beside these.
 *
 * Threads. A handle is used by one thread at a time, except for ferry_abort(); different handles are independent. The
 * library changes no signal's disposition, and no call raises SIGPIPE.
 *
 * Ownership. Strings and structs that a call reads stay the caller's, and may go when it returns. What a call fills
 * (ret_…) is the caller's, until the function named at the call (ferry_operation_clear(), ferry_secret_free(), …) frees
 * it. ferry_last_problem() and ferry_last_message() point into the handle.
 *
 * Fork. A forked child makes handles of its own: those of its parent fail with -ECHILD, and their connections stay the
 * parent's.
 *
 * Retries. The library repeats a request that can be repeated without harm (every GET, PUT and DELETE; a POST with an
 * Idempotency-Key, which every create sends; cancel, renew and ferry_connect_peer) when the connection failed or the
 * worker answered 429 or 503. It repeats any request whose connection was refused. It waits as long as Retry-After asks
 * for, else for a growing delay; an answer whose Retry-After exceeds 10 s goes to the caller. Where a gateway in front
 * of the worker answers 502, 503 or 504 in its place, the library goes on for as long as the call may take, or for 60
 * s, with pauses from 0.1 to 2 s. After each 504 the next ten minutes' GETs ask the worker to wait for half as long (at
 * least 1 s). retries < 0 excludes the repetitions, but not those of ferry_wait_operation() and the like. The library
 * connects to the worker directly: it ignores the proxies of the environment and follows no redirect.
 *
 * Compatibility. New fields are taken only from the reserved room at the end of a struct, so its size and the places of
 * its fields stay; any other change raises the soversion. Zero-initialise every struct that a call reads: zero means
 * the default, and reserved room that is not zero, a field of a later version, is refused with -ENOTSUP.
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
        FERRY_E_OTHER = 9999, /* an error with a code that this library does not know: see ferry_last_problem */
};

/* ---- the handle ---- */

struct ferry;

/* All strings are copied. */
struct ferry_options {
        const char *token;           /* sent as "Authorization: Bearer" */
        const char *ca_file;         /* PEM; NULL = the system's */
        const char *cert_file;       /* PEM, client certificate */
        const char *key_file;        /* PEM, its key */
        unsigned connect_timeout_ms; /* 0 = 5000 */
        unsigned timeout_ms; /* for an answer, beside the wait asked for; for content, longest silence; 0 = 30000 */
        int retries;         /* how often a request is repeated; 0 = 4, negative = never */
        size_t answer_max;   /* bytes of an answer kept in memory; 0 = 64 MiB */
        uint64_t reserved[8];
};

/*
 * Makes a handle for the worker at url: "http://host:port", "https://host:port", "unix:/path.sock". options may be
 * NULL. The first call connects; connections are kept. Any thread.
 * Errors: -EINVAL: url is none of these forms; -EKEYREJECTED: the token is empty or has a character that a header
 * cannot carry; -ENOENT, -EACCES, and other errors of open(2): a PEM file cannot be read; -EMFILE, -ENFILE: no
 * descriptor is left; -ENOTSUP: an option of a later version; -ENOMEM: memory is short, or libcurl cannot start.
 */
int ferry_new(const char *url, const struct ferry_options *options, struct ferry **ret_ferry);

/* Frees a handle, and closes its connections. Accepts NULL; returns NULL. */
struct ferry *ferry_free(struct ferry *f);

/*
 * Ends the call in progress on the handle with -ECANCELED, and every later one until ferry_resume(). The request may
 * have reached the worker. Any thread; also a signal handler.
 */
void ferry_abort(struct ferry *f);

/* Lets the handle make calls again after ferry_abort(). Not while a call is in progress. */
void ferry_resume(struct ferry *f);

/* Returns the version of the library, "0.1.0". Any thread. */
const char *ferry_version(void);

/* The error of the latest call on a handle. */
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
        uint64_t reserved[8];
};

/*
 * Returns the problem of the latest call; never NULL. Valid until the next call on the handle. After a success
 * everything but http_status and request_id is empty.
 */
const struct ferry_problem *ferry_last_problem(const struct ferry *f);

/*
 * Returns the problem of the latest call as one line for people; "" after a success. Valid until the next call on the
 * handle.
 */
const char *ferry_last_message(const struct ferry *f);

/* Wipes and frees a string that holds a secret (metadata). Accepts NULL. Any thread. */
void ferry_secret_free(char *secret);

/* ---- the worker ---- */

struct ferry_worker_info {
        char name[128];
        char epoch[32];
        char version[32];
        char ucx_version[32]; /* "" = the worker has no network transport, and has not loaded UCX */
        uint64_t uptime_ms;
        char *json; /* the whole answer, with all addresses */
        char started_at[FERRY_TIME_SIZE];
        uint64_t pid;
        bool local;        /* peers on its machine can connect by shared memory */
        char url[512];     /* the first http or https address, as others reach it; "" = none */
        char data[128];    /* HOST:PORT of the network transport; "" = not open */
        char commit[48];   /* that was built; "" = not known */
        uint64_t protocol; /* workers of two numbers cannot exchange bytes; 0 = an early build, which names none */
        uint64_t reserved[8];
};
/* Frees what the struct owns and zeroes it. Any thread. */
void ferry_worker_info_clear(struct ferry_worker_info *info);

/* Gets name, epoch and versions of the worker. ret_info goes to ferry_worker_info_clear(). Errors: the common ones. */
int ferry_get_worker(struct ferry *f, struct ferry_worker_info *ret_info);

/* Gets the worker's links as JSON text, for free(). Errors: the common ones. */
int ferry_get_root(struct ferry *f, char **ret_json);

/* Gets memory devices, RDMA devices and transports as JSON text, for free(). Errors: the common ones. */
int ferry_get_devices(struct ferry *f, char **ret_json);

/* Gets the bytes moved in each of the last five minutes' seconds as JSON text, for free(). Errors: the common ones. */
int ferry_get_throughput(struct ferry *f, char **ret_json);

/* Limits and timeouts of a worker. Sizes are in bytes, …_ms in milliseconds; 0 = the worker does not tell. */
struct ferry_limits {
        uint64_t body_max;        /* of a JSON body */
        uint64_t batch_max;       /* operations of one ferry_create_operations() */
        uint64_t ids_max;         /* ids of one ferry_wait_operations() */
        uint64_t descriptors_max; /* of one operation; each piece of a row and each block counts */
        uint64_t wait_ms_max;     /* longest wait of one request */
        uint64_t waiters_max;     /* requests that wait at the same time */
        uint64_t connections_max, address_connections_max;      /* in all, and of one address */
        uint64_t page_max;                                      /* elements of one page */
        uint64_t regions_max, memory_limit;                     /* how many, and bytes of all */
        uint64_t idempotency_max;                               /* Idempotency-Keys that the worker remembers */
        uint64_t links_max;                                     /* connections that other workers have opened */
        uint64_t head_max, head_ms, body_ms, read_ms, rate_min; /* of an HTTP request; rate_min in bytes a second */
        uint64_t content_ranges_max; /* ranges of an operation's content that are sent at the same time */
        uint64_t digest_max;         /* longest range that a Content-Digest is made of */
        uint64_t fetches_max;        /* requests to other workers at the same time */
        uint64_t event_readers_max, events_kept;
        uint64_t operations_max; /* ended and still kept ones included */
        uint64_t terminal_max;   /* ended ones that are kept, at most for retention_ms */
        uint64_t gone_max;       /* ids that are answered with FERRY_E_GONE */
        uint64_t uses_max;       /* of one operation */
        uint64_t ttl_ms_default, ttl_ms_max, timeout_ms_max, stall_ms, retention_ms;
        uint64_t answer_max;   /* bytes of a list of operations; a page ends with the one that passes it */
        uint64_t claims_max;   /* transfers that peers have under way */
        uint64_t lookups_max;  /* requests to the registry at the same time */
        uint64_t pieces_max;   /* of the descriptors of all operations */
        uint64_t bodies_max;   /* bytes of the JSON bodies of all requests, also while parsed, but for short ones */
        uint64_t mappings_max; /* regions of workers on the same machine that stay mapped while they are idle */
        char *json;            /* the whole answer */
        uint64_t reserved[16];
};
/* Frees what the struct owns and zeroes it. Any thread. */
void ferry_limits_clear(struct ferry_limits *limits);

/* Gets the worker's limits and timeouts. ret_limits goes to ferry_limits_clear(). Errors: the common ones. */
int ferry_get_limits(struct ferry *f, struct ferry_limits *ret_limits);

/*
 * Lists the events that follow the event with the id after ("next" of an earlier answer; NULL = from the oldest that
 * the worker keeps), at most 1,000, as JSON text, for free(). label selects the events of operations with that label;
 * NULL = all. Without such an event the worker waits for one, at most wait_ms milliseconds. "next" in the answer is the
 * after of the next call; "missed" counts the events that the worker no longer kept. Errors: the common ones.
 */
int ferry_list_events(struct ferry *f, const char *after, const char *label, unsigned wait_ms, char **ret_json);

/* Gets the metrics in Prometheus' text format, for free(). Errors: the common ones. */
int ferry_get_metrics(struct ferry *f, char **ret_text);

/* Gets the OpenAPI document of the worker, YAML, for free(). Errors: the common ones. */
int ferry_get_openapi(struct ferry *f, char **ret_yaml);

/* Asks whether the worker lives. Not repeated after a 503. Returns 0 if it does. Errors: the common ones. */
int ferry_get_livez(struct ferry *f);

/*
 * Asks whether the worker accepts work. Not repeated after a 503. Returns 0 if it does.
 * Errors: the common ones, FERRY_E_DRAINING above all.
 */
int ferry_get_readyz(struct ferry *f);

/* ---- peers ---- */

/* Another worker that the worker of a handle is connected to. */
struct ferry_peer {
        char worker[128]; /* its name */
        char epoch[32];
        char transport[64];  /* that will carry the bytes */
        uint64_t connect_us; /* 0 = reused */
        bool reused;         /* the connection was there already */
        char *json;          /* the whole answer */
        uint64_t reserved[8];
};
/* Frees what the struct owns and zeroes it. Any thread. */
void ferry_peer_clear(struct ferry_peer *peer);

/*
 * Connects the worker to the one whose HTTP server is at url ("http://host:port") before the first transfer needs it.
 * ret_peer goes to ferry_peer_clear().
 * Errors: FERRY_E_PEER_UNREACHABLE; FERRY_E_PEER_REFUSED; FERRY_E_FORBIDDEN: --allow-peer of the worker does not admit
 * the address; FERRY_E_INVALID_PARAMETER: url; FERRY_E_PROTOCOL_MISMATCH: last_message says which worker is older.
 */
int ferry_connect_peer(struct ferry *f, const char *url, struct ferry_peer *ret_peer);

/* A worker that the worker of a handle is connected to, or tried to connect to lately. */
struct ferry_peer_info {
        char worker[128]; /* its name; "" = not known */
        char epoch[32];
        char status[16];    /* "connecting", "connected", "disconnected" */
        char transport[64]; /* that carries the bytes; "" = not connected */
        char connected_at[FERRY_TIME_SIZE];
        uint64_t connect_us;
        uint64_t transfers; /* that run now */
        char opened_by[16]; /* "this-worker", "peer"; "" = never connected */
        char disconnected_at[FERRY_TIME_SIZE];
        int error; /* why it is disconnected: FERRY_E_*; FERRY_E_OTHER = see error_code; 0 = none */
        char error_code[64];
        char error_detail[512];
        uint64_t reserved[8];
};

struct ferry_peer_list {
        struct ferry_peer_info *items;
        size_t n;
        char *next; /* after of the next page; NULL = this was the last */
        char *json; /* the whole answer, with addresses and the reasons why no better transport is in use */
        uint64_t reserved[4];
};
/* Frees what the list owns and zeroes it. Any thread. */
void ferry_peer_list_clear(struct ferry_peer_list *list);

/*
 * Lists a page of at most limit peers (0 = the worker's default), from the start (after NULL) or after an earlier
 * page's next. ret_list goes to ferry_peer_list_clear(). Errors: FERRY_E_INVALID_PARAMETER: after; FERRY_E_DRAINING.
 */
int ferry_list_peers(struct ferry *f, unsigned limit, const char *after, struct ferry_peer_list *ret_list);

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
        uint64_t bytes_prepared; /* of one that is "preparing" */
        int error;               /* of one that "failed": FERRY_E_*; FERRY_E_OTHER = see error_code; 0 = none */
        char error_code[64];
        char error_detail[512];
        uint64_t idle_ms;                 /* as in ferry_region_spec */
        char expires_at[FERRY_TIME_SIZE]; /* when that is over if nothing uses it; "" = never, or in use */
        uint64_t reserved[8];
};

struct ferry_region_spec {
        uint64_t size;
        const char *device;          /* NULL = "cpu" */
        const char *name;            /* NULL = none */
        const char *idempotency_key; /* NULL = a random one */
        bool sealed;                 /* nobody but the worker shall write it */
        uint64_t idle_ms;            /* the worker deletes it after so long without use; 0 = never */
        uint64_t reserved[8];
};

struct ferry_region_list {
        struct ferry_region *items;
        size_t n;
        char *next; /* after of the next page; NULL = this was the last */
        uint64_t reserved[4];
};
/* Frees what the list owns and zeroes it. Any thread. */
void ferry_region_list_clear(struct ferry_region_list *list);

/*
 * Allocates a region. Waits until the region is ready, for at most timeout_ms plus 4 s per GiB.
 *
 * With idle_ms the worker deletes the region once, for so long, no operation and no transfer of content has used it and
 * no call has named it, which ferry_get_region() does, and a list does not. So nothing is left of a program that dies.
 * Errors: FERRY_E_INVALID_PARAMETER; FERRY_E_UNKNOWN_DEVICE; FERRY_E_NO_SPACE; FERRY_E_IDEMPOTENCY_CONFLICT;
 * FERRY_E_GONE: the region was deleted meanwhile, or the one that idempotency_key has made.
 */
int ferry_create_region(struct ferry *f, const struct ferry_region_spec *spec, struct ferry_region *ret_region);

/* Gets a region as it is now. Errors: FERRY_E_NOT_FOUND. */
int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region);

/*
 * Lists a page of at most limit regions (0 = the worker's default), from the start (after NULL) or after an earlier
 * page's next. ret_list goes to ferry_region_list_clear(). Errors: FERRY_E_INVALID_PARAMETER: after.
 */
int ferry_list_regions(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list);

/*
 * Deletes a region. If the answer to the first request was lost and its repetition finds no region, the call succeeds.
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_REGION_IN_USE: an operation uses it, also after the 2 s for which the
 * worker waits for transfers under way; FERRY_E_REGION_HELD: it is memory of the program that runs the worker.
 */
int ferry_delete_region(struct ferry *f, const char *id);

/* Takes size bytes. Returns 0, or a negative errno that ends the transfer and becomes its result. */
typedef int (*ferry_sink)(void *context, const void *data, size_t size);

/* Gives at most size bytes. Returns their number, 0 at the end, or a negative errno that becomes the call's result. */
typedef ssize_t (*ferry_source)(void *context, void *buffer, size_t size);

/*
 * Reads size bytes from offset, fewer where the region ends. *ret_size (may be NULL) is their number. A call that fails
 * may have overwritten the buffer.
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_RANGE_NOT_SATISFIABLE: offset; FERRY_E_REGION_NOT_READY; FERRY_E_GONE: its device
 * gave no bytes.
 */
int ferry_get_region_content(struct ferry *f, const char *id, uint64_t offset, void *buffer, size_t size,
                             size_t *ret_size);

/*
 * Does what ferry_get_region_content() does, into a sink. size 0 = to the end of the region. Not repeated once the sink
 * has taken a byte. Errors: as ferry_get_region_content(), and what the sink returns.
 */
int ferry_get_region_content_to(struct ferry *f, const char *id, uint64_t offset, uint64_t size, ferry_sink sink,
                                void *context, uint64_t *ret_size);

/*
 * Does what ferry_get_region_content() does, into a file descriptor, by write(2). size 0 = to the end of the region.
 * Errors: as ferry_get_region_content(), and those of write(2).
 */
int ferry_get_region_content_fd(struct ferry *f, const char *id, uint64_t offset, uint64_t size, int fd,
                                uint64_t *ret_size);

/*
 * Writes size bytes at offset.
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_OUT_OF_BOUNDS: the region ends before offset; FERRY_E_TOO_LARGE: before offset +
 * size; FERRY_E_REGION_NOT_READY; FERRY_E_GONE: the region was deleted meanwhile, or its device took no bytes.
 */
int ferry_put_region_content(struct ferry *f, const char *id, uint64_t offset, const void *data, size_t size);

/*
 * Does what ferry_put_region_content() does, from a source, which must give exactly size bytes. Not repeated once a
 * byte was taken from it. Errors: as ferry_put_region_content(), what the source returns, and -ENODATA: the source
 * ended early.
 */
int ferry_put_region_content_from(struct ferry *f, const char *id, uint64_t offset, ferry_source source, void *context,
                                  uint64_t size);

/*
 * Does what ferry_put_region_content() does, from a file descriptor, by read(2).
 * Errors: as ferry_put_region_content_from(), and those of read(2).
 */
int ferry_put_region_content_fd(struct ferry *f, const char *id, uint64_t offset, int fd, uint64_t size);

/* ---- operations ---- */

/* A slice of a region, a row of slices of one size (rows of a matrix), or blocks (of a paged cache). */
struct ferry_descriptor {
        const char *region;
        uint64_t offset;
        uint64_t size;   /* of each; 0 in a create = the rest of the region */
        uint64_t count;  /* 0 and 1 = one; never 0 in an answer */
        uint64_t stride; /* from the start of one to that of the next; 0, given to a create = size; 0 in an answer = one
                          */
        const uint64_t *blocks; /* slices of size bytes at offset + number × size, in this order; NULL = none */
        size_t n_blocks;
        uint64_t reserved[2];
};

/* A part of an offer: size bytes from offset on of its descriptors' bytes, seen as one stream. */
struct ferry_range {
        uint64_t offset, size;
        uint64_t reserved[2];
};

/* As uses: an offer that stands until it is cancelled or deleted, or expires. */
#define FERRY_USES_UNLIMITED UINT64_MAX

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
        uint64_t connect_us;            /* once done: time to connect; 0 = the connection was there already */
        char transport[64];             /* that carried the bytes; "" = none yet */
        int error;                      /* FERRY_E_*; FERRY_E_OTHER = see error_code; 0 = none */
        char error_code[64];
        char error_detail[512];
        char created_at[FERRY_TIME_SIZE];
        char ended_at[FERRY_TIME_SIZE];   /* "" = it runs */
        char expires_at[FERRY_TIME_SIZE]; /* "" = never */
        size_t n_descriptors;
        struct ferry_descriptor *descriptors; /* owned, with their region strings */
        char *metadata;                       /* JSON text, a secret; NULL = not asked for */
        char label[128];                      /* the client's own; "" = none */
        uint64_t uses, uses_done; /* transfers that a passive one serves, or FERRY_USES_UNLIMITED; 0 = not asked for */
        char peer[128];           /* the name of the worker at the other end; "" = not known */
        char peer_epoch[32];      /* its epoch; "" = none has come yet */
        char request_id[128];     /* of the request that made it; "" = not known */
        int layout;               /* enum ferry_layout; -1 = one that this library does not know */
        bool verify;              /* with checksums */
        uint64_t ttl_ms, timeout_ms; /* as asked for; 0 = none */
        char transports[64];         /* that it is restricted to, "shm,tcp"; "" = any */
        char follow[FERRY_ID_SIZE];  /* the read that it follows, or has followed; "" = none */
        uint64_t bytes_prefix;       /* of a failed read: how many bytes from the start on are in place */
        bool relay;                  /* other operations may follow it */
        struct ferry_range *remote;  /* the parts of the offer that an active one moves; owned */
        size_t n_remote;             /* 0 = all of it */
        uint64_t renew_max_ms;       /* as asked for; 0 = none */
        uint64_t uses_declined;      /* of uses */
        uint64_t reserved[12];
};
/* Frees what the operation owns, wipes the metadata, and zeroes the struct. Any thread. */
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
        uint64_t wait_ms;            /* answer when done, or after this time, which the worker caps */
        const char *idempotency_key; /* NULL = a random one */
        const char *label;           /* the client's own, at most 64 bytes; NULL = none */
        uint64_t uses;               /* passive: transfers that it serves, or FERRY_USES_UNLIMITED; 0 = one */
        const char *transports;      /* active: the only ones that may carry the bytes, "shm,tcp"; NULL = any */
        const char *follow; /* readable: the id of a read that fills its descriptors; NULL = all bytes are there */
        bool relay;         /* read: other operations will follow it */
        /* Active: only these parts of the offer. In their order they are one stream of bytes, which pairs with that of
         * the descriptors and has the same size. They must not overlap. n_remote 0 = all of the offer. */
        const struct ferry_range *remote;
        size_t n_remote;
        uint64_t renew_max_ms; /* passive: how long its holders may keep it; 0 = they may not */
        uint64_t reserved[5];
};

/* NULL or zero = any. Names as ferry_kind_name and ferry_status_name give them. */
struct ferry_operation_query {
        const char *kind, *status;
        unsigned limit;
        const char *after;
        const char *region, *label;
        bool done;    /* only those that are done … */
        bool running; /* … or only the others; both are -EINVAL */
        bool newest;  /* the newest first */
        uint64_t reserved[8];
};

struct ferry_operation_list {
        struct ferry_operation *items;
        size_t n;
        char *next; /* after of the next page; NULL = this was the last */
        uint64_t reserved[4];
};
/* Frees what the list owns and zeroes it. Any thread. */
void ferry_operation_list_clear(struct ferry_operation_list *list);

/*
 * Offers memory, or starts a transfer. ret_operation goes to ferry_operation_clear(); its former content is
 * overwritten. A transfer that fails later is not an error of this call.
 * Errors: FERRY_E_INVALID_PARAMETER; FERRY_E_NOT_FOUND: a region; FERRY_E_OUT_OF_BOUNDS; FERRY_E_SIZE_MISMATCH;
 * FERRY_E_KIND_MISMATCH; FERRY_E_INVALID_METADATA; FERRY_E_PROTOCOL_MISMATCH; FERRY_E_METADATA_EXPIRED;
 * FERRY_E_REGION_NOT_READY; FERRY_E_FORBIDDEN: --allow-peer of the worker does not admit remote_url;
 * FERRY_E_IDEMPOTENCY_CONFLICT; FERRY_E_GONE: the operation of follow was deleted, or the one that idempotency_key has
 * made.
 */
int ferry_create_operation(struct ferry *f, const struct ferry_operation_spec *spec,
                           struct ferry_operation *ret_operation);

/* The result for one of several operations. */
struct ferry_operation_result {
        int result;                        /* 0 = operation; FERRY_E_* = problem */
        struct ferry_operation *operation; /* owned; NULL = none */
        struct ferry_problem *problem;     /* owned; NULL = none */
        uint64_t reserved[4];
};

struct ferry_operation_results {
        struct ferry_operation_result *items;
        size_t n;
        uint64_t reserved[4];
};
/* Frees what the results own, wipes metadata, and zeroes the struct. Any thread. */
void ferry_operation_results_clear(struct ferry_operation_results *results);

/*
 * Creates n operations by one request, as ferry_create_operation() does each. ret_results, one for each spec in their
 * order, goes to ferry_operation_results_clear(); its former content is overwritten. The worker treats each spec on its
 * own: a refused one does not affect the others. include_metadata of any spec and the longest wait_ms apply to all; the
 * request has the idempotency_key of the first spec. Errors: FERRY_E_INVALID_PARAMETER: n is beyond the worker's
 * batch_max; FERRY_E_TOO_LARGE; FERRY_E_IDEMPOTENCY_CONFLICT. All others of ferry_create_operation() are in the
 * results; the pointer of such a problem begins with "/operations/" and the number of the spec.
 */
int ferry_create_operations(struct ferry *f, const struct ferry_operation_spec *specs, size_t n,
                            struct ferry_operation_results *ret_results);

/*
 * Gets an operation. wait_ms 0 returns its present state. Otherwise the worker answers once the operation is done, or
 * (revision not 0) has passed that revision, or after wait_ms milliseconds, which the worker caps: see done. A failed
 * transfer is not an error of this call: see status and error. ret_operation goes to ferry_operation_clear().
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_GONE: it was deleted, or ended long ago.
 */
int ferry_get_operation(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision,
                        struct ferry_operation *ret_operation);

/*
 * Waits until the operation is done, at most timeout_ms milliseconds, with as many requests as that takes. Reconnects
 * until the timeout; with FERRY_FOREVER until the worker has not answered for a minute. ret_operation goes to
 * ferry_operation_clear().
 * Errors: as ferry_get_operation(); after -ETIMEDOUT *ret_operation has the latest state, zero if none was seen.
 */
int ferry_wait_operation(struct ferry *f, const char *id, uint64_t timeout_ms, struct ferry_operation *ret_operation);

/* When ferry_wait_operations() ends. */
enum ferry_wait_for {
        FERRY_WAIT_ALL, /* all are done */
        FERRY_WAIT_ANY, /* one is */
};

/*
 * Waits for n operations at once, as ferry_wait_operation() does for one. ret_results, one for each id in their order,
 * goes to ferry_operation_results_clear(); its former content is overwritten. An id without an operation has a problem
 * as its result (FERRY_E_NOT_FOUND, FERRY_E_GONE), and counts as done. Errors: FERRY_E_INVALID_PARAMETER: n is beyond
 * the worker's ids_max; after -ETIMEDOUT *ret_results has the latest states, none if none were seen.
 */
int ferry_wait_operations(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                          uint64_t timeout_ms, struct ferry_operation_results *ret_results);

/* How to watch an operation. progress borrows the operation during the call. */
struct ferry_watch {
        uint64_t timeout_ms;
        unsigned interval_ms;                                                    /* 0 = 500 */
        int (*progress)(void *context, const struct ferry_operation *operation); /* 0; -errno ends the wait */
        void *context;
        unsigned away_ms; /* with FERRY_FOREVER: give up a worker that does not answer for so long; 0 = 60000 */
        uint64_t reserved[8];
};

/*
 * Waits as ferry_wait_operation() does, and calls progress at the start, every interval_ms and at the end.
 * Errors: as ferry_wait_operation(), and what progress returns.
 */
int ferry_watch_operation(struct ferry *f, const char *id, const struct ferry_watch *watch,
                          struct ferry_operation *ret_operation);

/*
 * Lists a page of operations. query may be NULL. ret_list goes to ferry_operation_list_clear().
 * Errors: FERRY_E_INVALID_PARAMETER: query.
 */
int ferry_list_operations(struct ferry *f, const struct ferry_operation_query *query,
                          struct ferry_operation_list *ret_list);

/*
 * Cancels and deletes an operation. A lost answer is treated as in ferry_delete_region().
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_GONE.
 */
int ferry_delete_operation(struct ferry *f, const char *id);

/*
 * Asks the worker to cancel an operation. The program may reuse the memory once the operation is done. ret_operation,
 * which may be NULL, goes to ferry_operation_clear().
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_GONE.
 */
int ferry_cancel_operation(struct ferry *f, const char *id, struct ferry_operation *ret_operation);

/*
 * Restarts the time to live of a passive operation, in milliseconds; ttl_ms 0 = as at its creation. ret_operation,
 * which may be NULL, goes to ferry_operation_clear().
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_GONE; FERRY_E_NOT_PASSIVE; FERRY_E_INVALID_PARAMETER: ttl_ms.
 */
int ferry_renew_operation(struct ferry *f, const char *id, uint64_t ttl_ms, struct ferry_operation *ret_operation);

/* What the holder of a passive operation's metadata may know of it. */
struct ferry_offer_state {
        int status;                       /* enum ferry_status; -1 = one that this library does not know */
        char expires_at[FERRY_TIME_SIZE]; /* after a renewal: when it ends if no peer has come by then; "" = not told */
        uint64_t reserved[4];
};

/*
 * Says, as the holder of the metadata, that nobody will use a passive operation: it ends at once, CANCELLED with
 * FERRY_E_DECLINED, and of one with several uses one is taken. One that has ended stays as it is. key is the
 * notification_key of the metadata. *ret_state (may be NULL) is how the operation stands then.
 * Errors: FERRY_E_ALREADY_CLAIMED: a peer is moving its bytes, or no use is left; FERRY_E_FORBIDDEN: key;
 * FERRY_E_NOT_FOUND; FERRY_E_GONE; FERRY_E_NOT_PASSIVE.
 */
int ferry_decline_operation(struct ferry *f, const char *id, const char *key, struct ferry_offer_state *ret_state);

/*
 * Asks, as the holder of the metadata, for more time: the operation expires ttl_ms milliseconds from now (0 = as many
 * as at its creation), but not later than renew_max_ms after its creation, and not sooner than before. key is the
 * notification_key of the metadata. *ret_state (may be NULL) says when it expires.
 * Errors: FERRY_E_FORBIDDEN: key, or the operation has no renew_max_ms; FERRY_E_NOT_FOUND; FERRY_E_GONE;
 * FERRY_E_NOT_PASSIVE; FERRY_E_INVALID_PARAMETER: ttl_ms; FERRY_E_DRAINING.
 */
int ferry_renew_by_key(struct ferry *f, const char *id, const char *key, uint64_t ttl_ms,
                       struct ferry_offer_state *ret_state);

/*
 * Declines another worker's operation, with its metadata as JSON text, for programs that do not
 * reach that worker: the worker of the handle says it, by its link to that one or over HTTP.
 * Errors: as ferry_decline_operation(); FERRY_E_INVALID_METADATA; FERRY_E_PROTOCOL_MISMATCH; FERRY_E_PEER_UNREACHABLE;
 * FERRY_E_PEER_REFUSED: the key; FERRY_E_GONE: also of one that is no longer known.
 */
int ferry_decline_remote(struct ferry *f, const char *metadata, struct ferry_offer_state *ret_state);

/*
 * Asks for more time for another worker's operation, as ferry_renew_by_key() does, in the way of
 * ferry_decline_remote().
 * Errors: as ferry_decline_remote() and ferry_renew_by_key().
 */
int ferry_renew_remote(struct ferry *f, const char *metadata, uint64_t ttl_ms, struct ferry_offer_state *ret_state);

/*
 * Gets the metadata of a passive operation as JSON text, a secret, for ferry_secret_free().
 * Errors: FERRY_E_NOT_FOUND; FERRY_E_GONE: it is terminal; FERRY_E_NOT_PASSIVE.
 */
int ferry_get_operation_metadata(struct ferry *f, const char *id, char **ret_json);

/*
 * Reads size bytes from offset of what a readable operation offers, its descriptors one after the other, over HTTP;
 * fewer where they end. *ret_size (may be NULL) is their number. key is the notification_key of the metadata; NULL =
 * the handle's token. The first call claims the operation, which completes when every byte was sent; between two calls
 * the operation waits for at most ten seconds. For programs without a worker of their own. A call that fails may have
 * overwritten the buffer. Errors: FERRY_E_NOT_FOUND; FERRY_E_GONE; FERRY_E_CANCELLED_BY_PEER; FERRY_E_EXPIRED;
 * FERRY_E_ALREADY_CLAIMED; FERRY_E_NOT_PASSIVE; FERRY_E_KIND_MISMATCH; FERRY_E_RANGE_NOT_SATISFIABLE: offset.
 */
int ferry_get_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, void *buffer,
                                size_t size, size_t *ret_size);

/*
 * Writes size bytes at offset of what a writable operation offers, over HTTP. key, the claim and the end as in
 * ferry_get_operation_content().
 * Errors: as ferry_get_operation_content(), and FERRY_E_TOO_LARGE: the memory ends before offset + size.
 */
int ferry_put_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, const void *data,
                                size_t size);

/* ---- any other request ---- */

struct ferry_answer {
        int http_status;
        char content_type[128];
        char etag[128];
        char location[256];
        char *body; /* NUL-terminated; NULL = none, or the sink took it */
        size_t body_size;
        char content_digest[128];
        uint64_t reserved[8];
};
/* Wipes and frees what the answer owns and zeroes it. Any thread. */
void ferry_answer_clear(struct ferry_answer *answer);

/* A request. */
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
        uint64_t wait_ms;            /* how long the worker may take beyond timeout_ms; at least the wait_ms in path */
        bool no_status_retry;        /* hand a 429 or 503 over at once */
        uint64_t reserved[8];
};

/*
 * Performs any request. *ret_answer is set whenever an answer came, also with a problem (else zero), and goes to
 * ferry_answer_clear(). Returns 0 for 2xx and 304; a positive number for a problem document; the common error for a
 * proxy's answer; -EPROTO for any other, as a redirect. Errors: every FERRY_E_*, and what sink and source return.
 */
int ferry_exchange_perform(struct ferry *f, const struct ferry_exchange *exchange, struct ferry_answer *ret_answer);

/*
 * Performs a request without options, as ferry_exchange_perform() does. A POST is repeated only if the connection was
 * refused. Errors: every FERRY_E_*.
 */
int ferry_request(struct ferry *f, const char *method, const char *path, const char *content_type, const void *body,
                  size_t size, struct ferry_answer *ret_answer);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
