/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_MAILBOX_H
#define MOVE_LOCAL_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "frame.h"
#include "message/lease.h"

/*
 * Short messages by shared memory, while the receiver looks for them. A system call at each end takes longer than all
 * else in a transfer of 4 KiB.
 *
 * Each end of a link has a mailbox, which the peer maps read-only: it puts its messages into its own, and takes the
 * peer's out of the peer's. The sender fills its mailbox from the start to the end, and begins again at the start once
 * the receiver has taken all. A message that does not fit, or that carries a descriptor, is a datagram on the link's
 * socket. The two keep their order: each message says how many datagrams were sent before it.
 *
 *   sender      puts the message, then loads the receiver's watched: if it is 0, a datagram wakes the receiver;
 *   receiver    before it sleeps, stores 0 into its own watched, then looks once more.
 *
 * These four accesses are sequentially consistent, so at least one of the two sees what the other did, on any
 * processor. The count of messages is stored last and loaded first, and taken after the message was copied out; so
 * neither end sees half of a message. Where the next message lies follows from the counts alone, as the bytes of a
 * payload may look like anything. The receiver copies a message before it looks at it: the peer could change it any
 * time.
 *
 * The progress thread of either end.
 */

enum {
        MAILBOX_SIZE = 32 << 10,
        MAILBOX_MESSAGE_MAX = FRAME_PAYLOAD + WIRE_INLINE_MAX, /* bytes of a message */
        MAIL_ALIGNMENT = 64,
        MAILBOX_MESSAGES_MAX = MAILBOX_SIZE / MAIL_ALIGNMENT, /* in a mailbox at a time */
};

/* Zeroed before its first use. Cache lines: what the peer reads when it puts a message; when it looks; messages. */
struct mailbox {
        _Alignas(64) _Atomic uint64_t taken; /* messages that the owner has taken out of the peer's mailbox */
        _Atomic uint32_t watched;            /* 1: the owner looks at the peer's mailbox without being woken */
        _Alignas(64) _Atomic uint64_t put;   /* messages, so far */
        _Atomic uint64_t first;              /* the number, from 1 on, of the last one that was put at the start */
        _Alignas(MAIL_ALIGNMENT) uint8_t bytes[MAILBOX_SIZE];
};

/* What the peer of a link maps read-only: FRAME_HELLO carries its descriptor. Its owner alone writes it. */
struct link_page {
        struct lease_slot leases[FRAME_LEASES];
        _Atomic uint64_t copied[FRAME_LEASES]; /* bytes that the owner has copied under the peer's lease in that slot */
        struct mailbox mailbox;
};

/* A message in a mailbox, at a multiple of MAIL_ALIGNMENT. */
struct mail_record {
        uint64_t after; /* datagrams sent before it */
        uint64_t size;
        uint8_t bytes[];
};

/* An end of a link; zeroed at first. */
struct mail {
        struct mailbox *own;        /* NULL = the mailboxes are not in use yet … */
        const struct mailbox *peer; /* … also without this one */
        uint64_t n_put, n_taken;    /* messages */
        size_t end;                 /* of the messages in own */
        size_t next;                /* where the peer's next message is, unless it is the first one */
        uint64_t n_posted, n_read;  /* datagrams; counted by the channel */
};

/* Puts a message of n pieces. false: it does not fit now. *ret_wake: the peer must be woken by a datagram. */
bool mail_put(struct mail *mail, const struct iovec *pieces, size_t n, bool *ret_wake);
/* Whether the next message of the peer is in its mailbox, and not on the socket. */
bool mail_is_there(const struct mail *mail);
/* Copies it out. Returns its size; 0 = there is none, or a datagram comes first; -EBADMSG: it is none that a peer of
 * this protocol puts. */
int mail_take(struct mail *mail, uint8_t bytes[MAILBOX_MESSAGE_MAX]);

/* Whether this end looks at the peer's mailbox from now on. Look once more after false. */
static inline void mail_set_watched(struct mail *mail, bool on)
{
        atomic_store(&mail->own->watched, on);
}

static inline bool mail_is_open(const struct mail *mail)
{
        return mail->own && mail->peer;
}

#endif
