/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATIONS_CONTENT_RANGES_H
#define OPERATIONS_CONTENT_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "operations/content.h"

/* Which bytes of a stream have moved. Zero-initialise. Pure. */
struct content_ranges {
        uint64_t total; /* bytes in all of them */
        size_t n;
        struct {
                uint64_t first, end;
        } list[CONTENT_RANGES_MAX]; /* ascending; neither overlap nor touch */
};

/* Adds [first, end); nothing where that is empty. Left out when there is no room for a further range. */
void content_ranges_add(struct content_ranges *ranges, uint64_t first, uint64_t end);

/* Where the bytes end that have moved from the first one on without a gap. */
uint64_t content_ranges_start(const struct content_ranges *ranges);

/* How many bytes have moved from that one on without a gap. */
uint64_t content_ranges_run(const struct content_ranges *ranges, uint64_t first);

#endif
