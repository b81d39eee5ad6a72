/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "makers_internal.h"
#include "unit.h"

enum { THREADS = 4, FILLERS = 3, PIECES = 50 };

static struct makers *makers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct work {
        struct maker_job job;
        size_t n_pieces;
        bool ready;   /* before, begin says MAKER_WAIT */
        bool retries; /* becomes ready, and says so, while begin says MAKER_WAIT */
        size_t meet;  /* so many pieces run at once before any of them ends */
        /* lock: */
        unsigned n_begun, done[PIECES], n_running, n_running_most;
        bool ended, ended_early;
};

static struct work *work_of(struct maker_job *job)
{
        return FERRY_CONTAINER_OF(job, struct work, job);
}

static enum maker_verdict begin(struct maker_job *job)
{
        struct work *work = work_of(job);
        bool ready;

        pthread_mutex_lock(&lock);
        work->n_begun++;
        ready = work->ready;
        work->ready |= work->retries;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        if (work->retries)
                makers_retry(makers);
        job->n_pieces = work->n_pieces;
        return ready ? MAKER_GO : MAKER_WAIT;
}

static void piece(struct maker_job *job, size_t i)
{
        struct work *work = work_of(job);

        pthread_mutex_lock(&lock);
        work->done[i]++;
        if (++work->n_running > work->n_running_most)
                work->n_running_most = work->n_running;
        pthread_cond_broadcast(&changed);
        while (work->n_running_most < work->meet)
                pthread_cond_wait(&changed, &lock);
        work->n_running--;
        pthread_mutex_unlock(&lock);
}

static void end(struct maker_job *job)
{
        struct work *work = work_of(job);

        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < work->n_pieces; i++)
                work->ended_early |= !work->done[i];
        work->ended = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static const struct maker_kind in_pieces = { begin, piece, end }, at_once = { NULL, NULL, end };

static void await_end(struct work *work)
{
        pthread_mutex_lock(&lock);
        WAIT_SIGNAL(&changed, &lock, work->ended);
        pthread_mutex_unlock(&lock);
}

static void await_begun(struct work *work, unsigned n)
{
        pthread_mutex_lock(&lock);
        WAIT_SIGNAL(&changed, &lock, work->n_begun >= n);
        pthread_mutex_unlock(&lock);
}

static void set_ready(struct work *work)
{
        pthread_mutex_lock(&lock);
        work->ready = true;
        pthread_mutex_unlock(&lock);
}

static int setup(void **state)
{
        return makers_new(THREADS, FILLERS, &makers);
}

static int teardown(void **state)
{
        makers_stop(makers);
        makers = makers_free(makers);
        return 0;
}

TEST_WITH(each_piece_is_done_once_by_as_many_threads_as_may, setup, teardown)
{
        struct work work = { .n_pieces = PIECES, .ready = true, .meet = FILLERS };

        assert_true(makers_add(makers, &work.job, &in_pieces, 0));
        await_end(&work);
        for (size_t i = 0; i < PIECES; i++)
                assert_int_equal(work.done[i], 1);
        assert_int_equal(work.n_begun, 1);
        assert_int_equal(work.n_running_most, FILLERS);
        assert_int_equal(work.n_running, 0);
}

TEST(one_thread_ends_a_job_after_its_last_piece)
{
        struct work work = { .n_pieces = PIECES, .ready = true };

        assert_int_equal(makers_new(1, 1, &makers), 0);
        assert_true(makers_add(makers, &work.job, &in_pieces, 0));
        await_end(&work);
        (void)teardown(NULL);
        assert_false(work.ended_early);
}

TEST_WITH(a_job_without_pieces_just_ends, setup, teardown)
{
        struct work none = { .ready = true }, simple = { 0 };

        assert_true(makers_add(makers, &none.job, &in_pieces, 0));
        assert_true(makers_add(makers, &simple.job, &at_once, 0));
        await_end(&none);
        await_end(&simple);
        assert_int_equal(none.n_begun, 1);
        assert_int_equal(simple.n_begun, 0);
}

/* The pieces cannot end before something else has begun, for which a thread is left. */
TEST_WITH(filling_leaves_a_thread_for_the_rest, setup, teardown)
{
        struct work fills = { .n_pieces = PIECES, .ready = true, .meet = SIZE_MAX }, other = { 0 };

        assert_true(makers_add(makers, &fills.job, &in_pieces, 0));
        pthread_mutex_lock(&lock);
        WAIT_SIGNAL(&changed, &lock, fills.n_running >= FILLERS);
        pthread_mutex_unlock(&lock);
        assert_true(makers_add(makers, &other.job, &at_once, 0));
        await_end(&other);
        pthread_mutex_lock(&lock);
        assert_int_equal(fills.n_running, FILLERS);
        fills.meet = 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        await_end(&fills);
}

/* A small job does not stand behind all of a large one. */
static bool moves;

static enum maker_verdict stand_still(struct maker_job *job)
{
        struct work *work = work_of(job);

        pthread_mutex_lock(&lock);
        work->n_begun++;
        pthread_cond_broadcast(&changed);
        while (!moves)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        return MAKER_GO;
}

TEST_WITH(jobs_of_a_gpu_that_stands_still_hold_up_no_others, setup, teardown)
{
        static const struct maker_kind still = { stand_still, NULL, end };
        struct work stuck[2 * THREADS] = { 0 }, host = { 0 }, other = { 0 };

        moves = false;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(stuck); i++)
                assert_true(makers_add(makers, &stuck[i].job, &still, 1));
        await_begun(&stuck[1], 1);
        assert_true(makers_add(makers, &host.job, &at_once, 0));
        assert_true(makers_add(makers, &other.job, &at_once, 2));
        await_end(&host);
        await_end(&other);
        pthread_mutex_lock(&lock);
        moves = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(stuck); i++)
                await_end(&stuck[i]);
}

TEST_WITH(jobs_take_turns, setup, teardown)
{
        struct work large = { .n_pieces = PIECES, .ready = true, .meet = FILLERS };
        struct work small = { .n_pieces = 1, .ready = true };

        assert_true(makers_add(makers, &large.job, &in_pieces, 0));
        assert_true(makers_add(makers, &small.job, &in_pieces, 0));
        await_end(&small);
        await_end(&large);
}

TEST_WITH(what_waits_is_asked_again_after_a_retry, setup, teardown)
{
        struct work waits = { .n_pieces = 2 }, other = { .ready = true };

        assert_true(makers_add(makers, &waits.job, &in_pieces, 0));
        await_begun(&waits, 1);
        assert_true(makers_add(makers, &other.job, &in_pieces, 0));
        await_end(&other);
        makers_retry(makers);
        await_begun(&waits, 2);
        assert_false(waits.ended);
        set_ready(&waits);
        makers_retry(makers);
        await_end(&waits);
        assert_int_equal(waits.done[0] + waits.done[1], 2);
}

TEST_WITH(a_retry_while_a_job_begins_is_not_missed, setup, teardown)
{
        struct work work = { .retries = true };

        assert_true(makers_add(makers, &work.job, &in_pieces, 0));
        await_end(&work);
        assert_int_equal(work.n_begun, 2);
}

TEST_WITH(stop_does_what_is_queued_and_refuses_the_rest, setup, teardown)
{
        struct work work[20], late = { .ready = true };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(work); i++) {
                work[i] = (struct work){ .n_pieces = i % 3, .ready = true };
                assert_true(makers_add(makers, &work[i].job, &in_pieces, 0));
        }
        makers_stop(makers);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(work); i++)
                assert_true(work[i].ended);
        assert_false(makers_add(makers, &late.job, &in_pieces, 0));
        assert_false(late.ended);
}
