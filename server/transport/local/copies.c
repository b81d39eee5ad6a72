/* SPDX-License-Identifier: Apache-2.0 */
#include "copies.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/pool.h"
#include "base/util.h"

struct copies {
        void (*notify)(void *context);
        void *context;
        unsigned n_helpers;
        struct pool_user *tasks;
        struct pool_task help; /* waits while no pull is shared. The progress thread's */
        bool is_helped;        /* help was added */
        pthread_mutex_t lock;  /* guards what follows, and the second part of each pull */
        pthread_cond_t idle;   /* a pull's running became 0 */
        struct pull *shared;   /* utlist; pulls whose pieces helpers take, in turn */
};

int copies_new(unsigned helpers, void (*notify)(void *context), void *context, struct copies **ret_copies)
{
        struct copies *copies = calloc(1, sizeof(*copies));
        int r = copies ? pool_user_new(NULL, NULL, &copies->tasks) : -ENOMEM;

        if (r < 0) {
                free(copies);
                return r;
        }
        copies->n_helpers = helpers;
        copies->notify = notify;
        copies->context = context;
        (void)pthread_mutex_init(&copies->lock, NULL);
        (void)pthread_cond_init(&copies->idle, NULL);
        *ret_copies = copies;
        return 0;
}

struct copies *copies_free(struct copies *copies)
{
        if (!copies)
                return NULL;
        pool_stop(&copies->help);
        pool_user_free(copies->tasks);
        (void)pthread_cond_destroy(&copies->idle);
        (void)pthread_mutex_destroy(&copies->lock);
        free(copies);
        return NULL;
}

/* Under the lock, as the next three functions. */
static void withdraw(struct copies *copies, struct pull *pull)
{
        if (!pull->is_shared)
                return;
        DL_DELETE2(copies->shared, pull, shared_prev, shared_next);
        pull->is_shared = false;
}

/* Takes a piece of each shared pull in turn. */
static bool take_shared(struct copies *copies, struct piece *ret_piece)
{
        struct pull *pull;

        while ((pull = copies->shared)) {
                if (pull_take(pull, PULL_PIECE, ret_piece)) {
                        DL_DELETE2(copies->shared, pull, shared_prev, shared_next);
                        DL_APPEND2(copies->shared, pull, shared_prev, shared_next);
                        return true;
                }
                withdraw(copies, pull);
        }
        return false;
}

static bool is_taken(const struct pull *pull)
{
        return pull->stopped || pull->taken == pull->length;
}

/* Without the lock: copies a piece of one pull, or of a shared one (NULL). Returns its size; 0 = none is left. */
static uint64_t copy_piece(struct copies *copies, struct pull *pull, uint64_t limit)
{
        struct piece piece;
        enum piece_result result;
        bool taken;

        (void)pthread_mutex_lock(&copies->lock);
        taken = pull ? pull_take(pull, limit, &piece) : take_shared(copies, &piece);
        (void)pthread_mutex_unlock(&copies->lock);
        if (!taken)
                return 0;
        result = piece_copy(&piece);
        (void)pthread_mutex_lock(&copies->lock);
        pull_finish(&piece, result);
        if (!piece.pull->running)
                (void)pthread_cond_broadcast(&copies->idle);
        /* Not while pieces are left: then the progress thread is awake, and checks by itself. */
        if (!pull && is_taken(piece.pull))
                copies->notify(copies->context);
        (void)pthread_mutex_unlock(&copies->lock);
        return piece.length;
}

static enum pool_verdict help(struct pool_task *task)
{
        return copy_piece(FERRY_CONTAINER_OF(task, struct copies, help), NULL, 0) > 0 ? POOL_MORE : POOL_WAITS;
}

void copies_share(struct copies *copies, struct pull *pull)
{
        if (copies->n_helpers == 0 || pull->was_shared || pull->length < COPIES_SHARE_MIN)
                return;
        pull->was_shared = true;
        (void)pthread_mutex_lock(&copies->lock);
        if (!is_taken(pull)) {
                pull->is_shared = true;
                DL_APPEND2(copies->shared, pull, shared_prev, shared_next);
        }
        (void)pthread_mutex_unlock(&copies->lock);
        if (copies->is_helped) {
                pool_retry(copies->tasks);
                return;
        }
        copies->help = (struct pool_task){ .run = help, .class = POOL_COPY, .width = copies->n_helpers };
        copies->is_helped = pool_add(copies->tasks, &copies->help);
}

uint64_t copies_copy(struct copies *copies, struct pull *pull, uint64_t limit)
{
        return copy_piece(copies, pull, limit);
}

enum copy_status copies_status(struct copies *copies, const struct pull *pull, uint64_t *ret_copied)
{
        enum copy_status status = COPY_MORE;

        (void)pthread_mutex_lock(&copies->lock);
        *ret_copied = pull->stopped ? 0 : pull_copied(pull);
        if (pull->running && is_taken(pull))
                status = COPY_WAITS;
        else if (pull->stopped)
                status = pull->stopped == PIECE_DIFFERS ? COPY_DIFFERS : COPY_LEASE_ENDED;
        else if (pull->taken == pull->length)
                status = COPY_COPIED;
        (void)pthread_mutex_unlock(&copies->lock);
        return status;
}

void copies_stop(struct copies *copies, struct pull *pull)
{
        (void)pthread_mutex_lock(&copies->lock);
        pull->stopped = PIECE_REVOKED;
        withdraw(copies, pull);
        while (pull->running)
                (void)pthread_cond_wait(&copies->idle, &copies->lock);
        (void)pthread_mutex_unlock(&copies->lock);
}
