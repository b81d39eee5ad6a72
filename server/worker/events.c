/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "error.h"
#include "http/event_log.h"
#include "worker_internal.h"

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
