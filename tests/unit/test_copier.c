/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/copier.h"

#include "unit.h"

/* Which tasks hold up which others. */

enum { GPUS = 8, MANY = 8 /* more than one GPU's threads take */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool moves;
static unsigned n_run;

static void stand_still(struct copier_task *task)
{
        pthread_mutex_lock(&lock);
        while (!moves)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
}

static void count(struct copier_task *task)
{
        pthread_mutex_lock(&lock);
        n_run++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static void ignore_done(struct copier_task *task)
{
}

static void ignore(void *context)
{
}

/* Ends the tasks that stand still, so that the copier can end. */
static void bench_free(void *context)
{
        pthread_mutex_lock(&lock);
        moves = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        copier_free(context);
}

static struct copier *bench_new(void)
{
        struct copier *copier;

        moves = false;
        n_run = 0;
        assert_int_equal(copier_new(ignore, NULL, &copier), 0);
        return test_keep(copier, bench_free);
}

TEST(two_gpus_of_which_one_stands_still_hold_up_no_others)
{
        static struct copier_task stuck[MANY], others[(GPUS + 1) * (GPUS + 1)];
        const struct copier_gpus still = { .one = 1, .other = GPUS };
        struct copier *copier = bench_new();
        unsigned n = 0;

        for (size_t i = 0; i < MANY; i++) {
                stuck[i] = (struct copier_task){ .run = stand_still, .done = ignore_done, .gpus = still };
                copier_add(copier, &stuck[i]);
        }
        for (unsigned one = 0; one <= GPUS; one++)
                for (unsigned other = 0; other <= GPUS; other++) {
                        if (one == still.one && other == still.other)
                                continue;
                        others[n] = (struct copier_task){ .run = count, .done = ignore_done, .gpus = { one, other } };
                        copier_add(copier, &others[n++]);
                }
        pthread_mutex_lock(&lock);
        WAIT_SIGNAL(&changed, &lock, n_run == n);
        pthread_mutex_unlock(&lock);
}

TEST(a_task_that_has_run_and_is_removed_is_not_collected)
{
        struct copier_task task = { .run = count, .done = ignore_done };
        struct copier *copier = bench_new();

        copier_add(copier, &task);
        copier_wait(copier);
        assert_true(copier_remove(copier, &task));
        assert_false(copier_collect(copier));
}
