/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/space.h"

/*
 * The threads for everything that may take long. The process has one pool; its workers share it, as they share the
 * processors and the GPUs. Threads start on demand, and end when they have been idle for POOL_IDLE_MS, or with the last
 * user of the pool.
 *
 * Tasks queue in lanes: each class of tasks has one, and where they may wait for GPUs, one for each GPU and for each
 * pair of them. A lane has a maximum of threads, which no other lane can take: a GPU or a name server that stands still
 * holds up its own tasks alone. The tasks of a lane start in order, and may end in any.
 */

enum { POOL_IDLE_MS = 10000, POOL_GPUS = 16 /* lanes of GPUs; a machine with more GPUs has some share lanes */ };

enum pool_class {
        POOL_COPY,   /* parts of copies between workers of this machine */
        POOL_WORK,   /* copies that wait for GPUs or mapped files; opening, closing, unmapping */
        POOL_DIGEST, /* of content that is served over HTTP, and of payloads between workers of this machine */
        POOL_MAKE,   /* opening, registering and freeing the memory of regions; on threads of a lower priority */
        POOL_FILL,   /* their pages; the same */
        POOL_NAME,   /* names: a name server may take half a minute, and the end of the process does not wait for it */
        POOL_CLASSES
};

/* The devices that a task may wait for: 1 + the number of a GPU, or of mapped files (SPACE_NO_GPU). 0 = none. */
struct pool_devices {
        unsigned one, other;
};

/* Those of two spaces, of which either may be NULL. */
static inline struct pool_devices pool_devices_of(const struct space *one, const struct space *other)
{
        return (struct pool_devices){ one ? 1 + one->device : 0, other ? 1 + other->device : 0 };
}

enum pool_verdict {
        POOL_DONE,  /* no piece is left that no thread has taken */
        POOL_MORE,  /* run again, which does the next piece; other tasks of the lane first */
        POOL_WAITS, /* run again after pool_retry */
};

struct pool_user;

struct pool_task {
        /* Does a piece of the task, on a thread of the pool; on several of them at once, up to width. NULL = done
         * alone. */
        enum pool_verdict (*run)(struct pool_task *task);
        /* Called once all pieces are done: by pool_collect if the user is notified, else on a thread of the pool. May
         * free the task or add it again. NULL = nothing to do. */
        void (*done)(struct pool_task *task);
        enum pool_class class;
        struct pool_devices devices;
        unsigned width; /* 0 = 1 */
        /* The pool's. */
        enum {
                POOL_TASK_OUT,
                POOL_TASK_QUEUED,
                POOL_TASK_TAKEN,
                POOL_TASK_WAITING,
                POOL_TASK_DRAINED,
                POOL_TASK_FINISHED,
                POOL_TASK_STOPPED
        } state;
        unsigned n_running;
        struct pool_user *user;
        struct pool_task *prev, *next;
};

/*
 * A user has its tasks reported to it, and can wait for them. notify: a task is done, and pool_collect will call its
 * done; on a thread of the pool, with no lock held. NULL = done is called at once. 0 or -ENOMEM. Any thread.
 */
int pool_user_new(void (*notify)(void *context), void *context, struct pool_user **ret_user);
/* Waits for all tasks but those of POOL_NAME, and calls done of those that are finished. Later ones are refused. */
void pool_user_stop(struct pool_user *user);
/* The same, and frees the user. Takes NULL; returns NULL. */
struct pool_user *pool_user_free(struct pool_user *user);

/*
 * The functions below: any thread, but a task that is reported is added, collected and removed by one thread.
 *
 * Adds a task, which must stay until its done is called. false: its lane has no thread and none can be started, or the
 * user was stopped; the task was not added.
 */
bool pool_add(struct pool_user *user, struct pool_task *task);
/* The same, but where there is no thread, the calling one runs it. The task must not wait. */
void pool_add_or_run(struct pool_user *user, struct pool_task *task);
/* Has a function run. Where memory or threads are short, at once, on the calling thread. */
void pool_run(struct pool_user *user, enum pool_class class, struct pool_devices devices, void (*run)(void *context),
              void *context);
/* Takes back a task that no thread has begun, or that has run and was not collected; its done is not called. false: it
 * is running, or its done was called, or is about to be. */
bool pool_remove(struct pool_task *task);
/* Takes back a task without a done, in whichever state, and waits for the pieces under way. Its user is not notified.
 */
void pool_stop(struct pool_task *task);
/* Runs the user's waiting tasks again, and those which are about to say POOL_WAITS. */
void pool_retry(struct pool_user *user);
/* Calls done of the tasks that have run. Whether there were any. */
bool pool_collect(struct pool_user *user);
/* Blocks until a task has run that was not collected. One must be under way. */
void pool_wait(struct pool_user *user);

/* The most threads of POOL_FILL. A user must be there. Any thread. */
unsigned pool_fillers(void);

#endif
