/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/space.h"
#include "base/util.h"
#include "mover_internal.h"

/*
 * The mover of transfers over HTTP, and its threads. A requester is made by any thread, listed under the mover's lock,
 * and from then on belongs to the thread of its memory (host, or a GPU), until it is over; then the thread frees it.
 *
 * It is made after libcurl's thread, and freed after the operations, whose attachments use its config. Thread: any for
 * the public functions.
 */

enum { MOVER_THREADS = 1 + SPACE_NO_GPU + 1 }; /* of host memory, of each GPU, of mapped files */

/* A thread that moves transfers. */
struct mover_thread {
        struct http_mover *mover;
        struct easy_user user;
        struct easy_thread *easy; /* the lock guards it until it is there */
};

struct http_mover {
        struct http_mover_config config;
        /*
         * The first moves transfers of host memory, on a thread that it shares. Each other one moves those of a GPU, or
         * of mapped files, and waits for it: one that stands still holds up nothing else.
         */
        struct mover_thread threads[MOVER_THREADS];
        pthread_mutex_t lock;        /* a leaf; guards what follows */
        struct http_requester *live; /* of all threads, oldest first */
};

/* ---- on libcurl's thread, or that of a GPU ---- */

/* The thread's requester after this one; NULL = the first one. Only the thread itself takes its requesters off. */
static struct http_requester *requester_after(struct mover_thread *thread, struct http_requester *requester)
{
        struct http_mover *mover = thread->mover;

        (void)pthread_mutex_lock(&mover->lock);
        do
                requester = requester ? requester->next : mover->live;
        while (requester && requester->thread != thread);
        (void)pthread_mutex_unlock(&mover->lock);
        return requester;
}

/* Frees a requester that is over. */
static void forget(struct mover_thread *thread, struct http_requester *requester)
{
        (void)pthread_mutex_lock(&thread->mover->lock);
        DL_DELETE(thread->mover->live, requester);
        (void)pthread_mutex_unlock(&thread->mover->lock);
        (void)http_requester_free(requester);
}

/* Starts what is new, cancels what is to stop, and retries what is due. Returns when more is due. */
static uint64_t on_run(struct easy_user *user, uint64_t now_us)
{
        struct mover_thread *thread = FERRY_CONTAINER_OF(user, struct mover_thread, user);
        uint64_t until_us = UINT64_MAX;
        struct http_requester *requester, *next = requester_after(thread, NULL);

        while ((requester = next)) {
                uint64_t due_us = http_requester_run(requester, &thread->easy->multi, now_us);

                until_us = due_us < until_us ? due_us : until_us;
                next = requester_after(thread, requester);
                if (http_requester_is_over(requester))
                        forget(thread, requester);
        }
        return until_us;
}

/* Ends all: the thread ends. */
static void on_stop(struct easy_user *user)
{
        struct mover_thread *thread = FERRY_CONTAINER_OF(user, struct mover_thread, user);
        struct http_requester *requester;

        while ((requester = requester_after(thread, NULL))) {
                http_requester_stop(requester, FERRY_E_CANCELLED, "the worker is shutting down");
                forget(thread, requester);
        }
}

/* ---- life ---- */

struct http_mover *http_mover_new(const struct http_mover_config *config)
{
        struct http_mover *mover = calloc(1, sizeof(*mover));

        if (!mover)
                return NULL;
        mover->config = *config;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(mover->threads); i++)
                mover->threads[i] = (struct mover_thread){ .mover = mover, .user = { .run = on_run, .stop = on_stop } };
        mover->threads[0].easy = config->thread;
        easy_thread_add(config->thread, &mover->threads[0].user);
        (void)pthread_mutex_init(&mover->lock, NULL);
        return mover;
}

void http_mover_stop(struct http_mover *mover)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(mover->threads); i++)
                if (mover->threads[i].easy)
                        easy_thread_stop(mover->threads[i].easy);
        mover->threads[0].easy = NULL; /* it is not ours */
}

struct http_mover *http_mover_free(struct http_mover *mover)
{
        if (!mover)
                return NULL;
        http_mover_stop(mover);
        for (size_t i = 1; i < FERRY_ARRAY_SIZE(mover->threads); i++)
                (void)easy_thread_free(mover->threads[i].easy);
        (void)pthread_mutex_destroy(&mover->lock);
        free(mover);
        return NULL;
}

const struct http_mover_config *mover_config(const struct http_mover *mover)
{
        return &mover->config;
}

/* ---- using ---- */

/* Has the thread run. 0 or -errno. */
static int start(struct mover_thread *thread)
{
        struct easy_thread *easy;

        (void)pthread_mutex_lock(&thread->mover->lock);
        if (!thread->easy && (thread->easy = easy_thread_new()))
                easy_thread_add(thread->easy, &thread->user);
        easy = thread->easy;
        (void)pthread_mutex_unlock(&thread->mover->lock);
        return easy ? easy_thread_start(easy) : -ENOMEM;
}

int http_mover_start(void *context, const struct engine_transfer *spec, char *detail, size_t detail_size)
{
        struct http_mover *mover = context;
        struct http_requester *requester;
        struct mover_thread *thread;
        const struct space *space;
        int r;

        r = start(&mover->threads[0]); /* libcurl is ready then */
        if (!r)
                r = http_requester_new(&mover->config, spec, &requester, detail, detail_size);
        if (r)
                return r;
        space = stream_next_space(&requester->base.stream, 0);
        thread = &mover->threads[space ? 1 + space->device : 0];
        r = start(thread);
        if (r) {
                (void)http_requester_free(requester);
                return r;
        }
        requester->thread = thread;
        http_transfer_note(&requester->base, NULL); /* it may be gone once it is queued */
        (void)pthread_mutex_lock(&mover->lock);
        DL_APPEND(mover->live, requester);
        (void)pthread_mutex_unlock(&mover->lock);
        easy_thread_wake(thread->easy);
        return 0;
}

void http_mover_cancel(void *context, uint64_t id, int reason)
{
        struct http_mover *mover = context;
        struct http_requester *requester;
        struct mover_thread *thread = &mover->threads[0];
        int none = 0;

        (void)pthread_mutex_lock(&mover->lock);
        DL_FOREACH (mover->live, requester)
                if (requester->spec.id == id && atomic_compare_exchange_strong(&requester->stop_reason, &none, reason))
                        thread = requester->thread;
        (void)pthread_mutex_unlock(&mover->lock);
        easy_thread_wake(thread->easy);
}
