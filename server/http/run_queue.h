/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_RUN_QUEUE_H
#define HTTP_RUN_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Work that any thread leaves to one that sleeps in epoll. The owner adds event_fd to its epoll instance, and has its
 * sleep between run_queue_sleep and run_queue_awake. No lock.
 */
struct run_item {
        atomic_bool queued;
        struct run_item *next; /* of those queued; written by the thread that has set queued */
};

struct run_queue {
        int event_fd;
        atomic_bool asleep; /* or about to be: a thread that adds an item must signal */
        _Atomic(struct run_item *) latest;
};

/* 0 or -errno; run_queue_destroy may follow in any case. */
int run_queue_init(struct run_queue *queue);
void run_queue_destroy(struct run_queue *queue);

/* ---- any thread: */

/* Has the owner run the item soon; once for all calls before it begins. */
void run_queue_add(struct run_queue *queue, struct run_item *item);

/* Ends the owner's sleep. */
void run_queue_wake(struct run_queue *queue);

/* ---- the owner: */

/* Takes all items, the latest first, linked by next. NULL: none. */
struct run_item *run_queue_take(struct run_queue *queue);

/* The item's run begins: what others do from now on queues it again. What they did before is seen by the run. */
void run_item_begin(struct run_item *item);

bool run_queue_is_empty(struct run_queue *queue);

/* After run_queue_sleep, the owner looks for work once more before it sleeps. */
void run_queue_sleep(struct run_queue *queue);
void run_queue_awake(struct run_queue *queue);

/* event_fd is readable. */
void run_queue_signalled(struct run_queue *queue);

#endif
