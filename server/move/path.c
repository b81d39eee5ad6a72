/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <assert.h>

#include "base/clock.h"

/*
 * A path's memory of failed attempts: see peer.h. The pause before the next attempt is 1 s after the first failure
 * and doubles up to 64 s; an answer of the peer, or another address of it, forgets all of them.
 */

enum {
        PAUSE_MIN_US = 1000000,
        PAUSE_DOUBLINGS_MAX = 6, /* to about a minute */
};

void path_fail(struct path *path)
{
        uint64_t now_us = clock_now_us();

        if (path->state == PATH_SHUT && now_us < path->retry_us)
                return; /* one attempt may be told twice, and others do not wait for the pause */
        path->state = PATH_SHUT;
        path->retry_us = now_us + ((uint64_t)PAUSE_MIN_US << path->n_failures);
        if (path->n_failures < PAUSE_DOUBLINGS_MAX)
                path->n_failures++;
}

void path_open(struct path *path)
{
        *path = (struct path){ .state = PATH_OPEN };
}

bool path_begin_probe(struct path *path)
{
        assert(path->state != PATH_OPEN);
        if (path->state == PATH_PROBING || clock_now_us() < path->retry_us)
                return false;
        path->state = PATH_PROBING;
        return true;
}

void path_end_probe(struct path *path)
{
        if (path->state == PATH_PROBING)
                path_fail(path);
}

uint64_t path_retry_unix_ms(const struct path *path)
{
        uint64_t now_us = clock_now_us();

        if (path->state == PATH_OPEN)
                return 0;
        return clock_unix_ms() + (path->retry_us > now_us ? (path->retry_us - now_us) / 1000 : 0);
}
