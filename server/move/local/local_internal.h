/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_INTERNAL_H
#define MOVE_LOCAL_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <utlist.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "closer.h"
#include "directory.h"
#include "frame.h"
#include "leases.h"
#include "mailbox.h"
#include "mapping.h"
#include "message/staging.h"
#include "move/local.h"
#include "pull.h"

/*
 * A link, and what the files that serve links share. The progress thread. A file calls only the files above it in this
 * header, except through callbacks that it is handed.
 */

enum {
        CHANNEL_QUEUE_MAX = 8 << 20,     /* bytes queued for a peer that does not read; beyond it the link fails */
        CHANNEL_QUEUE_ROOM = 256 << 10,  /* bytes queued, at which no further payload is sent */
        CHANNEL_SEND_BUFFER = 512 << 10, /* of the socket; Linux doubles it, and net.core.wmem_max bounds it */
        CHANNEL_RETRY_US = 10000,        /* pause when the kernel is short of memory */
        CHANNELS_WATCHED_MAX = 32,       /* whose mailboxes each progress() looks at */
        POLL_EVERY = 4, /* of the progress() calls that look at mailboxes, one polls the sockets, too */
};

struct channel;

/* Copies on the host, of all pulls (pulls.c). */
struct copies {
        unsigned n_helpers;
        struct pool_task help; /* waits while no pull is shared. The progress thread's */
        bool is_helped;        /* help was added */
        pthread_mutex_t lock;  /* guards what follows, and the second part of each pull */
        pthread_cond_t idle;   /* a pull's running became empty */
        struct pull *shared;   /* utlist; pulls whose pieces helpers take, in turn */
};

struct local {
        struct transport base;
        /* Where peers find this worker, and it them. */
        struct directory directory;
        uint64_t epoch;
        int listener;          /* -1 = stopping, or its directory cannot be made again yet */
        int removal;           /* an inotify descriptor; readable when the socket may be gone; -1 = none */
        uint64_t reopen_at_us; /* when a socket that is gone is made again; 0 = it is there */
        /* What copies, as tasks of the pool, and how the tasks tell. */
        struct copies copies;
        struct staging *staging;
        struct pool_user *tasks; /* of staging, which owns it; also tasks of this folder */
        int copied_fd;         /* an eventfd; readable when one of their tasks, or the last piece of a pull, is done */
        uint64_t lease_number; /* the last one that was granted */
        uint8_t mail[MAILBOX_MESSAGE_MAX];        /* the message being taken out of a mailbox */
        uint8_t datagram[FRAME_DATAGRAM_MAX + 1]; /* the datagram being read */

        /* Links, by what the next round has to do with them. */
        struct channel *channels;                /* all with an open socket */
        size_t n_accepted, n_pending, max_links; /* of links that peers open; n_pending: of those, without HELLO yet */
        struct channel *closing;                 /* failed, or closed by the peer: the next progress() ends them … */
        struct channel *ending;                  /* … or waits until a device is done with their memory */
        struct channel *watched;                 /* whose mailboxes progress() looks at */
        size_t n_watched;
        bool crowded;      /* another one should be, and has no place */
        unsigned unpolled; /* progress() calls since the last epoll_wait */
        /* Timers: times of the monotonic clock, in us. local_deadline() tells the earliest. */
        uint64_t accept_at_us; /* the listener is not polled before; 0 = it is polled */
        uint64_t warn_us;      /* the log says no more of that before this time */
        uint64_t retry_at_us;  /* next try to send queued datagrams; 0 = when a socket has room */
        uint64_t look_at_us;   /* next look at what the peers have copied of what was sent; 0 = nothing long was */
        bool full;             /* links were refused, and that was logged */

        /* Shared by all links. */
        struct closer closer;
        struct pull *pulls; /* of all links, in the order of their next pieces */
        struct mapping_pool mapped;
        struct metric *metric_sent, *metric_received;
};

/* A datagram queued for room in the socket. */
struct queued_datagram {
        struct queued_datagram *prev, *next;
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
                EXPORT_ASKED,   /* GPU memory that the peer has asked back, and that messages being loaded name */
                EXPORT_CLOSING, /* GPU memory that was taken back, and that the peer has not closed yet */
        } state;
        const struct space *space;  /* of GPU memory that the peer has opened, or may open; else NULL */
        uint64_t number;            /* of the last lease that names it */
        struct export *prev, *next; /* channel->lent */
        UT_hash_handle hh;
};

struct channel {
        struct link link;
        /* The socket and how far the greeting has come. */
        int fd;
        bool known;      /* the engine has the link */
        bool is_closing; /* failed, or closed by the peer, whose earlier datagrams can still be read */
        bool wants_room;
        bool polls_out;
        struct channel *prev, *next;  /* local->channels */
        struct channel *next_closing; /* or ending */

        struct queued_datagram *queue; /* utlist */
        size_t queue_bytes;

        /* The mailbox and the lease words: this end's, writable, and the peer's, read-only. */
        struct link_page *page;            /* NULL = not greeted */
        const struct link_page *peer_page; /* NULL = the peer's HELLO has not come */
        struct mail mail;
        bool is_watched; /* in local->watched */
        struct channel *watched_prev, *watched_next;

        /* As the sender: leases granted to the peer, and the memories that it maps. */
        struct leases leases;
        struct export *exports; /* by id */
        struct export *lent;    /* utlist; those of registered host memory, the least recently used first */
        size_t n_asked;         /* exports in the state EXPORT_ASKED */

        /* As the receiver: the peer's memories that are mapped here. */
        struct mappings mappings;
        bool pulling[FRAME_LEASES]; /* the peer's lease slots that this worker has not released */
};

/* A message that was read: of the socket, or of the mailbox, in which case it has no descriptor. */
struct datagram {
        const uint8_t *bytes;
        size_t size;
        int fd; /* the first of n_fds; the others are closed: no type of frame has more than one */
        size_t n_fds;
        bool urgent; /* answer it before reading on */
        bool cut;    /* truncated */
};

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

/* ---- channel.c: the mailboxes that progress() looks at, and the life of a link ---- */

/* Has progress() look at the peer's mailbox, until this thread is about to sleep. */
void channel_watch(struct channel *channel);
/* Ends that for all links. false: a message has come, and it goes on. */
bool channels_unwatch(struct local *local);

/* Takes over the socket, also on failure. epoch: of the worker to reach; 0 = accepted. 0 or -errno. */
int channel_new(struct local *local, int fd, uint64_t epoch, struct channel **ret_channel);
/* Sends HELLO, once. 0 or -errno. */
int channel_greet(struct channel *channel);
/* Closes the socket, and unmaps the link pages. Nothing else may be left of the link. */
void channel_close(struct channel *channel);
/* Fails the link; it ends in the next progress(). */
void channel_fail(struct channel *channel, int error, const char *detail);
/* Fails the link because the peer has closed its end. */
void channel_peer_closed(struct channel *channel);

/* The peer's epoch as logs show it. Returns text. */
const char *channel_peer_epoch(const struct channel *channel, char text[FERRY_ID_TEXT_SIZE]);

/* ---- channel.c: datagrams ---- */

/* Sends or queues a datagram; pieces[0] is its frame. memfd: a descriptor that goes with it, or NULL. */
void channel_post(struct channel *channel, const struct iovec *pieces, size_t n, struct memfd *memfd);
/* Sends or queues a frame without a body. memfd: a descriptor that goes with it, or NULL. */
void channel_post_frame(struct channel *channel, struct frame frame, struct memfd *memfd);
/* Sends queued datagrams while there is room. */
void channel_flush(struct channel *channel);

/* Reads the next datagram into local->datagram. 1 with *ret_datagram (see datagram_clear); 0 = none now; -EPIPE = end
 * of the connection; other -errno. */
int channel_read(struct channel *channel, struct datagram *ret_datagram);
/* Has the datagram's descriptor closed. */
void datagram_clear(struct local *local, struct datagram *datagram);

/* ---- export.c: the memory that peers may map, and where a stream's bytes lie in it ---- */

/* Functions of struct transport_ops. */
int export_register(struct transport *transport, struct memory *memory);
void export_deregister(struct transport *transport, struct memory *memory);

struct extents {
        struct frame_extent list[FRAME_EXTENTS_MAX];
        size_t n;
        bool full; /* more could be mapped, but the extents are full */
};

/* Finds the extents of the bytes from offset on that one message can map. Returns how many bytes. */
uint64_t export_find_extents(const struct channel *channel, const struct stream *stream, uint64_t offset,
                             uint64_t limit, struct extents *extents);
/* Returns how many bytes from offset on the peer cannot map. */
uint64_t export_count_unmappable(const struct channel *channel, const struct stream *stream, uint64_t offset,
                                 uint64_t limit);
/* Has the peer map the memories of these bytes that it does not map yet, and unmap others where they are many. 0 or
 * -ENOMEM. */
int export_stream(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length);
/*
 * Whether it is decided if the peer maps the bytes at offset. false: they are in GPU memory, and the peer has not
 * answered yet whether it can open that, or has asked it back.
 */
bool export_is_decided(struct channel *channel, const struct stream *stream, uint64_t offset);
/* FRAME_IDLE: the peer wants to map other memory instead. GPU memory that a message being loaded names stays until
 * that has left (export_return_asked). */
void export_idle(struct channel *channel, uint64_t id);
/* Takes back what was asked back and is not named any more. To be called after messages have left link->loading. */
void export_return_asked(struct channel *channel);
/* FRAME_UNMAPPED: the peer has closed GPU memory that was taken back. */
void export_unmapped(struct channel *channel, uint64_t id);
/* FRAME_MAPPED: the peer's answer to FRAME_MAP_GPU. */
void export_answered(struct channel *channel, uint64_t id, bool opened);

/* The link has ended: the peer maps nothing any more. */
void exports_clear(struct channel *channel);

/* Makes the bounce buffers and has the peer map them, once. 0 or -errno. */
int export_bounce_buffers(struct channel *channel);

/* ---- outgoing.c: sends: from handing over a message to the release of its memory ---- */

/* Functions of struct transport_ops. */
uint64_t outgoing_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                      bool *ret_inline);
void outgoing_send(struct link *link, struct message *message);

/* The peer released a lease, and tells how it copied. false: no such lease. */
bool outgoing_released(struct channel *channel, uint32_t slot, uint64_t number, enum gpu_path path);
/* Calls handlers->room if fit() has returned 0 and there is room now. */
void outgoing_tell_room(struct channel *channel);
/* Messages have left link->loading: takes back what they alone kept mapped. */
void outgoing_loaded(struct channel *channel);
/* Tells the progress of what the peers are copying (message->piece_done), and sets look_at_us anew. */
void outgoing_look(struct local *local);
/* Ends the leases of a transfer (NULL = all). */
void outgoing_end(struct channel *channel, const uint64_t *transfer, enum message_result result);
/* Nothing is queued or loading, and no lease is valid. */
bool outgoing_is_idle(const struct channel *channel);

/* ---- pulls.c: all pulls (pull.h), from the arrival of a mapped payload to the release of its lease ---- */

/* helpers: so many threads of the pool take pieces, too. */
void copies_init(struct copies *copies, unsigned helpers);
/* Stops the helpers. No pull may be left. */
void copies_clear(struct copies *copies);

/*
 * Makes a pull for a message that came; bytes: its extents and digests, of any alignment. Returns NULL where memory is
 * short, or where the message is wrong: *ret_wrong says how, and stays as it was otherwise.
 */
struct pull *pull_arrived(struct channel *channel, const struct frame *frame, const uint8_t *bytes,
                          const char **ret_wrong);
/* The engine has refused the payload. */
void pull_refuse(struct pull *pull);

/* Functions of struct transport_ops. */
void pulls_receive(struct link *link, struct message *message, struct payload *payload);

/* Copies about one piece, round-robin over the pulls. Whether it did anything. */
bool pulls_copy(struct local *local);
/* Whether a pull can be copied or ended now. */
bool pulls_have_work(struct local *local);

/* Ends the pulls of a transfer (NULL = all); those that a device is copying end after that. */
void pulls_end(struct channel *channel, const uint64_t *transfer, enum message_result result);
/* Whether the channel has no receives. */
bool pulls_are_idle(const struct channel *channel);

/* ---- gpu_mapping.c: opens a peer's GPU memory on the pool's threads, since it may take long ---- */

/*
 * Starts to open GPU memory of the peer; FRAME_MAPPED tells the peer the result. share: a struct gpu_share, of any
 * alignment. Returns 0; -EBADMSG: the id is known; -ENOSPC: beyond the limits of a link; -ENOMEM.
 */
int gpu_mapping_open(struct channel *channel, uint64_t id, uint64_t size, const void *share);
/* The link has failed: memory whose opening has not begun is not opened. */
void gpu_mappings_end(struct channel *channel);

/* ---- incoming.c: handles what arrives ---- */

/* Reads and handles a bounded number of messages, from the mailbox and the socket. Whether there was any. */
bool incoming_read(struct channel *channel);
/*
 * Reads and handles messages from the mailbox alone, up to one that is to be answered first. Returns whether there was
 * any.
 */
bool incoming_take(struct channel *channel);

/* ---- listener.c: accepts connections of peers ---- */

/* 0; -errno, logged. */
int local_listener_open(struct local *local);
/* Accepts waiting connections. Pauses until local->accept_at_us when that fails, as without a descriptor. */
void local_listener_accept(struct local *local);
/* Ends the pause. */
void local_listener_resume(struct local *local);
/* The socket may have been removed: if it was, it is made again at local->reopen_at_us. */
void local_listener_check(struct local *local);
/* Makes the directory, where it is gone, and the socket again; tries once a second until that succeeds. */
void local_listener_reopen(struct local *local);
/* Stops listening: no peer finds this worker any more. */
void local_listener_close(struct local *local);

/* ---- progress.c: one round of the transport: events, timers, copies, the end of failed links ---- */

/* Functions of struct transport_ops. */
bool local_progress(struct transport *transport);
bool local_arm(struct transport *transport);
uint64_t local_deadline(const struct transport *transport);

/* Ends the links that have failed, once nothing touches memory for them. Whether there were any. */
bool local_end_failed(struct local *local);
/* Collects the tasks that have run, and clears copied_fd. */
void local_collect_copies(struct local *local);

#endif
