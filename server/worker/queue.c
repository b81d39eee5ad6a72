/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

#include "base/fork.h"
#include "base/util.h"
#include "error.h"
#include "operation.h"

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
