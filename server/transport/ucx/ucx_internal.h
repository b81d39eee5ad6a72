/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UCX_INTERNAL_H
#define UCX_INTERNAL_H

#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>

#include <uthash.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/util.h"
#include "transport/staging.h"
#include "transport/ucx.h"
#include "ucx_limits.h"

/*
 * Everything here belongs to the thread that holds the engine's progress lock, unless a function says otherwise. UCX
 * calls back inside ucp_worker_progress, on the same thread. No UCX call that sends, posts, refuses or closes is made
 * from inside such a callback: queue.c and close.c do it afterwards.
 *
 * Each file calls those above it in this header alone, but for callbacks that are handed down.
 */

struct ucx_link;
struct ucx_message;
struct ucx_host;

struct ucx_address {
        char interface[IF_NAMESIZE]; /* "" = it was not named by one */
        struct sockaddr_storage address;
        socklen_t length;
        bool loopback, wildcard;
};

struct ucx_late;

struct ucx {
        struct transport base;
        ucp_context_h context;
        ucp_worker_h worker; /* NULL after shut_down, and before a late address has come */
        ucp_listener_h listener;
        struct ucx_facts facts;
        char *lanes[UCX_LANES_MAX]; /* facts.transports */
        uint32_t chunk_first;       /* of a new link; the chunk of a link grows from it … */
        uint32_t chunk_max;         /* … to this at most */
        uint32_t window;            /* chunks */
        bool put;                   /* TCP moves bulk by PUT */
        bool cached;                /* UCX caches what it registers (context.c) */
        bool direct;                /* it gets memory of GPUs (direct.c) */
        struct ucx_address listen;  /* loopback: so is every peer */
        struct ucx_late *late;      /* it had to wait for its address; NULL = not at all */
        bool stopping;
        bool in_progress;             /* inside ucp_worker_progress, where nothing may be sent */
        struct message *deferred;     /* utlist; what must wait until that is over, in order */
        struct ucx_link *ready;       /* utlist; links with something to do in the next flush */
        struct ucx_link *failing;     /* utlist; links that have failed and not ended */
        bool sweep_wanted;            /* one of them may have come further */
        struct ucx_link *by_endpoint; /* uthash; usable links */
        /* watch.c */
        struct ucx_host *hosts; /* uthash; of the usable links, at the last look */
        uint64_t watch_us;      /* when it looks next */
        unsigned watch_quiet;   /* looks since something moved */
        bool watch_asleep;
        bool moved; /* something did since the last look */
        struct staging *staging;
};

struct ucx_link {
        struct link base;
        struct sockaddr_storage peer; /* AF_UNSPEC = not known */
        ucp_ep_h endpoint;            /* NULL = none was made, or UCX has closed it */
        bool opened;                  /* UCX got a message for it that the peer answers */
        bool closing;                 /* ucp_ep_close_nbx was called */
        bool closed;                  /* … and is over */
        void *close_request;          /* of ucp_ep_close_nbx while it runs */
        struct message *under_way;    /* utlist; messages that UCX works on */
        struct message *parts;        /* utlist; sends that wait for room in parts_sending, or for the link */
        uint64_t parts_sending;       /* bytes of those that UCX works on */
        struct message *receives;     /* utlist; rendezvous that have arrived and wait to be posted */
        uint64_t receiving;           /* bytes of those that are posted */
        struct message *loading;      /* utlist; sends off the host that are brought here; staged.c */
        struct message *storing;      /* utlist; receives off the host that are brought there */
        bool wants_stage;             /* a message waits for room in the staging */
        bool is_ready;                /* in ucx->ready */
        /* pace.c */
        uint32_t chunk;    /* bytes of one request now */
        bool room;         /* the chunk has grown, or the link is up: handlers->room is owed */
        uint64_t rtt_us;   /* the shortest round trip so far; 0 = not known */
        uint64_t probe_us; /* when the request was sent whose answer is awaited; 0 = none */
        uint64_t probe_transfer;
        uint32_t probe_seq;
        uint64_t bulk_done_us; /* end of the latest rendezvous */
        UT_hash_handle hh;     /* by_endpoint */
        struct ucx_link *ready_prev, *ready_next;
        struct ucx_link *failing_prev, *failing_next;
};

enum ucx_act { UCX_SEND, UCX_REFUSE };

struct ucx_message {
        struct message base;
        uint8_t header[WIRE_SIZE]; /* of a send, encoded; UCX reads it until the send is done */
        enum ucx_act act;          /* while it is deferred */
        bool receive;
        bool part;             /* it goes, or went, through link->parts */
        void *descriptor;      /* of a receive: UCX's */
        uint64_t posted_us;    /* of a rendezvous: when UCX got it */
        struct iovec *pieces;  /* owned; NULL = contiguous */
        struct iovec piece;    /* the only one, where UCX must see a list */
        void *packed;          /* owned; a copy of the payload, or NULL */
        struct memory *device; /* a GPU's, in which the stage's bytes lie; NULL = they are in host memory */
};

static inline bool ucx_link_is_staging(const struct ucx_link *link)
{
        return link->loading || link->storing;
}

static inline bool ucx_message_is_rendezvous(const struct ucx_message *m)
{
        return m->base.length > WIRE_INLINE_MAX && !m->base.inside;
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

/* ---- version.c: what this UCX is. Any thread ---- */

/* Whether the UCX that is loaded is older than 1.<minor>. */
bool ucx_is_before(unsigned minor);
/* 0, or -ENOTSUP with a logged sentence for a version that is known not to work. */
int ucx_check_version(void);
int ucx_errno(ucs_status_t status);
/* Logs that a step of the start failed; returns its -errno. */
int ucx_failed(const char *step, ucs_status_t status);

/* ---- address.c: where to listen ---- */

/* 0 or -errno with a logged reason. */
int ucx_address_parse(const char *data_listen, struct ucx_address *ret_address);
/*
 * Whether it can be listened on now: looks up the address of an interface, and tries to bind. 0; -EAGAIN when it may
 * come later, *ret_missing says what is missing; other -errno with a logged reason.
 */
int ucx_address_look(struct ucx_address *address, const char **ret_missing);
/* Whether two addresses name one host; a may be NULL. */
bool ucx_address_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* Whether UCX takes an address of an interface for TCP. */
bool ucx_address_is_for_lanes(const struct ifaddrs *address);
/* "1.2.3.4:5" or "[::1]:5". 0 or -errno. */
int ucx_address_format(const struct sockaddr_storage *address, char *text, size_t size);

/* ---- rdma.c: RDMA devices and locked memory ---- */

bool ucx_has_rdma(void);
/* Appends ",mlx5_0:1" for each active port to list. Whether there is one. */
bool ucx_rdma_ports(char *list, size_t size);
/* The limit of locked memory; UINT64_MAX = none, also for those who may exceed it. */
uint64_t ucx_memlock_limit(void);
/* How to raise it. */
#define UCX_MEMLOCK_ADVICE "ulimit -l unlimited, LimitMEMLOCK=infinity, --ulimit memlock=-1"
/* Warns of a limit that is too small for RDMA. Whether RDMA can start at all. */
bool ucx_check_memlock(void);
/* Whether a lane's name is one of RDMA: "rc_verbs", "dc_mlx5", …. */
bool ucx_is_rdma(const char *lane);
/* Why UCX, as it was opened, has no RDMA here, for people; NULL = it has. */
const char *ucx_no_rdma(const struct ucx *ucx, const struct ucx_config *config);

/* ---- interfaces.c: which network interfaces UCX may use ---- */

/*
 * For UCX_NET_DEVICES; *ret_list is to be freed, NULL = leave it to UCX. 0; -EADDRNOTAVAIL with a logged sentence when
 * peers would not find UCX's lanes at that address; other -errno.
 */
int ucx_interfaces(const struct ucx_config *config, const struct ucx_address *address, char **ret_list);
/* Whether UCX can use what --interfaces names together: 0, or -EINVAL with a logged sentence. */
int ucx_interfaces_check(const char *list);

/* ---- context.c: settings, ucp_init, the worker ---- */

int ucx_context_open(struct ucx *ucx, const struct ucx_config *config);
int ucx_worker_open(struct ucx *ucx, ucp_am_recv_callback_t arrived);
int ucx_register_memory(struct transport *transport, struct memory *memory);
void ucx_deregister_memory(struct transport *transport, struct memory *memory);
/* Fills in what the facts say of the context. */
void ucx_context_facts(struct ucx *ucx);

/* ---- carrier.c: UCX's name for what carries bulk ---- */

const char *ucx_carrier(struct link *link);
/* Whether it is TCP, or not known yet: one receive at a time is posted, and short runs travel in parts. */
bool ucx_link_is_tcp(struct ucx_link *link);

/* ---- link.c: an endpoint to a peer ---- */

/* A usable link without an endpoint. NULL when memory is short. */
struct ucx_link *ucx_link_new(struct ucx *ucx, bool accepted);
/* Makes the endpoint; params' error handling is filled in. UCS_OK or why not. */
ucs_status_t ucx_link_connect(struct ucx_link *link, ucp_ep_params_t *params);
void ucx_link_free(struct ucx_link *link);
/* The usable link of an endpoint, or NULL. */
struct ucx_link *ucx_link_find(struct ucx *ucx, ucp_ep_h endpoint);
/* Puts the link on the list that queue_flush works off. */
void ucx_link_ready(struct ucx_link *link);
/* Marks the link as failed; close.c does the rest. Safe inside UCX callbacks. The first reason counts. */
void ucx_link_fail(struct ucx_link *link, int error, const char *detail);
/* The same for a reason that UCX gives. */
void ucx_link_broke(struct ucx_link *link, ucs_status_t status);

/* ---- watch.c: hosts that are gone ---- */

/* Something moves, or a link was made: looks at the sockets for a while. Safe inside UCX callbacks. */
void ucx_watch_wake(struct ucx *ucx);
/* Looks, where it is time (ucx->watch_us); fails the links to hosts that are gone. Not inside UCX callbacks. */
void ucx_watch_run(struct ucx *ucx);
void ucx_watch_end(struct ucx *ucx);

/* ---- staging.c: threads and buffers for payloads off the host ---- */

/* 0 or -errno. */
int ucx_staging_new(struct ucx *ucx);
/* Waits for what a device is at work on, and ends the threads. Before UCX's worker goes. */
void ucx_staging_stop(struct ucx *ucx);
/* Whether a message can be staged now; false: the link becomes ready when it is worth another try. */
bool ucx_staging_has_room(struct ucx_link *link, uint64_t length);

/* ---- direct.c: memory of GPUs that UCX gets as it is ---- */

/* What the facts say of devices. Once the network transport is open. */
void ucx_direct_open(struct ucx *ucx, const struct ucx_config *config);
/*
 * How much of [offset, offset + limit) UCX gets as one piece of a GPU's memory: it is registered, and an RDMA card
 * carries the link. 0 = nothing, it is staged.
 */
uint64_t ucx_direct_run(struct ucx_link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                        uint8_t **ret_address, struct memory **ret_memory);

/* ---- pace.c: how much one request asks for ---- */

uint64_t ucx_request_size(struct link *link, const struct stream *own, uint64_t offset, uint64_t limit);
uint64_t ucx_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inside);
uint64_t ucx_window(struct link *link);
/* A header is sent, or has arrived: the round trip is measured. */
void ucx_pace_sent(struct ucx_link *link, const struct wire_header *header);
void ucx_pace_heard(struct ucx_link *link, const struct wire_header *header);
/* A rendezvous has moved: the chunk is made to fit the round trip. */
void ucx_pace_bulk(struct ucx_link *link, uint64_t length, uint64_t posted_us);

/* ---- message.c: what UCX gets ---- */

/* Whether somebody still wants it (begin). */
bool ucx_message_begin(struct ucx_message *message);
/* Runs done and frees it. It is in no list. */
void ucx_message_end(struct ucx_message *message, enum message_result result);
/* Frees it without done. Its link may be gone. */
void ucx_message_drop(struct ucx *ucx, struct ucx_message *message);
/* A payload off the host gets a stage in host memory. false when memory is short. */
bool ucx_message_stage(struct ucx_message *message);
/* A rendezvous off the host gets one where the payload is, if UCX can have it so, else in host memory. The same. */
bool ucx_message_place(struct ucx_message *message);
/* The bytes of such a receive have come: stores them, and ends it. Safe inside UCX callbacks. */
void ucx_message_store(struct ucx_message *message);
/* UCX gets the message, which must have begun. */
void ucx_message_send_now(struct ucx_message *message);
void ucx_message_receive_now(struct ucx_message *message);

/* ---- staged.c: payloads off the host ---- */

/* A send that has not begun; loaded is called when its stage has run. */
void ucx_staged_load(struct ucx_message *message, void (*loaded)(struct message *message));
/* A receive that has not begun, and whose bytes came inside the message: stores them. Safe inside UCX callbacks. */
void ucx_staged_inside(struct ucx_message *message, const void *bytes);
void ucx_staged_cancel(struct ucx_link *link, uint64_t transfer);
/* The link has failed. */
void ucx_staged_drop(struct ucx_link *link);

/* ---- queue.c: what waits before UCX gets it ---- */

void ucx_send(struct link *link, struct message *message);
void ucx_receive(struct link *link, struct message *message, struct payload *payload);
void ucx_cancel(struct link *link, uint64_t transfer);
/* Refuses a rendezvous as soon as that may be. false: memory is short. */
bool ucx_queue_refuse(struct ucx *ucx, void *descriptor);
/* Does what had to wait. Not inside UCX callbacks. Whether there was anything. */
bool ucx_queue_flush(struct ucx *ucx);
/* The link has failed: what waits to be sent is lost, what waits to be received is refused. */
void ucx_queue_drop(struct ucx_link *link);
/* ucp_worker_progress, within which sends are deferred. Every call goes through here. */
unsigned ucx_worker_progress(struct ucx *ucx);

/* ---- arrive.c: UCX's callback for every active message ---- */

ucs_status_t ucx_message_arrived(void *ucx, const void *header, size_t header_length, void *data, size_t length,
                                 const ucp_am_recv_param_t *param);

/* ---- late.c: an address that is not there yet ---- */

/* Waits for ucx->listen. open is called when it is there, with a copy of config. 0 or -errno with a logged reason. */
int ucx_late_new(struct ucx *ucx, const struct ucx_config *config, const char *missing,
                 int (*open)(struct ucx *ucx, const struct ucx_config *config));
void ucx_late_free(struct ucx *ucx);
/* Looks, when something has changed. Whether it has opened. */
bool ucx_late_look(struct ucx *ucx);
int ucx_late_register(struct transport *transport, struct memory *memory);
void ucx_late_deregister(struct transport *transport, struct memory *memory);

/* ---- listener.c: links that peers open ---- */

int ucx_listener_open(struct ucx *ucx);

/* ---- close.c: the end of links ---- */

/* Closes what has failed, and ends what is closed. Not inside UCX callbacks. Whether anything was done. */
bool ucx_sweep(struct ucx *ucx);
void ucx_shut_down(struct transport *transport, uint64_t deadline_us);

#endif
