/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * The listener: accepts peers, and makes the socket again when somebody removes it. A connection is a link once its
 * HELLO has come; before that it counts in n_pending and has GREETING_US (progress.c) to greet. When accepting fails,
 * as without a free descriptor, it pauses, so that the loop does not spin.
 *
 * Thread: the progress thread, and the one that opens the transport.
 */

enum {
        ACCEPT_BURST = 16,        /* connections to accept in a row */
        ACCEPT_PAUSE_US = 100000, /* pause when that fails */
        WARN_US = 10000000,       /* pause before the log says again that it fails */
        REOPEN_US = 200000,       /* for whatever removes the socket to remove the directory, too */
        RETRY_US = 1000000,       /* pause when neither can be made again */
};

/* Changes which events of the listener wake the transport. Returns 0 or -errno. */
static int watch(struct local *local, int operation, uint32_t events)
{
        struct epoll_event event = { .events = events, .data.ptr = &local->listener };

        return epoll_ctl(local->base.fd, operation, local->listener, &event) < 0 ? -errno : 0;
}

static void pause_accepting(struct local *local, const char *reason)
{
        (void)watch(local, EPOLL_CTL_MOD, 0);
        local->accept_at_us = clock_now_us() + ACCEPT_PAUSE_US;
        if (local->accept_at_us < local->warn_us)
                return;
        local->warn_us = local->accept_at_us + WARN_US;
        log_event(LOG_WARN, "accepting local peers paused", LOG_S("reason", reason));
}

/* Closes a connection, and logs why. */
static void refuse_socket(int fd, const char *reason)
{
        log_event(LOG_WARN, "local peer refused", LOG_S("reason", reason));
        (void)close(fd);
}

/* A worker that starts connects to every socket, to see which ones are those of dead workers (directory_sweep). */
static bool has_left(int fd)
{
        char byte;

        return recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void accept_one(struct local *local, int fd)
{
        struct channel *channel;
        bool was_full = local->full;
        int r;

        if (has_left(fd)) {
                (void)close(fd);
                return;
        }
        local->full = local->n_accepted >= local->max_links;
        if (local->full && was_full) {
                (void)close(fd); /* logged once */
        } else if (local->full) {
                refuse_socket(fd, "too many links");
        } else if (!socket_is_ours(fd)) {
                refuse_socket(fd, "another user's process");
        } else if ((r = channel_new(local, fd, 0, &channel)) < 0) {
                log_event(LOG_WARN, "local peer refused", LOG_S("reason", strerror(-r)));
        } else {
                local->n_accepted++;
                local->n_pending++;
        }
}

void local_listener_accept(struct local *local)
{
        if (closer_is_stuck(&local->closer)) {
                pause_accepting(local, "peers passed descriptors that cannot be closed");
                return;
        }
        for (int n = 0; n < ACCEPT_BURST; n++) {
                int fd = accept4(local->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd >= 0) {
                        accept_one(local, fd);
                        continue;
                }
                if (!accept_is_repeatable(errno))
                        pause_accepting(local, strerror(errno));
                return;
        }
}

/* Has inotify tell of the socket's removal. Without it the worker goes on: only the removal goes unnoticed. */
static void watch_socket(struct local *local)
{
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &local->removal };
        int fd = directory_watch_socket(&local->directory);

        if (fd < 0)
                log_event(LOG_INFO, "local socket not watched", LOG_S("reason", strerror(-fd)));
        else
                (void)epoll_ctl(local->base.fd, EPOLL_CTL_ADD, fd, &event);
        local->removal = fd;
}

int local_listener_open(struct local *local)
{
        int fd = directory_listen(&local->directory, local->epoch);

        if (fd < 0)
                return fd;
        fork_private(fd);
        local->listener = fd;
        watch_socket(local);
        return watch(local, EPOLL_CTL_ADD, EPOLLIN);
}

void local_listener_resume(struct local *local)
{
        local->accept_at_us = 0;
        (void)watch(local, EPOLL_CTL_MOD, EPOLLIN);
}

void local_listener_close(struct local *local)
{
        local->accept_at_us = local->reopen_at_us = 0;
        if (local->listener < 0)
                return;
        directory_unlink(&local->directory);
        (void)watch(local, EPOLL_CTL_DEL, 0);
        (void)fork_private_close(local->listener);
        /* Explicitly: a child process may have it open, so that closing does not end the watch. */
        (void)epoll_ctl(local->base.fd, EPOLL_CTL_DEL, local->removal, NULL);
        cleanup_close(&local->removal);
        local->listener = local->removal = -1;
}

void local_listener_check(struct local *local)
{
        char events[1024];

        while (read(local->removal, events, sizeof(events)) > 0)
                ;
        if (local->reopen_at_us == 0 && directory_lost_socket(&local->directory))
                local->reopen_at_us = clock_now_us() + REOPEN_US;
}

void local_listener_reopen(struct local *local)
{
        bool again = local->listener < 0; /* an earlier try has failed */

        local->reopen_at_us = 0;
        if (!directory_lost_socket(&local->directory))
                return;
        if (!again)
                log_event(LOG_WARN, "local socket was removed, creating it again",
                          LOG_S("directory", local->directory.path));
        local_listener_close(local);
        if (directory_reopen(&local->directory) == 0 && local_listener_open(local) == 0) {
                if (again)
                        log_event(LOG_INFO, "local socket created again", LOG_S("directory", local->directory.path));
                return;
        }
        local_listener_close(local);
        local->reopen_at_us = clock_now_us() + RETRY_US;
}
