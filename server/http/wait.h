/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_WAIT_H
#define HTTP_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_latch;
struct http_park;
struct http_request;

/*
 * Parked requests: their connections are suspended and occupy no thread. The first of these wakes a request, exactly
 * once: its operation or latch, its deadline, the client's end (connection.h), the end of the server. Lock order: the
 * lock here, then those of libmicrohttpd, of latches, of the operation store and of the loop.
 */
struct http_waits {
        pthread_mutex_t lock;
        /* All below: guarded by lock. */
        pthread_cond_t changed; /* n_parked changed, or n_parks went to 0 */
        atomic_bool stopping;   /* written under the lock, read without */
        struct http_park *parked;
        size_t n_parked;
        size_t n_parks; /* objects: parked, or still used by a running callback */
};

/* 0 or -ENOMEM. */
int waits_new(struct http_waits **ret_waits);

/* After the HTTP threads have ended. Takes NULL; returns NULL. */
struct http_waits *waits_free(struct http_waits *waits);

/* Wakes all parked requests, parks no more, and waits until every connection is resumed. */
void waits_stop(struct http_waits *waits);

enum wait_result {
        WAIT_PARKED,   /* the handler must return; resume is called later, on the connection's thread */
        WAIT_NEEDLESS, /* it is done, or the server stops, or the client has left: answer with the present state */
        WAIT_FULL,     /* too many are parked, or memory is short */
};

/*
 * Parks the request for at most wait_ms, until request->operation is done or deleted or, with revision not 0, has a
 * higher revision. resume must answer. Only from a handler, after the body.
 */
enum wait_result wait_park(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                           void (*resume)(struct http_request *request));

/* The same until the latch is set; it must stay until the request is answered. */
enum wait_result wait_park_latch(struct http_request *request, struct http_latch *latch, uint64_t wait_ms,
                                 void (*resume)(struct http_request *request));

/* The same for work that ends soon by itself: a client that shuts its direction down still gets the answer. */
enum wait_result wait_park_work(struct http_request *request, struct http_latch *latch, uint64_t wait_ms,
                                void (*resume)(struct http_request *request));

/* Answers after WAIT_FULL. */
void wait_refuse(struct http_request *request);

/*
 * Answers a request that cannot say how far its work is, if its wait ended too soon: 410 where the client has shut down
 * its direction, 503 where the server stops. before: what had not happened. false: neither, not answered.
 */
bool wait_abandoned(struct http_request *request, const char *before);

/* As wait_park and wait_park_latch, but they answer in any case: at once after WAIT_NEEDLESS, refused after WAIT_FULL.
 */
void wait_or_answer(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                    void (*answer)(struct http_request *request));
void wait_latch_or_answer(struct http_request *request, struct http_latch *latch, uint64_t wait_ms,
                          void (*answer)(struct http_request *request));

#endif
