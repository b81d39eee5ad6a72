/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AREA_H
#define AREA_H

#include <stdbool.h>
#include <string.h>

#include "message/stream.h"

/* The memory of one side of a transfer: segments within an area, of which the rest is a gap that nobody may touch. */

enum {
        AREA_GAP = 0x5a,
        AREA_SCRIBBLE = 0xee, /* what a source becomes when its side has ended */
};

static inline uint64_t area_digest(uint8_t *area, size_t size)
{
        struct segment segment = { .address = area, .size = size };
        struct stream stream;
        uint64_t sum = 0;

        (void)stream_init(&stream, &segment, 1);
        (void)stream_checksum(&stream, 0, size, &sum);
        return sum;
}

/* The byte of a source at a place of its stream. */
static inline uint8_t area_pattern(uint64_t seed, uint64_t at)
{
        return (uint8_t)((at * UINT64_C(0x9e3779b97f4a7c15) + seed) >> 40);
}

static inline void area_fill(const struct segment *segments, size_t n, uint64_t seed)
{
        uint64_t at = 0;

        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < segments[i].size; j++)
                        segments[i].address[j] = area_pattern(seed, at++);
}

static inline void area_scribble(const struct segment *segments, size_t n)
{
        for (size_t i = 0; i < n; i++)
                memset(segments[i].address, AREA_SCRIBBLE, segments[i].size);
}

/* How many bytes of a stream are the source's, up to the first that is not. */
static inline uint64_t area_arrived(const struct segment *segments, size_t n, uint64_t seed)
{
        uint64_t at = 0;

        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < segments[i].size; j++, at++)
                        if (segments[i].address[j] != area_pattern(seed, at))
                                return at;
        return at;
}

/* Whether all between the segments, which are in the order of their addresses, is as it was. */
static inline bool area_has_gaps(const uint8_t *area, size_t size, const struct segment *segments, size_t n)
{
        const uint8_t *at = area;

        for (size_t i = 0; i <= n; i++) {
                const uint8_t *end = i < n ? segments[i].address : area + size;

                /* Each byte is as the next one. By the byte this takes minutes under ThreadSanitizer. */
                if (at < end && (*at != AREA_GAP || memcmp(at, at + 1, (size_t)(end - at) - 1) != 0))
                        return false;
                if (i < n)
                        at = end + segments[i].size;
        }
        return true;
}

#endif
