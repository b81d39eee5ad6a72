/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct device_source;
struct event_log;
struct engine_connect;
struct engine_facts;
struct engine_peer_view;
struct loop;
struct metrics;
struct operation_limits;
struct http_mover;
struct operation_store;
struct peers;
struct region_table;
struct registry;
struct http_route;

/* The control plane: libmicrohttpd, routes, handlers. */

struct http_server;

/* Shown by GET /v1/limits, beside the limits of the operations. */
struct http_limits {
        uint64_t body_max;   /* bytes of a JSON body */
        uint64_t bodies_max; /* bytes of all JSON bodies together, and of what they take parsed; not of short ones */
        uint64_t batch_max;  /* operations of one POST */
        uint64_t ids_max;    /* operations of one GET */
        uint64_t descriptors_max; /* of one operation */
        uint64_t wait_ms_max;     /* of one parked request */
        uint64_t waiters_max;     /* requests parked at a time */
        uint64_t links_max;       /* links opened by other workers */
        uint64_t connections_max;
        uint64_t page_max; /* elements of one page */
        uint64_t regions_max;
        uint64_t memory_limit;    /* bytes of all worker-owned regions */
        uint64_t idempotency_max; /* remembered Idempotency-Keys */
};

/* engine_connect and engine_peers_page, or a test's fakes. Any thread; must outlive the peers. */
struct http_connector {
        int (*connect)(void *context, const struct engine_connect *connect);
        ssize_t (*peers_page)(void *context, uint64_t *cursor, struct engine_peer_view *page, size_t max);
        void *context;
};

/* The secrets themselves, not paths. Copied. */
struct http_secrets {
        const char *token, *peer_token, *metrics_token; /* NULL = not required */
        const char *tls_cert, *tls_key;                 /* PEM; NULL = no TLS. Unix sockets never use TLS */
        const char *tls_client_ca; /* PEM: the CAs of client certificates; NULL = clients need no certificate */
};

/* The endpoints, which are handed down to what serves them. */
struct http_routes {
        const struct http_route *rows;
        size_t n;
};

struct http_config {
        struct http_routes routes; /* http_routes, or a test's */
        const char *const *listen; /* "HOST:PORT" (port 0 = any), "unix:/path", "systemd:FD"; at least one */
        size_t n_listen;
        const char *advertise;     /* host in links and metadata; NULL = the bind address */
        const char *advertise_url; /* base URL in links and metadata (a proxy's); NULL = made of host and listener */
        const char *const *allow_host;
        size_t n_allow_host;
        struct http_secrets secrets;
        const char *const *allow_origin;
        size_t n_allow_origin;
        unsigned threads; /* HTTP threads; 0 = default */
        uint32_t spin_us; /* how long a thread polls after the last work before it sleeps */

        const char *worker_name, *version, *commit; /* commit NULL = not known */
        uint64_t epoch;
        const struct engine_facts *engine;
        const struct device_source *device_source; /* NULL = this machine's */
        struct operation_store *operations;
        struct http_mover *mover; /* of the content of operations */
        const struct operation_limits *operation_limits;
        struct region_table *regions;
        struct peers *peers;
        struct registry *registry; /* NULL = none */
        struct http_connector connector;
        struct event_log *events;
        uint32_t event_beat_ms; /* interval of keep-alives on idle event streams; 0 = default */
        struct loop *loop;
        struct metrics *metrics;
        struct http_limits limits;
};

/* Binds and serves. What config points to must stay valid until http_server_free. 0 or -errno, logged. */
int http_server_new(const struct http_config *config, struct http_server **ret_server);

/*
 * Replaces the secrets: certificates for new connections, tokens for new requests. Open connections stay; streams of
 * events end where the token has changed. A secret that was set must be set again, and none may be added. 0; -EINVAL:
 * that was violated, or the certificate is not usable; -ENOMEM. Any thread, one at a time.
 */
int http_server_reload(struct http_server *server, const struct http_secrets *secrets);

/* The i-th bound base URL ("http://127.0.0.1:9300", "unix:/path.sock"), in the order of listen; NULL = no more. Takes
 * NULL. */
const char *http_server_url(const struct http_server *server, size_t i);

/* From now on /readyz and all POSTs and PUTs that add work answer 503 draining; running requests and GETs go on. */
void http_server_drain(struct http_server *server);

/* Unlinks its Unix sockets, unless other files have their paths by now, such as a newer worker's sockets. Any thread.
 */
void http_server_unlink(const struct http_server *server);

/* Unlinks, drains, wakes parked requests, waits for running answers, closes all connections, frees. Takes NULL; returns
 * NULL. */
struct http_server *http_server_free(struct http_server *server);

/* ---- the route table, also for the test that holds openapi.yaml against it ---- */

/*
 * The token that a route needs. HTTP_AUTH_KEY: the full one, or the operation's own key. HTTP_AUTH_FULL_OR_KEY: the
 * same, but where the worker has no token, none is needed: the owner and the holder of the key may do different things.
 */
enum http_auth {
        HTTP_AUTH_NONE,
        HTTP_AUTH_PEER,
        HTTP_AUTH_KEY,
        HTTP_AUTH_FULL_OR_KEY,
        HTTP_AUTH_METRICS,
        HTTP_AUTH_FULL
};

struct http_asset;
struct http_request;

/* Query parameters. A route lists those it takes; any other is refused. */
enum http_parameter {
        /* numbers, cursors, texts */
        HTTP_PARAMETER_AFTER,
        HTTP_PARAMETER_AFTER_EVENT,
        HTTP_PARAMETER_IDS,
        HTTP_PARAMETER_LABEL,
        HTTP_PARAMETER_LIMIT,
        HTTP_PARAMETER_OFFSET,
        HTTP_PARAMETER_REGION,
        HTTP_PARAMETER_REVISION,
        HTTP_PARAMETER_TYPE,
        HTTP_PARAMETER_WAIT_MS,
        HTTP_PARAMETER_WIDE_COUNT,
        /* one of a few words */
        HTTP_PARAMETER_DONE = HTTP_PARAMETER_WIDE_COUNT,
        HTTP_PARAMETER_INCLUDE,
        HTTP_PARAMETER_KIND,
        HTTP_PARAMETER_ORDER,
        HTTP_PARAMETER_REGISTRY,
        HTTP_PARAMETER_STATUS,
        HTTP_PARAMETER_WAIT_FOR,
        HTTP_PARAMETER_COUNT
};

enum http_wait_for { HTTP_WAIT_FOR_ALL, HTTP_WAIT_FOR_ANY };

/* "wait_ms"; NULL for a value outside the enum. */
const char *http_parameter_name(int parameter);

struct http_route {
        const char *method;       /* GET (which serves HEAD too), POST, PUT, DELETE */
        const char *path;         /* "/v1/operations/{id}/metadata" */
        const char *operation_id; /* of openapi.yaml; the handler's name in camel case */
        enum http_auth auth;
        enum { HTTP_BODY_NONE, HTTP_BODY_JSON, HTTP_BODY_OPTIONAL_JSON, HTTP_BODY_STREAM } body;
        void (*handler)(struct http_request *request);
        unsigned parameters;            /* 1u << HTTP_PARAMETER_*, ored */
        bool while_draining;            /* allowed while draining: a POST or PUT that starts nothing */
        const struct http_asset *asset; /* a file that is the answer; NULL = none */
        /* HTTP_BODY_STREAM: takes the next bytes of the body. Connection's thread. */
        void (*take)(struct http_request *request, const char *data, size_t size);
};

extern const struct http_route http_routes[];
extern const size_t http_routes_count;

#endif
