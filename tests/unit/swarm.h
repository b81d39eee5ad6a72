/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SWARM_H
#define TESTS_SWARM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine_fixture.h"
#include "faulty_transport.h"

/*
 * Many small transfers of random kinds, sizes and layouts between two engines whose transports are faulty. Some are
 * cancelled by one side or the other; each has a limit, as operations have theirs.
 *
 * What holds whatever happens below the seam, is checked here: each ends within its limits; memory stays as it is from
 * the end of its side on; a source may change from the end of its side on, and no byte of that counts; nothing outside
 * of a transfer's memory is touched.
 */

/* How two ends may differ. */
enum agreement {
        AGREE_ALWAYS,      /* messages arrive: both ends say the same */
        AGREE_UNLESS_LOST, /* … until a link ends: one side may be complete, and the other say that it lost the peer */
        AGREE_ON_BYTES,    /* messages get lost: one side may be complete, and the other not; a write that is complete
                              for the active side is so for the passive one */
        AGREE_NEVER,       /* messages are forged */
};

struct swarm_rules {
        enum agreement agreement;
        bool all_complete; /* those that nobody cancels */
        bool bytes_differ; /* without verify, what is complete may have other bytes */
        uint64_t limit_ms; /* of one transfer */
        uint32_t grace_ms; /* of the engines */
};

/* So many transfers one after the other, some at a time. */
void swarm_run(enum carrier way, const struct faulty_plan *plan, const struct swarm_rules *rules, unsigned n);

#endif
