/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_PEER_H
#define MOVE_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "message/transport.h"
#include "move/engine.h"

struct engine;
struct requester;
struct responder;

/* The other end of one link, with the link's transfers; a worker (contact.h) may have several links. Thread: the holder
 * of the progress lock. */
struct peer {
        struct engine *engine;
        struct link *link;
        char address[ENGINE_ADDRESS_SIZE]; /* key in peers_by_address, of a UCX link opened here; "" = none */
        struct contact *contact;           /* the worker at the other end; NULL = not known */
        struct peer *contact_prev, *contact_next;
        bool greeted; /* HELLO was sent; it comes first over a link that was opened here */
        bool up;      /* the requesters were told that the link is up */
        bool unused;  /* being closed, because it was not used … */
        bool silent;  /* … or because no message came in time */
        uint64_t last_used_us;
        uint64_t moved_us; /* when bytes last moved */

        uint64_t requested;        /* bytes of the requesters' chunks in flight */
        struct requester *waiting; /* utlist; those with more to request, round-robin */
        struct requester *requesters;
        uint64_t served;           /* bytes of the responders' sends in flight */
        struct responder *pending; /* utlist; those with READs to answer, round-robin */
        struct responder *responders;
        size_t n_transfers;        /* requesters and responders */
        size_t n_connect_requests; /* waiting for a HELLO_ACK */

        bool ready; /* listed in ready_peers: there may be room to send */
        struct peer *ready_prev, *ready_next;
        UT_hash_handle hh;        /* peers_by_address */
        struct peer *prev, *next; /* all_peers */
};

/* Makes a peer for a link, which it owns from then on. NULL: no memory. */
struct peer *peer_new(struct engine *engine, struct link *link);
/* Enters the peer in peers_by_address, where the next transfer finds it. */
void peer_index(struct peer *peer, const char *address);
/* Finds a peer whose link is usable; NULL = none. */
struct peer *peer_find(struct engine *engine, const char *address);
/* Removes it from the table, if it is there. */
void peer_unindex(struct peer *peer);

/*
 * Whether a transfer that has own bytes of the link's in_flight may begin more: always where the transport shares
 * itself (it has no window). Else it may have as many as it leaves to the others of two windows, and one chunk while
 * fewer than PEER_WINDOWS_MAX are in flight: one alone has one window, and one that stands still, since a GPU of either
 * side does or a followed read is late, leaves room to the others.
 */
enum { PEER_WINDOWS_MAX = 4 };
bool peer_has_room(const struct peer *peer, uint64_t own, uint64_t in_flight);

static inline bool peer_is_usable(const struct peer *peer)
{
        return link_is_usable(peer->link);
}

/*
 * Makes a message that sends or receives the header's bytes, which are those of stream from offset on; of stream NULL
 * one without payload. NULL: no memory.
 */
struct message *peer_message_new(struct peer *peer, const struct wire_header *header, const struct stream *stream,
                                 uint64_t offset, void *owner);
void peer_send_message(struct peer *peer, struct message *message);
/* Sends a header without payload. */
void peer_send(struct peer *peer, const struct wire_header *header);
/* Makes the header of an answer to a request. */
struct wire_header answer_header(const struct wire_header *request, enum wire_type type);
/* Answers a request with a header alone. status: 0 or FERRY_E_*. */
void peer_answer(struct peer *peer, const struct wire_header *request, enum wire_type type, uint16_t flags, int status);
/* The error that an answer has as its status; one that no worker sends counts as a refusal. 0 = none. Pure. */
int peer_error(uint32_t status);
/* Sends a HELLO with this worker's name; id: transfer id of the HELLO_ACK. */
void peer_send_hello(struct peer *peer, uint64_t to_epoch, uint64_t id);
/* Fails the link; error and detail end the transfers on it. */
void peer_fail(struct peer *peer, int error, const char *detail);
/* Has the next round send the waiting messages. */
void peer_ready(struct peer *peer);
/* A requester, a responder or a connect has ended. */
void peer_released(struct peer *peer);
/* Bytes moved: notes when, and asks for the link's carrier, which it keeps for the outcomes of its transfers. */
void peer_note_moved(struct peer *peer, uint64_t bytes);
/* How many bytes of a message were copied since the last call; they count as moved. */
uint64_t peer_count_copied(struct peer *peer, struct message *message);
/* Names what has carried bytes of a transfer: the link's carrier, and a suffix for the GPU path. */
void peer_name_transport(const struct peer *peer, enum gpu_path path, char text[ENGINE_TRANSPORT_SIZE]);
bool peer_is_busy(const struct peer *peer);
/* Whether more than one transfer or connect uses its link. */
bool peer_is_shared(const struct peer *peer);
/* Frees ended peers without transfers. */
void peers_sweep(struct engine *engine);
/* Closes UCX links that were opened here and not used for ENGINE_IDLE_US. */
void peers_close_idle(struct engine *engine, uint64_t now_us);

#endif
