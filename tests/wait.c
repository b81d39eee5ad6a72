/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <time.h>

#include "test.h"

uint64_t now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool wait_more(uint64_t began_ms)
{
        (void)poll(NULL, 0, 1);
        return now_ms() - began_ms <= WAIT_MS;
}

bool wait_signal(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t began_ms)
{
        struct timespec until;

        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        (void)pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
        if (now_ms() - began_ms <= WAIT_MS)
                return true;
        (void)pthread_mutex_unlock(lock); /* for what the teardown does */
        return false;
}

void bell_ring(struct bell *bell)
{
        pthread_mutex_lock(&bell->lock);
        bell->times++;
        pthread_cond_broadcast(&bell->rung);
        pthread_mutex_unlock(&bell->lock);
}

void bell_await(struct bell *bell, unsigned times)
{
        pthread_mutex_lock(&bell->lock);
        WAIT_SIGNAL(&bell->rung, &bell->lock, bell->times >= times);
        pthread_mutex_unlock(&bell->lock);
}
