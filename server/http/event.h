/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_H
#define HTTP_EVENT_H

#include <pthread.h>
#include <stdbool.h>

/*
 * An event that happens once, and for which one request may wait. Own lock, a leaf; any thread. What a thread wrote
 * before event_happen is visible to a thread that has seen the event happen.
 */
struct http_event_waiter {
        void (*wake)(struct http_event_waiter *waiter); /* called at most once, with no lock held */
};

struct http_event {
        pthread_mutex_t lock;
        bool happened;
        struct http_event_waiter *waiter; /* NULL = none */
};

int event_init(struct http_event *event);
void event_destroy(struct http_event *event);

/* Call once. Wakes the waiter. The event must stay valid until this returns. */
void event_happen(struct http_event *event);
bool event_has_happened(struct http_event *event);

/* Registers the waiter. false: the event has happened, and nothing was registered. Never calls wake itself. */
bool event_wait(struct http_event *event, struct http_event_waiter *waiter);

/* true: the waiter was registered, and wake will not be called. false: wake was called, or is being called. */
bool event_unwait(struct http_event *event, struct http_event_waiter *waiter);

#endif
