/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_TRANSPORT_H
#define MESSAGE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "memory/gpu.h"
#include "message/header.h"
#include "message/stream.h"

/*
 * The seam between the engine (server/move) and the transports. A transport opens links to peers, carries messages
 * with payloads on them, and reports their end. It knows nothing of operations, keys or claims.
 *
 * Thread: the holder of the engine's progress lock; one thread at a time makes all calls here, and all handlers run on
 * it, inside progress(), send(), receive(), fail(), cancel() or shut_down(). What may be called from other threads says
 * so. A transport's own helper threads (copying) report through its descriptor.
 *
 * A payload is the bytes [offset, offset + length) of a stream. The transport chooses how it travels: inline in the
 * message, by rendezvous, or mapped for the receiver to copy. In every case the receiver's engine gets the message
 * first and then decides: it calls receive() with a place for the bytes, or refuses them by not calling it.
 */

enum {
        TRANSPORT_NAME_SIZE = 32,
        TRANSPORT_DETAIL_SIZE = 160,
        TRANSPORT_REASON_SIZE = 400, /* why a transport cannot be opened */
        TRANSPORT_ADDRESS_SIZE = 280,
        TRANSPORTS_MAX = 3,
        TRANSPORT_WINDOW_DEFAULT = 4,   /* chunks in flight over one link */
        TRANSPORT_LINKS_DEFAULT = 4096, /* links opened by peers */
};

struct link;
struct message;
struct stage;
struct transport;

/* ---- memory ---- */

/*
 * Registered memory. Filled in by the engine before register_memory; each transport keeps its own data in its own
 * element of handles. Stays where it is until deregister_memory.
 */
struct memory {
        uint8_t *address;
        size_t size;
        const struct space *space; /* of the address; NULL = host memory */
        uint64_t id;               /* names it to peers; never reused by this worker */
        int fd; /* a memfd, sealed against shrinking, that is mapped at address from its offset 0 on, readable and
                   writable; -1 = the memory is no file, and peers cannot map it. Borrowed */
        struct gpu_pin pin;            /* of host memory */
        void *handles[TRANSPORTS_MAX]; /* by struct transport's index */
};

/* ---- messages ---- */

enum message_result {
        MESSAGE_OK,
        MESSAGE_CANCELLED,   /* by ops->cancel, or refused by begin */
        MESSAGE_LEASE_ENDED, /* a receive: the sender ended the lease, so the bytes in place do not count */
        MESSAGE_LOST,        /* the link has failed */
        MESSAGE_DIFFERS,     /* a receive with verify: the bytes behind the first copied ones are not the sender's */
        MESSAGE_NO_MEMORY,
        MESSAGE_FAULT, /* this worker's memory off the host cannot be copied (message->fault) */
};

/* How a GPU's bytes moved. The numbers are those of the local transport's frames. */
enum gpu_path {
        GPU_PATH_NONE,      /* no GPU is involved */
        GPU_PATH_CUDA_IPC,  /* copied from the peer's GPU memory by the driver */
        GPU_PATH_CUDA_COPY, /* copied once from or into the peer's host memory by the driver */
        GPU_PATH_STAGED,    /* copied through a buffer in host memory */
        GPU_PATH_GPUDIRECT, /* read or written by an RDMA device; not in frames */
};

/* "", "+gpudirect", "+cuda_ipc", "+cuda_copy", "+staged", from the best to the worst: the suffix of a carrier's name.
 */
const char *gpu_path_name(enum gpu_path path);
/* The worse of two. */
enum gpu_path gpu_path_worse(enum gpu_path a, enum gpu_path b);

/*
 * One send or receive. The engine fills in the first fields and hands the message over; the transport owns it, calls
 * done exactly once, and frees it. stream and its segments must stay valid until then.
 */
struct message {
        struct wire_header header;   /* of a send; of a receive the engine's own */
        const struct stream *stream; /* of the payload; NULL = no payload */
        uint64_t offset, length;
        bool force_inline; /* a send: the payload travels inline in the message, however long (fit() asked for that).
                              A receive: it came inline */
        bool verify; /* the payload has checksums, which the transport of the sender makes and that of the receiver
                        compares */
        /*
         * Called before the memory is first touched. false = not wanted any more: a send ends with MESSAGE_CANCELLED; a
         * receive is refused, and done is not called. Nor is done called for a receive whose link fails before begin.
         * NULL = always wanted.
         */
        bool (*begin)(struct message *message);
        /* Of a long receive, a piece is in place, and compared where verify asks for that; of a long send, the peer has
         * copied a piece (copied). Some transports never call it. May be NULL. */
        void (*piece_done)(struct message *message);
        /* The memory is not touched any more. MESSAGE_OK of a send does not say that the peer wanted the bytes. May be
         * called inside send() or receive() of the same message. May be NULL. */
        void (*done)(struct message *message, enum message_result result);
        /* The result; valid when done is called. */
        enum gpu_path gpu_path; /* of MESSAGE_OK */
        int fault;              /* of MESSAGE_FAULT: -errno, as of space_copy */
        /* The engine's own. */
        void *owner;
        uint64_t transfer; /* messages of one transfer keep their order; argument of ops->cancel */
        uint64_t responder;
        uint64_t counted; /* how much of copied the engine has counted … */
        uint64_t arrived; /* … and, of a receive, told as arrived */
        /* The transport's own. */
        struct link *link;
        struct message *prev, *next;
        struct stage *stage; /* of a payload off the host (staging.h) */
        /* Bytes of the payload in place, from its first one on; may be read inside piece_done. Of a send that ended
         * with MESSAGE_OK, as many as the peer is known to have: a lease that it gave back need not have been copied.
         */
        uint64_t copied;
};

/* The payload of a message that arrived. Valid inside handlers->message only, unless receive() took it over. */
struct payload {
        uint64_t length;
        const void *bytes; /* the payload, if it came inline; NULL = receive() fetches it */
        void *descriptor;  /* the transport's handle */
        bool taken;        /* receive() took it over */
};

/* How the bytes of a payload move that is off the host: the path, unless no GPU has them. */
static inline enum gpu_path message_gpu_path(const struct message *message, enum gpu_path path)
{
        return space_gpu(stream_next_space(message->stream, message->offset)) >= 0 ? path : GPU_PATH_NONE;
}

/* NULL: no memory. */
struct message *message_new(struct transport *transport);
void message_free(struct message *message);
/* Calls begin. false: the message is not wanted any more. */
static inline bool message_begin(struct message *message)
{
        return !message->begin || message->begin(message);
}

/* ---- links ---- */

enum link_state {
        LINK_CONNECTING, /* no message has come from the peer yet */
        LINK_OPENING,    /* nor now, but the network has a message that the peer answers (ucx alone) */
        LINK_UP,
        LINK_FAILED, /* will be closed; messages may still be under way */
        LINK_ENDED,  /* no memory is touched for it any more; handlers->ended was called. Until link_free */
};

struct link {
        struct transport *transport;
        enum link_state state; /* link_set_state */
        bool accepted;         /* the peer opened it */
        void *owner;           /* the engine's; NULL = none */
        uint64_t peer_epoch;   /* of the peer, where the transport knows it (local); else 0 */
        uint64_t created_us;
        uint64_t connect_us; /* from the creation to the peer's first message; 0 = none came yet */
        int error;           /* FERRY_E_* of the failure */
        char detail[TRANSPORT_DETAIL_SIZE];
        char carrier[TRANSPORT_NAME_SIZE]; /* "shm", "tcp", "rc_verbs", …; "" = not known yet; see ops->carrier */
        struct message *loading, *storing; /* utlist; sends and receives off the host, with a stage (staging.h) */
        struct link *prev, *next;          /* the transport's list of all */
};

/* The addresses of a peer. */
struct transport_peer {
        uint64_t epoch; /* of the worker to reach */
        const struct sockaddr
                *address; /* of its network transport; NULL = it has none, or one that cannot be resolved */
        socklen_t address_length;
};

/* The engine's callbacks. */
struct transport_handlers {
        void *context;
        /* A message of this protocol came. Refuses the payload unless it calls receive(). */
        void (*message)(void *context, struct link *link, const struct wire_header *header, struct payload *payload);
        /* A peer opened a link. false = refuse it. */
        bool (*accepted)(void *context, struct link *link);
        /*
         * The link has failed and is closed: done of every message was called (see begin), and no memory is touched for
         * it any more. link->error and link->detail say why. Called exactly once for each link from connect() or
         * accepted, never inside UCX's callbacks.
         */
        void (*ended)(void *context, struct link *link);
        /* The link is up, or has room again for the engine's requests or sends (see fit). */
        void (*room)(void *context, struct link *link);
        /* A transport that waited for its address can be used now. May be NULL. */
        void (*opened)(void *context, struct transport *transport);
};

/* ---- transports ---- */

struct transport_ops {
        /* Frees the transport. Every link must have ended. */
        void (*free)(struct transport *transport);
        /*
         * Accepts no more links, flushes sent messages until the deadline at most, and ends every link. Calls progress
         * by itself.
         */
        void (*shut_down)(struct transport *transport, uint64_t deadline_us);
        /* Makes all progress that is possible now. Whether there was any. */
        bool (*progress)(struct transport *transport);
        /* Makes fd readable at the next event. false: progress() has work already. */
        bool (*arm)(struct transport *transport);
        /* Next deadline at which progress must be called without an event, monotonic us; UINT64_MAX = none. */
        uint64_t (*deadline)(const struct transport *transport);

        /* 0 or -errno, logged with advice. May take long (pinning). Any thread. */
        int (*register_memory)(struct transport *transport, struct memory *memory);
        /* Ends peers' access. No message may use the memory. */
        void (*deregister_memory)(struct transport *transport, struct memory *memory);

        /* Opens a link to a peer. NULL with *ret_error: -ENOENT (local: no such worker on this host), -ECONNREFUSED,
         * -EACCES (another user's), -ENODEV (the peer has no address for this transport), -ENETDOWN (no interface is up
         * yet), -EAFNOSUPPORT (no address of this family here), -ESHUTDOWN, other -errno. */
        struct link *(*connect)(struct transport *transport, const struct transport_peer *peer, int *ret_error);
        void (*send)(struct link *link, struct message *message);
        /* Takes over the message, and receives the payload into its stream. Only inside handlers->message, for a
         * payload that did not come inline, or goes to memory off the host. message->length is the payload's. */
        void (*receive)(struct link *link, struct message *message, struct payload *payload);
        /*
         * Cancels the sends and receives of a transfer that have a payload. Those that wait end at once with
         * MESSAGE_CANCELLED (a receive before begin is refused, without done); leases end at once; a running copy ends
         * after its piece. What cannot be stopped (a rendezvous under way) ends by itself, or when the link is closed.
         * May call done.
         */
        void (*cancel)(struct link *link, uint64_t transfer);
        /* Fails the link for the engine's reason, unless it has failed: closes it by force. Safe inside handlers and
         * done; handlers->ended is called later. */
        void (*fail)(struct link *link, int error, const char *detail);

        /*
         * How many bytes one request should ask for, of [offset, offset + limit) of own, the requester's stream. At
         * least 1. NULL = all: the transport copies in pieces, tells of each (piece_done), and shares itself among
         * transfers.
         */
        uint64_t (*request_size)(struct link *link, const struct stream *own, uint64_t offset, uint64_t limit);
        /*
         * How many bytes of [offset, offset + limit) one message may carry; 0 = none now, and handlers->room follows.
         * *ret_inline: the payload must travel inline (message->force_inline).
         */
        uint64_t (*fit)(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                        bool *ret_inline);
        /* Bytes of requests that may be in flight over the link, of all transfers: so many chunks (--window). NULL with
         * request_size. */
        uint64_t (*window)(struct link *link);
        /* The carrier of bulk: "shm", "tcp", "rc_verbs", …; "" = not known yet. Also kept in link->carrier. */
        const char *(*carrier)(struct link *link);
};

/* The base of every transport: its first member. */
struct transport {
        const struct transport_ops *ops;
        const char *name;    /* "local", "ucx" */
        size_t index;        /* into struct memory's handles; set by the engine */
        size_t message_size; /* of the struct that begins with struct message; transport_init sets struct message's own
                              */
        int fd;              /* readable when progress() has work, once armed */
        bool shared; /* set by the engine before progress(): several transfers run, so none may delay the others'
                        messages for long */
        struct transport_handlers handlers;
        struct link *links; /* utlist; all not released */
};

/* Sets up the base. */
void transport_init(struct transport *transport, const struct transport_ops *ops, const char *name, size_t index,
                    const struct transport_handlers *handlers);

/* Enters a link, the first member of a transport's own struct, into the transport's list, as LINK_CONNECTING. */
void link_init(struct link *link, struct transport *transport, bool accepted);
/* Frees a link that has ended, or that nobody but the transport has got. */
void link_free(struct link *link);
/* Changes the state. A change that the table does not allow aborts the process. */
void link_set_state(struct link *link, enum link_state state);
/* Makes the link LINK_FAILED, for the first reason given. false: it has failed already. */
bool link_fail(struct link *link, int error, const char *detail);
/* Fails a link whose peer speaks another protocol, and logs which worker is older. */
void link_fail_protocol(struct link *link, unsigned protocol);
/* Notes that a message came, which makes a link LINK_UP that was not. */
void link_note_message(struct link *link);
/* Whether no message has come from the peer, which may still come. */
static inline bool link_is_connecting(const struct link *link)
{
        return link->state < LINK_UP;
}
/* Whether new messages may be sent over it. */
static inline bool link_is_usable(const struct link *link)
{
        return link->state <= LINK_UP;
}

#endif
