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
struct metric;

/*
 * Parked requests: suspended connections that hold no thread. Each is woken exactly once, by the first of these: its
 * operation or event, its deadline, the end of its client (connection.h), the end of the server. Lock order: waits'
 * lock, then those of libmicrohttpd, of events, of the operation store and of the loop.
 */
struct http_waits {
        pthread_mutex_t lock;
        /* All below: under the lock. */
        pthread_cond_t changed; /* n_parked changed, or n_parks went to 0 */
        atomic_bool stopping;   /* written under the lock */
        struct http_park *parked;
        size_t n_parked;
        size_t n_parks;       /* objects, those included that only a callback on its way still uses */
        struct metric *gauge; /* fixed */
};

/* 0 or -errno. */
int waits_new(struct metric *gauge, struct http_waits **ret_waits);

/* When life_drain has returned. Takes NULL; returns NULL. */
struct http_waits *waits_free(struct http_waits *waits);

/* Wakes all requests, parks no more, and waits until every connection is resumed. */
void waits_stop(struct http_waits *waits);

enum wait_result {
        WAIT_PARKED,   /* the handler returns now; resume will be called on the connection's thread */
        WAIT_NEEDLESS, /* done already, or the server stops, or the client has left: answer with the present state */
        WAIT_FULL,     /* too many are parked */
};

/*
 * Parks the request until request->operation is done or deleted, or (revision not 0) its revision passed that, for at
 * most wait_ms. resume answers with the state then. Only from a handler, after the body.
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
