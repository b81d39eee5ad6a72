/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "local_internal.h"

/*
 * One round of the local transport: links that end, timers, mailboxes, the sockets' events, pieces of pulls. While any
 * mailbox is looked at, the sockets are polled in every POLL_EVERYth round only, and after one that found events: a
 * system call takes longer than all else of a small transfer. Before the thread sleeps (local_arm) the peers are told
 * to wake it.
 *
 * Thread: the progress thread. Handlers of the engine are called inside, and may send and fail links.
 */

enum {
        GREETING_US = 10000000, /* time for a peer that has connected to send HELLO */
        EVENTS_MAX = 16,
        READS_MAX = 4096, /* of a closed socket, which never holds so many datagrams */
};

/* ---- links that end ---- */

/* Whether no task and no message uses the link's memory. */
static bool is_unused(const struct channel *channel)
{
        return pulls_are_idle(channel) && channel->mappings.n == 0 && !channel->link.loading;
}

/* Nothing touches memory for the link any more. */
static void channel_end(struct local *local, struct channel *channel)
{
        exports_clear(channel);
        leases_clear(&channel->leases, local->tasks);
        if (channel->link.accepted) {
                local->n_accepted--;
                local->n_pending -= !channel->peer_page;
        }
        channel_close(channel);
        link_set_state(&channel->link, LINK_ENDED);
        if (channel->known)
                local->base.handlers.ended(local->base.handlers.context, &channel->link);
        else
                free(channel);
}

/* Reads what the peer sent before it closed its end. */
static void read_rest(struct channel *channel)
{
        for (int n = 0; n < READS_MAX && link_is_usable(&channel->link) && incoming_read(channel); n++)
                ;
        channel_peer_closed(channel);
}

/* A failed link that nothing uses any more; NULL = none. */
static struct channel *find_ended(const struct local *local)
{
        struct channel *channel;

        LL_FOREACH2 (local->ending, channel, next_closing)
                if (is_unused(channel))
                        return channel;
        return NULL;
}

bool local_end_failed(struct local *local)
{
        bool did = local->closing;
        struct channel *channel;

        while ((channel = local->closing)) {
                local->closing = channel->next_closing;
                if (link_is_usable(&channel->link))
                        read_rest(channel);
                stage_cancel(&channel->link, NULL, MESSAGE_LOST);
                pulls_end(channel, NULL, MESSAGE_LOST);
                /* The peer frees GPU memory as soon as the socket is closed: what is open of it is closed before. */
                gpu_mappings_end(channel);
                mappings_clear(channel);
                outgoing_end(channel, NULL, MESSAGE_LOST);
                LL_PREPEND2(local->ending, channel, next_closing);
        }
        while ((channel = find_ended(local))) {
                LL_DELETE2(local->ending, channel, next_closing);
                channel_end(local, channel);
                did = true;
        }
        return did;
}

/* ---- progress ---- */

/* Events of a link's socket. Those of a link that has failed are left to its end. */
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

void local_collect_copies(struct local *local)
{
        eventfd_t count;

        (void)eventfd_read(local->copied_fd, &count);
        (void)pool_collect(local->tasks);
}

/* Takes the events of all descriptors. Returns whether there was any. */
static bool poll_all(struct local *local)
{
        struct epoll_event events[EVENTS_MAX];
        int n = epoll_wait(local->base.fd, events, EVENTS_MAX, 0);

        local->unpolled = n > 0 ? POLL_EVERY : 0; /* where one datagram came, there may be more */
        for (int i = 0; i < n; i++) {
                if (events[i].data.ptr == &local->listener)
                        local_listener_accept(local);
                else if (events[i].data.ptr == &local->removal)
                        local_listener_check(local);
                else if (events[i].data.ptr == &local->copied_fd)
                        local_collect_copies(local);
                else
                        on_channel(events[i].data.ptr, events[i].events);
        }
        return n > 0;
}

/* Whether a peer has connected and not greeted yet. */
static bool is_pending(const struct channel *channel)
{
        return channel->link.accepted && !channel->peer_page && link_is_usable(&channel->link);
}

uint64_t local_deadline(const struct transport *transport)
{
        const struct local *local = local_of(transport);
        const struct channel *channel;
        uint64_t at_us = clock_earlier(clock_earlier(local->accept_at_us, local->retry_at_us),
                                       clock_earlier(local->reopen_at_us, local->look_at_us));

        if (local->n_pending > 0)
                DL_FOREACH (local->channels, channel)
                        if (is_pending(channel))
                                at_us = clock_earlier(at_us, channel->link.created_us + GREETING_US);
        return at_us ? at_us : UINT64_MAX;
}

/* Each timer is 0 while it does not run; local_deadline() has the earliest. */
static void run_timers(struct local *local)
{
        uint64_t deadline_us = local_deadline(&local->base), now_us;
        struct channel *channel;

        if (deadline_us == UINT64_MAX)
                return;
        now_us = clock_now_us();
        if (now_us < deadline_us)
                return;
        if (local->accept_at_us != 0 && local->accept_at_us <= now_us)
                local_listener_resume(local);
        if (local->reopen_at_us != 0 && local->reopen_at_us <= now_us)
                local_listener_reopen(local);
        if (local->retry_at_us != 0 && local->retry_at_us <= now_us)
                local->retry_at_us = 0;
        if (local->look_at_us != 0 && local->look_at_us <= now_us)
                outgoing_look(local);
        DL_FOREACH (local->channels, channel) {
                if (local->retry_at_us == 0) {
                        channel_flush(channel);
                        outgoing_tell_room(channel);
                }
                if (is_pending(channel) && channel->link.created_us + GREETING_US <= now_us)
                        channel_fail(channel, FERRY_E_PEER_UNREACHABLE, "it does not greet");
        }
}

/* Takes messages out of the mailboxes. Where more links are busy than are looked at, the places are given away anew. */
static bool take_mail(struct local *local)
{
        struct channel *channel;
        bool any = false;

        DL_FOREACH2 (local->watched, channel, watched_next)
                any |= incoming_take(channel);
        if (local->crowded)
                (void)channels_unwatch(local);
        return any;
}

bool local_progress(struct transport *transport)
{
        struct local *local = local_of(transport);
        bool did = local_end_failed(local);

        run_timers(local);
        did |= take_mail(local);
        if (!local->watched || ++local->unpolled >= POLL_EVERY)
                did |= poll_all(local);
        if (local->pulls)
                did |= pulls_copy(local);
        closer_run(&local->closer);
        return did;
}

bool local_arm(struct transport *transport)
{
        struct local *local = local_of(transport);

        return !local->closing && !find_ended(local) && !pulls_have_work(local) && channels_unwatch(local);
}
