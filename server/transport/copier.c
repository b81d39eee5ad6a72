/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/copier.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/util.h"

enum {
        THREADS = 4,
        DEVICES = 16, /* a machine with more GPUs has some share threads */
        PAIRED = 8,
        LANE_FILES = 1 + DEVICES + PAIRED * PAIRED, /* of SPACE_NO_GPU */
};

enum task_state { TASK_WAITS, TASK_RUNS, TASK_HAS_RUN };

/* The threads of one device, or of two. */
struct lane {
        struct copier *copier;
        pthread_cond_t work;         /* waiting, ending */
        struct copier_task *waiting; /* utlist; copier->lock guards it and what follows */
        unsigned n_threads;
        pthread_t threads[THREADS];
};

struct copier {
        void (*notify)(void *context);
        void *context;
        pthread_mutex_t lock;         /* guards what follows, and each task's state */
        pthread_cond_t ran;           /* a task has run */
        struct copier_task *finished; /* utlist */
        bool ending;
        struct lane lanes[LANE_FILES + 1]; /* the first: of no device */
};

int copier_new(void (*notify)(void *context), void *context, struct copier **ret_copier)
{
        struct copier *copier = calloc(1, sizeof(*copier));

        if (!copier)
                return -ENOMEM;
        copier->notify = notify;
        copier->context = context;
        (void)pthread_mutex_init(&copier->lock, NULL);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(copier->lanes); i++) {
                copier->lanes[i].copier = copier;
                (void)pthread_cond_init(&copier->lanes[i].work, NULL);
        }
        (void)pthread_cond_init(&copier->ran, NULL);
        *ret_copier = copier;
        return 0;
}

struct copier *copier_free(struct copier *copier)
{
        if (!copier)
                return NULL;
        (void)pthread_mutex_lock(&copier->lock);
        copier->ending = true;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(copier->lanes); i++)
                (void)pthread_cond_broadcast(&copier->lanes[i].work);
        (void)pthread_mutex_unlock(&copier->lock);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(copier->lanes); i++) {
                struct lane *lane = &copier->lanes[i];

                while (lane->n_threads > 0)
                        (void)pthread_join(lane->threads[--lane->n_threads], NULL);
                (void)pthread_cond_destroy(&lane->work);
        }
        (void)copier_collect(copier);
        (void)pthread_cond_destroy(&copier->ran);
        (void)pthread_mutex_destroy(&copier->lock);
        free(copier);
        return NULL;
}

/* Under the lock, which is dropped while the task runs. */
static void run_next(struct lane *lane)
{
        struct copier *copier = lane->copier;
        struct copier_task *task = lane->waiting;

        DL_DELETE(lane->waiting, task);
        task->state = TASK_RUNS;
        (void)pthread_mutex_unlock(&copier->lock);
        task->run(task);
        (void)pthread_mutex_lock(&copier->lock);
        task->state = TASK_HAS_RUN;
        DL_APPEND(copier->finished, task);
        (void)pthread_cond_broadcast(&copier->ran);
}

static void *copier_run(void *context)
{
        struct lane *lane = context;
        struct copier *copier = lane->copier;

        (void)pthread_mutex_lock(&copier->lock);
        while (!copier->ending || lane->waiting) {
                if (!lane->waiting) {
                        (void)pthread_cond_wait(&lane->work, &copier->lock);
                        continue;
                }
                run_next(lane);
                (void)pthread_mutex_unlock(&copier->lock);
                copier->notify(copier->context);
                (void)pthread_mutex_lock(&copier->lock);
        }
        (void)pthread_mutex_unlock(&copier->lock);
        return NULL;
}

/* Under the lock. */
static void start_threads(struct lane *lane)
{
        while (lane->n_threads < THREADS) {
                int r = thread_new("ferry-copier", copier_run, lane, &lane->threads[lane->n_threads]);

                if (r < 0) {
                        log_event(LOG_WARN, "copier thread not started", LOG_S("reason", strerror(-r)));
                        break;
                }
                lane->n_threads++;
        }
}

static unsigned lane_of(struct copier_gpus gpus)
{
        unsigned one = gpus.one ? gpus.one : gpus.other, other = gpus.other ? gpus.other : one;

        if (one == 0)
                return 0;
        if (one == 1 + SPACE_NO_GPU && one == other)
                return LANE_FILES;
        if (one == other)
                return 1 + one % DEVICES;
        return 1 + DEVICES + (one - 1) % PAIRED * PAIRED + (other - 1) % PAIRED;
}

void copier_add(struct copier *copier, struct copier_task *task)
{
        struct lane *lane;
        bool here;

        task->lane = lane_of(task->gpus);
        lane = &copier->lanes[task->lane];
        (void)pthread_mutex_lock(&copier->lock);
        if (lane->n_threads == 0)
                start_threads(lane);
        here = lane->n_threads == 0;
        task->state = TASK_WAITS;
        DL_APPEND(lane->waiting, task);
        (void)pthread_cond_signal(&lane->work);
        while (here && lane->waiting)
                run_next(lane);
        (void)pthread_mutex_unlock(&copier->lock);
        if (here)
                copier->notify(copier->context);
}

bool copier_collect(struct copier *copier)
{
        struct copier_task *task;
        bool any = false;

        for (;;) {
                (void)pthread_mutex_lock(&copier->lock);
                task = copier->finished;
                if (task)
                        DL_DELETE(copier->finished, task);
                (void)pthread_mutex_unlock(&copier->lock);
                if (!task)
                        return any;
                any = true;
                task->done(task);
        }
}

bool copier_remove(struct copier *copier, struct copier_task *task)
{
        bool idle;

        (void)pthread_mutex_lock(&copier->lock);
        idle = task->state != TASK_RUNS;
        if (task->state == TASK_WAITS)
                DL_DELETE(copier->lanes[task->lane].waiting, task);
        else if (idle)
                DL_DELETE(copier->finished, task);
        (void)pthread_mutex_unlock(&copier->lock);
        return idle;
}

void copier_wait(struct copier *copier)
{
        (void)pthread_mutex_lock(&copier->lock);
        while (!copier->finished)
                (void)pthread_cond_wait(&copier->ran, &copier->lock);
        (void)pthread_mutex_unlock(&copier->lock);
}

/* ---- tasks whose end is not reported ---- */

struct errand {
        struct copier_task task;
        void (*run)(void *context);
        void *context;
};

static void errand_run(struct copier_task *task)
{
        const struct errand *errand = FERRY_CONTAINER_OF(task, struct errand, task);

        errand->run(errand->context);
}

static void errand_done(struct copier_task *task)
{
        free(FERRY_CONTAINER_OF(task, struct errand, task));
}

void copier_run_detached(struct copier *copier, struct copier_gpus gpus, void (*run)(void *context), void *context)
{
        struct errand *errand = malloc(sizeof(*errand));

        if (!errand) {
                run(context);
                return;
        }
        *errand = (struct errand){ .task = { .run = errand_run, .done = errand_done, .gpus = gpus },
                                   .run = run,
                                   .context = context };
        copier_add(copier, &errand->task);
}
