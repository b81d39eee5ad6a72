/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * Channels: a link of the local transport, with its socket, its mailbox and the queue of datagrams that the socket did
 * not take. channel_new() makes one for a connected socket; channel_greet() sends HELLO with the link page, the shared
 * memory that has this end's leases and mailbox. A link that fails is only marked, and its socket no longer polled
 * (channel_fail); progress.c ends it when nothing uses its memory any more, by channel_close(). The engine frees a link
 * that it has got (link_free).
 *
 * Messages leave by the mailbox while the peer looks at its mailbox, else as datagrams; mail_put() and the count of
 * datagrams keep the two in order. Thread: the progress thread.
 */

/* ---- mailboxes that are looked at ---- */

/* Takes the channel off the list of mailboxes to look at. Its watched word is the caller's. */
static void leave_watched(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (!channel->is_watched)
                return;
        DL_DELETE2(local->watched, channel, watched_prev, watched_next);
        local->n_watched--;
        channel->is_watched = false;
}

void channel_watch(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (channel->is_watched || !mail_is_open(&channel->mail))
                return;
        if (local->n_watched >= CHANNELS_WATCHED_MAX) {
                local->crowded = true;
                return;
        }
        DL_APPEND2(local->watched, channel, watched_prev, watched_next);
        local->n_watched++;
        channel->is_watched = true;
        mail_set_watched(&channel->mail, true);
}

/* Whether a message waits in a mailbox that is being looked at. */
static bool has_mail(const struct local *local)
{
        const struct channel *channel;

        DL_FOREACH2 (local->watched, channel, watched_next)
                if (link_is_usable(&channel->link) && mail_is_there(&channel->mail))
                        return true;
        return false;
}

/*
 * The order is that of mailbox.h: first the words say that nobody looks, then comes the last look. Without it a peer
 * that has read the old word would wait for an answer while this thread sleeps.
 */
bool channels_unwatch(struct local *local)
{
        struct channel *channel, *next;

        DL_FOREACH2 (local->watched, channel, watched_next)
                mail_set_watched(&channel->mail, false);
        if (has_mail(local)) {
                DL_FOREACH2 (local->watched, channel, watched_next)
                        mail_set_watched(&channel->mail, true);
                return false;
        }
        DL_FOREACH_SAFE2 (local->watched, channel, next, watched_next)
                leave_watched(channel);
        local->crowded = false;
        return true;
}

/* ---- links ---- */

enum { DESCRIPTORS_MAX = 253 }; /* of one datagram, by Linux; recvmsg would close those that it has no room for */

const char *channel_peer_epoch(const struct channel *channel, char text[FERRY_ID_TEXT_SIZE])
{
        ferry_id_format("", channel->link.peer_epoch, text);
        return text;
}

/* ---- its life ---- */

/* Changes which events of the socket wake the transport. Returns 0 or -errno. */
static int watch(struct channel *channel, int operation, uint32_t events)
{
        struct epoll_event event = { .events = events, .data.ptr = channel };

        return epoll_ctl(channel_local(channel)->base.fd, operation, channel->fd, &event) < 0 ? -errno : 0;
}

int channel_greet(struct channel *channel)
{
        struct memfd *memfd;
        void *page;
        int r;

        if (channel->page)
                return 0;
        r = memfd_new("ferry-link", sizeof(*channel->page), &page, &memfd);
        if (r < 0)
                return r;
        channel->page = page;
        channel->mail.own = &channel->page->mailbox;
        channel->leases.words = channel->page->leases;
        channel_post_frame(channel, FRAME_OF(FRAME_HELLO, .id = channel_local(channel)->epoch), memfd);
        (void)memfd_drop(memfd);
        return 0;
}

int channel_new(struct local *local, int fd, uint64_t epoch, struct channel **ret_channel)
{
        struct channel *channel = calloc(1, sizeof(*channel));
        int r;

        if (!channel) {
                (void)close(fd);
                return -ENOMEM;
        }
        fork_private(fd);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ CHANNEL_SEND_BUFFER }, sizeof(int)); /* else as it is */
        channel->link.transport = &local->base;
        channel->link.created_us = clock_now_us();
        channel->link.accepted = epoch == 0;
        (void)snprintf(channel->link.carrier, sizeof(channel->link.carrier), "shm");
        channel->fd = fd;
        channel->link.peer_epoch = epoch;
        r = watch(channel, EPOLL_CTL_ADD, EPOLLIN);
        if (r < 0) {
                (void)fork_private_close(fd);
                free(channel);
                return r;
        }
        DL_APPEND(local->channels, channel);
        *ret_channel = channel;
        return 0;
}

/* Frees the first datagram of the queue. */
static void queue_drop(struct channel *channel)
{
        struct queued_datagram *queued = channel->queue;

        DL_DELETE(channel->queue, queued);
        channel->queue_bytes -= queued->size;
        (void)memfd_drop(queued->memfd);
        explicit_bzero(queued->bytes, queued->size); /* the header may contain a key */
        free(queued);
}

/* Discards what was not read: to close the socket would close its descriptors here, and may block (closer.h). */
static void drop_unread(struct channel *channel)
{
        const int on = 1;
        struct datagram datagram;

        /* With credentials even an empty datagram is told from the end. */
        (void)setsockopt(channel->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
        (void)shutdown(channel->fd, SHUT_RD);
        while (channel_read(channel, &datagram) > 0)
                datagram_clear(channel_local(channel), &datagram);
}

void channel_close(struct channel *channel)
{
        struct local *local = channel_local(channel);

        drop_unread(channel);
        /* Explicitly: a child process may have the socket open, so that closing does not end the watch. */
        (void)watch(channel, EPOLL_CTL_DEL, 0);
        (void)fork_private_close(channel->fd);
        channel->fd = -1;
        while (channel->queue)
                queue_drop(channel);
        leave_watched(channel);
        if (channel->page)
                (void)munmap(channel->page, sizeof(*channel->page));
        if (channel->peer_page)
                (void)munmap((void *)(uintptr_t)channel->peer_page, sizeof(*channel->peer_page));
        channel->page = NULL;
        channel->peer_page = NULL;
        channel->mail = (struct mail){ 0 };
        DL_DELETE(local->channels, channel);
}

/* Has the next progress() end the link. */
static void close_soon(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (channel->is_closing)
                return;
        channel->is_closing = true;
        (void)watch(channel, EPOLL_CTL_DEL, 0); /* readable until closed, which may wait for a device */
        LL_PREPEND2(local->closing, channel, next_closing);
}

void channel_fail(struct channel *channel, int error, const char *detail)
{
        if (link_fail(&channel->link, error, detail))
                close_soon(channel);
}

void channel_peer_closed(struct channel *channel)
{
        if (channel->peer_page)
                channel_fail(channel, FERRY_E_PEER_LOST, "its process ended");
        else
                channel_fail(channel, FERRY_E_PEER_UNREACHABLE, "it closed the connection");
}

/* ---- sending ---- */

/* Sends one datagram. Returns 0; -EAGAIN: the socket's buffer is full; other -errno. */
static int write_datagram(int fd, const struct iovec *pieces, size_t n, const struct memfd *memfd)
{
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = n };

        if (memfd) {
                memset(&control, 0, sizeof(control));
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &memfd->fd, sizeof(int));
        }
        while (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                if (errno != EINTR)
                        return -errno;
        return 0;
}

/* sendmsg failed with r. Whether to keep the datagram and retry. */
static bool may_retry(struct channel *channel, int r)
{
        switch (r) {
        case -EAGAIN:
                if (!channel->polls_out)
                        channel->polls_out = watch(channel, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT) == 0;
                if (channel->polls_out)
                        return true;
                __attribute__((fallthrough));
        case -ENOBUFS:
        case -ENOMEM:
        case -ETOOMANYREFS: /* too many descriptors of this user in flight */
                channel_local(channel)->retry_at_us = clock_now_us() + CHANNEL_RETRY_US;
                return true;
        case -EPIPE:
        case -ECONNRESET:
        case -ECONNREFUSED:
        case -ENOTCONN:
                close_soon(channel);
                return false;
        default:
                channel_fail(channel, FERRY_E_PEER_LOST, strerror(-r));
                return false;
        }
}

/* Copies a datagram to the end of the queue. A peer that does not read for CHANNEL_QUEUE_MAX bytes loses its link. */
static void enqueue(struct channel *channel, const struct iovec *pieces, size_t n, struct memfd *memfd)
{
        struct queued_datagram *queued;
        size_t size = 0;
        uint8_t *to;

        for (size_t i = 0; i < n; i++)
                size += pieces[i].iov_len;
        queued = channel->queue_bytes + size <= CHANNEL_QUEUE_MAX ? malloc(sizeof(*queued) + size) : NULL;
        if (!queued) {
                log_event(LOG_WARN, "local peer does not read its messages",
                          LOG_S("peer_epoch", channel_peer_epoch(channel, (char[FERRY_ID_TEXT_SIZE]){ 0 })),
                          LOG_U("waiting", channel->queue_bytes));
                channel_fail(channel, FERRY_E_PEER_LOST, "it does not read its messages");
                return;
        }
        *queued = (struct queued_datagram){ .size = size, .memfd = memfd ? memfd_hold(memfd) : NULL };
        to = queued->bytes;
        for (size_t i = 0; i < n; i++)
                to = (uint8_t *)mempcpy(to, pieces[i].iov_base, pieces[i].iov_len);
        DL_APPEND(channel->queue, queued);
        channel->queue_bytes += size;
}

/* Sends a datagram, behind those that wait. */
static void post_datagram(struct channel *channel, const struct iovec *pieces, size_t n, struct memfd *memfd)
{
        int r;

        channel->mail.n_posted++;
        if (!channel->queue) {
                r = write_datagram(channel->fd, pieces, n, memfd);
                if (r == 0 || !may_retry(channel, r))
                        return;
        }
        enqueue(channel, pieces, n, memfd);
}

/* Puts the message into the mailbox, unless datagrams wait, which must come first. Returns whether it did. */
static bool post_mail(struct channel *channel, const struct iovec *pieces, size_t n)
{
        struct frame frame = FRAME_OF(FRAME_WAKE);
        struct iovec piece = { &frame, sizeof(frame) };
        bool wake;

        if (!mail_is_open(&channel->mail) || channel->queue || !mail_put(&channel->mail, pieces, n, &wake))
                return false;
        if (wake)
                post_datagram(channel, &piece, 1, NULL);
        return true;
}

void channel_post(struct channel *channel, const struct iovec *pieces, size_t n, struct memfd *memfd)
{
        if (channel->is_closing)
                return;
        metric_add(channel_local(channel)->metric_sent, 1);
        channel_watch(channel); /* for the answer */
        if (memfd || !post_mail(channel, pieces, n))
                post_datagram(channel, pieces, n, memfd);
}

void channel_post_frame(struct channel *channel, struct frame frame, struct memfd *memfd)
{
        struct iovec piece = { &frame, sizeof(frame) };

        channel_post(channel, &piece, 1, memfd);
}

void channel_flush(struct channel *channel)
{
        while (channel->queue && !channel->is_closing) {
                struct queued_datagram *queued = channel->queue;
                struct iovec piece = { queued->bytes, queued->size };
                int r = write_datagram(channel->fd, &piece, 1, queued->memfd);

                if (r < 0 && may_retry(channel, r))
                        return;
                queue_drop(channel);
        }
        if (channel->polls_out && watch(channel, EPOLL_CTL_MOD, EPOLLIN) == 0)
                channel->polls_out = false;
}

/* ---- reading ---- */

static void take_descriptors(struct local *local, struct msghdr *message, struct datagram *datagram)
{
        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (datagram->n_fds++ == 0)
                                datagram->fd = fd;
                        else
                                closer_add(&local->closer, fd);
                }
        }
}

int channel_read(struct channel *channel, struct datagram *ret_datagram)
{
        struct local *local = channel_local(channel);
        _Alignas(struct cmsghdr) char
                control[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct iovec piece = { local->datagram, sizeof(local->datagram) };
        struct msghdr message = {
                .msg_iov = &piece,
                .msg_iovlen = 1,
                .msg_control = control,
                .msg_controllen = sizeof(control),
        };
        ssize_t n = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        /* ECONNRESET is reported once, before the datagrams that the peer sent earlier. */
        while (n < 0 && (errno == EINTR || errno == ECONNRESET))
                n = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
                return errno == EAGAIN ? 0 : -errno;
        *ret_datagram = (struct datagram){ .bytes = local->datagram, .size = (size_t)n };
        if (message.msg_controllen > 0)
                take_descriptors(local, &message, ret_datagram);
        if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
                ret_datagram->cut = true;
        if (n == 0 && message.msg_controllen == 0)
                return -EPIPE;
        return 1;
}

void datagram_clear(struct local *local, struct datagram *datagram)
{
        if (datagram->n_fds > 0)
                closer_add(&local->closer, datagram->fd);
        datagram->n_fds = 0;
}
