/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_PEER_H
#define TRANSFER_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "transfer/engine.h"
#include "transport/transport.h"

struct engine;
struct requester;
struct responder;

/* A link to another worker, and what moves over it. Thread: who holds the progress lock. */
struct peer {
        struct engine *engine;
        struct link *link;
        uint64_t epoch;                    /* its name in peers_by_epoch: a local link that we opened; 0 = none */
        char address[ENGINE_ADDRESS_SIZE]; /* its name in peers_by_address: a link of UCX that we opened; "" = none */
        struct contact *contact;           /* the worker at the other end; NULL = not known */
        struct peer *contact_prev, *contact_next;
        bool up;     /* its requesters know that the link is up */
        bool unused; /* it is being closed because nothing has used it for long */
        bool ended;  /* the link has ended: it waits for its last requester or responder */
        uint64_t last_used_us;
        uint64_t moved_us; /* when bytes of any transfer moved over it last */

        uint64_t asked;            /* bytes that the requesters have in flight together */
        struct requester *waiting; /* utlist; those that have more to ask for, in turn */
        struct requester *requesters;
        uint64_t serving;          /* bytes that the responders send */
        struct responder *pending; /* utlist; those that have READs to answer, in turn */
        struct responder *responders;
        size_t n_transfers; /* requesters and responders */
        size_t n_connects;  /* that wait for its HELLO_ACK */

        bool ready; /* in ready_peers: there may be room for what waits */
        struct peer *ready_prev, *ready_next;
        UT_hash_handle by_name;
        struct peer *prev, *next; /* all_peers */
};

/* A new peer over a link, which it owns from then on. NULL when memory is short. */
struct peer *peer_new(struct engine *engine, struct link *link);
/* Enters it under the name by which the next transfer finds it. */
void peer_name_epoch(struct peer *peer, uint64_t epoch);
void peer_name_address(struct peer *peer, const char *address);
/* The peer of that name whose link can be used; NULL = none. */
struct peer *peer_find_epoch(struct engine *engine, uint64_t epoch);
struct peer *peer_find_address(struct engine *engine, const char *address);
/* The next transfer does not find it any more. */
void peer_unname(struct peer *peer);

static inline bool peer_is_usable(const struct peer *peer)
{
        return link_is_usable(peer->link);
}

/* Sends a header alone; nobody waits for it. */
void peer_send(struct peer *peer, const struct wire_header *header);
/* Sends a HELLO, which tells this worker's name; id is the HELLO_ACK's transfer. */
void peer_greet(struct peer *peer, uint64_t to_epoch, uint64_t id);
/* Closes the link by force; error and detail are what ends what moves over it. */
void peer_fail(struct peer *peer, int error, const char *detail);
/* There may be room for what waits: the next pass looks. */
void peer_ready(struct peer *peer);
/* A requester, a responder or a connect has left it. */
void peer_released(struct peer *peer);
/* Bytes moved. */
void peer_moved(struct peer *peer, uint64_t bytes);
bool peer_is_busy(const struct peer *peer);
/* Frees peers that have ended and that nothing uses any more. */
void peers_sweep(struct engine *engine);
/* Closes links of UCX that this worker opened and has not used for long. */
void peers_close_idle(struct engine *engine, uint64_t now_us);

#endif
