/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "channel.h"
#include "incoming.h"
#include "lending.h"
#include "listener.h"
#include "opening.h"
#include "outgoing.h"
#include "pulls.h"

enum {
        GREETING_US = 10000000, /* a peer that connects greets within this time */
        EVENTS_MAX = 16,
        HEAR_OUT_MAX = 4096, /* reads; a socket does not hold so much */
        POLL_EVERY = 8,      /* progress() calls with one talkative link before the others are looked at */
        DRAIN_WAIT_MS = 10,
        CHUNK_DEFAULT = 16 << 20,
        WINDOW_DEFAULT = 4,
        LINKS_DEFAULT = 4096,
};

static struct local *local_of(const struct transport *transport)
{
        return (struct local *)(uintptr_t)transport; /* its first member */
}

/* ---- links that end ---- */

static bool is_quiet(const struct channel *channel)
{
        return pulls_are_idle(channel) && !channel->openings && !channel->closings && !channel->loading;
}

/* Nobody touches any memory for it any more. */
static void channel_end(struct local *local, struct channel *channel)
{
        channel_close(channel);
        if (channel->link.accepted) {
                local->n_accepted--;
                local->n_strangers -= !channel->was_greeted;
        }
        link_set_state(&channel->link, LINK_ENDED);
        if (channel->known)
                local->base.handlers.ended(local->base.handlers.context, &channel->link);
        else
                free(channel);
}

/* A peer that has closed its end may have said something before. */
static void hear_out(struct channel *channel)
{
        for (int n = 0; n < HEAR_OUT_MAX && link_is_usable(&channel->link) && incoming_read(channel); n++)
                ;
        channel_is_gone(channel);
}

/* A failed link that can end; NULL = none. */
static struct channel *find_quiet(const struct local *local)
{
        struct channel *channel;

        LL_FOREACH2(local->ending, channel, next_closing)
        if (is_quiet(channel))
                return channel;
        return NULL;
}

static bool end_closing(struct local *local)
{
        bool did = local->closing;
        struct channel *channel;

        while ((channel = local->closing)) {
                local->closing = channel->next_closing;
                if (link_is_usable(&channel->link))
                        hear_out(channel);
                pulls_end(channel);
                openings_end(channel);
                outgoing_end(channel);
                LL_PREPEND2(local->ending, channel, next_closing);
        }
        while ((channel = find_quiet(local))) {
                LL_DELETE2(local->ending, channel, next_closing);
                channel_end(local, channel);
                did = true;
        }
        return did;
}

static void release_link(struct link *link)
{
        DL_DELETE(link->transport->links, link);
        free(channel_of(link));
}

static void fail_link(struct link *link, int error, const char *detail)
{
        channel_fail(channel_of(link), error, detail);
}

static void cancel(struct link *link, uint64_t transfer)
{
        outgoing_cancel(channel_of(link), transfer);
        pulls_cancel(channel_of(link), transfer);
}

/* ---- links that begin ---- */

static struct link *connect_link(struct transport *transport, const struct transport_peer *peer, int *ret_error)
{
        struct local *local = local_of(transport);
        struct channel *channel;
        int r = peer->epoch != 0 ? directory_connect(&local->directory, peer->epoch) : -ENOENT;

        if (r >= 0)
                r = channel_new(local, r, peer->epoch, &channel);
        if (r == 0) {
                link_init(&channel->link, transport, false);
                channel->known = true;
                r = channel_greet(channel);
                if (r < 0) {
                        channel_close(channel);
                        release_link(&channel->link);
                }
        }
        if (r < 0) {
                *ret_error = r;
                return NULL;
        }
        return &channel->link;
}

/* ---- progress ---- */

static void on_channel(struct channel *channel, uint32_t events)
{
        if (!link_is_usable(&channel->link))
                return;
        if (events & EPOLLOUT) {
                channel_flush(channel);
                outgoing_tell_room(channel);
        }
        if (events & ~(uint32_t)EPOLLOUT)
                (void)incoming_read(channel);
}

/* Thread: the copier's. */
static void tell_copied(void *context)
{
        const struct local *local = context;
        uint64_t one = 1;

        while (write(local->copied_fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

/* Its buffers are not used here: what is staged is in the ring of its link, or short. */
static void ignore_room(void *context)
{
        (void)context;
}

static void hear_copier(struct local *local)
{
        uint64_t count;

        while (read(local->copied_fd, &count, sizeof(count)) < 0 && errno == EINTR)
                ;
        (void)copier_collect(local->copier);
}

static bool poll_all(struct local *local)
{
        struct epoll_event events[EVENTS_MAX];
        int n = epoll_wait(local->base.fd, events, EVENTS_MAX, 0);

        local->unpolled = 0;
        for (int i = 0; i < n; i++) {
                if (events[i].data.ptr == &local->listener)
                        local_listener_accept(local);
                else if (events[i].data.ptr == &local->crew)
                        crew_hear(local->crew);
                else if (events[i].data.ptr == &local->copier)
                        hear_copier(local);
                else
                        on_channel(events[i].data.ptr, events[i].events);
        }
        return n > 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
        return b != 0 && b < a ? b : a;
}

static bool is_stranger(const struct channel *channel)
{
        return channel->link.accepted && !channel->was_greeted && link_is_usable(&channel->link);
}

static uint64_t deadline(const struct transport *transport)
{
        const struct local *local = local_of(transport);
        const struct channel *channel;
        uint64_t at_us = earlier(earlier(UINT64_MAX, local->accept_at_us), local->retry_at_us);

        if (local->n_strangers > 0)
                DL_FOREACH (local->channels, channel)
                        if (is_stranger(channel))
                                at_us = earlier(at_us, channel->link.created_us + GREETING_US);
        return at_us;
}

static void run_timers(struct local *local)
{
        uint64_t now_us = clock_now_us();
        struct channel *channel;

        if (now_us < deadline(&local->base))
                return;
        if (local->accept_at_us != 0 && local->accept_at_us <= now_us)
                local_listener_resume(local);
        if (local->retry_at_us != 0 && local->retry_at_us <= now_us)
                local->retry_at_us = 0;
        DL_FOREACH (local->channels, channel) {
                if (local->retry_at_us == 0) {
                        channel_flush(channel);
                        outgoing_tell_room(channel);
                }
                if (is_stranger(channel) && channel->link.created_us + GREETING_US <= now_us)
                        channel_fail(channel, FERRY_E_PEER_UNREACHABLE, "it does not greet");
        }
}

static bool progress(struct transport *transport)
{
        struct local *local = local_of(transport);
        bool did = end_closing(local), heard = false;

        if (local->accept_at_us != 0 || local->retry_at_us != 0 || local->n_strangers > 0)
                run_timers(local);
        if (local->recent)
                heard = incoming_read(local->recent);
        if (!heard || ++local->unpolled >= POLL_EVERY)
                did |= poll_all(local);
        if (local->pulls)
                did |= pulls_copy(local);
        return did || heard;
}

static bool arm(struct transport *transport)
{
        const struct local *local = local_of(transport);

        return !local->closing && !find_quiet(local) && !pulls_have_work(local);
}

/* ---- sizes ---- */

static uint64_t request_size(struct link *link, const struct stream *own, uint64_t offset, uint64_t limit)
{
        uint64_t chunk = local_of(link->transport)->chunk_size;

        /* A copy on one GPU moves 16 MiB in 8 us: less than a message takes. */
        if (stream_space(own, offset))
                chunk = WIRE_CHUNK_MAX;
        return limit < chunk ? limit : chunk;
}

static uint64_t window(struct link *link)
{
        const struct local *local = local_of(link->transport);

        return local->window * local->chunk_size;
}

static const char *carrier(struct link *link)
{
        return link->carrier;
}

/* ---- the end ---- */

static bool is_idle(const struct local *local)
{
        const struct channel *channel;

        DL_FOREACH (local->channels, channel)
                if (!outgoing_is_idle(channel) || !pulls_are_idle(channel))
                        return false;
        return true;
}

static void shut_down(struct transport *transport, uint64_t deadline_us)
{
        struct local *local = local_of(transport);
        struct epoll_event event;
        struct channel *channel;

        local_listener_close(local);
        while (!is_idle(local) && clock_now_us() < deadline_us)
                if (!progress(transport) && arm(transport))
                        (void)epoll_wait(local->base.fd, &event, 1, DRAIN_WAIT_MS);
        while (local->channels) {
                DL_FOREACH (local->channels, channel)
                        channel_fail(channel, FERRY_E_DRAINING, "this worker shuts down");
                if (!end_closing(local))
                        (void)epoll_wait(local->base.fd, &event, 1, DRAIN_WAIT_MS);
                hear_copier(local);
        }
}

static void free_transport(struct transport *transport)
{
        struct local *local = local_of(transport);
        struct link *link, *next;

        shut_down(transport, 0);
        DL_FOREACH_SAFE (transport->links, link, next)
                release_link(link);
        directory_close(&local->directory);
        crew_free(local->crew);
        staging_free(local->staging);
        cleanup_close(&local->copied_fd);
        cleanup_close(&local->base.fd);
        transport_clear(transport);
        free(local->datagram);
        free(local);
}

static const struct transport_ops ops = {
        .free = free_transport,
        .shut_down = shut_down,
        .progress = progress,
        .arm = arm,
        .deadline = deadline,
        .register_memory = lending_register,
        .deregister_memory = lending_deregister,
        .connect = connect_link,
        .send = outgoing_send,
        .receive = pulls_receive,
        .cancel = cancel,
        .fail = fail_link,
        .release = release_link,
        .request_size = request_size,
        .fit = outgoing_fit,
        .window = window,
        .carrier = carrier,
};

/* ---- the beginning ---- */

static int poll_threads(struct local *local)
{
        struct epoll_event crew = { .events = EPOLLIN, .data.ptr = &local->crew };
        struct epoll_event copier = { .events = EPOLLIN, .data.ptr = &local->copier };

        if (epoll_ctl(local->base.fd, EPOLL_CTL_ADD, local->copied_fd, &copier) < 0)
                return -errno;
        if (crew_fd(local->crew) < 0)
                return 0;
        return epoll_ctl(local->base.fd, EPOLL_CTL_ADD, crew_fd(local->crew), &crew) < 0 ? -errno : 0;
}

/* What is not the directory's. 0 or -errno. */
static int make_parts(struct local *local, unsigned copy_threads)
{
        int r = crew_new(copy_threads, &local->crew);

        if (r == 0)
                r = staging_new(tell_copied, ignore_room, local, &local->staging);
        if (r < 0)
                return r;
        local->copier = staging_copier(local->staging);
        local->datagram = malloc(FRAME_DATAGRAM_MAX + 1);
        if (!local->datagram)
                return -ENOMEM;
        local->copied_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (local->copied_fd >= 0)
                local->base.fd = epoll_create1(EPOLL_CLOEXEC);
        return local->base.fd < 0 ? -errno : poll_threads(local);
}

static int open_parts(struct local *local, const struct local_config *config)
{
        int r = directory_open(&local->directory, config->directory);

        if (r < 0)
                return r;
        directory_sweep(&local->directory);
        r = make_parts(local, config->copy_threads);
        if (r < 0) {
                log_event(LOG_ERROR, "local transport not opened", LOG_S("reason", strerror(-r)));
                return r;
        }
        return local_listener_open(local);
}

int local_transport_new(const struct local_config *config, const struct transport_handlers *handlers, size_t index,
                        struct transport **ret_transport)
{
        struct local *local = calloc(1, sizeof(*local));
        int r;

        if (!local)
                return -ENOMEM;
        transport_init(&local->base, &ops, "local", index, handlers);
        local->epoch = config->epoch;
        local->close_memory = opening_close;
        local->may_leave = outgoing_may_leave;
        local->leave = outgoing_leave;
        local->chunk_size = config->chunk_size ? config->chunk_size : CHUNK_DEFAULT;
        if (local->chunk_size > WIRE_CHUNK_MAX)
                local->chunk_size = WIRE_CHUNK_MAX;
        local->window = config->window ? config->window : WINDOW_DEFAULT;
        local->max_links = config->max_links ? config->max_links : LINKS_DEFAULT;
        local->listener = local->copied_fd = -1;
        local->directory.fd = -1;
        r = open_parts(local, config);
        if (r < 0) {
                free_transport(&local->base);
                return r;
        }
        *ret_transport = &local->base;
        return 0;
}

const char *local_transport_directory(const struct transport *transport)
{
        return local_of(transport)->directory.path;
}

void local_transport_unlink(const struct transport *transport)
{
        directory_unlink(&local_of(transport)->directory);
}
