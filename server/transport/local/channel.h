/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_CHANNEL_H
#define LOCAL_CHANNEL_H

#include <sys/types.h>
#include <sys/uio.h>

#include <ferry/encoding.h>

#include "copy_pool.h"
#include "directory.h"
#include "frame.h"
#include "leases.h"
#include "mapping.h"
#include "pull.h"
#include "transport/local.h"
#include "transport/staging.h"

/* The local transport's state, and a link: its socket and queued datagrams. The progress thread. */

enum {
        CHANNEL_QUEUE_MAX = 8 << 20,    /* bytes queued for a peer that does not read; beyond it the link fails */
        CHANNEL_QUEUE_ROOM = 256 << 10, /* bytes queued, at which no further payload is sent */
        CHANNEL_RETRY_US = 10000,       /* pause when the kernel is short of memory */
};

struct channel;

struct local {
        struct transport base;
        struct directory directory;
        uint64_t epoch;
        uint64_t chunk_size, window;
        int listener; /* -1 = stopping */
        struct copy_pool *copy_pool;
        struct staging *staging;
        struct copier *copier; /* its threads */
        int copied_fd;         /* an eventfd; readable when one of their tasks, or the last piece of a pull, is done */
        uint64_t lease_number; /* the last one that was granted */
        uint8_t *datagram;     /* FRAME_DATAGRAM_MAX + 1 bytes: for the datagram being read or put together */

        struct channel *channels;                /* all with an open socket */
        size_t n_accepted, n_pending, max_links; /* of links that peers open; n_pending: of those, without HELLO yet */
        struct channel *closing;                 /* failed, or closed by the peer: the next progress() ends them … */
        struct channel *ending;                  /* … or waits until a device is done with their memory */
        struct channel *recent;                  /* the one that sent last; NULL = none */
        unsigned unpolled;                       /* progress() calls since the last epoll_wait */
        uint64_t accept_at_us;                   /* the listener is not polled before; 0 = it is polled */
        uint64_t retry_at_us;                    /* next try to send queued datagrams; 0 = when a socket has room */
        bool full;                               /* links were refused, and that was logged */

        struct pull *pulls; /* of all links, in the order of their next pieces */

        /* A callback to gpu_mapping.h, which comes later in README.md's order. */
        void (*close_memory)(struct mappings *mappings, uint64_t id, const struct space *space);
};

/* A datagram queued for room in the socket. */
struct queued_datagram {
        struct queued_datagram *next;
        struct memfd *memfd;
        size_t size;
        uint8_t bytes[];
};

/* A memory that the peer was told to map. GPU memory is mapped only once the peer has answered that it can open it. */
struct export
{
        uint64_t id;
        enum {
                EXPORT_MAPPED,
                EXPORT_PENDING,
                EXPORT_REFUSED,
                EXPORT_CLOSING, /* GPU memory that was deregistered, and that the peer has not closed yet */
        } state;
        const struct space *space; /* of GPU memory that the peer has opened, or may open; else NULL */
        UT_hash_handle hh;
};

/* A peer's GPU memory being opened. */
struct gpu_opening {
        struct copier_task task;
        struct channel *channel;
        struct mapping *mapping; /* in use */
        struct gpu_share share;
        unsigned gpu; /* its number here */
        int result;   /* of the task, as the next two */
        const struct space *space;
        const void *address;
        struct gpu_opening *prev, *next;
};

/* A peer's GPU memory being closed; FRAME_UNMAPPED follows. */
struct gpu_closing {
        struct copier_task task;
        struct channel *channel;
        uint64_t id;
        const struct space *space; /* NULL = opening failed */
        struct gpu_closing *prev, *next;
};

struct channel {
        struct link link;
        int fd;
        uint64_t epoch; /* of the worker to reach; 0 = the link was accepted */
        bool has_greeted;
        bool was_greeted; /* the peer's HELLO has come */
        bool known;       /* the engine has the link */
        bool peer_closed; /* datagrams sent before can still be read */
        bool is_closing;
        bool wants_room;
        bool polls_out;
        struct channel *prev, *next;  /* local->channels */
        struct channel *next_closing; /* or ending */

        struct queued_datagram *queue, **queue_end;
        size_t queue_bytes;

        struct leases leases;
        struct export *exports;  /* by id */
        struct message *loading; /* utlist; sends off the host; outgoing.c */
        struct message *storing; /* utlist; receives into memory off the host whose bytes came inline */

        const struct lease_slot *peer_page;
        size_t peer_page_size;
        struct mappings mappings;
        struct gpu_opening *openings; /* utlist; GPU memory that the copier opens … */
        struct gpu_closing *closings; /* utlist; … or closes */
        bool pulling[FRAME_LEASES];   /* the peer's lease slots that this worker has not released */
};

/* ---- its life ---- */

/* Takes over the socket, also on failure. epoch: of the worker to reach; 0 = accepted. 0 or -errno. */
int channel_new(struct local *local, int fd, uint64_t epoch, struct channel **ret_channel);
/* Sends HELLO, once. 0 or -errno. */
int channel_greet(struct channel *channel);
/* Closes the socket, and unmaps the peer's memory. No message may be under way. */
void channel_close(struct channel *channel);
/* Fails the link; it ends in the next progress(). */
void channel_fail(struct channel *channel, int error, const char *detail);
/* Fails the link because the peer has closed its end. */
void channel_peer_closed(struct channel *channel);

static inline struct channel *channel_of(struct link *link)
{
        return (struct channel *)(void *)link; /* its first member */
}

/* The transport as its own struct. */
static inline struct local *local_of(const struct transport *transport)
{
        return (struct local *)(uintptr_t)transport; /* its first member */
}

static inline struct local *channel_local(const struct channel *channel)
{
        return (struct local *)(void *)channel->link.transport;
}

/* The peer's epoch as logs show it. Returns text. */
const char *channel_peer_epoch(const struct channel *channel, char text[FERRY_ID_TEXT_SIZE]);

/* The peer has died, or does not map the memory any more. */
void export_remove(struct channel *channel, struct export *export);

/* Calls done and frees a send or a receive. */
void message_finish(struct message *message, enum message_result result);

/* ---- datagrams ---- */

/* Sends or queues a datagram; pieces[0] is its frame. memfd: a descriptor that goes with it, or NULL. */
void channel_post(struct channel *channel, const struct iovec *pieces, size_t n, struct memfd *memfd);
/* The same for a frame alone. */
void channel_post_frame(struct channel *channel, struct frame frame, struct memfd *memfd);
/* Sends queued datagrams while there is room. */
void channel_flush(struct channel *channel);

struct datagram {
        const uint8_t *bytes;
        size_t size;
        int fds[2];
        size_t n_fds;
        bool urgent; /* answer it before reading on */
        bool cut;    /* truncated */
};

/* Reads the next datagram into local->datagram. 1 with *ret_datagram (see datagram_clear); 0 = none now; -EPIPE = end
 * of the connection; other -errno. */
int channel_read(struct channel *channel, struct datagram *ret_datagram);
/* Closes the descriptors that were not taken over. */
void datagram_clear(struct datagram *datagram);

#endif
