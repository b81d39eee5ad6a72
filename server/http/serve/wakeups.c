/* SPDX-License-Identifier: Apache-2.0 */
#include "threads.h"

#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>

#include "base/util.h"

int run_queue_init(struct run_queue *queue)
{
        *queue = (struct run_queue){ .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
        return queue->event_fd < 0 ? -errno : 0;
}

void run_queue_destroy(struct run_queue *queue)
{
        cleanup_close(&queue->event_fd);
}

void run_queue_wake(struct run_queue *queue)
{
        if (atomic_exchange(&queue->asleep, false))
                (void)eventfd_write(queue->event_fd, 1);
}

void run_queue_add(struct run_queue *queue, struct run_item *item)
{
        if (atomic_exchange(&item->queued, true))
                return; /* its run has not begun, and will see the caller's work */
        struct run_item *latest = atomic_load(&queue->latest);
        do
                item->next = latest;
        while (!atomic_compare_exchange_weak(&queue->latest, &latest, item));
        run_queue_wake(queue);
}

struct run_item *run_queue_take(struct run_queue *queue)
{
        return atomic_exchange(&queue->latest, NULL);
}

void run_item_begin(struct run_item *item)
{
        /*
         * An exchange, not a store: a thread that found the item queued leaves its work to this run, which must see
         * that work. A store would not read the other thread's mark, and on a weakly ordered processor the loads of the
         * run may then be older than the mark.
         */
        (void)atomic_exchange(&item->queued, false);
}

bool run_queue_is_empty(struct run_queue *queue)
{
        return atomic_load(&queue->latest) == NULL;
}

void run_queue_sleep(struct run_queue *queue)
{
        atomic_store(&queue->asleep, true);
}

void run_queue_awake(struct run_queue *queue)
{
        atomic_store(&queue->asleep, false);
}

void run_queue_signalled(struct run_queue *queue)
{
        eventfd_t count;

        (void)eventfd_read(queue->event_fd, &count);
}
