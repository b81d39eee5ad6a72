/* SPDX-License-Identifier: Apache-2.0 */
#include "http_internal.h"

#include <stddef.h>

#include "base/util.h"

void latch_init(struct http_latch *latch)
{
        *latch = (struct http_latch){ .set = false };
        (void)pthread_mutex_init(&latch->lock, NULL);
}

void latch_destroy(struct http_latch *latch)
{
        pthread_mutex_destroy(&latch->lock);
}

void latch_set(struct http_latch *latch)
{
        pthread_mutex_lock(&latch->lock);
        latch->set = true;
        struct http_latch_waiter *waiter = FERRY_STEAL(latch->waiter);
        pthread_mutex_unlock(&latch->lock);
        if (waiter)
                waiter->wake(waiter);
}

void latch_reset(struct http_latch *latch)
{
        pthread_mutex_lock(&latch->lock);
        latch->set = false;
        pthread_mutex_unlock(&latch->lock);
}

bool latch_is_set(struct http_latch *latch)
{
        pthread_mutex_lock(&latch->lock);
        bool set = latch->set;
        pthread_mutex_unlock(&latch->lock);
        return set;
}

bool latch_wait(struct http_latch *latch, struct http_latch_waiter *waiter)
{
        pthread_mutex_lock(&latch->lock);
        bool waits = !latch->set;
        if (waits)
                latch->waiter = waiter;
        pthread_mutex_unlock(&latch->lock);
        return waits;
}

bool latch_unwait(struct http_latch *latch, struct http_latch_waiter *waiter)
{
        pthread_mutex_lock(&latch->lock);
        bool waited = latch->waiter == waiter;
        if (waited)
                latch->waiter = NULL;
        pthread_mutex_unlock(&latch->lock);
        return waited;
}
