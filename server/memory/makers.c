/* SPDX-License-Identifier: Apache-2.0 */
#include "makers_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <utlist.h>

#include "base/thread.h"
#include "base/util.h"

/* Below the threads that answer and move bytes, which filling pages must not slow down. */
enum { MAKER_NICE = 5 };

/* Jobs of one GPU, which may stand still, at a time; and threads beyond the maximum while such jobs run. */
enum { GPU_JOBS = 2, GPU_THREADS = 16 };

struct makers {
        pthread_mutex_t lock; /* guards all below */
        pthread_cond_t changed;
        struct maker_job *queue;   /* jobs that have not begun, or with pieces left */
        struct maker_job *waiting; /* jobs whose begin returned MAKER_WAIT */
        uint64_t n_retries;
        unsigned n_threads, n_idle, n_filling;
        unsigned n_on_gpus, on_gpu[1 + MAKERS_GPUS]; /* threads in jobs of GPUs, of each GPU */
        unsigned threads_max, fillers_max;           /* fixed */
        bool stopping;
        pthread_t threads[];
};

static void *maker_main(void *context);

/* With the lock held. 0 or -errno. */
static int thread_start(struct makers *makers)
{
        int r = thread_new("ferry-maker", maker_main, makers, &makers->threads[makers->n_threads]);

        if (r == 0)
                makers->n_threads++;
        return r;
}

/* Wakes or starts threads for n more pieces of work, up to the maximum. With the lock held. */
static void threads_wake(struct makers *makers, size_t n)
{
        const size_t most = makers->threads_max + at_most(makers->n_on_gpus, GPU_THREADS);

        pthread_cond_broadcast(&makers->changed);
        while (n-- > makers->n_idle && makers->n_threads < most && !makers->stopping)
                if (thread_start(makers))
                        return;
}

int makers_new(unsigned threads, unsigned fillers, struct makers **ret_makers)
{
        struct makers *makers = calloc(1, sizeof(*makers) + (threads + GPU_THREADS) * sizeof(makers->threads[0]));
        int r;

        if (!makers)
                return -ENOMEM;
        makers->threads_max = threads;
        makers->fillers_max = fillers;
        pthread_mutex_init(&makers->lock, NULL);
        pthread_cond_init(&makers->changed, NULL);
        pthread_mutex_lock(&makers->lock);
        r = thread_start(makers);
        pthread_mutex_unlock(&makers->lock);
        if (r < 0) {
                makers_free(makers);
                return r;
        }
        *ret_makers = makers;
        return 0;
}

/* With the lock held. */
static void retry(struct makers *makers)
{
        makers->n_retries++;
        if (!makers->waiting)
                return;
        DL_CONCAT(makers->queue, makers->waiting);
        makers->waiting = NULL;
        threads_wake(makers, 1);
}

void makers_stop(struct makers *makers)
{
        pthread_mutex_lock(&makers->lock);
        makers->stopping = true;
        retry(makers);
        pthread_cond_broadcast(&makers->changed);
        pthread_mutex_unlock(&makers->lock);
        /* No thread can be started any more. */
        for (unsigned i = 0; i < makers->n_threads; i++)
                pthread_join(makers->threads[i], NULL);
        makers->n_threads = 0;
}

struct makers *makers_free(struct makers *makers)
{
        if (!makers)
                return NULL;
        pthread_cond_destroy(&makers->changed);
        pthread_mutex_destroy(&makers->lock);
        free(makers);
        return NULL;
}

unsigned makers_fillers(const struct makers *makers)
{
        return makers->fillers_max;
}

bool makers_add(struct makers *makers, struct maker_job *job, const struct maker_kind *kind, unsigned gpu)
{
        bool added;

        *job = (struct maker_job){ .kind = kind, .gpu = gpu };
        pthread_mutex_lock(&makers->lock);
        added = !makers->stopping;
        if (added) {
                DL_APPEND(makers->queue, job);
                threads_wake(makers, 1);
        }
        pthread_mutex_unlock(&makers->lock);
        return added;
}

void makers_retry(struct makers *makers)
{
        pthread_mutex_lock(&makers->lock);
        retry(makers);
        pthread_mutex_unlock(&makers->lock);
}

/* A thread enters a job of a GPU, or leaves it: other jobs may have a thread more, or begin. With the lock held. */
static void count_gpu(struct makers *makers, unsigned gpu, int threads)
{
        if (gpu == 0)
                return;
        makers->n_on_gpus += (unsigned)threads;
        makers->on_gpu[gpu] += (unsigned)threads;
        if (makers->queue)
                threads_wake(makers, 1);
}

/* Begins a job, which is in no queue meanwhile. Drops the lock for that time. */
static void job_begin(struct makers *makers, struct maker_job *job)
{
        const unsigned gpu = job->gpu;
        enum maker_verdict verdict = MAKER_GO;
        uint64_t n_retries = makers->n_retries;

        DL_DELETE(makers->queue, job);
        count_gpu(makers, gpu, 1);
        pthread_mutex_unlock(&makers->lock);
        if (job->kind->begin)
                verdict = job->kind->begin(job);
        pthread_mutex_lock(&makers->lock);
        job->begun = verdict == MAKER_GO;
        if (job->begun && job->n_pieces == 0) {
                pthread_mutex_unlock(&makers->lock);
                job->kind->end(job);
                pthread_mutex_lock(&makers->lock);
        } else if (job->begun) {
                DL_PREPEND(makers->queue, job);
                threads_wake(makers, at_most(job->n_pieces, makers->fillers_max) - 1);
        } else if (n_retries != makers->n_retries) {
                DL_APPEND(makers->queue, job);
        } else {
                DL_APPEND(makers->waiting, job);
        }
        count_gpu(makers, gpu, -1);
}

/* Does a piece of a job, which moves to the end of the queue. Drops the lock for that time. */
static void job_piece(struct makers *makers, struct maker_job *job)
{
        size_t i = job->n_taken++;

        DL_DELETE(makers->queue, job);
        if (job->n_taken < job->n_pieces)
                DL_APPEND(makers->queue, job);
        job->n_running++;
        makers->n_filling++;
        pthread_mutex_unlock(&makers->lock);
        job->kind->piece(job, i);
        pthread_mutex_lock(&makers->lock);
        makers->n_filling--;
        if (makers->queue)
                pthread_cond_broadcast(&makers->changed);
        if (--job->n_running || job->n_taken < job->n_pieces)
                return;
        pthread_mutex_unlock(&makers->lock);
        job->kind->end(job);
        pthread_mutex_lock(&makers->lock);
}

/* The first job with work for this thread. With the lock held. */
static struct maker_job *job_next(const struct makers *makers)
{
        struct maker_job *job;

        DL_FOREACH (makers->queue, job)
                if (job->begun ? makers->n_filling < makers->fillers_max
                               : job->gpu == 0 || makers->on_gpu[job->gpu] < GPU_JOBS)
                        return job;
        return NULL;
}

static void *maker_main(void *context)
{
        struct makers *makers = context;

        /* On Linux, of this thread alone. */
        (void)setpriority(PRIO_PROCESS, 0, MAKER_NICE);
        pthread_mutex_lock(&makers->lock);
        for (;;) {
                struct maker_job *job = job_next(makers);

                /* Several jobs may have been added before one woken thread got here. */
                if (job && job->next && makers->n_idle == 0)
                        threads_wake(makers, 1);
                if (job && job->begun) {
                        job_piece(makers, job);
                } else if (job) {
                        job_begin(makers, job);
                } else if (makers->stopping && !makers->queue) {
                        break;
                } else {
                        makers->n_idle++;
                        pthread_cond_wait(&makers->changed, &makers->lock);
                        makers->n_idle--;
                }
        }
        pthread_mutex_unlock(&makers->lock);
        return NULL;
}
