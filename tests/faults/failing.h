/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAILING_H
#define TESTS_FAILING_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * What a test tells failing.so (LD_PRELOAD) in another process, by a file that both map and that FERRY_FAILING names.
 * What counts are calls from the program itself and from the libraries that work on its requests: a library that cannot
 * bear its own shortage is not what is tried. All zero: nothing fails.
 */
struct failing {
        atomic_long memory_at;     /* the how many-th allocation from now fails; 0 = none. Below 0: so many more fail */
        atomic_long memory_fails;  /* how many in a row */
        atomic_long memory_failed; /* how many have failed */
        atomic_long threads_at;    /* the same for threads, of which all later ones fail, too */
        atomic_long wall_shift_s;  /* added to CLOCK_REALTIME */
};

#endif
