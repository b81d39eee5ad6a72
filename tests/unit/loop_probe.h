/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOP_PROBE_H
#define LOOP_PROBE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/util.h"
#include "unit.h"

enum { MS = 1000, SECOND = 1000000 };

/* A test with a loop of its own. */
#define WITH_LOOP(name) TEST_WITH(name, loop_setup, loop_teardown)
int loop_setup(void **state);
int loop_teardown(void **state);
extern struct loop *loop;
extern atomic_int loop_waits; /* how often loops have gone to sleep */

/* A timer or watch of the test: counts how often it fired, and posts. */
struct probe {
        struct loop_timer timer;
        struct loop_watch watch;
        struct loop *loop;
        sem_t done;
        atomic_int fired;
        uint64_t fired_us;
        uint32_t events;
        int waits; /* how often the loops had gone to sleep when it fired */
        bool takes_signals;
        pthread_t thread;
};
/* Until the end of the test. */
struct probe *probe_new(void);
/* In the caller's memory. */
void probe_setup(struct probe *probe);
void wait_for(sem_t *done);
/* Returns when the loop's thread has gone through all that was due before. */
void loop_drain(void);
/* Keeps the loop's thread in a callback, so that nothing fires however long the test takes; lets it go. */
void loop_hold(void);
void loop_release(void);

#endif
