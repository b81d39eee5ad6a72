/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_READERS_H
#define HTTP_EVENT_READERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events.h"

struct http_event;
struct http_server;
struct run_queue;

/*
 * Readers of events that have nothing to read. Each HTTP thread has those of its own connections, and wakes them by
 * itself: whoever brings an event only wakes the thread. An idle reader has neither a thread nor a timer.
 */

enum {
        EVENT_READERS_MAX = 4096,     /* streams */
        EVENT_BEAT_MS = 15000,        /* an idle stream gets a comment so often */
        EVENT_DELIVERY_US = 20 * 1000 /* between two rounds, so that many events are few rounds */
};

struct event_reader {
        /* It leaves the list before; the reader may be gone afterwards. */
        void (*wake)(struct event_reader *reader);
        struct http_event *left; /* the client has; NULL = somebody else looks */
        bool beats;              /* it is woken now and then although nothing has happened */
        struct event_filter filter;
        struct event_place place;
        bool listed;
        struct event_reader *previous, *next;
};

struct event_readers {
        struct http_server *server;
        struct run_queue *queue; /* of the thread */
        atomic_bool told;        /* any thread: there may be something for somebody */
        atomic_size_t n_idle;    /* written by the thread */
        /* The thread's own: */
        struct event_reader *idle;
        bool due;          /* told was seen */
        uint64_t due_us;   /* when they are looked at */
        uint64_t round_us; /* when they were looked at last */
        uint64_t beat_us;  /* when those that beat do; 0 = nobody does */
};

/* ---- the thread itself: */

/*
 * Lists a reader that has nothing to read. false: something has come meanwhile, the reader's client has left, or the
 * server stops; it is not listed.
 */
bool event_reader_idle(struct event_readers *readers, struct event_reader *reader);
void event_reader_leave(struct event_readers *readers, struct event_reader *reader);

/* Wakes those for whom there is something. */
void event_readers_run(struct event_readers *readers);

/* Wakes all; after the thread has ended. */
void event_readers_end(struct event_readers *readers);

/* Whether event_readers_run has something new to do at once, and until when it has not; 0 = for ever. */
bool event_readers_called(const struct event_readers *readers);
uint64_t event_readers_due(const struct event_readers *readers);

/* ---- any thread: */

/* Has the thread look at its readers. */
void event_readers_tell(struct event_readers *readers);

#endif
