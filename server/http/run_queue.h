/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_RUN_QUEUE_H
#define HTTP_RUN_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * A queue of work for a thread (the owner) that sleeps in epoll. The owner adds event_fd to its epoll instance, and
 * calls run_queue_sleep before epoll_wait and run_queue_awake after it. Lock-free.
 */
struct run_item {
        atomic_bool queued;
        struct run_item *next; /* in the queue; written by the thread that has set queued */
};

struct run_queue {
        int event_fd;
        atomic_bool asleep; /* or about to sleep: a thread that adds an item must signal */
        _Atomic(struct run_item *) latest;
};

/* 0 or -errno; run_queue_destroy may follow in any case. */
int run_queue_init(struct run_queue *queue);
void run_queue_destroy(struct run_queue *queue);

/* ---- any thread: */

/* Queues the item, unless it is queued already. */
void run_queue_add(struct run_queue *queue, struct run_item *item);

/* Wakes the owner. */
void run_queue_wake(struct run_queue *queue);

/* ---- the owner: */

/* Takes all items, the latest first, linked by next. NULL: none. */
struct run_item *run_queue_take(struct run_queue *queue);

/* The owner begins to run the item. Adding it from now on queues it again; what was done before an earlier add is
 * visible to this run. */
void run_item_begin(struct run_item *item);

bool run_queue_is_empty(struct run_queue *queue);

/* After run_queue_sleep the owner must check for work once more before it sleeps. */
void run_queue_sleep(struct run_queue *queue);
void run_queue_awake(struct run_queue *queue);

/* event_fd is readable. */
void run_queue_signalled(struct run_queue *queue);

#endif
