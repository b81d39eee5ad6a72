/* SPDX-License-Identifier: Apache-2.0 */
#include "easy/thread.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/util.h"

/*
 * The thread that runs libcurl for its users: the registry, the peers' documents, transfers over HTTP. It is one for
 * all, so that they share connections, and starts with the first need. Users are added before it starts and called on
 * it, in the order in which they were added; a round is one look of libcurl, then one call of each user.
 *
 * Lock: its own, for starting and stopping; not held while users run.
 */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void curl_start(void)
{
        curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct easy_thread *easy_thread_new(void)
{
        struct easy_thread *thread = calloc(1, sizeof(*thread));

        if (thread)
                (void)pthread_mutex_init(&thread->lock, NULL);
        return thread;
}

void easy_thread_add(struct easy_thread *thread, struct easy_user *user)
{
        LL_APPEND(thread->users, user);
}

/* Returns the milliseconds until a user is to be called again. */
static int run_users(struct easy_thread *thread)
{
        uint64_t now_us = clock_now_us(), until_us = UINT64_MAX;
        struct easy_user *user;

        LL_FOREACH (thread->users, user) {
                uint64_t due_us = user->run(user, now_us);

                until_us = due_us < until_us ? due_us : until_us;
        }
        return until_us == UINT64_MAX ? INT_MAX : clock_ms_until(until_us, now_us);
}

static void *run(void *argument)
{
        struct easy_thread *thread = argument;
        struct easy_user *user;

        while (!atomic_load(&thread->stopping)) {
                easy_multi_run(&thread->multi);
                /* libcurl shortens the wait to its own timers, also to that of a request which has just been added. */
                (void)curl_multi_poll(thread->multi.curl, NULL, 0, run_users(thread), NULL);
        }
        LL_FOREACH (thread->users, user)
                user->stop(user);
        return NULL;
}

int easy_thread_start(struct easy_thread *thread)
{
        int r = 0;

        (void)pthread_mutex_lock(&thread->lock);
        if (atomic_load(&thread->stopping)) {
                r = -ESHUTDOWN;
        } else if (!thread->started) {
                (void)pthread_once(&curl_once, curl_start);
                if (curl_state != CURLE_OK) {
                        log_event(LOG_ERROR, "libcurl failed", LOG_S("reason", curl_easy_strerror(curl_state)));
                        r = -EIO;
                } else if (!thread->multi.curl && !easy_multi_init(&thread->multi)) {
                        r = -ENOMEM;
                } else {
                        r = thread_new("ferry-curl", run, thread, &thread->thread);
                        thread->started = r == 0;
                }
        }
        (void)pthread_mutex_unlock(&thread->lock);
        return r;
}

void easy_thread_wake(struct easy_thread *thread)
{
        (void)pthread_mutex_lock(&thread->lock);
        if (thread->started)
                (void)curl_multi_wakeup(thread->multi.curl);
        (void)pthread_mutex_unlock(&thread->lock);
}

void easy_thread_stop(struct easy_thread *thread)
{
        bool started;

        if (atomic_exchange(&thread->stopping, true))
                return;
        easy_thread_wake(thread);
        (void)pthread_mutex_lock(&thread->lock);
        started = FERRY_STEAL(thread->started);
        (void)pthread_mutex_unlock(&thread->lock);
        if (started)
                (void)pthread_join(thread->thread, NULL);
        easy_multi_clear(&thread->multi);
}

struct easy_thread *easy_thread_free(struct easy_thread *thread)
{
        if (!thread)
                return NULL;
        easy_thread_stop(thread);
        (void)pthread_mutex_destroy(&thread->lock);
        free(thread);
        return NULL;
}
