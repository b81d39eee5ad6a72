/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAKERS_INTERNAL_H
#define MAKERS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The maker threads do slow work for others, such as making and freeing memory. One queue; a job is done in pieces, by
 * several threads, and jobs alternate piece by piece. Threads are started on demand and stay. The lock is a leaf;
 * callbacks run with no lock held, on a maker thread.
 */

struct makers;
struct maker_job;

enum { MAKERS_GPUS = 64 };

enum maker_verdict {
        MAKER_GO,   /* begun: the pieces may run */
        MAKER_WAIT, /* begin is called again after makers_retry */
};

struct maker_kind {
        /* Called once, or again after MAKER_WAIT. Sets n_pieces, which may be 0. NULL = nothing to begin. */
        enum maker_verdict (*begin)(struct maker_job *job);
        /* Does piece i of n_pieces; on several threads at once. */
        void (*piece)(struct maker_job *job, size_t i);
        /* Called after all pieces. May free the job. */
        void (*end)(struct maker_job *job);
};

struct maker_job {
        const struct maker_kind *kind;
        size_t n_pieces;
        /* the makers', under their lock */
        struct maker_job *prev, *next;
        size_t n_taken, n_running;
        unsigned gpu;
        bool begun;
};

/*
 * threads: the maximum while none waits for a GPU, else up to 16 more; one is started at once. fillers: how many of
 * them may do pieces at a time; the others are for begin and end, which may wait. 0 or -errno.
 */
int makers_new(unsigned threads, unsigned fillers, struct makers **ret_makers);

/* Finishes the queue and ends the threads. Later jobs are refused. */
void makers_stop(struct makers *makers);

/* After makers_stop. Takes NULL; returns NULL. */
struct makers *makers_free(struct makers *makers);

/* How many threads may do pieces at a time. */
unsigned makers_fillers(const struct makers *makers);

/*
 * Queues a job, which must stay until its end is called. gpu: 1 + the number of the GPU that it may wait for, at most
 * MAKERS_GPUS; 0 = none. While it waits, it takes no thread from the jobs of others. false: the makers are stopped, and
 * the job is not done. Any thread.
 */
bool makers_add(struct makers *makers, struct maker_job *job, const struct maker_kind *kind, unsigned gpu);

/* Has the waiting jobs begin again. Any thread. */
void makers_retry(struct makers *makers);

#endif
