/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSPORT_COPIER_H
#define TRANSPORT_COPIER_H

#include <stdbool.h>

#include "base/space.h"

/*
 * Threads that wait for a GPU in place of the progress thread: for copies, and for opening a peer's memory. They also
 * unmap large memories. For copies each GPU has its own, so that one that stands still holds up no other, and each
 * thread has its own stream, so that the next copy is queued on the device while another is waited for. Copies between
 * two GPUs, of which either may stand still, and tasks that name no GPU have threads of their own. So has the memory of
 * mapped files (SPACE_NO_GPU, which counts as one more GPU), whose disk may stand still. The threads start with their
 * first task. Tasks of one GPU start in order, and may end in any.
 */

struct copier;

/* The GPUs that a task waits for. */
struct copier_gpus {
        unsigned one, other; /* 1 + the number of the GPU; 0 = none */
};

/* Those of two spaces, of which either may be NULL. */
static inline struct copier_gpus copier_gpus_of(const struct space *one, const struct space *other)
{
        return (struct copier_gpus){ one ? 1 + one->device : 0, other ? 1 + other->device : 0 };
}

struct copier_task {
        void (*run)(struct copier_task *task);  /* on a thread of the copier */
        void (*done)(struct copier_task *task); /* called by copier_collect; may free the task */
        struct copier_gpus gpus;
        /* The copier's. */
        struct copier_task *prev, *next;
        unsigned lane;
        int state;
};

/* notify: a task has run; on its thread, with no lock held. 0 or -errno. */
int copier_new(void (*notify)(void *context), void *context, struct copier **ret_copier);
/* Runs what copier_run_detached has queued; no other task may be left. Takes NULL; returns NULL. */
struct copier *copier_free(struct copier *copier);

/*
 * The functions below: any thread, but a task that has an owner, beside copier_run_detached's, is added, collected and
 * removed by one thread. Where no thread can be started, the task runs at once, on the caller.
 */
void copier_add(struct copier *copier, struct copier_task *task);
/* Calls done of the tasks that have run. Whether there were any. */
bool copier_collect(struct copier *copier);
/* Removes a task that is not running; its done is not called. false: it is running, and done will be called. */
bool copier_remove(struct copier *copier, struct copier_task *task);
/* Runs a function on a thread without telling its end, for example to free memory. Where memory is short, at once. */
void copier_run_detached(struct copier *copier, struct copier_gpus gpus, void (*run)(void *context), void *context);
/* Blocks until a task has run that was not collected. A task must be under way. */
void copier_wait(struct copier *copier);

#endif
