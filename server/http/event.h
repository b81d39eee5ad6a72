/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_H
#define HTTP_EVENT_H

#include <pthread.h>
#include <stdbool.h>

/*
 * Something that happens once, for which one request may be parked. Its own lock, a leaf; any thread. What was written
 * before it happened may be read by whoever saw that it has.
 */
struct http_event_waiter {
        void (*wake)(struct http_event_waiter *waiter); /* called at most once, with no lock held */
};

struct http_event {
        pthread_mutex_t lock;
        bool happened;
        struct http_event_waiter *waiter; /* NULL = nobody waits */
};

int event_init(struct http_event *event);
void event_destroy(struct http_event *event);

/* Once. Wakes who waits; the event must stay until this returns. */
void event_happen(struct http_event *event);
bool event_has_happened(struct http_event *event);

/* false: it has happened, and nothing was registered. wake is never called from inside this function. */
bool event_wait(struct http_event *event, struct http_event_waiter *waiter);

/* true: it was waiting and wake will not be called. false: wake was called, or is being called. */
bool event_unwait(struct http_event *event, struct http_event_waiter *waiter);

#endif
