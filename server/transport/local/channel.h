/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_CHANNEL_H
#define LOCAL_CHANNEL_H

#include <sys/types.h>
#include <sys/uio.h>

#include <ferry/encoding.h>

#include "crew.h"
#include "directory.h"
#include "frame.h"
#include "loan.h"
#include "mapping.h"
#include "pull.h"
#include "transport/local.h"
#include "transport/staging.h"

/* The transport, and a link of it with its socket and the datagrams that wait. The progress thread. */

enum {
        CHANNEL_QUEUE_MAX = 8 << 20,    /* bytes that wait for a peer that does not read; then the link fails */
        CHANNEL_QUEUE_ROOM = 256 << 10, /* with so many waiting, no further payload is sent */
        CHANNEL_RETRY_US = 10000,       /* when the kernel is short of memory */
};

struct channel;

struct local {
        struct transport base;
        struct directory directory;
        uint64_t epoch;
        uint64_t chunk_size, window;
        int listener; /* -1 = stopping */
        struct crew *crew;
        struct staging *staging;
        struct copier *copier; /* its threads */
        int copied_fd;         /* readable when they have something to tell */
        uint64_t lease_number; /* the last one that was granted */
        uint8_t *datagram;     /* FRAME_DATAGRAM_MAX + 1: what is being read or put together */

        struct channel *channels;                  /* all with a socket */
        size_t n_accepted, n_strangers, max_links; /* … that peers open */
        struct channel *closing;                   /* failed or deaf ones: the next progress() ends them … */
        struct channel *ending;                    /* … or it did, and a device is at work on some of their memory */
        struct channel *recent;                    /* spoke last; NULL = none */
        unsigned unpolled;                         /* progress() calls since the last epoll_wait */
        uint64_t accept_at_us;                     /* the listener rests until then; 0 = it does not */
        uint64_t retry_at_us;                      /* when queues are tried again; 0 = when a socket has room */
        bool full;                                 /* links were turned away, and that was logged */

        struct pull *pulls; /* of all links, in the order of their next piece */

        /* What files call that come later in README.md's order. */
        void (*close_memory)(struct mappings *mappings, uint64_t id, const struct space *space); /* opening.h */
        bool (*may_leave)(const struct channel *channel, const struct message *message);         /* outgoing.h */
        void (*leave)(struct channel *channel, struct message *message);
};

/* A datagram that waits for room in the socket. */
struct waiting {
        struct waiting *next;
        struct memfd *memfd;
        size_t size;
        uint8_t bytes[];
};

/* A memory that the peer has got, or was offered: a GPU's, which the peer may not be able to open. */
struct lent {
        uint64_t id;
        enum { LENT, LENT_ASKED, LENT_REFUSED } state;
        const struct space *space; /* of a GPU's memory, which the peer has open, or may; else NULL */
        UT_hash_handle hh;
};

/* A GPU's memory that the peer has lent, and that is being opened. */
struct opening {
        struct copier_task task;
        struct channel *channel;
        struct mapping *mapping; /* in use */
        struct gpu_share share;
        int result; /* of the task, as the next two */
        const struct space *space;
        const void *address;
        struct opening *prev, *next;
};

/* One that is being closed, after which the peer is told. */
struct closing {
        struct copier_task task;
        struct channel *channel;
        uint64_t id;
        const struct space *space; /* NULL = it could not be opened */
        struct closing *prev, *next;
};

struct channel {
        struct link link;
        int fd;
        uint64_t epoch; /* the one that was meant; 0 = it was accepted */
        bool has_greeted;
        bool was_greeted; /* the peer's HELLO came */
        bool known;       /* to the engine */
        bool deaf;        /* the peer has closed its end: what it sent before can still be read */
        bool is_closing;
        bool wants_room;
        bool polls_out;
        struct channel *prev, *next;  /* local->channels */
        struct channel *next_closing; /* or ending */

        struct waiting *queue, **queue_end;
        size_t queue_bytes;

        struct loans loans;
        struct lent *lent_by_id;
        struct lent *closing_by_id; /* a GPU's that was taken back, and that the peer has not closed yet */
        struct message *loading;    /* utlist; sends off the host; staged.c */
        struct message *storing;    /* utlist; receives that came inside, and go off the host */

        const struct lease_slot *peer_page;
        size_t peer_page_size;
        struct mappings mappings;
        struct opening *openings;   /* utlist; memories of GPUs that the copier opens */
        struct closing *closings;   /* utlist; … or closes */
        bool pulling[FRAME_LEASES]; /* slots of the peer's that it was not released yet */
};

/* ---- its life ---- */

/* Takes the socket over, also on failure. epoch: the one that is meant; 0 = accepted. 0 or -errno. */
int channel_new(struct local *local, int fd, uint64_t epoch, struct channel **ret_channel);
/* Sends HELLO, if that was not done. 0 or -errno. */
int channel_greet(struct channel *channel);
/* Closes the socket, and whatever belongs to the peer. No message may be under way. */
void channel_close(struct channel *channel);
/* Fails the link; it ends in the next progress(). */
void channel_fail(struct channel *channel, int error, const char *detail);
/* The peer has closed it. */
void channel_is_gone(struct channel *channel);

static inline struct channel *channel_of(struct link *link)
{
        return (struct channel *)(void *)link; /* its first member */
}

static inline struct local *channel_local(const struct channel *channel)
{
        return (struct local *)(void *)channel->link.transport;
}

/* The peer's epoch as logs show it. Returns text. */
const char *channel_peer_epoch(const struct channel *channel, char text[FERRY_ID_TEXT_SIZE]);

/* Of a memory that the peer does not have open any more. */
void lent_free(struct lent *lent);

/* Both directions: done, and back into the pool. */
void message_finish(struct message *message, enum message_result result);

/* ---- datagrams ---- */

/* Sends or queues a datagram; pieces[0] is its frame. memfd: a descriptor that goes with it, or NULL. */
void channel_post(struct channel *channel, const struct iovec *pieces, size_t n, struct memfd *memfd);
/* One that is a frame alone. */
void channel_post_frame(struct channel *channel, struct frame frame, struct memfd *memfd);
/* Sends what waits, as far as there is room. */
void channel_flush(struct channel *channel);

struct datagram {
        const uint8_t *bytes;
        size_t size;
        int fds[2];
        size_t n_fds;
        bool urgent; /* its answer leaves before anything else is read */
        bool cut;    /* some of it is missing */
};

/* The next one, into local->datagram; 1 with *ret_datagram (datagram_clear), 0 = none now, -errno; -EPIPE = the end. */
int channel_read(struct channel *channel, struct datagram *ret_datagram);
/* Closes the descriptors that nobody took. */
void datagram_clear(struct datagram *datagram);

#endif
