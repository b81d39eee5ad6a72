/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/util.h"

/*
 * Wake-ups of a request or an HTTP thread: flags, the run queue of a thread, and its readers of events. Thread: any,
 * but for the functions that the headers give to the owner of a queue or of readers.
 */

/* ---- flags ---- */

void wait_flag_init(struct wait_flag *flag)
{
        *flag = (struct wait_flag){ .set = false };
        (void)pthread_mutex_init(&flag->lock, NULL);
}

void wait_flag_destroy(struct wait_flag *flag)
{
        pthread_mutex_destroy(&flag->lock);
}

void wait_flag_set(struct wait_flag *flag)
{
        pthread_mutex_lock(&flag->lock);
        flag->set = true;
        struct wait_flag_waiter *waiter = FERRY_STEAL(flag->waiter);
        pthread_mutex_unlock(&flag->lock);
        if (waiter)
                waiter->wake(waiter);
}

void wait_flag_reset(struct wait_flag *flag)
{
        pthread_mutex_lock(&flag->lock);
        flag->set = false;
        pthread_mutex_unlock(&flag->lock);
}

bool wait_flag_is_set(struct wait_flag *flag)
{
        pthread_mutex_lock(&flag->lock);
        bool set = flag->set;
        pthread_mutex_unlock(&flag->lock);
        return set;
}

bool wait_flag_wait(struct wait_flag *flag, struct wait_flag_waiter *waiter)
{
        pthread_mutex_lock(&flag->lock);
        bool waits = !flag->set;
        if (waits)
                flag->waiter = waiter;
        pthread_mutex_unlock(&flag->lock);
        return waits;
}

bool wait_flag_unwait(struct wait_flag *flag, struct wait_flag_waiter *waiter)
{
        pthread_mutex_lock(&flag->lock);
        bool waited = flag->waiter == waiter;
        if (waited)
                flag->waiter = NULL;
        pthread_mutex_unlock(&flag->lock);
        return waited;
}

/* ---- run queues ---- */

int run_queue_init(struct run_queue *queue)
{
        *queue = (struct run_queue){ .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
        return queue->event_fd < 0 ? -errno : 0;
}

void run_queue_destroy(struct run_queue *queue)
{
        cleanup_close(&queue->event_fd);
}

/* Wakes the owner. */
static void run_queue_wake(struct run_queue *queue)
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

/* ---- readers of events ---- */

static uint64_t beat_interval_us(const struct event_readers *readers)
{
        uint64_t ms = readers->server->config.event_beat_ms;

        return (ms ? ms : EVENT_BEAT_MS) * 1000;
}

/* Whether the reader must be woken. */
static bool is_wanted(const struct event_readers *readers, struct event_reader *reader)
{
        struct http_server *server = readers->server;

        return atomic_load(&server->events_stopped) || (reader->left && wait_flag_is_set(reader->left)) ||
               atomic_load(&server->credentials.n_reloads) != reader->n_reloads ||
               event_log_has(server->config.events, &reader->filter, &reader->place);
}

bool event_reader_idle(struct event_readers *readers, struct event_reader *reader)
{
        /* Count first, then check: an event that this check misses finds the reader counted. */
        atomic_fetch_add(&readers->n_idle, 1);
        if (is_wanted(readers, reader)) {
                atomic_fetch_sub(&readers->n_idle, 1);
                return false;
        }
        DL_PREPEND2(readers->idle, reader, previous, next);
        if (reader->beats && !readers->beat_us)
                readers->beat_us = clock_now_us() + beat_interval_us(readers);
        return true;
}

void event_reader_leave(struct event_readers *readers, struct event_reader *reader)
{
        if (!reader->previous)
                return;
        DL_DELETE2(readers->idle, reader, previous, next);
        reader->previous = NULL;
        atomic_fetch_sub(&readers->n_idle, 1);
}

static void wake_those(struct event_readers *readers, bool news, bool beat)
{
        struct event_reader *reader, *next;

        DL_FOREACH_SAFE2 (readers->idle, reader, next, next) {
                if (!(beat && reader->beats) && !(news && is_wanted(readers, reader)))
                        continue;
                event_reader_leave(readers, reader);
                reader->wake(reader);
        }
}

void event_readers_run(struct event_readers *readers)
{
        if (event_readers_called(readers))
                readers->due_us = readers->round_us + EVENT_DELIVERY_US;
        if (!event_readers_due(readers))
                return;
        uint64_t now = clock_now_us();
        bool news = readers->due_us && now >= readers->due_us, beat = readers->beat_us && now >= readers->beat_us;
        if (!news && !beat)
                return;
        if (news) {
                readers->due_us = 0;
                readers->round_us = now;
                /*
                 * An exchange, not a store, as in run_item_begin: this round must see what threads did before they
                 * found told set. What they do from now on sets it again.
                 */
                (void)atomic_exchange(&readers->told, false);
        }
        if (beat)
                readers->beat_us = atomic_load(&readers->n_idle) ? now + beat_interval_us(readers) : 0;
        wake_those(readers, news, beat);
}

void event_readers_end(struct event_readers *readers)
{
        wake_those(readers, true, false); /* all are wanted: events_stopped */
}

bool event_readers_called(const struct event_readers *readers)
{
        return !readers->due_us && atomic_load(&readers->told);
}

uint64_t event_readers_due(const struct event_readers *readers)
{
        return clock_earlier(readers->due_us, readers->beat_us);
}

void event_readers_tell(struct event_readers *readers)
{
        if (!atomic_load(&readers->n_idle) || atomic_exchange(&readers->told, true))
                return;
        run_queue_wake(readers->queue);
}
