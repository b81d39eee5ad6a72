/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FERRYD_START_H
#define TESTS_FERRYD_START_H

#include <stdbool.h>
#include <stddef.h>

#include "failing.h"

/* Starts of ferryd that may fail. Every function asserts; none returns an error. */

/* What the workers started from now on share with the test (NULL: they are left alone again). */
struct failing *failing_share(bool on);

/* How far apart what is tried lies: 1 with FERRY_SWEEP in the environment, which takes its time. */
size_t sweep_step(size_t usual);

struct ferryd_start {
        bool ready;   /* it served */
        char *errors; /* what it wrote to standard error */
};

/*
 * Starts ferryd with flags, in a process that prepare (NULL = nothing) has limited. It must come to one of two ends
 * within 20 s: it is ready, answers GET /livez where served is true, and ends well when it is told to; or it exits by
 * itself with a status and, in its last line, a sentence.
 */
void ferryd_start(const char *const *flags, void (*prepare)(const void *context), const void *context, bool served,
                  struct ferryd_start *ret_start);
void ferryd_start_clear(struct ferryd_start *start);

#endif
