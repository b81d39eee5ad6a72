/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_LATCH_H
#define HTTP_LATCH_H

#include <pthread.h>
#include <stdbool.h>

/*
 * A flag for which one request may wait. Own lock, a leaf; any thread. What a thread wrote before latch_set is visible
 * to a thread that has seen the latch set.
 */
struct http_latch_waiter {
        void (*wake)(struct http_latch_waiter *waiter); /* called at most once, with no lock held */
};

struct http_latch {
        pthread_mutex_t lock;
        bool set;
        struct http_latch_waiter *waiter; /* NULL = none */
};

void latch_init(struct http_latch *latch);
void latch_destroy(struct http_latch *latch);

/* Call once, or once after each reset. Wakes the waiter. The latch must stay valid until this returns. */
void latch_set(struct http_latch *latch);
/* Only while it is set, which nobody waits for then. */
void latch_reset(struct http_latch *latch);
bool latch_is_set(struct http_latch *latch);

/* Registers the waiter. false: the latch is set, and nothing was registered. Never calls wake itself. */
bool latch_wait(struct http_latch *latch, struct http_latch_waiter *waiter);

/* true: the waiter was registered, and wake will not be called. false: wake was called, or is being called. */
bool latch_unwait(struct http_latch *latch, struct http_latch_waiter *waiter);

#endif
