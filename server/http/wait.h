/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_WAIT_H
#define HTTP_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_event;
struct http_park;
struct http_request;
struct http_server;
struct metric;

/*
 * Parked requests: suspended connections that hold no thread. Each is woken exactly once, by whichever comes first:
 * its operation or event, its deadline, its client leaving (connection.h), or the end of the server. Lock order:
 * waits.lock, then those of libmicrohttpd, the operation store and the loop.
 */
struct http_waits {
        pthread_mutex_t lock;
        pthread_cond_t changed; /* CLOCK_MONOTONIC; n_parked changed, or one of the others went to 0 */
        atomic_size_t n_active; /* requests between their headers and the end of their answer */
        atomic_bool stopping;   /* written under the lock */
        /* All below: under the lock. */
        struct http_park *parked;
        size_t n_parked;
        size_t n_parks;       /* whose memory is in use, if only by a callback on its way */
        size_t n_alive;       /* these and connections */
        struct metric *gauge; /* fixed */
};

int waits_init(struct http_waits *waits, struct metric *gauge);
void waits_destroy(struct http_waits *waits);

/* Counts a request that has begun or ended. */
void waits_enter(struct http_waits *waits);
void waits_leave(struct http_waits *waits);

/* Counts what a callback may still touch. After the release only the lock keeps the server alive for the thread. */
void waits_retain(struct http_waits *waits);
void waits_release(struct http_waits *waits);

/* Wakes all, parks no more, and waits until nobody is about to resume a connection any more; then until the requests
 * are answered, at most limit_us. */
void waits_stop(struct http_server *server, uint64_t limit_us);

/* Waits until no callback will touch the waits any more. After waits_stop and the end of the HTTP threads. */
void waits_drain(struct http_waits *waits);

/* One more reference, with waits.lock held; it goes with park_end, which wakes the request, with no lock held. */
struct http_park *park_ref(struct http_park *park);
void park_end(struct http_park *park);

enum wait_result {
        WAIT_PARKED,   /* the handler returns now; resume will be called on the connection's thread */
        WAIT_NEEDLESS, /* done already, or the server stops, or the client left: answer what is known */
        WAIT_FULL,     /* too many are parked */
};

/*
 * Parks the request until request->operation is done or deleted, or (revision not 0) its revision passed that, for at
 * most wait_ms. resume answers with what is known then. Only from a handler, after the body.
 */
enum wait_result wait_park(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                           void (*resume)(struct http_request *request));

/* The same until the event has happened, which the request must keep until it is answered. */
enum wait_result wait_park_event(struct http_request *request, struct http_event *event, uint64_t wait_ms,
                                 void (*resume)(struct http_request *request));

/* Answers a request that was not parked because too many are, or because memory is short. */
void wait_refuse(struct http_request *request);

/* As the two above, and answer is called at once where nothing is left to wait for; refused where too many wait. */
void wait_or_answer(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                    void (*answer)(struct http_request *request));
void wait_event_or_answer(struct http_request *request, struct http_event *event, uint64_t wait_ms,
                          void (*answer)(struct http_request *request));

#endif
