/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One thread that runs callbacks at deadlines and when file descriptors become ready. It sleeps in epoll_wait without a
 * time-out when there is no deadline: idle cost is zero.
 *
 * All functions may be called from any thread, from inside callbacks too, and from under the caller's own locks:
 * callbacks run on the loop's thread with no lock of the loop held, and no function waits for a callback except
 * loop_free. A timer or watch may therefore still fire once while another thread is cancelling it; *_stop tells.
 */

struct loop;

/* Starts the thread; name is shown by ps -L (15 characters at most). 0 or -errno. */
int loop_new(const char *name, struct loop **ret_loop);

/* Stops the thread (waits for a running callback), forgets all timers and watches. Takes NULL; returns NULL. */
struct loop *loop_free(struct loop *loop);

/*
 * A timer, embedded in its owner's struct and zero-initialised. The owner keeps it alive until it has fired or
 * loop_timer_stop returned true, or, if that returned false, until the callback has run.
 */
struct loop_timer {
        void (*fired)(struct loop_timer *timer);
        size_t slot; /* the loop's: position in the heap + 1; 0 = not armed */
};

/*
 * Arms the timer: 0. Moves one that is armed: 1. The deadline is of CLOCK_MONOTONIC; one in the past fires at once.
 * O(log n). -ENOMEM.
 */
int loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t deadline_us);

/* Disarms. true: it was armed and will not fire. false: it was not armed, or its callback runs or is about to. O(log
 * n). */
bool loop_timer_stop(struct loop *loop, struct loop_timer *timer);

/* A watched file descriptor, embedded like a timer. It fires once (EPOLLONESHOT) and is then no longer watched. */
struct loop_watch {
        void (*fired)(struct loop_watch *watch, uint32_t events); /* EPOLL* bits */
        int fd;                                                   /* the loop's */
        uint64_t id;                                              /* the loop's; 0 = not watched */
};

/* Watches fd for events (EPOLLIN, EPOLLRDHUP, …). The caller keeps fd open until stop. 0 or -errno. */
int loop_watch_start(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events);

/* Ends watching. true: it was watched and will not fire. false: it was not, or its callback runs or is about to. */
bool loop_watch_stop(struct loop *loop, struct loop_watch *watch);

#endif
