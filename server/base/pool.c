/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/thread.h"
#include "base/util.h"

/*
 * The pool: see pool.h. A task is queued in the lane of its class and devices. A thread runs the tasks of one lane
 * until none is left, then those of a lane that could be given no thread, then it is idle. A task's pieces may run on
 * several threads, up to its width, and its end is told once, after the last of them.
 *
 * Lock: one, a leaf, for everything; it is dropped while a task runs, while done and notify are called, and while
 * threads are joined. In a forked child the pool begins anew, since none of the threads is there.
 */

enum {
        PAIRED = 8,                                   /* GPUs whose pairs have a lane each; others share those */
        LANE_FILES = 1 + POOL_GPUS + PAIRED * PAIRED, /* of SPACE_NO_GPU; lane 0 waits for no device */
        LANES = LANE_FILES + 1,
        FILLERS_MAX = 8,
        NICE = 5, /* of the low threads: filling pages must not slow down those that answer and move bytes */
};

/* Threads are of two priorities, since an ordinary user's thread that has lowered its own cannot raise it again. */
enum priority { PRIORITY_NORMAL, PRIORITY_LOW, PRIORITIES };

static const struct {
        unsigned threads; /* of each lane; 0 = by the number of processors */
        enum priority priority;
        bool outlives; /* the pool ends without waiting for these tasks */
} classes[] = {
        [POOL_COPY] = { 64, PRIORITY_NORMAL, false }, /* width is the limit, by --copy-threads */
        /* Each has a stream of its own: the next copy is queued on the device while another is waited for. */
        [POOL_WORK] = { 4, PRIORITY_NORMAL, false },
        [POOL_DIGEST] = { 4, PRIORITY_NORMAL, false },
        [POOL_MAKE] = { 2, PRIORITY_LOW, false },
        [POOL_FILL] = { 0, PRIORITY_LOW, false },
        [POOL_NAME] = { 16, PRIORITY_NORMAL, true },
};
_Static_assert(FERRY_ARRAY_SIZE(classes) == POOL_CLASSES, "each class has a row");

struct lane {
        struct pool_task *queue; /* utlist */
        unsigned n_threads;      /* that run its tasks, or were woken for them */
};

struct pool_thread {
        pthread_t id;
        pthread_cond_t wake;
        enum priority priority;
        enum pool_class class; /* of the lane */
        struct lane *lane;     /* whose tasks it runs; NULL = it is idle */
        bool left;             /* the pool has ended meanwhile: nobody joins it */
        struct pool_thread *next, *all_prev, *all_next;
};

struct pool_user {
        void (*notify)(void *context); /* NULL = not notified */
        void *context;
        size_t n; /* tasks that have not ended; a task of a notified user ends once the user was notified */
        uint64_t n_retries;
        bool stopped;
        struct pool_task *waiting, *finished; /* utlist */
};

static struct pool {
        pthread_mutex_t lock;   /* a leaf; guards all of the pool, and the pool's part of each user and task */
        pthread_cond_t changed; /* a task or a thread has ended */
        size_t n_users;
        struct lane lanes[POOL_CLASSES][LANES];
        struct pool_thread *idle[PRIORITIES]; /* utlist; the last one that became idle is the first */
        struct pool_thread *all;              /* utlist: those that have not ended */
        struct pool_thread *ended;            /* utlist: to be joined */
        unsigned fillers;                     /* threads of POOL_FILL; 0 = not counted yet */
        bool warned;                          /* a thread could not be started, and that was logged */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* In a forked child, which has none of the threads, and where any lock may be held. */
static void forget_parent(void)
{
        static const struct pool fresh = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

        pool = fresh;
}

static void watch_forks(void)
{
        (void)pthread_atfork(NULL, NULL, forget_parent);
}

/* The lane of a class for these devices: none, one GPU, mapped files, or a pair. */
static unsigned lane_number(struct pool_devices devices)
{
        unsigned one = devices.one ? devices.one : devices.other, other = devices.other ? devices.other : one;

        if (one == 0)
                return 0;
        if (one == 1 + SPACE_NO_GPU && one == other)
                return LANE_FILES;
        if (one == other)
                return 1 + one % POOL_GPUS;
        return 1 + POOL_GPUS + (one - 1) % PAIRED * PAIRED + (other - 1) % PAIRED;
}

static struct lane *lane_of(const struct pool_task *task)
{
        return &pool.lanes[task->class][lane_number(task->devices)];
}

/*
 * Filling leaves a processor free: the kernel makes a huge page in one go, up to 10 ms if the host has to find the
 * memory first, and most kernels run no other thread meanwhile.
 */
static unsigned fillers(void)
{
        const unsigned processors = processors_allowed();

        return processors <= 2 ? 1 : (unsigned)at_most(processors - 1, FILLERS_MAX);
}

/* Under the lock, with a user. */
static unsigned lane_width(enum pool_class class)
{
        return class == POOL_FILL ? pool.fillers : classes[class].threads;
}

unsigned pool_fillers(void)
{
        unsigned n;

        (void)pthread_mutex_lock(&pool.lock);
        n = pool.fillers;
        (void)pthread_mutex_unlock(&pool.lock);
        return n;
}

/* ---- threads ---- */

static void *thread_run(void *context);

/* Joins the threads that have ended. Drops the lock meanwhile. */
static void join_ended(void)
{
        struct pool_thread *ended = FERRY_STEAL(pool.ended), *thread, *next;

        if (!ended)
                return;
        (void)pthread_mutex_unlock(&pool.lock);
        LL_FOREACH_SAFE (ended, thread, next) {
                (void)pthread_join(thread->id, NULL);
                (void)pthread_cond_destroy(&thread->wake);
                free(thread);
        }
        (void)pthread_mutex_lock(&pool.lock);
}

/* A thread for a lane, which it will look at. 0 or -errno. */
static int thread_start(enum pool_class class, struct lane *lane)
{
        struct pool_thread *thread = calloc(1, sizeof(*thread));
        int r;

        if (!thread)
                return -ENOMEM;
        condition_init(&thread->wake);
        thread->priority = classes[class].priority;
        thread->class = class;
        thread->lane = lane;
        r = thread_new(thread->priority == PRIORITY_LOW ? "ferry-pool-low" : "ferry-pool", thread_run, thread,
                       &thread->id);
        if (r < 0) {
                (void)pthread_cond_destroy(&thread->wake);
                free(thread);
                return r;
        }
        DL_APPEND2(pool.all, thread, all_prev, all_next);
        return 0;
}

/* Gives a lane another thread, if it may have one. 0 or -errno. */
static int staff(enum pool_class class, struct lane *lane)
{
        struct pool_thread *thread = pool.idle[classes[class].priority];
        int r = 0;

        if (lane->n_threads >= lane_width(class))
                return 0;
        if (thread) {
                LL_DELETE(pool.idle[thread->priority], thread);
                thread->class = class;
                thread->lane = lane;
                (void)pthread_cond_signal(&thread->wake);
        } else {
                r = thread_start(class, lane);
        }
        if (r == 0)
                lane->n_threads++;
        return r;
}

/* A lane that could be given no thread when its tasks came. */
static void find_lane(struct pool_thread *thread)
{
        for (unsigned class = 0; class < POOL_CLASSES && !thread->left; class ++)
                for (unsigned i = 0; i < LANES && classes[class].priority == thread->priority; i++) {
                        struct lane *lane = &pool.lanes[class][i];

                        if (!lane->queue || lane->n_threads >= lane_width(class))
                                continue;
                        lane->n_threads++;
                        thread->class = class;
                        thread->lane = lane;
                        return;
                }
}

/* Waits for a lane. false: it must end. */
static bool thread_idle(struct pool_thread *thread)
{
        const uint64_t until_us = clock_now_us() + POOL_IDLE_MS * UINT64_C(1000);

        if (pool.n_users == 0 || thread->left)
                return false;
        LL_PREPEND(pool.idle[thread->priority], thread);
        while (!thread->lane && pool.n_users > 0 && condition_wait(&thread->wake, &pool.lock, until_us))
                ;
        if (thread->lane)
                return true; /* and off the list */
        LL_DELETE(pool.idle[thread->priority], thread);
        return false;
}

/* ---- tasks ---- */

/* A task of the user has ended, and somebody may wait for that. The lock is held. */
static void user_leave(struct pool_user *user)
{
        if (user)
                user->n--;
        (void)pthread_cond_broadcast(&pool.changed);
}

/* All pieces are done. Drops the lock; done may free the task. */
static void task_finish(struct pool_task *task)
{
        struct pool_user *user = task->user;

        if (user && user->notify) {
                task->state = POOL_TASK_FINISHED;
                DL_APPEND(user->finished, task);
                (void)pthread_cond_broadcast(&pool.changed);
                (void)pthread_mutex_unlock(&pool.lock);
                user->notify(user->context);
        } else {
                task->state = POOL_TASK_OUT;
                (void)pthread_mutex_unlock(&pool.lock);
                if (task->done)
                        task->done(task);
        }
        (void)pthread_mutex_lock(&pool.lock);
        user_leave(user);
}

/* Queues a task in its lane. The lock is held. */
static void enqueue(struct lane *lane, struct pool_task *task)
{
        DL_APPEND(lane->queue, task);
        task->state = POOL_TASK_QUEUED;
}

/* A piece has ended with this verdict; retried: pool_retry was called meanwhile. */
static void piece_end(struct lane *lane, struct pool_task *task, enum pool_verdict verdict, bool retried)
{
        task->n_running--;
        if (task->state == POOL_TASK_STOPPED) {
                (void)pthread_cond_broadcast(&pool.changed);
                return;
        }
        if (verdict == POOL_WAITS && retried)
                verdict = POOL_MORE;
        if (task->state == POOL_TASK_QUEUED && verdict != POOL_MORE) {
                DL_DELETE(lane->queue, task);
                task->state = POOL_TASK_TAKEN;
        }
        if (task->state == POOL_TASK_WAITING && verdict != POOL_WAITS) {
                DL_DELETE(task->user->waiting, task);
                task->state = POOL_TASK_TAKEN;
        }
        if (verdict == POOL_DONE) {
                task->state = POOL_TASK_DRAINED;
        } else if (task->state == POOL_TASK_TAKEN && verdict == POOL_MORE) {
                enqueue(lane, task);
        } else if (task->state == POOL_TASK_TAKEN) {
                DL_APPEND(task->user->waiting, task);
                task->state = POOL_TASK_WAITING;
        }
        if (task->state == POOL_TASK_DRAINED && task->n_running == 0)
                task_finish(task);
}

/* Runs the tasks of a lane until none is left. Under the lock, which is dropped meanwhile. */
static void lane_run(struct lane *lane)
{
        struct pool_task *task;

        while ((task = lane->queue)) {
                const uint64_t n_retries = task->user ? task->user->n_retries : 0;
                enum pool_verdict verdict;

                DL_DELETE(lane->queue, task);
                task->n_running++;
                if (task->n_running < task->width)
                        DL_APPEND(lane->queue, task);
                else
                        task->state = POOL_TASK_TAKEN;
                (void)pthread_mutex_unlock(&pool.lock);
                verdict = task->run ? task->run(task) : POOL_DONE;
                (void)pthread_mutex_lock(&pool.lock);
                piece_end(lane, task, verdict, task->user && task->user->n_retries != n_retries);
        }
}

/* A thread of the pool, from lane to lane until it has been idle for too long. */
static void *thread_run(void *context)
{
        struct pool_thread *thread = context;
        bool left;

        if (thread->priority == PRIORITY_LOW)
                (void)setpriority(PRIO_PROCESS, 0, NICE); /* on Linux, of this thread alone */
        (void)pthread_mutex_lock(&pool.lock);
        do {
                while (thread->lane) {
                        lane_run(thread->lane);
                        thread->lane->n_threads--;
                        thread->lane = NULL;
                        find_lane(thread);
                }
        } while (thread_idle(thread));
        left = thread->left;
        if (!left) {
                DL_DELETE2(pool.all, thread, all_prev, all_next);
                LL_PREPEND(pool.ended, thread);
        }
        (void)pthread_cond_broadcast(&pool.changed);
        (void)pthread_mutex_unlock(&pool.lock);
        if (left) {
                (void)pthread_cond_destroy(&thread->wake);
                free(thread);
        }
        return NULL;
}

/* Under the lock. */
static void retry(struct pool_user *user)
{
        struct pool_task *task, *next;

        user->n_retries++;
        DL_FOREACH_SAFE (user->waiting, task, next) {
                struct lane *lane = lane_of(task);

                DL_DELETE(user->waiting, task);
                enqueue(lane, task);
                for (unsigned i = task->n_running; i < (task->width ? task->width : 1); i++)
                        (void)staff(task->class, lane);
        }
}

/* ---- users ---- */

int pool_user_new(void (*notify)(void *context), void *context, struct pool_user **ret_user)
{
        static pthread_once_t watched = PTHREAD_ONCE_INIT;
        struct pool_user *user = calloc(1, sizeof(*user));

        if (!user)
                return -ENOMEM;
        (void)pthread_once(&watched, watch_forks);
        user->notify = notify;
        user->context = context;
        (void)pthread_mutex_lock(&pool.lock);
        if (pool.n_users++ == 0)
                pool.fillers = fillers();
        (void)pthread_mutex_unlock(&pool.lock);
        *ret_user = user;
        return 0;
}

/* The last user has left: ends the threads. A new one may come meanwhile, and keeps those that are left. */
static void end_threads(void)
{
        struct pool_thread *thread, *next;
        bool any = true;

        for (unsigned i = 0; i < PRIORITIES; i++)
                LL_FOREACH (pool.idle[i], thread)
                        (void)pthread_cond_signal(&thread->wake);
        while (any && pool.n_users == 0) {
                any = false;
                DL_FOREACH_SAFE2 (pool.all, thread, next, all_next) {
                        if (thread->lane && classes[thread->class].outlives) {
                                thread->left = true;
                                DL_DELETE2(pool.all, thread, all_prev, all_next);
                                (void)pthread_detach(thread->id);
                        } else {
                                any = true;
                        }
                }
                if (any)
                        (void)pthread_cond_wait(&pool.changed, &pool.lock);
        }
        join_ended();
}

/* Waiting tasks are run again, so that they see their user's end and finish. */
void pool_user_stop(struct pool_user *user)
{
        (void)pthread_mutex_lock(&pool.lock);
        user->stopped = true;
        retry(user);
        while (user->finished || user->n > 0) {
                if (!user->finished) {
                        (void)pthread_cond_wait(&pool.changed, &pool.lock);
                        continue;
                }
                (void)pthread_mutex_unlock(&pool.lock);
                (void)pool_collect(user);
                (void)pthread_mutex_lock(&pool.lock);
        }
        (void)pthread_mutex_unlock(&pool.lock);
}

struct pool_user *pool_user_free(struct pool_user *user)
{
        if (!user)
                return NULL;
        pool_user_stop(user);
        (void)pthread_mutex_lock(&pool.lock);
        if (--pool.n_users == 0)
                end_threads();
        (void)pthread_mutex_unlock(&pool.lock);
        free(user);
        return NULL;
}

bool pool_add(struct pool_user *user, struct pool_task *task)
{
        struct lane *lane = lane_of(task);
        bool added, warn;
        int r = 0;

        assert(task->state == POOL_TASK_OUT);
        (void)pthread_mutex_lock(&pool.lock);
        join_ended(); /* drops the lock: the user may be stopped meanwhile */
        if (user && user->stopped) {
                (void)pthread_mutex_unlock(&pool.lock);
                return false;
        }
        task->user = classes[task->class].outlives ? NULL : user;
        for (unsigned i = 0; i < (task->width ? task->width : 1) && r == 0; i++)
                r = staff(task->class, lane);
        added = lane->n_threads > 0;
        warn = r < 0 && !pool.warned;
        pool.warned = r < 0;
        if (added) {
                enqueue(lane, task);
                if (task->user)
                        user->n++;
        }
        (void)pthread_mutex_unlock(&pool.lock);
        if (warn)
                log_event(LOG_WARN, "thread not started", LOG_S("reason", strerror(-r)));
        return added;
}

void pool_add_or_run(struct pool_user *user, struct pool_task *task)
{
        if (pool_add(user, task))
                return;
        while (task->run && task->run(task) != POOL_DONE)
                ;
        (void)pthread_mutex_lock(&pool.lock);
        task->user = user;
        user->n++;
        task_finish(task);
        (void)pthread_mutex_unlock(&pool.lock);
}

bool pool_remove(struct pool_task *task)
{
        bool removed = true;

        (void)pthread_mutex_lock(&pool.lock);
        if (task->state == POOL_TASK_QUEUED && task->n_running == 0) {
                DL_DELETE(lane_of(task)->queue, task);
                user_leave(task->user);
        } else if (task->state == POOL_TASK_FINISHED) {
                DL_DELETE(task->user->finished, task);
        } else {
                removed = false;
        }
        if (removed)
                task->state = POOL_TASK_OUT;
        (void)pthread_mutex_unlock(&pool.lock);
        return removed;
}

void pool_stop(struct pool_task *task)
{
        (void)pthread_mutex_lock(&pool.lock);
        if (task->state == POOL_TASK_QUEUED)
                DL_DELETE(lane_of(task)->queue, task);
        else if (task->state == POOL_TASK_WAITING)
                DL_DELETE(task->user->waiting, task);
        if (task->state != POOL_TASK_OUT) {
                task->state = POOL_TASK_STOPPED;
                while (task->n_running > 0)
                        (void)pthread_cond_wait(&pool.changed, &pool.lock);
                task->state = POOL_TASK_OUT;
                user_leave(task->user);
        }
        (void)pthread_mutex_unlock(&pool.lock);
}

void pool_retry(struct pool_user *user)
{
        (void)pthread_mutex_lock(&pool.lock);
        retry(user);
        (void)pthread_mutex_unlock(&pool.lock);
}

bool pool_collect(struct pool_user *user)
{
        struct pool_task *task;
        bool any = false;

        for (;;) {
                (void)pthread_mutex_lock(&pool.lock);
                task = user->finished;
                if (task) {
                        DL_DELETE(user->finished, task);
                        task->state = POOL_TASK_OUT;
                }
                (void)pthread_mutex_unlock(&pool.lock);
                if (!task)
                        return any;
                any = true;
                if (task->done)
                        task->done(task);
        }
}

void pool_wait(struct pool_user *user)
{
        (void)pthread_mutex_lock(&pool.lock);
        while (!user->finished)
                (void)pthread_cond_wait(&pool.changed, &pool.lock);
        (void)pthread_mutex_unlock(&pool.lock);
}

/* ---- functions that are told to nobody ---- */

struct errand {
        struct pool_task task;
        void (*run)(void *context);
        void *context;
};

static enum pool_verdict errand_run(struct pool_task *task)
{
        const struct errand *errand = FERRY_CONTAINER_OF(task, struct errand, task);

        errand->run(errand->context);
        return POOL_DONE;
}

static void errand_done(struct pool_task *task)
{
        free(FERRY_CONTAINER_OF(task, struct errand, task));
}

void pool_run(struct pool_user *user, enum pool_class class, struct pool_devices devices, void (*run)(void *context),
              void *context)
{
        struct errand *errand = malloc(sizeof(*errand));

        if (!errand) {
                run(context);
                return;
        }
        *errand = (struct errand){
                .task = { .run = errand_run, .done = errand_done, .class = class, .devices = devices },
                .run = run,
                .context = context,
        };
        pool_add_or_run(user, &errand->task);
}
