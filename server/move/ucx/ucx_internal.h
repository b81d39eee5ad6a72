/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_UCX_INTERNAL_H
#define MOVE_UCX_INTERNAL_H

#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>
#include <ucs/async/async_fwd.h>
#include <ucs/config/global_opts.h>
#include <ucs/config/types.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <uthash.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/util.h"
#include "message/staging.h"
#include "move/ucx.h"

/* Sizes and times of the UCX transport. Chosen by measurement where tests/bench/NOTES.md says so. */

enum {
        UCX_AM_ID = 17, /* of every active message; its type is in the header */
        UCX_CHUNK_DEFAULT = 4 << 20,
        UCX_RENDEZVOUS_US = 1400000,  /* longest planned rendezvous; the engine's grace time is 2 s */
        UCX_GATHER_BELOW = 256 << 10, /* shorter runs of memory share a request … */
        UCX_GATHER_SIZE = 2 << 20,    /* … of at most so many bytes */
        /* Over TCP these travel in fragments, inside messages. A fragment fits into UCX's buffers with all headers. */
        UCX_FRAGMENT_SIZE = 60 << 10,
        UCX_FRAGMENTS_BELOW = 512 << 10, /* payloads up to this size also travel in fragments */
        UCX_LONG_RTT_US = 20000,         /* from this round trip on all payloads travel in fragments … */
        UCX_LONG_RATE = 3200,            /* … and the window holds so many bytes for each us of it: 25 Gbit/s */
        UCX_FRAGMENT_PIECES = 15,        /* a message of more pieces is packed first */
        UCX_FRAGMENTS_BYTES = 4 << 20,   /* bytes of fragments handed to UCX for one link */
        /*
         * TCP receives into a buffer of this size (TCP_RX_SEG_SIZE). A PUT must be longer, so that it never lies in the
         * buffer whole.
         */
        UCX_PUT_ABOVE = 64 << 10,
        UCX_DRAIN_ROUNDS = 64,      /* rounds of progress after a forced close */
        UCX_CLOSE_MS = 1000,        /* time for forced closes when the engine stops */
        UCX_LANES_MAX = 32,         /* names of transports in the facts */
        UCX_MEMLOCK_MIN = 1 << 20,  /* an RDMA device does not start with less locked memory */
        UCX_PROBE_IDLE_S = 1,       /* silence before the kernel sends a probe */
        UCX_SILENT_MS = 4400,       /* a host that owes an answer for so long is down */
        UCX_WATCH_US = 250000,      /* interval of checks of the sockets; … */
        UCX_WATCH_SOON_US = 25000,  /* … while the round trip of a new link is not known, this, … */
        UCX_WATCH_NEW_US = 1000000, /* … for so long; … */
        UCX_WATCH_REST = 100,       /* … but at least so many times the duration of a check */
        UCX_WATCH_QUIET = 4,        /* checks after the last message */
        UCX_LOG_BURST = 20,         /* lines of UCX's log a second */
};

/*
 * Only the thread that holds the engine's progress lock may use these declarations, unless a function says otherwise.
 * UCX runs callbacks inside ucp_worker_progress, on the same thread. No callback makes a UCX call that sends, posts,
 * refuses or closes: queue.c and close.c do that afterwards.
 *
 * A file calls only the files above it in this header, except through callbacks that it is handed.
 */

struct ucx_link;
struct ucx_message;
struct ucx_host;

struct ucx_address {
        char interface[IF_NAMESIZE]; /* "" = the address was not named by its interface */
        uint16_t port;
        struct sockaddr_storage address;
        socklen_t length;
        bool loopback, wildcard;
};

struct ucx_address_wait;

struct ucx {
        struct transport base;
        /* UCX's own objects, and what was found out when they were made. Fixed once the transport is open. */
        ucp_context_h context;
        ucp_worker_h worker; /* NULL after shut_down, and before a late address has come */
        ucp_listener_h listener;
        struct ucx_facts facts;
        char *lanes[UCX_LANES_MAX]; /* facts.transports */
        /* Sizes of requests (pace.c), and what UCX does with memory. */
        uint32_t chunk_first;                  /* bytes; of a new link; grows from here … */
        uint32_t chunk_max;                    /* … at most to this */
        uint32_t window;                       /* chunks */
        bool cached;                           /* UCX caches registrations (quirks.c) */
        bool gpudirect;                        /* UCX gets GPU memory (gpudirect.c) */
        struct ucx_address listen;             /* loopback: so is every peer */
        struct ucx_address_wait *address_wait; /* NULL = the address was there at the start */
        bool stopping;
        /* What the next round has to do. */
        bool in_progress;             /* inside ucp_worker_progress, where nothing may be sent */
        struct message *refused;      /* utlist; rendezvous to refuse after it */
        struct ucx_link *ready;       /* utlist; links with something to do in the next flush */
        struct ucx_link *failing;     /* utlist; links that have failed and not ended */
        bool sweep_wanted;            /* a link in failing may have made progress */
        struct ucx_link *by_endpoint; /* uthash; usable links */
        /* watch.c */
        struct ucx_host *hosts; /* uthash; of the usable links, at the last check */
        uint64_t watch_us;      /* time of the next check; 0 = now, after a rest; UINT64_MAX = it rests */
        unsigned watch_quiet;   /* checks since a message moved */
        bool moved;             /* a message did since the last check */
        struct staging *staging;
};

struct ucx_link {
        struct link base;
        struct sockaddr_storage peer; /* AF_UNSPEC = not known */
        ucp_ep_h endpoint;            /* NULL = none was made, or UCX closes it or has closed it */
        /* The end of the link (close.c). */
        void *close_request; /* of ucp_ep_close_nbx, which runs; NULL = it was not called, or has completed */
        /* Messages, by where they are (queue.c, message.c). */
        struct message *under_way;  /* utlist; messages that UCX works on */
        struct message *deferred;   /* utlist; sends that wait until ucp_worker_progress returns */
        struct message *fragments;  /* utlist; sends that wait for room in fragments_sending, or for the link */
        uint64_t fragments_sending; /* bytes of fragments that UCX works on */
        struct message *receives;   /* utlist; rendezvous that have arrived and wait to be posted */
        uint64_t receiving;         /* bytes of posted receives */
        /* pace.c */
        uint32_t chunk;                           /* bytes; size of a request */
        bool room;                                /* the chunk has grown, or the link is up: handlers->room is owed */
        uint64_t rtt_us;                          /* the round trip to its host; 0 = not known */
        uint64_t bulk_done_us;                    /* end of the latest rendezvous */
        UT_hash_handle hh;                        /* by_endpoint */
        struct ucx_link *ready_prev, *ready_next; /* of ucx->ready; ready_prev NULL = not in it */
        struct ucx_link *failing_prev, *failing_next;
};

struct ucx_message {
        struct message base;
        uint8_t header[WIRE_SIZE]; /* of a send, encoded; UCX reads it until the send is done */
        bool fragment;             /* counts in fragments_sending; ordered with link->fragments */
        void *descriptor;          /* of a rendezvous that came: UCX's; NULL = a send */
        uint64_t posted_us;        /* of a rendezvous: when UCX got it */
        struct iovec *pieces;      /* owned; NULL = contiguous */
        struct iovec piece;        /* the only one, where UCX must see a list */
        void *packed;              /* owned; a copy of the payload, or NULL */
        struct memory *device;     /* the GPU memory that holds the stage's bytes; NULL = host memory */
};

static inline bool ucx_link_is_staging(const struct ucx_link *link)
{
        return link->base.loading || link->base.storing;
}

static inline bool ucx_message_is_rendezvous(const struct ucx_message *m)
{
        return m->base.length > WIRE_INLINE_MAX && !m->base.force_inline;
}

static inline struct ucx *ucx_of(struct transport *transport)
{
        return FERRY_CONTAINER_OF(transport, struct ucx, base);
}

static inline struct ucx_link *ucx_link_of(struct link *link)
{
        return FERRY_CONTAINER_OF(link, struct ucx_link, base);
}

static inline struct ucx *ucx_of_link(const struct ucx_link *link)
{
        return ucx_of(link->base.transport);
}

static inline struct ucx_message *ucx_message_of(struct message *message)
{
        return FERRY_CONTAINER_OF(message, struct ucx_message, base);
}

/* ---- library.c: UCX's library, its functions and its version. Any thread ---- */

/* Every function of UCX that Ferry calls: the program is not linked to UCX. */
#define UCP_FUNCTIONS(X)                                                                                               \
        X(am_data_release)                                                                                             \
        X(am_recv_data_nbx)                                                                                            \
        X(am_send_nbx)                                                                                                 \
        X(cleanup)                                                                                                     \
        X(config_modify)                                                                                               \
        X(config_read)                                                                                                 \
        X(config_release)                                                                                              \
        X(conn_request_query)                                                                                          \
        X(context_print_info)                                                                                          \
        X(context_query)                                                                                               \
        X(ep_close_nbx)                                                                                                \
        X(ep_create)                                                                                                   \
        X(ep_print_info)                                                                                               \
        X(get_version)                                                                                                 \
        X(init_version)                                                                                                \
        X(listener_create)                                                                                             \
        X(listener_destroy)                                                                                            \
        X(listener_query)                                                                                              \
        X(listener_reject)                                                                                             \
        X(mem_map)                                                                                                     \
        X(mem_unmap)                                                                                                   \
        X(request_free)                                                                                                \
        X(worker_arm)                                                                                                  \
        X(worker_create)                                                                                               \
        X(worker_destroy)                                                                                              \
        X(worker_get_efd)                                                                                              \
        X(worker_progress)                                                                                             \
        X(worker_set_am_recv_handler)                                                                                  \
        X(worker_signal)
#define UCS_FUNCTIONS(X)                                                                                               \
        X(debug_disable_signal)                                                                                        \
        X(global_opts_set_value)                                                                                       \
        X(log_push_handler)                                                                                            \
        X(status_string)
#define UCP_FIELD(name) __typeof__(ucp_##name) *name;
#define UCS_FIELD(name) __typeof__(ucs_##name) *name;

/* Filled in once ucx_library_load has returned 0. */
extern struct ucp_functions {
        UCP_FUNCTIONS(UCP_FIELD)
} ucp;
extern struct ucs_functions {
        UCS_FUNCTIONS(UCS_FIELD)
} ucs;

/*
 * Loads UCX unless it is loaded, and routes its log through ours. 0; -ENOTSUP with a logged reason: it is not
 * installed, too old, of the parent before a fork(), or would abort. detail: TRANSPORT_REASON_SIZE bytes for the
 * reason, or NULL.
 */
int ucx_library_load(char *detail);
/* A function of the loaded UCX by its name, or NULL. */
void *ucx_library_find(const char *name);
int ucx_errno(ucs_status_t status);

/* Whether text begins with one of the prefixes, of which NULL is the last. */
static inline bool ucx_begins_with(const char *text, const char *const *prefixes)
{
        while (*prefixes && strncmp(text, *prefixes, strlen(*prefixes)) != 0)
                prefixes++;
        return *prefixes;
}

/* ---- redirect.c: functions that UCX gets from us ---- */

struct ucx_redirect {
        const char *name;
        void *instead;
};

/* Has UCX's libraries call these. To be called again whenever UCX may have loaded a further library of its own. */
void ucx_redirect(const struct ucx_redirect *list, size_t n);

/* ---- rdma.c: RDMA devices and locked memory ---- */

bool ucx_has_rdma(void);
/* Appends ",mlx5_0:1" for each active port to list, unless list is NULL. Whether a port is active. */
bool ucx_rdma_ports(char *list, size_t size);
/* The limit of locked memory in bytes; UINT64_MAX = none, or this process may exceed it. */
uint64_t ucx_memlock_limit(void);
/* How to raise the limit. */
#define UCX_MEMLOCK_ADVICE "ulimit -l unlimited, LimitMEMLOCK=infinity, --ulimit memlock=-1"
/* Warns if the limit is too low for RDMA. Whether RDMA can start at all. */
bool ucx_check_memlock(void);
/* Whether a lane's name is one of RDMA: "rc_verbs", "dc_mlx5", …. */
bool ucx_is_rdma(const char *lane);
/* Whether UCX has found a lane that is one of those. */
bool ucx_has_lane(const struct ucx *ucx, bool (*is)(const char *lane));
/* Why the opened UCX uses no RDMA, a text for users; NULL = it uses RDMA. */
const char *ucx_no_rdma(const struct ucx *ucx, const struct ucx_config *config);

/* ---- quirks.c: what depends on UCX's version and its faults; says which version ends what ---- */

/* To be called once UCX is loaded. Once a process; any thread. */
void ucx_quirks_setup(void);
/* To be called whenever UCX may have loaded a further library of its own. */
void ucx_quirks_redirect(void);
/*
 * They take the place of UCX's functions ucs_netlink_…; option is an int in 1.20.0, and a pointer where only libucs
 * calls it.
 */
int ucx_route_exists(int if_index, const struct sockaddr *remote, uintptr_t option);
int ucx_is_best_route(int if_index, const struct sockaddr *remote);
/* They take the place of ucs_async_set_event_handler, ucs_async_modify_handler, and a handler. Any thread. */
ucs_status_t ucx_watch_events(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events, ucs_async_event_cb_t handler,
                              void *context, ucs_async_context_t *async);
ucs_status_t ucx_watch_other_events(int fd, ucs_event_set_types_t events);
void ucx_pass_event(int fd, ucs_event_set_types_t events, void *context);
bool ucx_put_is_safe(void);
bool ucx_takes_one_interface(void);
bool ucx_lacks_ipv6_loopback(void);
bool ucx_chooses_source(void);
bool ucx_lacks_gpu_memory(void);
/* The value of UCX_TLS. */
const char *ucx_default_transports(void);
/* Has an endpoint connect from the address. */
void ucx_connect_from(ucp_ep_params_t *params, const struct ucx_address *local);
/* Has a request use a registration of its memory. */
void ucx_pass_registration(ucp_request_param_t *param, void *handle);

struct ucx_setting {
        const char *key, *value; /* NULL = UCX's default */
        bool force;              /* overrides UCX_<KEY> in the environment */
};
void ucx_settings_apply(ucp_config_t *config, const struct ucx_setting *settings, size_t n);
void ucx_quirks_configure(const struct ucx *ucx, const struct ucx_config *config, const char *interfaces,
                          ucp_config_t *ucp_config);
/* Calls ucp_init with the settings that it needs. Fills in ucx->context and ucx->cached. */
ucs_status_t ucx_quirks_init(struct ucx *ucx, const ucp_params_t *params, ucp_config_t *config);

/* ---- address.c: where to listen ---- */

/* 0 or -errno with a logged reason. */
int ucx_address_parse(const char *data_listen, struct ucx_address *ret_address);
/*
 * Checks that the address can be listened on: looks up the address of an interface, and tries to bind. 0; -EAGAIN: it
 * may come up later, *ret_missing says what is missing; other -errno with a logged reason.
 */
int ucx_address_check(struct ucx_address *address, const char **ret_missing);
/* Whether two addresses name one host; a may be NULL. */
bool ucx_address_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* Whether UCX takes an address of an interface for TCP. */
bool ucx_address_is_for_lanes(const struct ifaddrs *address);
/* "1.2.3.4:5" or "[::1]:5". 0 or -errno. */
int ucx_address_format(const struct sockaddr_storage *address, char *text, size_t size);

/* ---- interfaces.c: which network interfaces UCX may use ---- */

/*
 * The value of UCX_NET_DEVICES; the caller frees *ret_list, NULL = UCX's default. 0; -EADDRNOTAVAIL, logged: peers
 * would not find UCX's lanes at that address; other -errno.
 */
int ucx_interfaces(const struct ucx_config *config, const struct ucx_address *address, char **ret_list);
/* Checks that UCX can use all interfaces in list together. 0; -EINVAL, logged; -ENOMEM. */
int ucx_interfaces_check(const char *list);

/* ---- context.c: settings, ucp_init, the worker ---- */

/*
 * The names of the UCX_* variables in the environment that count, "UCX_TLS, UCX_NET_DEVICES", or NULL. The caller frees
 * them.
 */
char *ucx_environment(const struct ucx_config *config);
/* Logs that a step of the start failed, and writes config->detail. Returns -errno. */
int ucx_failed(const struct ucx_config *config, const char *step, ucs_status_t status);
int ucx_context_open(struct ucx *ucx, const struct ucx_config *config);
int ucx_worker_open(struct ucx *ucx, const struct ucx_config *config, ucp_am_recv_callback_t arrived);
int ucx_register_memory(struct transport *transport, struct memory *memory);
void ucx_deregister_memory(struct transport *transport, struct memory *memory);
/* Fills in the transports of ucx->facts. */
void ucx_context_facts(struct ucx *ucx);

/* ---- link.c: an endpoint to a peer ---- */

/* A usable link without an endpoint. NULL: out of memory. */
struct ucx_link *ucx_link_new(struct ucx *ucx, bool accepted);
/* Makes the endpoint, with error handling added to params. */
ucs_status_t ucx_link_connect(struct ucx_link *link, ucp_ep_params_t *params);
/* The usable link of an endpoint, or NULL. */
struct ucx_link *ucx_link_find(struct ucx *ucx, ucp_ep_h endpoint);
/* Adds the link to those that ucx_queue_flush serves. */
void ucx_link_ready(struct ucx_link *link);
/* Marks the link as failed; close.c does the rest. Safe inside UCX callbacks. The first reason counts. */
void ucx_link_fail(struct link *link, int error, const char *detail);
/* Marks the link as failed with a status of UCX. */
void ucx_link_fail_status(struct ucx_link *link, ucs_status_t status);
/* The UCX transport that carries bulk. */
const char *ucx_carrier(struct link *link);
/*
 * Whether the carrier is TCP or not known yet. Then one receive at a time is posted, and short runs travel in
 * fragments.
 */
bool ucx_link_is_tcp(struct ucx_link *link);

/* ---- watch.c: detects dead hosts ---- */

/* After a message or a new link: has the sockets checked for a while. Safe inside UCX callbacks. */
void ucx_watch_wake(struct ucx *ucx);
/* Checks the sockets if it is time (ucx->watch_us); fails the links to dead hosts. Not inside UCX callbacks. */
void ucx_watch_run(struct ucx *ucx);
void ucx_watch_end(struct ucx *ucx);

/* ---- gpudirect.c: GPU memory that is passed to UCX in place ---- */

/* Fills in ucx->facts.device and ucx->gpudirect. To be called once the context is open. */
void ucx_gpudirect_open(struct ucx *ucx, const struct ucx_config *config);
/*
 * How many bytes from offset, at most limit, UCX gets in place: one run of registered GPU memory, on a link that an
 * RDMA card carries. 0 = none, the payload is staged.
 */
uint64_t ucx_gpudirect_run(struct ucx_link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                           uint8_t **ret_address, struct memory **ret_memory);

/* ---- pace.c: the size of one request ---- */

uint64_t ucx_request_size(struct link *link, const struct stream *own, uint64_t offset, uint64_t limit);
uint64_t ucx_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inline);
uint64_t ucx_window(struct link *link);
/* To be called after each rendezvous: adapts the chunk. length in bytes; posted_us: when UCX got it. */
void ucx_pace_bulk(struct ucx_link *link, uint64_t length, uint64_t posted_us);

/* ---- message.c: passes messages to UCX ---- */

/*
 * Gives a payload in device memory a stage: in host memory, or that memory itself if UCX can get it in place. false:
 * out of memory.
 */
bool ucx_message_place(struct ucx_message *message);
/* Ends a message that UCX has got, or stores the staged bytes of a receive before. Safe inside UCX callbacks. */
void ucx_message_finished(struct ucx_message *message, ucs_status_t status);
/* Pass the message, which must have begun, to UCX. Not inside UCX callbacks. */
void ucx_message_send_now(struct ucx_message *message);
void ucx_message_receive_now(struct ucx_message *message);

/* ---- queue.c: messages that wait for UCX ---- */

void ucx_send(struct link *link, struct message *message);
void ucx_receive(struct link *link, struct message *message, struct payload *payload);
void ucx_cancel(struct link *link, uint64_t transfer);
/* Sends, posts and refuses what waited. Not inside UCX callbacks. Whether anything waited. */
bool ucx_queue_flush(struct ucx *ucx);
/* The link has failed: ends waiting sends as lost, and refuses waiting receives. */
void ucx_queue_drop(struct ucx_link *link);
/* Ends or passes on what tasks of staging have copied. Whether there was anything. */
bool ucx_collect_copies(struct ucx *ucx);
/* Calls ucp_worker_progress; sends are deferred meanwhile. The only caller of it. */
unsigned ucx_worker_progress(struct ucx *ucx);
/* UCX's callback for every active message. */
ucs_status_t ucx_message_arrived(void *ucx, const void *header, size_t header_length, void *data, size_t length,
                                 const ucp_am_recv_param_t *param);

/* ---- address_wait.c: waits for the address to come up ---- */

/* Waits for ucx->listen, then calls open with a copy of config. 0 or -errno with a logged reason. */
int ucx_address_wait_new(struct ucx *ucx, const struct ucx_config *config, const char *missing,
                         int (*open)(struct ucx *ucx, const struct ucx_config *config));
void ucx_address_wait_free(struct ucx *ucx);
/* Checks the address if netlink has reported a change. Whether this call has opened the transport. */
bool ucx_address_wait_check(struct ucx *ucx);
/* Functions of struct transport_ops: register memory now or, while the transport waits, once it opens. */
int ucx_address_wait_register(struct transport *transport, struct memory *memory);
void ucx_address_wait_deregister(struct transport *transport, struct memory *memory);

/* ---- listener.c: links that peers open ---- */

int ucx_listener_open(struct ucx *ucx, const struct ucx_config *config);
/* Destroys the listener and UCX's worker, where they are. */
void ucx_listener_close(struct ucx *ucx);

/* ---- close.c: the end of links ---- */

/* Closes failed links, and ends closed ones. Not inside UCX callbacks. Whether anything was done. */
bool ucx_sweep(struct ucx *ucx);
void ucx_shut_down(struct transport *transport, uint64_t deadline_us);

#endif
