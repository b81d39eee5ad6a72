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
struct operation_store;
struct peers;
struct region_table;
struct registry;

/* The control plane: libmicrohttpd, routes, handlers. */

struct http_server;

/* What people see at /v1/limits, beside the limits of the operations. */
struct http_limits {
        uint64_t body_max;        /* bytes of a JSON body */
        uint64_t bodies_max;      /* of all of them together, but for short ones */
        uint64_t batch_max;       /* operations of one POST */
        uint64_t ids_max;         /* operations of one GET */
        uint64_t descriptors_max; /* of one operation */
        uint64_t wait_ms_max;     /* of one parked request */
        uint64_t waiters_max;     /* parked at the same time */
        uint64_t links_max;       /* that other workers have opened */
        uint64_t connections_max;
        uint64_t page_max; /* elements of one page */
        uint64_t regions_max;
        uint64_t memory_limit;    /* bytes of all worker-owned regions */
        uint64_t idempotency_max; /* remembered Idempotency-Keys */
};

/* The engine's engine_connect and engine_peers_page; a test passes fakes. Any thread; it outlives the peers. */
struct http_connector {
        int (*connect)(void *context, const struct engine_connect *connect);
        ssize_t (*peers_page)(void *context, uint64_t *cursor, struct engine_peer_view *page, size_t max);
        void *context;
};

/* Content, not paths; copied. */
struct http_secrets {
        const char *token, *peer_token, *metrics_token; /* NULL = none is asked for */
        const char *tls_cert, *tls_key;                 /* PEM; NULL = no TLS. Unix sockets have none in any case */
        const char *tls_client_ca; /* PEM: clients need a certificate of one of these; NULL = they need none */
};

struct http_config {
        const char *const *listen; /* "HOST:PORT" (port 0 = any), "unix:/path", "systemd:FD"; at least one */
        size_t n_listen;
        const char *advertise; /* host that links and metadata name; NULL = the bind address */
        const char
                *advertise_url; /* base URL that they name, a proxy's; NULL = made of the host and a listener's port */
        const char *const *allow_host;
        size_t n_allow_host;
        struct http_secrets secrets;
        const char *const *allow_origin;
        size_t n_allow_origin;
        unsigned threads; /* of libmicrohttpd's pool; 0 = default */
        uint32_t spin_us; /* how long one of them looks for more after it did something, before it sleeps */

        const char *worker_name, *version;
        uint64_t epoch;
        const struct engine_facts *engine;
        const struct device_source *device_source; /* NULL = this machine's */
        struct operation_store *operations;
        const struct operation_limits *operation_limits;
        struct region_table *regions;
        struct peers *peers;
        struct registry *registry; /* NULL = none */
        struct http_connector connector;
        struct event_log *events;
        uint32_t event_beat_ms; /* between comments on a stream of events that has nothing else to say; 0 = default */
        struct loop *loop;
        struct metrics *metrics;
        struct http_limits limits;
};

/* Binds and serves. config's pointers stay valid until http_server_free. 0, -EADDRINUSE, -EACCES, other -errno; logged.
 */
int http_server_new(const struct http_config *config, struct http_server **ret_server);

/*
 * Replaces the secrets: for new connections the certificates, for new requests the tokens. Running connections live on.
 * TLS and tokens cannot be switched on or off. 0; -EINVAL: the certificate is not usable, or something is there that
 * was not, or the reverse; -ENOMEM. Any thread, one at a time.
 */
int http_server_reload(struct http_server *server, const struct http_secrets *secrets);

/* Bound base URLs ("http://127.0.0.1:9300", "unix:/path.sock"), in the order of listen. */
size_t http_server_urls(const struct http_server *server, const char *const **ret_urls);

/* From now on: /readyz and every POST and PUT answer 503 draining; running requests and GETs go on. */
void http_server_drain(struct http_server *server);

/* Wakes parked requests, stops listening, waits for handlers, frees. Takes NULL; returns NULL. */
struct http_server *http_server_free(struct http_server *server);

/* ---- the route table, also for the test that holds openapi.yaml against it ---- */

/* HTTP_AUTH_KEY: the operation's own key will do as well. */
enum http_auth { HTTP_AUTH_NONE, HTTP_AUTH_PEER, HTTP_AUTH_KEY, HTTP_AUTH_METRICS, HTTP_AUTH_FULL };

struct http_request;

/* Query parameters. A route lists those it takes; any other is refused. */
enum http_parameter {
        /* those that are numbers, cursors or texts */
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
        /* those that are one of a few words */
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
        const char *operation_id; /* of openapi.yaml; the stem of the handler's file in camel case */
        enum http_auth auth;      /* the least token that may call it */
        enum { HTTP_BODY_NONE, HTTP_BODY_JSON, HTTP_BODY_OPTIONAL_JSON, HTTP_BODY_STREAM } body;
        void (*handler)(struct http_request *request);
        unsigned parameters; /* 1u << HTTP_PARAMETER_*, ored */
        const char *kept;    /* a member of the JSON body that stays text, for a decoder of its own; NULL = none */
        bool while_draining; /* a POST or PUT that ends what runs, and starts nothing */
        /* The next octets of a stream, in order; on the connection's thread. */
        void (*take)(struct http_request *request, const char *data, size_t size);
};

extern const struct http_route http_routes[];
extern const size_t http_routes_count;

#endif
