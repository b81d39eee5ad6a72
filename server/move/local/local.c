/* SPDX-License-Identifier: Apache-2.0 */
#include "move/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * The local transport: its set-up, its end, and its table of functions (struct transport_ops); move/local.h is the
 * contract. The order of the end is: no new links, messages that are under way have until the deadline, then every link
 * fails and ends, which waits for tasks of the pool that still use their memory.
 *
 * Thread: the progress thread, but for export_register() of the table, tell_copied() and local_transport_unlink().
 */

enum {
        DRAIN_WAIT_MS = 10,
};

static void fail_link(struct link *link, int error, const char *detail)
{
        channel_fail(channel_of(link), error, detail);
}

static void cancel(struct link *link, uint64_t transfer)
{
        stage_cancel(link, &transfer, MESSAGE_CANCELLED);
        outgoing_loaded(channel_of(link));
        outgoing_end(channel_of(link), &transfer, MESSAGE_CANCELLED);
        pulls_end(channel_of(link), &transfer, MESSAGE_CANCELLED);
}

/* A link is known to the engine from here on; it comes up with the peer's HELLO. NULL with *ret_error. */
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
                        link_free(&channel->link);
                }
        }
        if (r < 0) {
                *ret_error = r;
                return NULL;
        }
        return &channel->link;
}

/* Thread: of the pool. */
static void tell_copied(void *context)
{
        const struct local *local = context;

        (void)eventfd_write(local->copied_fd, 1);
}

static void make_metrics(struct local *local, struct metrics *metrics)
{
        static const char *const label[] = { "direction" };
        struct metric_family *messages =
                metrics_family(metrics, METRIC_COUNTER, "ferry_local_messages_total",
                               "Messages to and from workers on this machine.", 1, label, NULL, 0);

        local->mapped.metric = metric_single(metrics, METRIC_GAUGE, "ferry_mapped_memories",
                                             "Regions of workers on this machine that this worker has mapped.");
        metric_set(metric_single(metrics, METRIC_GAUGE, "ferry_mapped_memories_max",
                                 "The most of these that it keeps while they are idle."),
                   (int64_t)local->mapped.max);
        local->metric_sent = metric_get(messages, (const char *const[]){ "sent" });
        local->metric_received = metric_get(messages, (const char *const[]){ "received" });
}

static const char *carrier(struct link *link)
{
        return link->carrier;
}

/* ---- the end ---- */

/* Whether no message is under way over any link. */
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
                if (!local_progress(transport) && local_arm(transport))
                        (void)epoll_wait(local->base.fd, &event, 1, DRAIN_WAIT_MS);
        while (local->channels) {
                DL_FOREACH (local->channels, channel)
                        channel_fail(channel, FERRY_E_DRAINING, "this worker shuts down");
                if (!local_end_failed(local))
                        (void)epoll_wait(local->base.fd, &event, 1, DRAIN_WAIT_MS);
                local_collect_copies(local);
        }
}

static void free_transport(struct transport *transport)
{
        struct local *local = local_of(transport);
        struct link *link, *next;

        shut_down(transport, 0);
        DL_FOREACH_SAFE (transport->links, link, next)
                link_free(link);
        closer_clear(&local->closer);
        directory_close(&local->directory);
        copies_clear(&local->copies);
        staging_free(local->staging);
        cleanup_close(&local->copied_fd);
        cleanup_close(&local->base.fd);
        free(local);
}

static const struct transport_ops ops = {
        .free = free_transport,
        .shut_down = shut_down,
        .progress = local_progress,
        .arm = local_arm,
        .deadline = local_deadline,
        .register_memory = export_register,
        .deregister_memory = export_deregister,
        .connect = connect_link,
        .send = outgoing_send,
        .receive = pulls_receive,
        .cancel = cancel,
        .fail = fail_link,
        .fit = outgoing_fit,
        .carrier = carrier,
};

/* ---- set-up ---- */

/* Makes all but the directory and the listener. 0 or -errno. */
static int make_parts(struct local *local, unsigned copy_threads)
{
        struct epoll_event copied = { .events = EPOLLIN, .data.ptr = &local->copied_fd };
        /* A staged payload is in a bounce buffer of its link, or short: it needs no room. */
        int r = staging_new(tell_copied, NULL, local, copy_threads + 1, &local->staging);

        if (r < 0)
                return r;
        local->tasks = staging_tasks(local->staging);
        local->copied_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (local->copied_fd >= 0)
                local->base.fd = epoll_create1(EPOLL_CLOEXEC);
        if (local->base.fd < 0 || epoll_ctl(local->base.fd, EPOLL_CTL_ADD, local->copied_fd, &copied) < 0)
                return -errno;
        return 0;
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
        copies_init(&local->copies, config->copy_threads);
        local->mapped.max = config->max_mappings ? config->max_mappings : local_mappings_default();
        make_metrics(local, config->metrics);
        local->max_links = config->max_links ? config->max_links : TRANSPORT_LINKS_DEFAULT;
        local->listener = local->removal = local->copied_fd = -1;
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
        directory_abandon(&local_of(transport)->directory);
}
