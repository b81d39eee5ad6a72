/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_PATH_H
#define MOVE_PATH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One transport's way to a worker, as the attempts to connect have found it: a transfer that can go by something else
 * does not wait for a path that has failed. Part of the worker's contact, so a new epoch begins anew. Thread: the
 * holder of the progress lock.
 */

enum path_state {
        PATH_OPEN,    /* it works, or was not tried: a transfer waits for it */
        PATH_SHUT,    /* the last attempt failed; the first transfer after retry_us has it tried again beside itself */
        PATH_PROBING, /* that is under way */
};

struct path {
        enum path_state state;
        unsigned n_failures; /* in a row */
        uint64_t retry_us;
};

/* An attempt to connect has failed. The pause before the next one grows. */
void path_fail(struct path *path);
/* The peer has answered over it, or its address is another one. */
void path_open(struct path *path);
/* Whether to try it again now; then the caller has begun to. */
bool path_begin_probe(struct path *path);
/* An attempt beside the transfers has ended; unless the end of its link has told already, it has failed. */
void path_end_probe(struct path *path);
/* When it is tried again, at the earliest, as Unix time in ms; 0 = it is open. */
uint64_t path_retry_unix_ms(const struct path *path);

#endif
