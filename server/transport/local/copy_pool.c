/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

enum { THREADS_MAX = 64 };

struct copy_pool {
        void (*notify)(void *context);
        void *context;
        unsigned n_wanted;
        pthread_mutex_t lock; /* guards what follows, and the second part of each pull */
        pthread_cond_t work;  /* job, ending */
        pthread_cond_t idle;  /* a pull's running became 0 */
        struct pull *job;     /* the pull that the threads help with; NULL = none */
        bool ending;
        /* The progress thread's. */
        unsigned n_threads;
        pthread_t threads[THREADS_MAX];
};

int copy_pool_new(unsigned n_threads, void (*notify)(void *context), void *context, struct copy_pool **ret_pool)
{
        struct copy_pool *pool = calloc(1, sizeof(*pool));

        if (!pool)
                return -ENOMEM;
        pool->n_wanted = n_threads < THREADS_MAX ? n_threads : THREADS_MAX;
        pool->notify = notify;
        pool->context = context;
        (void)pthread_mutex_init(&pool->lock, NULL);
        (void)pthread_cond_init(&pool->work, NULL);
        (void)pthread_cond_init(&pool->idle, NULL);
        *ret_pool = pool;
        return 0;
}

struct copy_pool *copy_pool_free(struct copy_pool *pool)
{
        if (!pool)
                return NULL;
        (void)pthread_mutex_lock(&pool->lock);
        pool->ending = true;
        (void)pthread_cond_broadcast(&pool->work);
        (void)pthread_mutex_unlock(&pool->lock);
        while (pool->n_threads > 0)
                (void)pthread_join(pool->threads[--pool->n_threads], NULL);
        (void)pthread_cond_destroy(&pool->idle);
        (void)pthread_cond_destroy(&pool->work);
        (void)pthread_mutex_destroy(&pool->lock);
        free(pool);
        return NULL;
}

/* Takes the next piece of the job; drops a job without one. Under the lock. */
static bool take_piece(struct copy_pool *pool, struct piece *ret_piece)
{
        if (pool->job && pull_take(pool->job, PULL_PIECE, ret_piece))
                return true;
        pool->job = NULL;
        return false;
}

static void finish(struct copy_pool *pool, const struct piece *piece, bool valid)
{
        pull_finish(piece->pull, piece, valid);
        if (piece->pull->running == 0)
                (void)pthread_cond_broadcast(&pool->idle);
}

static void *copy_pool_run(void *context)
{
        struct copy_pool *pool = context;
        struct piece piece;

        (void)pthread_mutex_lock(&pool->lock);
        while (!pool->ending) {
                bool valid;

                if (!take_piece(pool, &piece)) {
                        (void)pthread_cond_wait(&pool->work, &pool->lock);
                        continue;
                }
                (void)pthread_mutex_unlock(&pool->lock);
                valid = piece_copy(&piece);
                (void)pthread_mutex_lock(&pool->lock);
                finish(pool, &piece, valid);
                /* Not while pieces are left: then the progress thread is awake, and checks by itself. */
                if (piece.pull->stopped || piece.pull->taken == piece.pull->length)
                        pool->notify(pool->context);
        }
        (void)pthread_mutex_unlock(&pool->lock);
        return NULL;
}

static void start_threads(struct copy_pool *pool)
{
        while (pool->n_threads < pool->n_wanted) {
                int r = thread_new("ferry-copy", copy_pool_run, pool, &pool->threads[pool->n_threads]);

                if (r < 0) {
                        log_event(LOG_WARN, "copy thread not started", LOG_S("reason", strerror(-r)));
                        pool->n_wanted = pool->n_threads;
                        break;
                }
                pool->n_threads++;
        }
}

void copy_pool_share(struct copy_pool *pool, struct pull *pull)
{
        if (pool->n_wanted == 0 || pull->length < COPY_POOL_SHARE_MIN)
                return;
        if (pool->n_threads < pool->n_wanted)
                start_threads(pool);
        (void)pthread_mutex_lock(&pool->lock);
        if (!pool->job && !pull->stopped && pull->length - pull->taken > PULL_PIECE) {
                pool->job = pull;
                (void)pthread_cond_broadcast(&pool->work);
        }
        (void)pthread_mutex_unlock(&pool->lock);
}

uint64_t copy_pool_copy(struct copy_pool *pool, struct pull *pull, uint64_t limit)
{
        struct piece piece;
        bool taken, valid;

        (void)pthread_mutex_lock(&pool->lock);
        taken = pull_take(pull, limit, &piece);
        (void)pthread_mutex_unlock(&pool->lock);
        if (!taken)
                return 0;
        valid = piece_copy(&piece);
        (void)pthread_mutex_lock(&pool->lock);
        finish(pool, &piece, valid);
        (void)pthread_mutex_unlock(&pool->lock);
        return piece.length;
}

enum copy_status copy_pool_status(struct copy_pool *pool, const struct pull *pull, uint64_t *ret_copied)
{
        enum copy_status verdict = COPY_MORE;

        (void)pthread_mutex_lock(&pool->lock);
        *ret_copied = pull->copied;
        if (pull->running > 0 && (pull->stopped || pull->taken == pull->length))
                verdict = COPY_WAITS;
        else if (pull->stopped)
                verdict = COPY_LEASE_ENDED;
        else if (pull->copied == pull->length)
                verdict = COPY_COPIED;
        (void)pthread_mutex_unlock(&pool->lock);
        return verdict;
}

void copy_pool_stop(struct copy_pool *pool, struct pull *pull)
{
        (void)pthread_mutex_lock(&pool->lock);
        pull->stopped = true;
        if (pool->job == pull)
                pool->job = NULL;
        while (pull->running > 0)
                (void)pthread_cond_wait(&pool->idle, &pool->lock);
        (void)pthread_mutex_unlock(&pool->lock);
}
