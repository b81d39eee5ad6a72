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
        struct pull *shared;   /* utlist; pulls whose pieces helpers take, in this order */
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

/* Takes the next piece that is shared. */
static bool take_shared(struct copies *copies, struct piece *ret_piece)
{
        while (copies->shared) {
                if (pull_take(copies->shared, PULL_PIECE, ret_piece))
                        return true;
                withdraw(copies, copies->shared);
        }
        return false;
}

static bool is_taken(const struct pull *pull)
{
        return pull->stopped || pull->taken == pull->length;
}

static void finish(struct copies *copies, const struct piece *piece, bool valid)
{
        pull_finish(piece->pull, piece, valid);
        if (piece->pull->running == 0)
                (void)pthread_cond_broadcast(&copies->idle);
}

/* A helper's piece. */
static enum pool_verdict help(struct pool_task *task)
{
        struct copies *copies = FERRY_CONTAINER_OF(task, struct copies, help);
        struct piece piece;
        bool taken, valid;

        (void)pthread_mutex_lock(&copies->lock);
        taken = take_shared(copies, &piece);
        (void)pthread_mutex_unlock(&copies->lock);
        if (!taken)
                return POOL_WAITS;
        valid = piece_copy(&piece);
        (void)pthread_mutex_lock(&copies->lock);
        finish(copies, &piece, valid);
        /* Not while pieces are left: then the progress thread is awake, and checks by itself. */
        if (is_taken(piece.pull))
                copies->notify(copies->context);
        (void)pthread_mutex_unlock(&copies->lock);
        return POOL_MORE;
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
        struct piece piece;
        bool taken, valid;

        (void)pthread_mutex_lock(&copies->lock);
        taken = pull_take(pull, limit, &piece);
        (void)pthread_mutex_unlock(&copies->lock);
        if (!taken)
                return 0;
        valid = piece_copy(&piece);
        (void)pthread_mutex_lock(&copies->lock);
        finish(copies, &piece, valid);
        (void)pthread_mutex_unlock(&copies->lock);
        return piece.length;
}

enum copy_status copies_status(struct copies *copies, const struct pull *pull, uint64_t *ret_copied)
{
        enum copy_status status = COPY_MORE;

        (void)pthread_mutex_lock(&copies->lock);
        *ret_copied = pull->copied;
        if (pull->running > 0 && is_taken(pull))
                status = COPY_WAITS;
        else if (pull->stopped)
                status = COPY_LEASE_ENDED;
        else if (pull->copied == pull->length)
                status = COPY_COPIED;
        (void)pthread_mutex_unlock(&copies->lock);
        return status;
}

void copies_stop(struct copies *copies, struct pull *pull)
{
        (void)pthread_mutex_lock(&copies->lock);
        pull->stopped = true;
        withdraw(copies, pull);
        while (pull->running > 0)
                (void)pthread_cond_wait(&copies->idle, &copies->lock);
        (void)pthread_mutex_unlock(&copies->lock);
}
