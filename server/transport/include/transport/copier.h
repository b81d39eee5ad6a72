/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSPORT_COPIER_H
#define TRANSPORT_COPIER_H

#include <stdbool.h>

/*
 * Threads for what waits for a GPU, so that the progress thread does not: copies, and the opening of a peer's memory.
 * A few, each with a stream of its own, so that the next copy is queued on the device before one has been waited for.
 * They start with the first task. Tasks begin in order and may end in another.
 */

struct copier;

struct copier_task {
        void (*run)(struct copier_task *task);  /* on a thread of the copier */
        void (*done)(struct copier_task *task); /* by copier_collect; the task may be gone when it returns */
        struct copier_task *prev, *next;
        int state; /* the copier's */
};

/* notify: a task has run; on its thread, with no lock held. 0 or -errno. */
int copier_new(void (*notify)(void *context), void *context, struct copier **ret_copier);
/* No task may be left but copier_do's, which have run on return. Takes NULL; returns NULL. */
struct copier *copier_free(struct copier *copier);

/* The functions below are for the progress thread. Where no thread can be started, the task runs at once, on it. */
void copier_add(struct copier *copier, struct copier_task *task);
/* Runs done of the tasks that have run. Whether there were any. */
bool copier_collect(struct copier *copier);
/* Forgets a task that does not run now; its done does not run. false: it does, and its done will run. */
bool copier_remove(struct copier *copier, struct copier_task *task);
/* Runs something there whose end nobody waits for, such as giving memory back. Where memory is short, at once. */
void copier_do(struct copier *copier, void (*run)(void *context), void *context);
/* Blocks until a task has run that was not collected. Not where none is under way. */
void copier_wait(struct copier *copier);

#endif
