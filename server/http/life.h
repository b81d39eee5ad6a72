/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_LIFE_H
#define HTTP_LIFE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Counts what the end of the server must wait for: requests being answered, and connections that a callback may still
 * touch. Any thread; own lock, a leaf.
 */
struct http_life {
        pthread_mutex_t lock;
        pthread_cond_t changed; /* CLOCK_MONOTONIC; a count went to 0 */
        atomic_size_t n_active; /* requests between their headers and the end of their answer */
        atomic_bool ending;     /* life_quiet waits, or has waited */
        size_t n_alive;         /* connections; guarded by lock */
};

void life_init(struct http_life *life);
void life_destroy(struct http_life *life);

/* A request has begun, or ended. */
void life_enter(struct http_life *life);
void life_leave(struct http_life *life);

/* A connection was made, or freed. After the release the caller must not touch the server. */
void life_retain(struct http_life *life);
void life_release(struct http_life *life);

/* Waits until no request is active, at most limit_us. */
void life_quiet(struct http_life *life, uint64_t limit_us);

/* Waits until every connection is released. Call after the HTTP threads have ended. */
void life_drain(struct http_life *life);

#endif
