/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAKERS_INTERNAL_H
#define MAKERS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The maker threads: they do what would hold up other threads, as making and freeing memory. One queue; a job is done
 * in pieces, by as many threads as there are, and jobs take turns piece by piece. Threads are started as they are
 * needed and stay. Own lock, a leaf; callbacks run with no lock held, on a maker thread.
 */

struct makers;
struct maker_job;

enum maker_verdict {
        MAKER_GO,   /* begun: the pieces may run */
        MAKER_WAIT, /* not yet: begin is called again after makers_retry */
};

struct maker_kind {
        /* Once, or again after MAKER_WAIT. Sets n_pieces, which may be 0. NULL = there is nothing to begin. */
        enum maker_verdict (*begin)(struct maker_job *job);
        /* Piece i of n_pieces; several threads at once, each with another piece. */
        void (*piece)(struct maker_job *job, size_t i);
        /* After all pieces. The job may be gone when this returns. */
        void (*end)(struct maker_job *job);
};

struct maker_job {
        const struct maker_kind *kind;
        size_t n_pieces;
        /* the makers' own, under their lock */
        struct maker_job *prev, *next;
        size_t n_taken, n_running;
        bool begun;
};

/*
 * threads = the most there will be; one is started at once. fillers = how many of them may be at pieces at a time; the
 * others are there for what waits, as begin and end may. 0 or -errno.
 */
int makers_new(unsigned threads, unsigned fillers, struct makers **ret_makers);

/* Does what is queued and ends the threads. Jobs that come later are refused. */
void makers_stop(struct makers *makers);

/* After makers_stop. Takes NULL; returns NULL. */
struct makers *makers_free(struct makers *makers);

/* How many threads may be at pieces at a time. */
unsigned makers_fillers(const struct makers *makers);

/* The job stays until its end is called. false: the makers are stopped, and the job is not done. Any thread. */
bool makers_add(struct makers *makers, struct maker_job *job, const struct maker_kind *kind);

/* What waits may look again. Any thread. */
void makers_retry(struct makers *makers);

#endif
