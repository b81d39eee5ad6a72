/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/thread.h"
#include "base/util.h"
#include "unit.h"

enum { PIECES = 50, WIDTH = 3, GPUS = 8, LANE_THREADS = 4, MANY = 2 * LANE_THREADS };

/* ---- threads that cannot be started, and time that has passed ---- */

static atomic_bool no_threads, time_is_over;
static atomic_uint n_started, n_idle;

int __real_thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread);
int __wrap_thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread);

int __wrap_thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread)
{
        if (atomic_load(&no_threads))
                return -EAGAIN;
        atomic_fetch_add(&n_started, 1);
        return __real_thread_new(name, run, context, ret_thread);
}

bool __real_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_us);
bool __wrap_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_us);

bool __wrap_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_us)
{
        atomic_fetch_add(&n_idle, 1);
        return !atomic_load(&time_is_over) && __real_condition_wait(condition, mutex, deadline_us);
}

/* ---- tasks ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool moves; /* tasks that stand still move on */

struct work {
        struct pool_task task;
        size_t n_pieces; /* 0 = 1 */
        size_t meet;     /* so many run at once before any of them ends */
        bool stands_still, is_ready, retries;
        struct pool_user *user;
        /* lock: */
        size_t n_taken, n_run, n_running, n_running_most, n_waits;
        unsigned n_done;
        int nice;
};

static enum pool_verdict run(struct pool_task *task)
{
        struct work *w = FERRY_CONTAINER_OF(task, struct work, task);
        enum pool_verdict verdict = POOL_DONE;

        pthread_mutex_lock(&lock);
        if (w->n_taken < (w->n_pieces ? w->n_pieces : 1)) {
                w->n_taken++;
                if (++w->n_running > w->n_running_most)
                        w->n_running_most = w->n_running;
                w->nice = getpriority(PRIO_PROCESS, 0);
                pthread_cond_broadcast(&changed);
                while (w->n_running_most < w->meet || (w->stands_still && !moves))
                        pthread_cond_wait(&changed, &lock);
                w->n_running--;
                w->n_run++;
                verdict = POOL_MORE;
        }
        if (w->n_taken >= (w->n_pieces ? w->n_pieces : 1))
                verdict = POOL_DONE;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        return verdict;
}

static void done(struct pool_task *task)
{
        struct work *w = FERRY_CONTAINER_OF(task, struct work, task);

        pthread_mutex_lock(&lock);
        w->n_done++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static void work_init(struct work *w, enum pool_class class, unsigned one, unsigned other)
{
        w->task = (struct pool_task){ .run = run, .done = done, .class = class, .devices = { one, other } };
}

#define AWAIT(condition)                                                                                               \
        do {                                                                                                           \
                pthread_mutex_lock(&lock);                                                                             \
                WAIT_SIGNAL(&changed, &lock, condition);                                                               \
                pthread_mutex_unlock(&lock);                                                                           \
        } while (0)

static void let_move(void)
{
        pthread_mutex_lock(&lock);
        moves = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

/* ---- users ---- */

static void user_free(void *context)
{
        let_move();
        pool_user_free(context);
}

static struct pool_user *user_new(void (*notify)(void *context))
{
        struct pool_user *user;

        moves = false;
        atomic_store(&n_started, 0);
        assert_int_equal(pool_user_new(notify, NULL, &user), 0);
        return test_keep(user, user_free);
}

static size_t threads_now(void)
{
        DIR *tasks = opendir("/proc/self/task");
        size_t n = 0;

        assert_non_null(tasks);
        while (readdir(tasks))
                n++;
        closedir(tasks);
        return n - 2; /* . and .. */
}

TEST(each_piece_is_done_once_by_as_many_threads_as_may)
{
        struct work w = { .n_pieces = PIECES, .meet = WIDTH };

        work_init(&w, POOL_COPY, 0, 0);
        w.task.width = WIDTH;
        assert_true(pool_add(user_new(NULL), &w.task));
        AWAIT(w.n_done);
        assert_int_equal(w.n_run, PIECES);
        assert_int_equal(w.n_running_most, WIDTH);
        assert_int_equal(w.n_running, 0);
        assert_int_equal(w.n_done, 1);
}

TEST(a_class_has_no_more_threads_than_it_may)
{
        static struct work works[MANY];
        struct pool_user *user = user_new(NULL);

        memset(works, 0, sizeof(works));
        for (size_t i = 0; i < MANY; i++) {
                works[i].stands_still = true;
                work_init(&works[i], POOL_WORK, 0, 0);
                assert_true(pool_add(user, &works[i].task));
        }
        AWAIT(works[LANE_THREADS - 1].n_running);
        assert_int_equal(atomic_load(&n_started), LANE_THREADS);
        pthread_mutex_lock(&lock);
        assert_int_equal(works[LANE_THREADS].n_taken, 0);
        pthread_mutex_unlock(&lock);
        let_move();
        for (size_t i = 0; i < MANY; i++)
                AWAIT(works[i].n_done);
        assert_int_equal(atomic_load(&n_started), LANE_THREADS);
}

TEST(two_gpus_of_which_one_stands_still_hold_up_no_others)
{
        static struct work stuck[MANY], others[POOL_CLASSES * (GPUS + 1) * (GPUS + 1)];
        struct pool_user *user = user_new(NULL);
        size_t n = 0;

        memset(stuck, 0, sizeof(stuck));
        memset(others, 0, sizeof(others));
        for (size_t i = 0; i < MANY; i++) {
                stuck[i].stands_still = true;
                work_init(&stuck[i], POOL_WORK, 1, GPUS);
                assert_true(pool_add(user, &stuck[i].task));
        }
        for (unsigned class = 0; class < POOL_CLASSES; class ++)
                for (unsigned one = 0; one <= GPUS; one++)
                        for (unsigned other = 0; other <= GPUS; other++) {
                                if (class == POOL_WORK && one == 1 && other == GPUS)
                                        continue;
                                work_init(&others[n], class, one, other);
                                assert_true(pool_add(user, &others[n++].task));
                        }
        for (size_t i = 0; i < n; i++)
                AWAIT(others[i].n_done);
}

TEST(tasks_take_turns)
{
        struct work large = { .n_pieces = PIECES, .stands_still = true }, small = { 0 };
        struct pool_user *user = user_new(NULL);

        work_init(&large, POOL_MAKE, 1, 0);
        work_init(&small, POOL_MAKE, 1, 0);
        large.task.width = 2; /* both threads of the lane */
        assert_true(pool_add(user, &large.task));
        AWAIT(large.n_running == 2);
        assert_true(pool_add(user, &small.task));
        let_move();
        AWAIT(small.n_done);
        AWAIT(large.n_done);
        assert_int_equal(large.n_run, PIECES);
}

TEST(threads_that_fill_have_a_lower_priority)
{
        struct work copies = { 0 }, fills = { 0 };
        struct pool_user *user = user_new(NULL);
        int own = getpriority(PRIO_PROCESS, 0);

        work_init(&copies, POOL_COPY, 0, 0);
        work_init(&fills, POOL_FILL, 0, 0);
        assert_true(pool_add(user, &fills.task));
        AWAIT(fills.n_done);
        assert_true(pool_add(user, &copies.task)); /* not by the thread that is idle */
        AWAIT(copies.n_done);
        assert_int_equal(copies.nice, own);
        if (own < 5)
                assert_int_equal(fills.nice, 5);
        assert_int_equal(atomic_load(&n_started), 2);
}

static void do_one(struct pool_user *user, enum pool_class class)
{
        struct work w = { 0 };

        work_init(&w, class, 0, 0);
        assert_true(pool_add(user, &w.task));
        AWAIT(w.n_done);
}

TEST(an_idle_thread_takes_the_next_task_of_any_class_and_ends_in_time)
{
        struct pool_user *user = user_new(NULL);
        size_t before = threads_now();

        atomic_store(&n_idle, 0);
        do_one(user, POOL_NAME);
        WAIT_UNTIL(atomic_load(&n_idle) == 1);
        atomic_store(&time_is_over, true);
        do_one(user, POOL_WORK);
        WAIT_UNTIL(threads_now() == before);
        atomic_store(&time_is_over, false);
        assert_int_equal(atomic_load(&n_started), 1);
        do_one(user, POOL_WORK); /* by a new thread */
        assert_int_equal(atomic_load(&n_started), 2);
}

TEST(the_end_of_the_last_user_ends_the_threads_after_what_is_queued)
{
        static struct work works[MANY];
        size_t before = threads_now();
        struct pool_user *user;

        memset(works, 0, sizeof(works));
        moves = true;
        assert_int_equal(pool_user_new(NULL, NULL, &user), 0);
        for (size_t i = 0; i < MANY; i++) {
                works[i].n_pieces = 1 + i % 3;
                work_init(&works[i], POOL_MAKE, 0, 0);
                assert_true(pool_add(user, &works[i].task));
        }
        user = pool_user_free(user);
        assert_int_equal(threads_now(), before);
        for (size_t i = 0; i < MANY; i++)
                assert_int_equal(works[i].n_done, 1);
}

TEST(a_user_that_is_stopped_refuses_tasks)
{
        struct work w = { 0 };
        struct pool_user *user = user_new(NULL);

        pool_user_stop(user);
        work_init(&w, POOL_WORK, 0, 0);
        assert_false(pool_add(user, &w.task));
        assert_int_equal(w.n_taken, 0);
}

/* What is made cannot end before something else has begun, for which there is a thread. */
TEST(filling_leaves_threads_for_the_rest_of_making)
{
        static struct work fills, other;
        struct pool_user *user = user_new(NULL);

        memset(&fills, 0, sizeof(fills));
        memset(&other, 0, sizeof(other));
        fills.stands_still = true;
        fills.n_pieces = PIECES;
        work_init(&fills, POOL_FILL, 0, 0);
        work_init(&other, POOL_MAKE, 0, 0);
        fills.task.width = PIECES;
        assert_true(pool_add(user, &fills.task));
        AWAIT(fills.n_running == pool_fillers());
        assert_true(pool_add(user, &other.task));
        AWAIT(other.n_done);
        assert_int_equal(fills.n_running, pool_fillers());
        let_move();
        AWAIT(fills.n_done);
        assert_int_equal(fills.n_running_most, pool_fillers());
}

TEST(the_end_does_not_wait_for_a_name_server)
{
        static struct work name, queued[16];
        struct pool_user *user;

        memset(&name, 0, sizeof(name));
        memset(queued, 0, sizeof(queued));
        moves = false;
        assert_int_equal(pool_user_new(NULL, NULL, &user), 0);
        name.stands_still = true;
        work_init(&name, POOL_NAME, 0, 0);
        assert_true(pool_add(user, &name.task));
        AWAIT(name.n_running);
        assert_false(pool_remove(&name.task));
        user = pool_user_free(user);
        pthread_mutex_lock(&lock);
        assert_int_equal(name.n_done, 0);
        pthread_mutex_unlock(&lock);
        /* The next user has threads of its own. */
        struct work w = { 0 };
        assert_int_equal(pool_user_new(NULL, NULL, &user), 0);
        work_init(&w, POOL_WORK, 0, 0);
        assert_true(pool_add(user, &w.task));
        AWAIT(w.n_done);
        let_move();
        AWAIT(name.n_done);
        user = pool_user_free(user);
}

TEST(a_queued_task_can_be_taken_back_and_a_running_one_cannot)
{
        static struct work running[2], queued;
        struct pool_user *user = user_new(NULL);

        memset(running, 0, sizeof(running));
        memset(&queued, 0, sizeof(queued));
        for (size_t i = 0; i < UNIT_COUNT(running); i++) {
                running[i].stands_still = true;
                work_init(&running[i], POOL_MAKE, 1, 0);
                assert_true(pool_add(user, &running[i].task));
                AWAIT(running[i].n_running);
        }
        work_init(&queued, POOL_MAKE, 1, 0);
        assert_true(pool_add(user, &queued.task));
        assert_true(pool_remove(&queued.task));
        assert_false(pool_remove(&running[0].task));
        let_move();
        AWAIT(running[0].n_done && running[1].n_done);
        test_release(user);
        assert_int_equal(queued.n_taken, 0);
        assert_int_equal(queued.n_done, 0);
}

static struct bell told;

static void ring(void *context)
{
        bell_ring(&told);
}

TEST(a_user_that_is_notified_collects_its_tasks)
{
        struct work w = { 0 };
        struct pool_user *user;

        told = BELL;
        user = user_new(ring);
        work_init(&w, POOL_WORK, 1, 0);
        assert_false(pool_collect(user));
        assert_true(pool_add(user, &w.task));
        bell_await(&told, 1);
        pool_wait(user);
        assert_int_equal(w.n_done, 0);
        assert_true(pool_collect(user));
        assert_int_equal(w.n_done, 1);
        assert_false(pool_collect(user));
}

TEST(a_task_that_has_run_and_is_removed_is_not_collected)
{
        struct work w = { 0 };
        struct pool_user *user;

        told = BELL;
        user = user_new(ring);
        work_init(&w, POOL_WORK, 1, 0);
        assert_true(pool_add(user, &w.task));
        pool_wait(user);
        assert_true(pool_remove(&w.task));
        assert_false(pool_collect(user));
        assert_int_equal(w.n_done, 0);
}

/* ---- tasks that wait ---- */

static enum pool_verdict run_when_ready(struct pool_task *task)
{
        struct work *w = FERRY_CONTAINER_OF(task, struct work, task);
        bool ready;

        pthread_mutex_lock(&lock);
        ready = w->is_ready;
        w->n_waits += !ready;
        w->is_ready |= w->retries;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        if (w->retries && !ready)
                pool_retry(w->user);
        return ready ? run(task) : POOL_WAITS;
}

TEST(what_waits_runs_again_after_a_retry)
{
        struct work waits = { 0 }, other = { 0 };
        struct pool_user *user = user_new(NULL);

        work_init(&waits, POOL_MAKE, 0, 0);
        work_init(&other, POOL_MAKE, 0, 0);
        waits.task.run = run_when_ready;
        assert_true(pool_add(user, &waits.task));
        AWAIT(waits.n_waits == 1);
        assert_true(pool_add(user, &other.task));
        AWAIT(other.n_done);
        pool_retry(user);
        AWAIT(waits.n_waits == 2);
        assert_int_equal(waits.n_done, 0);
        pthread_mutex_lock(&lock);
        waits.is_ready = true;
        pthread_mutex_unlock(&lock);
        pool_retry(user);
        AWAIT(waits.n_done);
}

TEST(a_retry_while_a_task_runs_is_not_missed)
{
        struct work w = { .retries = true };

        w.user = user_new(NULL);
        work_init(&w, POOL_MAKE, 0, 0);
        w.task.run = run_when_ready;
        assert_true(pool_add(w.user, &w.task));
        AWAIT(w.n_done);
        assert_int_equal(w.n_waits, 1);
}

/* ---- stopping ---- */

static enum pool_verdict run_forever(struct pool_task *task)
{
        struct work *w = FERRY_CONTAINER_OF(task, struct work, task);

        pthread_mutex_lock(&lock);
        w->n_run++;
        w->n_running++;
        pthread_cond_broadcast(&changed);
        while (w->stands_still && !moves)
                pthread_cond_wait(&changed, &lock);
        w->n_running--;
        pthread_mutex_unlock(&lock);
        return w->is_ready ? POOL_WAITS : POOL_MORE;
}

static void *stop(void *context)
{
        struct work *w = context;

        pool_stop(&w->task);
        return NULL;
}

TEST(a_stop_waits_for_pieces_under_way_and_no_other_follows)
{
        struct work w = { .stands_still = true };
        struct pool_user *user = user_new(NULL);
        pthread_t stopper;
        size_t n_run;

        work_init(&w, POOL_COPY, 0, 0);
        w.task.run = run_forever;
        w.task.width = 2;
        assert_true(pool_add(user, &w.task));
        AWAIT(w.n_running == 2);
        assert_int_equal(pthread_create(&stopper, NULL, stop, &w), 0);
        let_move();
        pthread_join(stopper, NULL);
        assert_int_equal(w.n_running, 0);
        n_run = w.n_run;
        pool_retry(user);
        assert_false(pool_remove(&w.task)); /* it is not there */
        test_release(user);
        assert_int_equal(w.n_run, n_run);
}

TEST(a_waiting_task_can_be_stopped_and_added_again)
{
        struct work w = { .is_ready = true };
        struct pool_user *user = user_new(NULL);

        work_init(&w, POOL_COPY, 0, 0);
        w.task.run = run_forever;
        for (size_t i = 1; i <= 3; i++) {
                assert_true(pool_add(user, &w.task));
                AWAIT(w.n_run == i && w.n_running == 0);
                pool_stop(&w.task);
        }
        pool_stop(&w.task);
}

/* ---- too few threads, and forks ---- */

static void count(void *context)
{
        (*(unsigned *)context)++;
}

TEST(without_a_thread_the_caller_is_told_or_runs_it)
{
        struct work added = { 0 }, runs = { .n_pieces = 3 };
        struct pool_user *user = user_new(NULL);
        unsigned n_run = 0;

        atomic_store(&no_threads, true);
        work_init(&added, POOL_WORK, 0, 0);
        work_init(&runs, POOL_WORK, 0, 0);
        moves = true;
        assert_false(pool_add(user, &added.task));
        pool_add_or_run(user, &runs.task);
        pool_run(user, POOL_WORK, (struct pool_devices){ 0 }, count, &n_run);
        atomic_store(&no_threads, false);
        assert_int_equal(added.n_taken, 0);
        assert_int_equal(runs.n_run, 3);
        assert_int_equal(runs.n_done, 1);
        assert_int_equal(n_run, 1);
        assert_true(pool_add(user, &added.task));
        AWAIT(added.n_done);
}

TEST(a_forked_child_has_a_pool_of_its_own)
{
#if defined(__SANITIZE_THREAD__) && __GNUC__ < 13
        skip(); /* its runtime takes the child's threads for the parent's */
#endif
        struct work running = { .stands_still = true };
        struct pool_user *user = user_new(NULL), *own;
        int status;

        work_init(&running, POOL_WORK, 0, 0);
        assert_true(pool_add(user, &running.task));
        AWAIT(running.n_running);
        pid_t child = fork();
        if (child == 0) {
                static struct work w;

                if (pool_user_new(NULL, NULL, &own) != 0)
                        _exit(1);
                memset(&w, 0, sizeof(w));
                pthread_mutex_init(&lock, NULL);
                pthread_cond_init(&changed, NULL);
                work_init(&w, POOL_WORK, 0, 0);
                if (!pool_add(own, &w.task))
                        _exit(2);
                pool_user_free(own);
                _exit(w.n_done == 1 ? 0 : 3);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        let_move();
        AWAIT(running.n_done);
}
