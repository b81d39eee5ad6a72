/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/fork.h"
#include "base/util.h"
#include "http/event_log.h"

/*
 * Queues of ended operations, and of events, for programs with an event loop: each has a descriptor that becomes
 * readable. An entry of a queue waits for its operation (operation_wait), moves from pending to ended on the thread
 * that ends it, and is freed when the program takes it. A program that takes until nothing is left never misses one.
 *
 * Contract: ferry/worker.h. Thread: any. Lock: the queue's, before the store's.
 */

/* ---- operations that have ended ---- */

/* An operation that was added and not yet taken. */
struct entry {
        struct operation_waiter waiter;
        struct ferry_worker_queue *queue;
        struct operation_store *store; /* lives as long as the operation */
        struct operation *operation;   /* a reference */
        void *context;
        struct entry *prev, *next; /* of its list */
};

struct ferry_worker_queue {
        unsigned generation; /* of base/fork.h */
        int fd;              /* becomes readable soon after one has ended */

        pthread_mutex_t lock; /* guards what follows; before the store's */
        pthread_cond_t moved; /* an entry moved from pending to ended, and its thread is done with the queue */
        struct entry *pending, *ended;
        unsigned n_signalling; /* threads that write to fd without the lock */
};

int ferry_worker_queue_new(struct ferry_worker_queue **ret_queue)
{
        struct ferry_worker_queue *queue = calloc(1, sizeof(*queue));
        int r;

        if (!queue)
                return worker_fail(-ENOMEM, NULL);
        queue->generation = fork_generation();
        queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (queue->fd < 0) {
                r = -errno;
                free(queue);
                return worker_fail(r, NULL);
        }
        (void)pthread_mutex_init(&queue->lock, NULL);
        (void)pthread_cond_init(&queue->moved, NULL);
        *ret_queue = queue;
        return 0;
}

int ferry_worker_queue_fd(const struct ferry_worker_queue *queue)
{
        return queue->fd;
}

/*
 * Under the lock, which it gives up while it signals: whoever that wakes takes the lock at once, and would sleep again.
 * The signal may come when the entry was taken already; ferry_worker_queue_take takes it back.
 */
static void append_ended(struct ferry_worker_queue *queue, struct entry *entry)
{
        const bool first = !queue->ended;

        DL_APPEND(queue->ended, entry);
        if (first) {
                queue->n_signalling++;
                (void)pthread_mutex_unlock(&queue->lock);
                (void)eventfd_write(queue->fd, 1);
                (void)pthread_mutex_lock(&queue->lock);
                queue->n_signalling--;
        }
        (void)pthread_cond_signal(&queue->moved);
}

/* Thread: any that ends operations. */
static void wake_entry(struct operation_waiter *waiter)
{
        struct entry *entry = FERRY_CONTAINER_OF(waiter, struct entry, waiter);
        struct ferry_worker_queue *queue = entry->queue;

        (void)pthread_mutex_lock(&queue->lock);
        DL_DELETE(queue->pending, entry);
        append_ended(queue, entry);
        (void)pthread_mutex_unlock(&queue->lock);
}

/* Frees an entry that is in no list. Returns NULL. */
static struct entry *entry_free(struct entry *entry)
{
        (void)operation_unref(entry->operation);
        free(entry);
        return NULL;
}

int ferry_worker_queue_add(struct ferry_worker_queue *queue, struct ferry_worker_operation *handle, void *context)
{
        struct entry *entry;

        if (!worker_is_ours(queue->generation) || !worker_is_ours(handle->generation))
                return -ECHILD;
        entry = malloc(sizeof(*entry));
        if (!entry)
                return worker_fail(-ENOMEM, NULL);
        *entry = (struct entry){ .waiter = { .wake = wake_entry, .quiet = true },
                                 .queue = queue,
                                 .store = handle->store,
                                 .operation = operation_ref(handle->operation),
                                 .context = context };
        (void)pthread_mutex_lock(&queue->lock);
        if (operation_wait(entry->store, entry->operation, 0, &entry->waiter))
                DL_APPEND(queue->pending, entry);
        else
                append_ended(queue, entry);
        (void)pthread_mutex_unlock(&queue->lock);
        return 0;
}

int ferry_worker_queue_take(struct ferry_worker_queue *queue, void **ret_context)
{
        struct entry *entry;
        eventfd_t count;

        if (!worker_is_ours(queue->generation))
                return 0;
        (void)pthread_mutex_lock(&queue->lock);
        entry = queue->ended;
        if (entry)
                DL_DELETE(queue->ended, entry);
        if (!queue->ended)
                (void)eventfd_read(queue->fd, &count);
        (void)pthread_mutex_unlock(&queue->lock);
        if (!entry)
                return 0;
        *ret_context = entry->context;
        (void)entry_free(entry);
        return 1;
}

struct ferry_worker_queue *ferry_worker_queue_free(struct ferry_worker_queue *queue)
{
        struct entry *entry, *next;

        if (!queue || !worker_is_ours(queue->generation))
                return NULL;
        (void)pthread_mutex_lock(&queue->lock);
        while ((entry = queue->pending)) {
                if (operation_unwait(entry->store, &entry->waiter)) {
                        DL_DELETE(queue->pending, entry);
                        (void)entry_free(entry);
                } else { /* its wake callback was called, or will be shortly */
                        (void)pthread_cond_wait(&queue->moved, &queue->lock);
                }
        }
        while (queue->n_signalling)
                (void)pthread_cond_wait(&queue->moved, &queue->lock);
        (void)pthread_mutex_unlock(&queue->lock);
        DL_FOREACH_SAFE (queue->ended, entry, next)
                (void)entry_free(entry);
        (void)close(queue->fd);
        (void)pthread_cond_destroy(&queue->moved);
        (void)pthread_mutex_destroy(&queue->lock);
        free(queue);
        return NULL;
}

/* ---- events ---- */

struct ferry_worker_events {
        unsigned generation; /* of base/fork.h */
        int fd;
        atomic_bool signalled; /* fd is readable: an event has come since the last take that found none */
        struct event_watch *watch;
        char *text; /* of the last event; owned */
};

/* Thread: any; under the log's lock. */
static void on_event(void *context)
{
        struct ferry_worker_events *events = context;

        if (!atomic_exchange(&events->signalled, true))
                (void)eventfd_write(events->fd, 1);
}

int ferry_worker_events_new(struct ferry_worker *worker, const char *after, struct ferry_worker_events **ret_events)
{
        struct ferry_worker_events *events;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        events = calloc(1, sizeof(*events));
        if (!events)
                return worker_fail(-ENOMEM, NULL);
        events->generation = worker->generation;
        atomic_init(&events->signalled, true); /* the events after an id may be there already */
        events->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
        r = events->fd < 0 ? -errno : event_watch_new(worker->events, after, on_event, events, &events->watch);
        if (r == 0) {
                *ret_events = events;
                return 0;
        }
        cleanup_close(&events->fd);
        free(events);
        return r == -EINVAL ? worker_fail(FERRY_E_INVALID_PARAMETER, "\"%.64s\" is not the id of an event", after)
                            : worker_fail(r, NULL);
}

int ferry_worker_events_fd(const struct ferry_worker_events *events)
{
        return events->fd;
}

/* The descriptor is emptied before the log is looked at: what comes afterwards makes it readable again. */
int ferry_worker_events_take(struct ferry_worker_events *events, const char **ret_json)
{
        eventfd_t count;
        char *text;
        int r;

        if (!worker_is_ours(events->generation))
                return -ECHILD;
        r = event_watch_take(events->watch, &text);
        if (r == 0) {
                (void)eventfd_read(events->fd, &count);
                atomic_store(&events->signalled, false);
                r = event_watch_take(events->watch, &text);
                if (r > 0) /* more may have come with it */
                        on_event(events);
        }
        if (r < 0)
                return worker_fail(r, NULL);
        if (r == 0)
                return 0;
        free(events->text);
        *ret_json = events->text = text;
        return 1;
}

struct ferry_worker_events *ferry_worker_events_free(struct ferry_worker_events *events)
{
        if (!events || !worker_is_ours(events->generation))
                return NULL;
        events->watch = event_watch_free(events->watch);
        (void)close(events->fd);
        free(events->text);
        free(events);
        return NULL;
}
