/* SPDX-License-Identifier: Apache-2.0 */
#include "life.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

void life_init(struct http_life *life)
{
        pthread_condattr_t attributes;

        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&life->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
        (void)pthread_mutex_init(&life->lock, NULL);
}

void life_destroy(struct http_life *life)
{
        pthread_mutex_destroy(&life->lock);
        pthread_cond_destroy(&life->changed);
}

void life_enter(struct http_life *life)
{
        atomic_fetch_add(&life->n_active, 1);
}

/* life_quiet sets ending before it looks at n_active. */
void life_leave(struct http_life *life)
{
        if (atomic_fetch_sub(&life->n_active, 1) != 1 || !atomic_load(&life->ending))
                return;
        pthread_mutex_lock(&life->lock);
        pthread_cond_broadcast(&life->changed);
        pthread_mutex_unlock(&life->lock);
}

void life_retain(struct http_life *life)
{
        pthread_mutex_lock(&life->lock);
        life->n_alive++;
        pthread_mutex_unlock(&life->lock);
}

void life_release(struct http_life *life)
{
        pthread_mutex_lock(&life->lock);
        if (!--life->n_alive)
                pthread_cond_broadcast(&life->changed);
        pthread_mutex_unlock(&life->lock);
}

void life_quiet(struct http_life *life, uint64_t limit_us)
{
        uint64_t deadline = clock_now_us() + limit_us;
        struct timespec until = { .tv_sec = (time_t)(deadline / 1000000),
                                  .tv_nsec = (long)(deadline % 1000000) * 1000 };

        atomic_store(&life->ending, true);
        pthread_mutex_lock(&life->lock);
        while (atomic_load(&life->n_active) && pthread_cond_timedwait(&life->changed, &life->lock, &until) != ETIMEDOUT)
                ;
        pthread_mutex_unlock(&life->lock);
}

void life_drain(struct http_life *life)
{
        pthread_mutex_lock(&life->lock);
        while (life->n_alive)
                pthread_cond_wait(&life->changed, &life->lock);
        pthread_mutex_unlock(&life->lock);
}
