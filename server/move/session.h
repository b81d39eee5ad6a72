/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_SESSION_H
#define MOVE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "message/transport.h"
#include "move/engine.h"

struct engine;
struct requester;
struct responder;

/* The engine's side of one link, with the link's transfers; a peer (peer.h) may have several. Thread: the holder
 * of the progress lock. */
struct session {
        struct engine *engine;
        struct link *link;
        char address[ENGINE_ADDRESS_SIZE]; /* key in sessions_by_address, of a UCX link opened here; "" = none */
        struct peer *peer;                 /* the worker at the other end; NULL = not known */
        struct session *peer_prev, *peer_next;
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

        bool ready; /* listed in ready_sessions: there may be room to send */
        struct session *ready_prev, *ready_next;
        UT_hash_handle hh;           /* sessions_by_address */
        struct session *prev, *next; /* all_sessions */
};

/* Makes a session for a link, which it owns from then on. NULL: no memory. */
struct session *session_new(struct engine *engine, struct link *link);
/* Enters the session in sessions_by_address, where the next transfer finds it. */
void session_index(struct session *session, const char *address);
/* Finds a session whose link is usable; NULL = none. */
struct session *session_find(struct engine *engine, const char *address);
/* Removes it from the table, if it is there. */
void session_unindex(struct session *session);

/*
 * Whether a transfer that has own bytes of the link's in_flight may begin more: always where the transport shares
 * itself (it has no window). Else it may have as many as it leaves to the others of two windows, and one chunk while
 * fewer than SESSION_WINDOWS_MAX are in flight: one alone has one window, and one that stands still, since a GPU of
 * either side does or a followed read is late, leaves room to the others.
 */
enum { SESSION_WINDOWS_MAX = 4 };
bool session_has_room(const struct session *session, uint64_t own, uint64_t in_flight);

static inline bool session_is_usable(const struct session *session)
{
        return link_is_usable(session->link);
}

/*
 * Makes a message that sends or receives the header's bytes, which are those of stream from offset on; of stream NULL
 * one without payload. NULL: no memory.
 */
struct message *session_message_new(struct session *session, const struct wire_header *header,
                                    const struct stream *stream, uint64_t offset, void *owner);
void session_send_message(struct session *session, struct message *message);
/* Sends a header without payload. */
void session_send(struct session *session, const struct wire_header *header);
/* Makes the header of an answer to a request. */
struct wire_header answer_header(const struct wire_header *request, enum wire_type type);
/* Answers a request with a header alone. status: 0 or FERRY_E_*. */
void session_answer(struct session *session, const struct wire_header *request, enum wire_type type, uint16_t flags,
                    int status);
/* The error that an answer has as its status; one that no worker sends counts as a refusal. 0 = none. Pure. */
int session_error(uint32_t status);
/* Sends a HELLO with this worker's name; id: transfer id of the HELLO_ACK. */
void session_send_hello(struct session *session, uint64_t to_epoch, uint64_t id);
/* Fails the link; error and detail end the transfers on it. */
void session_fail(struct session *session, int error, const char *detail);
/* Has the next round send the waiting messages. */
void session_ready(struct session *session);
/* A requester, a responder or a connect has ended. */
void session_released(struct session *session);
/* Bytes moved: notes when, and asks for the link's carrier, which it keeps for the outcomes of its transfers. */
void session_note_moved(struct session *session, uint64_t bytes);
/* How many bytes of a message were copied since the last call; they count as moved. */
uint64_t session_count_copied(struct session *session, struct message *message);
/* Names what has carried bytes of a transfer: the link's carrier, and a suffix for the GPU path. */
void session_name_transport(const struct session *session, enum gpu_path path, char text[ENGINE_TRANSPORT_SIZE]);
bool session_is_busy(const struct session *session);
/* Whether more than one transfer or connect uses its link. */
bool session_is_shared(const struct session *session);
/* Frees ended sessions without transfers. */
void sessions_sweep(struct engine *engine);
/* Closes UCX links that were opened here and not used for ENGINE_IDLE_US. */
void sessions_close_idle(struct engine *engine, uint64_t now_us);

#endif
