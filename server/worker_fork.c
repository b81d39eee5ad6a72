/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "worker_error.h"

static atomic_uint generation;
static void (*on_forked)(void);

unsigned fork_generation(void)
{
        return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void in_child(void)
{
        atomic_fetch_add(&generation, 1);
        on_forked();
}

int fork_watch(void (*forked)(void))
{
        on_forked = forked;
        return -pthread_atfork(NULL, NULL, in_child);
}

bool fork_is_ours(unsigned made_in)
{
        if (made_in == fork_generation())
                return true;
        (void)worker_fail(-ECHILD, "This worker belongs to the process that forked this one; make one here");
        return false;
}
