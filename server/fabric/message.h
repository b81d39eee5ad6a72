/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_MESSAGE_H
#define FABRIC_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>

#include "wire.h"

struct fabric;
struct peer;
struct side;

/* What goes over an endpoint, and what waits for its turn before UCX gets it. See fabric_internal.h for who may. */

enum message_act { MESSAGE_SEND, MESSAGE_REFUSE };

/* One send or receive that UCX works on, or will. Buffers stay valid until done ran. */
struct message {
        struct fabric *fabric;
        /*
         * Its turn has come: UCX will touch the memory from now on. false = not wanted any more: a receive is refused,
         * and done does not run; a send is done, with UCS_ERR_CANCELED. NULL = it is wanted.
         */
        bool (*begin)(struct message *message);
        /* Then it is freed; NULL = nobody cares. UCS_ERR_CANCELED: it was taken back, or the endpoint was closed by us;
         * any other error is the peer's end. */
        void (*done)(struct message *message, ucs_status_t status);
        void *owner;
        uint64_t transfer;
        uint64_t attempt; /* a WRITE's bytes: number of the attempt that they belong to */
        uint32_t seq;
        struct wire_header answer; /* a receive: what to send when it is done */
        uint8_t header[WIRE_SIZE];
        struct iovec *pieces; /* owned; NULL = contiguous */
        void *buffer;         /* owned: a payload that is nobody else's; or NULL */
        struct iovec piece;   /* the only one, where UCX must see a list */
        struct peer *peer;    /* it goes there, or comes from there */
        bool queued;          /* it waits, or has waited, in the peer's queue */
        bool counted;         /* in the peer's sending if it was queued, else in its receiving */
        enum message_act act; /* while it is deferred */
        bool eager;           /* the payload travels inside the message, however long it is */
        void *descriptor;     /* a receive: UCX's */
        void *address;
        uint64_t length;
        struct message *prev, *next; /* a queue; free list */
};

/* The payload of a message that arrived. */
struct payload {
        void *data; /* bytes, or UCX's descriptor when rendezvous is set */
        uint64_t length;
        bool rendezvous;
};

/* ---- message.c ---- */

struct message *message_new(struct fabric *fabric);
void message_free(struct message *message);
void messages_clear(struct fabric *fabric);
/*
 * Sends header and a payload out of the message's pieces or of address. done runs exactly once, perhaps before this
 * returns. Takes the message over.
 */
void message_send(struct peer *peer, struct message *message, const struct wire_header *header, void *address,
                  uint64_t length);
/* Sends a header alone; nobody waits for it. */
void message_send_header(struct peer *peer, const struct wire_header *header);
/* Lets a rendezvous payload come into the message's pieces or to address, after begin, when it is its turn. */
void message_receive(struct peer *peer, struct message *message, void *descriptor, void *address, uint64_t length);
/* For queue.c: UCX gets the message; it ended, done runs. */
void message_send_now(struct message *message);
void message_receive_now(struct message *message);
void message_done(struct message *message, ucs_status_t status);
/* UCX's callback for every active message of a side. */
ucs_status_t message_arrived(void *side, const void *header, size_t header_length, void *data, size_t length,
                             const ucp_am_recv_param_t *param);

/* ---- queue.c: what waits before UCX gets it ---- */

/* Bytes that one message to the peer may carry at most. */
uint32_t message_limit(const struct peer *peer);
void queue_send(struct message *message);
void queue_receive(struct message *message);
/* Refuses a rendezvous as soon as that may be. false: it may be now, or memory is short. */
bool queue_refuse(struct side *side, void *descriptor);
/* UCX is done with a message that was counted. */
void queue_done(struct message *message);
/* There may be room on the local side. */
void queue_pump(struct peer *peer);
/* There may be room for the peer's receives, its transfers' chunks or its parts: queue_flush will see. */
void peer_ready(struct peer *peer);
/* Does what had to wait. Not inside UCX callbacks. Whether there was anything. */
bool queue_flush(struct fabric *fabric);
/* The endpoint is closed: what waits to be sent over it fails, what waits to be received is refused. */
void queue_drop(struct peer *peer);
/* ucp_worker_progress, within which sends are deferred. Every call goes through here. */
unsigned side_progress(struct side *side);

#endif
