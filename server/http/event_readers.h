/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_EVENT_READERS_H
#define HTTP_EVENT_READERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events.h"

struct http_latch;
struct http_server;
struct run_queue;

/*
 * Readers that have read all events. Each HTTP thread lists the idle readers of its own connections and wakes them; the
 * thread that publishes an event only wakes the HTTP threads. An idle reader needs no thread and no timer.
 */

enum {
        EVENT_READERS_MAX = 4096,     /* streams */
        EVENT_BEAT_MS = 10000,        /* interval of keep-alives on an idle stream */
        EVENT_DELIVERY_US = 20 * 1000 /* least time between two rounds, so that a burst of events costs few rounds */
};

struct event_reader {
        /* Called after the reader was taken off the list; may free it. */
        void (*wake)(struct event_reader *reader);
        struct http_latch *left; /* the client's end; NULL = watched elsewhere */
        bool beats;              /* also woken every EVENT_BEAT_MS */
        unsigned n_reloads;      /* of the secrets by which it was allowed: also woken when they are replaced */
        struct event_filter filter;
        struct event_place place;
        struct event_reader *previous, *next; /* previous NULL = not listed */
};

struct event_readers {
        struct http_server *server;
        struct run_queue *queue; /* of the thread */
        atomic_bool told;        /* any thread: an event was published, a client has left, or there are new secrets */
        atomic_size_t n_idle;    /* written by the thread */
        /* The thread's own: */
        struct event_reader *idle;
        uint64_t due_us;   /* time of the next round, because told was seen; 0 = none */
        uint64_t round_us; /* time of the last round */
        uint64_t beat_us;  /* time of the next keep-alives; 0 = none */
};

/* ---- the thread itself: */

/*
 * Lists a reader that has read all. false, and not listed: an event has come meanwhile, the client has left, the
 * secrets have been replaced, or the server stops.
 */
bool event_reader_idle(struct event_readers *readers, struct event_reader *reader);
/* Takes the reader off the list, if it is listed. */
void event_reader_leave(struct event_readers *readers, struct event_reader *reader);

/* Runs a round if one is due: wakes the readers that have something to read, or are due a keep-alive. */
void event_readers_run(struct event_readers *readers);

/* Wakes all; after events_stopped was set and the thread has ended. */
void event_readers_end(struct event_readers *readers);

/* Whether event_readers_run must be called at once, and else its next deadline; 0 = none. */
bool event_readers_called(const struct event_readers *readers);
uint64_t event_readers_due(const struct event_readers *readers);

/* ---- any thread: */

/* Wakes the thread for a round, if it lists any reader. */
void event_readers_tell(struct event_readers *readers);

#endif
