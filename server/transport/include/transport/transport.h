/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "memory/gpu.h"
#include "wire/header.h"
#include "wire/stream.h"

/*
 * The seam between the engine (server/transfer) and what carries bytes. A transport opens links to peers, carries
 * messages with payloads on them, and tells of their end. It knows nothing of operations, keys or claims.
 *
 * Thread: whoever holds the engine's progress lock; one thread at a time makes all calls here, and all handlers run on
 * it, inside progress(), send(), receive() or close(). What may be called from other threads says so. A transport's own
 * helper threads (copying) report through its descriptor.
 *
 * A payload is the bytes [offset, offset + length) of a stream. How it travels is the transport's affair: inside the
 * message, by rendezvous, or lent for the receiver to copy. In every case the receiver's engine is handed the message
 * first and then decides: receive() with a place for the bytes, or nothing, which refuses them.
 */

enum {
        TRANSPORT_NAME_SIZE = 32,
        TRANSPORT_DETAIL_SIZE = 128,
        TRANSPORT_ADDRESS_SIZE = 280,
        TRANSPORTS_MAX = 3,
};

struct link;
struct message;
struct staged;
struct transport;

/* ---- memory ---- */

/*
 * Registered memory. Filled in by the engine before register_memory; each transport keeps what it needs in its own
 * element of handles. Stays where it is until deregister_memory.
 */
struct memory {
        uint8_t *address;
        size_t size;
        const struct space *space; /* of the address; NULL = host memory */
        uint64_t id;               /* names it to peers; never used again by this worker */
        int fd; /* a memfd, sealed against shrinking, that is mapped at address from its offset 0 on, readable and
                   writable; -1 = the memory is no file, and cannot be lent. Borrowed */
        struct gpu_pin pin;            /* of host memory */
        void *handles[TRANSPORTS_MAX]; /* by struct transport's index */
};

/* ---- messages ---- */

enum message_result {
        MESSAGE_OK,
        MESSAGE_CANCELLED, /* it was taken back (ops->cancel) */
        MESSAGE_REVOKED,   /* a receive whose bytes the sender took back: what is in place does not count */
        MESSAGE_LOST,      /* the link has failed */
        MESSAGE_NO_MEMORY,
        MESSAGE_FAULT, /* this side's memory off the host cannot be copied (message->fault) */
};

/* What a GPU had to do with the bytes. transport_way_name says it to users; the numbers are those of frames (local/).
 */
enum transport_way {
        TRANSPORT_WAY_HOST,      /* nothing */
        TRANSPORT_WAY_CUDA_IPC,  /* its driver copied from the peer's memory on it */
        TRANSPORT_WAY_CUDA_COPY, /* its driver copied out of or into the peer's host memory, once */
        TRANSPORT_WAY_STAGED,    /* by way of a buffer in host memory */
        TRANSPORT_WAY_GPUDIRECT, /* an RDMA card has reached its memory; in no frame */
};

/* "", "+gpudirect", "+cuda_ipc", "+cuda_copy", "+staged"; goes behind the carrier's name. */
const char *transport_way_name(enum transport_way way);
/* The worse of two, in that order. */
enum transport_way transport_way_worse(enum transport_way a, enum transport_way b);

/*
 * One send or receive. The engine fills in the first part and hands the message over; the transport owns it until done
 * has run, exactly once, and frees it afterwards. stream and its segments stay valid until then.
 */
struct message {
        struct wire_header header;   /* a send's. A receive does not use it */
        const struct stream *stream; /* of the payload; NULL = no payload */
        uint64_t offset, length;
        bool inside; /* a send: the payload travels inside the message, however long (fit() asked for that) */
        bool verify; /* where the stream is off the host, the transport makes the checksum, beside the copy */
        /*
         * The memory will be touched from now on. false = not wanted any more: a send ends with MESSAGE_CANCELLED, a
         * receive is refused and done does not run; nor does it for a receive whose link fails before. NULL = it is
         * wanted.
         */
        bool (*begin)(struct message *message);
        /* Nobody touches the memory any more; of a receive, only after begin has returned true (or is NULL). MESSAGE_OK
         * of a send does not say that the peer wanted the bytes. NULL = nobody cares. Not called from within send() or
         * receive() of the same message unless the link has failed or everything could be done at once: be ready for
         * that. */
        void (*done)(struct message *message, enum message_result result);
        /* The transport's answer, once done runs. */
        enum transport_way way; /* of MESSAGE_OK */
        int fault;              /* of MESSAGE_FAULT: -errno, as of space_copy */
        uint64_t checksum;      /* of a receive with verify; a send's is in the header */
        /* The engine's own. */
        void *owner;
        uint64_t transfer; /* messages of one transfer keep their order; ops->cancel names them by it */
        uint64_t responder;
        uint32_t seq;
        struct wire_header answer;
        /* The transport's own. */
        struct link *link;
        struct message *prev, *next;
        struct staged *stage; /* of a payload off the host (staging.h) */
        uint64_t copied; /* bytes of a long receive that are in place so far; may be read inside handlers->copied */
};

/* What arrived with a message. Valid only inside handlers->message, but for what receive() took. */
struct payload {
        uint64_t length;
        const void *bytes; /* it came inside the message; NULL = receive() brings it */
        void *descriptor;  /* the transport's name of it */
        bool taken;        /* receive() took it over */
};

/* Both from a pool of the transport's; NULL when memory is short. */
struct message *message_new(struct transport *transport);
void message_free(struct transport *transport, struct message *message);

/* ---- links ---- */

enum link_state {
        LINK_CONNECTING, /* nothing was heard of the peer yet */
        LINK_UP,
        LINK_FAILED, /* will be closed; messages may still be under way */
        LINK_ENDED,  /* nobody touches any memory for it any more; handlers->ended ran. Until link_release */
};

struct link {
        struct transport *transport;
        enum link_state state; /* link_set_state */
        bool accepted;         /* the peer opened it */
        void *owner;           /* the engine's; NULL = none */
        uint64_t peer_epoch;   /* of the worker at the other end where the transport knows it (local); else 0 */
        uint64_t created_us;
        uint64_t connect_us; /* from the creation until the peer was heard first; 0 = not yet */
        uint64_t heard_us;   /* when a message came last */
        int error;           /* FERRY_E_* of the failure */
        char detail[TRANSPORT_DETAIL_SIZE];
        char carrier[TRANSPORT_NAME_SIZE]; /* "shm", "tcp", "rc_verbs", …; "" = not known yet; see ops->carrier */
        struct link *prev, *next;          /* the transport's list of all */
};

/* Where a peer can be found. */
struct transport_peer {
        uint64_t epoch;                 /* of the worker that is meant */
        const char *text;               /* "host:port" of its network transport; "" = it has none */
        const struct sockaddr *address; /* the same, resolved; NULL = it has none, or it cannot be resolved */
        socklen_t address_length;
};

/* What the engine does with what arrives. */
struct transport_handlers {
        void *context;
        /* A message with a header of this protocol. What it does not receive() of the payload is refused. */
        void (*message)(void *context, struct link *link, const struct wire_header *header, struct payload *payload);
        /* A peer opened a link. false = refuse it: too many, or the engine is stopping. */
        bool (*accepted)(void *context, struct link *link);
        /*
         * The link has failed and is closed: every message's done has run (see begin), and nothing touches memory for
         * it any more. link->error and link->detail say why. Never inside progress() of UCX. Exactly once a link that
         * connect() or accepted handed out.
         */
        void (*ended)(void *context, struct link *link);
        /* There is room again for the requests of the engine to this link, or for its sends (see fit); or it is up. */
        void (*room)(void *context, struct link *link);
        /* A part of a long receive is in place (message->copied). Not from every transport. */
        void (*copied)(void *context, struct message *message);
        /* The transport can be used from now on: what it waited for has come. NULL = nobody cares. */
        void (*opened)(void *context, struct transport *transport);
};

/* ---- transports ---- */

struct transport_ops {
        /* Ends everything, frees the transport; every link must have ended or never been connected. */
        void (*free)(struct transport *transport);
        /*
         * The engine stops: no more links are accepted, and those there are have until the deadline to flush what was
         * sent. Calls progress by itself. Every link has ended afterwards.
         */
        void (*shut_down)(struct transport *transport, uint64_t deadline_us);
        /* Does what is to be done now. Whether anything was. */
        bool (*progress)(struct transport *transport);
        /* true: fd becomes readable when there is something to be done. false: there is something now. */
        bool (*arm)(struct transport *transport);
        /* When progress must be called although nothing happens; UINT64_MAX = never. Monotonic us. */
        uint64_t (*deadline)(const struct transport *transport);

        /* Any thread. 0 or -errno with a logged reason that names what to do. May take long (pinning). */
        int (*register_memory)(struct transport *transport, struct memory *memory);
        /* Ends what peers know of it; no message uses it any more. */
        void (*deregister_memory)(struct transport *transport, struct memory *memory);

        /* A new link to a peer. NULL with *ret_error: -ENOENT no such worker here (local), -ECONNREFUSED, -EACCES
         * another user's, -ENODEV no address or not this transport's, other -errno. */
        struct link *(*connect)(struct transport *transport, const struct transport_peer *peer, int *ret_error);
        void (*send)(struct link *link, struct message *message);
        /* Inside handlers->message alone. Takes the payload, which is as long as the message says, and the message. The
         * engine does not ask for bytes that came inside, unless they go to memory off the host. */
        void (*receive)(struct link *link, struct message *message, struct payload *payload);
        /*
         * Takes back the sends and receives of a transfer that have a payload: what waits ends at once with
         * MESSAGE_CANCELLED (a receive that waits is refused, and its done does not run unless begin has returned
         * true); lent memory is taken back at once; a copy that is running ends with its piece. What cannot be stopped
         * (a rendezvous under way) ends by itself, or when the link is closed. done may run inside.
         */
        void (*cancel)(struct link *link, uint64_t transfer);
        /* Starts to close the link by force, if it is not failed yet; error and detail are the engine's reason. Safe
         * inside handlers and done: the end comes later, by ended. */
        void (*fail)(struct link *link, int error, const char *detail);
        /* The engine has forgotten an ended link. */
        void (*release)(struct link *link);

        /*
         * How much of a stream's [offset, offset + limit) is best asked for by one request (own = the requester's own
         * memory), at least 1 byte.
         */
        uint64_t (*request_size)(struct link *link, const struct stream *own, uint64_t offset, uint64_t limit);
        /*
         * How much of [offset, offset + limit) one message may carry, at least 1 byte; 0 = none now, handlers->room
         * will say when. *ret_inside: it must travel inside the message (message->inside).
         */
        uint64_t (*fit)(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                        bool *ret_inside);
        /* Bytes that the engine may have asked for at once over the link. */
        uint64_t (*window)(struct link *link);
        /* What carries bulk over the link: "shm", "tcp", "rc_verbs", …; "" = not known yet. Stays in link->carrier. */
        const char *(*carrier)(struct link *link);
};

/* The base of every transport: its first member. */
struct transport {
        const struct transport_ops *ops;
        const char *name;    /* "local", "ucx" */
        size_t index;        /* in struct memory's handles; the engine's choice */
        size_t message_size; /* of what embeds struct message at its start; transport_init: of that alone */
        int fd;              /* readable when there is something to do, once armed */
        bool shared; /* by several transfers: none may hold up the others' messages for long. The engine's, before
                        progress() */
        struct transport_handlers handlers;
        struct link *links; /* utlist; all that have not been released */
        struct message *free_messages;
};

/* Sets up the base. */
void transport_init(struct transport *transport, const struct transport_ops *ops, const char *name, size_t index,
                    const struct transport_handlers *handlers);
/* Frees the pool of messages. The last of free(). */
void transport_clear(struct transport *transport);

/* Enters a link into the transport's list. state: CONNECTING or UP. */
void link_init(struct link *link, struct transport *transport, bool accepted);
/* The only way to change a link's state; a step that the table does not allow aborts. */
void link_set_state(struct link *link, enum link_state state);
/* A message came: the link is up. */
void link_was_heard(struct link *link);
/* Whether new messages may be sent over it. */
static inline bool link_is_usable(const struct link *link)
{
        return link->state == LINK_CONNECTING || link->state == LINK_UP;
}

#endif
