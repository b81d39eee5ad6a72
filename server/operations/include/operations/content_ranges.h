/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATIONS_CONTENT_RANGES_H
#define OPERATIONS_CONTENT_RANGES_H

#include <stddef.h>
#include <stdint.h>

enum { CONTENT_RANGES_MAX = 128 };

/* The bytes of a stream that have moved. Zero-initialise. Pure. */
struct content_ranges {
        uint64_t total; /* bytes in all of them */
        size_t n;
        struct {
                uint64_t first, end;
        } list[CONTENT_RANGES_MAX]; /* ascending; neither overlap nor touch */
};

/* Adds [first, end), which may be empty. Ignored when it would be one range too many. */
void content_ranges_add(struct content_ranges *ranges, uint64_t first, uint64_t end);

/* How many bytes have moved without a gap from that one on. */
uint64_t content_ranges_run(const struct content_ranges *ranges, uint64_t first);

#endif
