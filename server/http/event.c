/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <stddef.h>

#include "base/util.h"

int event_init(struct http_event *event)
{
        *event = (struct http_event){ .happened = false };
        return -pthread_mutex_init(&event->lock, NULL);
}

void event_destroy(struct http_event *event)
{
        pthread_mutex_destroy(&event->lock);
}

void event_happen(struct http_event *event)
{
        pthread_mutex_lock(&event->lock);
        event->happened = true;
        struct http_event_waiter *waiter = FERRY_STEAL(event->waiter);
        pthread_mutex_unlock(&event->lock);
        if (waiter)
                waiter->wake(waiter);
}

bool event_has_happened(struct http_event *event)
{
        pthread_mutex_lock(&event->lock);
        bool happened = event->happened;
        pthread_mutex_unlock(&event->lock);
        return happened;
}

bool event_wait(struct http_event *event, struct http_event_waiter *waiter)
{
        pthread_mutex_lock(&event->lock);
        bool waits = !event->happened;
        if (waits)
                event->waiter = waiter;
        pthread_mutex_unlock(&event->lock);
        return waits;
}

bool event_unwait(struct http_event *event, struct http_event_waiter *waiter)
{
        pthread_mutex_lock(&event->lock);
        bool waited = event->waiter == waiter;
        if (waited)
                event->waiter = NULL;
        pthread_mutex_unlock(&event->lock);
        return waited;
}
