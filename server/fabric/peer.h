/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_PEER_H
#define FABRIC_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <uthash.h>

#include "fabric/fabric.h"
#include "wire.h"

struct connect;
struct fabric;
struct side;

/* Other workers: their endpoints, where they are, and how they are connected to. See fabric_internal.h for who may. */

/* Where a peer can be found. */
struct way {
        uint64_t epoch;
        char data[FABRIC_ADDRESS_SIZE];  /* host:port of its network side; "" = it has none */
        struct sockaddr_storage address; /* the same, resolved; ss_family 0 = none */
        socklen_t address_length;
};

/* An endpoint to another worker, and what moves over it. */
struct peer {
        struct side *side;
        ucp_ep_h endpoint;
        uint64_t epoch;                    /* local side: of the peer, its name in peers_by_epoch */
        char address[FABRIC_ADDRESS_SIZE]; /* network side, opened by us: name in peers_by_address; "" = the peer opened
                                              it */
        int pidfd;                         /* local side: readable when the peer is dead; else -1 */
        bool heard;                        /* a message came: the connection stands */
        uint64_t created_us, connect_us;   /* from its creation until it was heard */
        bool failed;                       /* not to be used any more; waits for peers_sweep or for its last transfer */
        bool dead;                         /* local side: its process has ended */
        bool closed;                       /* ucp_ep_close_nbx is over */
        void *closing;                     /* the request of that while it is not */
        bool swept;                        /* ucp_ep_close_nbx was called */
        bool quiet;                        /* its lanes are gone: what moved over it may end */
        bool reset_owed;                   /* local side: the peer has not been told that it failed here */
        bool moved;                        /* local side: it failed because the peer has another address now */
        uint64_t address_hash;             /* local side: of the UCX address that the endpoint goes to */
        int error;                         /* FERRY_E_* of the failure */
        char detail[96];
        char transport[FABRIC_TRANSPORT_SIZE]; /* "" = not asked yet */
        uint64_t last_used_us;
        uint64_t sending;         /* bytes of the queue's sends that UCX works on */
        struct message *queue;    /* utlist; sends that wait for those: local side, rendezvous; else, parts */
        bool pumping;             /* the queue is being worked on */
        struct message *receives; /* utlist; network side: rendezvous that came and wait for their turn */
        uint64_t receiving;       /* network side: bytes of posted receives */
        uint64_t asked;           /* bytes of chunks that the transfers have in flight together */
        struct transfer *hungry;  /* utlist; those that have more to ask for, in turn */
        bool ready;               /* in ready_peers: there may be room for what waits */
        struct peer *ready_prev, *ready_next;
        struct transfer *transfers; /* utlist */
        struct attempt *attempts;   /* utlist */
        UT_hash_handle by_endpoint, by_name;
        struct peer *prev, *next; /* all_peers */
};

/* ---- peer.c ---- */

/* The local peer of an epoch, connected when needed. NULL with *ret_error: -errno of presence_lookup, or of UCX. */
struct peer *peer_local(struct fabric *fabric, uint64_t epoch, int *ret_error);
/* The network peer at an address; text names it. */
struct peer *peer_network(struct fabric *fabric, const char *text, const struct sockaddr *address, socklen_t length,
                          int *ret_error);
/* The peer that a message came from; NULL when it is not known (any more) or cannot be reached. */
struct peer *peer_of_message(struct side *side, ucp_ep_h reply, const struct wire_header *header);
/* A peer asks for a connection on the network side. */
void peer_accept(ucp_conn_request_h request, void *side);
/* A message came over the endpoint. */
void peer_was_heard(struct peer *peer);
/* Marks the peer as failed; peers_sweep does the rest. Safe inside UCX callbacks. The first reason counts. */
void peer_fail(struct peer *peer, int error, const char *detail);

/*
 * A local worker says, over the endpoint reply, that it closed its earlier one to us by force: ours leads nowhere any
 * more, unless it is that one. NULL = not known.
 */
void peer_was_reset(struct fabric *fabric, uint64_t epoch, ucp_ep_h reply);
/* Closes what failed and ends what moved over it. Not inside UCX callbacks. */
void peers_sweep(struct fabric *fabric);
/* Fails local peers whose process is dead. */
void peers_check_processes(struct fabric *fabric);
/* Closes network endpoints that we opened and have not used for long. */
void peers_close_idle(struct fabric *fabric, uint64_t now_us);
/* Whether what moves over the peer must wait with its end, because a failed endpoint's lanes may still bring bytes. */
bool peer_is_settling(const struct peer *peer);
/* Fails local peers that were never heard and have opened their side anew since we connected. */
void peers_check_moved(struct fabric *fabric);
/* Tells a local worker that whatever it has open to us leads nowhere. */
void peer_send_reset(struct fabric *fabric, struct peer *peer);
/* Ends what UCX has not let go of. After the UCX worker of these failed peers was destroyed. */
void peers_abandon(struct fabric *fabric);
/* A transfer or attempt has left the peer. */
void peer_released(struct peer *peer);
/* Closes everything, giving messages under way until the deadline. */
void peers_close_all(struct fabric *fabric, uint64_t deadline_us);
/* After the UCX workers are gone, and with them the last callback. */
void peers_free_all(struct fabric *fabric);
bool peer_is_local(const struct peer *peer);
/* Local side: whether its process has ended. */
bool peer_is_dead(struct peer *peer);
/* The UCX transport that carries bulk over the endpoint: "posix", "tcp", … */
const char *peer_transport(struct peer *peer);
/* Whether one receive at a time is posted for it: bulk comes by TCP, and so perhaps by PUT. Network side. */
bool peer_is_serial(struct peer *peer);
/* Whether pieces go to it in parts that travel inside messages. */
bool peer_takes_parts(struct peer *peer);

/* ---- local.c ---- */

/* Finds out whether our queue still works after a peer is gone, and opens the local side anew if not. */
void local_check(struct fabric *fabric, uint64_t now_us);

/* ---- connect.c ---- */

/* Resolves data, which may be NULL, and may take the resolver's time: any thread but the fabric's. */
void way_init(struct way *way, uint64_t epoch, const char *data);
/* The peer: by the local side, else by the network side. NULL with the reason as a sentence. */
struct peer *way_take(struct fabric *fabric, const struct way *way, char *reason, size_t reason_size);

int connect_new(struct fabric *fabric, const struct fabric_connect *spec, struct connect **ret_connect);
void connect_free(struct connect *connect);
/* Connects and greets, or ends it. */
void connect_run(struct fabric *fabric, struct connect *connect);
/* Ends all: the fabric is stopping. */
void connects_cancel(struct fabric *fabric);
/* Whether somebody waits for the peer's HELLO_ACK. */
bool connects_use(const struct peer *peer);
/* The peer is closed: no answer will come. */
void connects_lost(struct peer *peer);
/* Ends those that are late. Returns the next deadline; UINT64_MAX = none. */
uint64_t connects_tick(struct fabric *fabric, uint64_t now_us);
void connect_on_hello(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
void connect_on_hello_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header);

#endif
