/* SPDX-License-Identifier: Apache-2.0 */
#include "message/ranges.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "base/util.h"
#include "message/stream.h"

/*
 * Ranges of an offer: checked when they are made, from a request or from a peer's PARTS, and fixed after that.
 * Neighbours are joined, so the list is as short as can be; a place is found by bisection. Pure; any thread.
 */

/* ---- checks ---- */

static int refuse(int error, size_t i, const char *why, size_t *ret_i, const char **ret_why)
{
        *ret_i = i;
        *ret_why = why;
        return error;
}

/* Checks each range alone, and whether all are in ascending order without overlaps. Returns 0 or FERRY_E_*. */
static int check_each(const struct range *given, size_t n, bool *ret_ascending, size_t *ret_i, const char **ret_why)
{
        uint64_t end, before = 0;

        *ret_ascending = true;
        if (n == 0)
                return refuse(FERRY_E_INVALID_PARAMETER, 0, "expected at least one range", ret_i, ret_why);
        for (size_t i = 0; i < n; i++, before = end) {
                if (given[i].size == 0)
                        return refuse(FERRY_E_INVALID_PARAMETER, i, "the range is empty", ret_i, ret_why);
                if (__builtin_add_overflow(given[i].offset, given[i].size, &end) || end > FERRY_JSON_INTEGER_MAX)
                        return refuse(FERRY_E_OUT_OF_BOUNDS, i, "the range ends beyond 2^53 - 1", ret_i, ret_why);
                *ret_ascending &= given[i].offset >= before;
        }
        return 0;
}

/* The order by offset, for qsort(); of two that begin alike the one that was given first. */
static int compare(const void *a, const void *b)
{
        const struct range *const *x = a, *const *y = b;

        if ((*x)->offset != (*y)->offset)
                return (*x)->offset < (*y)->offset ? -1 : 1;
        return (*x > *y) - (*x < *y);
}

/* Checks ranges in any order against each other. Returns 0; FERRY_E_INVALID_PARAMETER; -ENOMEM. */
static int check_overlaps(const struct range *given, size_t n, size_t *ret_i, const char **ret_why)
{
        FERRY_CLEANUP(cleanup_free) const struct range **sorted = malloc(n * sizeof(const struct range *));

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                sorted[i] = &given[i];
        qsort(sorted, n, sizeof(sorted[0]), compare);
        for (size_t i = 1; i < n; i++) {
                const struct range *later = sorted[i] > sorted[i - 1] ? sorted[i] : sorted[i - 1];

                if (sorted[i - 1]->offset + sorted[i - 1]->size > sorted[i]->offset)
                        return refuse(FERRY_E_INVALID_PARAMETER, (size_t)(later - given),
                                      "the range overlaps one before it", ret_i, ret_why);
        }
        return 0;
}

/* ---- making ---- */

static size_t size_of(size_t n)
{
        const struct ranges *ranges = NULL;

        return sizeof(*ranges) + n * sizeof(ranges->list[0]);
}

/* Appends a range, joined with the one before where they touch. */
static void add(struct ranges *ranges, const struct range *given)
{
        struct range *last = ranges->n ? &ranges->list[ranges->n - 1].range : NULL;

        if (last && last->offset + last->size == given->offset) {
                last->size += given->size;
        } else {
                ranges->list[ranges->n].at = ranges->total;
                ranges->list[ranges->n++].range = *given;
        }
        ranges->total += given->size;
        if (given->offset + given->size > ranges->end)
                ranges->end = given->offset + given->size;
}

int ranges_new(const struct range *given, size_t n, struct ranges **ret_ranges, size_t *ret_i, const char **ret_why)
{
        struct ranges *ranges;
        bool ascending;
        int r = check_each(given, n, &ascending, ret_i, ret_why);

        if (!r && !ascending)
                r = check_overlaps(given, n, ret_i, ret_why);
        if (r)
                return r;
        ranges = malloc(size_of(n));
        if (!ranges)
                return -ENOMEM;
        *ranges = (struct ranges){ 0 };
        for (size_t i = 0; i < n; i++)
                add(ranges, &given[i]);
        *ret_ranges = ranges;
        return 0;
}

struct ranges *ranges_copy(const struct ranges *ranges)
{
        struct ranges *copy = malloc(size_of(ranges->n));

        return copy ? memcpy(copy, ranges, size_of(ranges->n)) : NULL;
}

/* ---- in messages ---- */

void ranges_encode(const struct ranges *ranges, size_t first, size_t n, uint8_t *bytes)
{
        for (size_t i = first; i < first + n; i++, bytes += RANGE_SIZE)
                memcpy(bytes,
                       (uint64_t[]){ htole64(ranges->list[i].range.offset), htole64(ranges->list[i].range.size) },
                       RANGE_SIZE);
}

struct range range_decode(const uint8_t bytes[RANGE_SIZE])
{
        uint64_t words[2];

        memcpy(words, bytes, RANGE_SIZE);
        return (struct range){ le64toh(words[0]), le64toh(words[1]) };
}

/* ---- the mapping ---- */

size_t ranges_segments(const struct ranges *ranges, const struct stream *offer, struct segment **ret_segments)
{
        struct segment *segments = NULL;
        size_t n = 0, room = 0;
        uint64_t run, left;

        for (uint64_t at = 0; at < ranges->total; at += segments[n++].size) {
                uint64_t place = ranges_place(ranges, at, &left);
                struct segment *more = ferry_reserve(segments, &room, n + 1, sizeof(*more));

                if (!more) {
                        free(segments);
                        return 0;
                }
                segments = more;
                segments[n].space = stream_space(offer, place);
                run = stream_run_in_segment(offer, place, left, &segments[n].address, &segments[n].memory);
                segments[n].size = run;
        }
        *ret_segments = segments;
        return n;
}

uint64_t ranges_place(const struct ranges *ranges, uint64_t at, uint64_t *ret_run)
{
        size_t i;

        if (!ranges) {
                *ret_run = UINT64_MAX - at;
                return at;
        }
        i = FERRY_FIRST_INDEX(ranges->n, k, ranges->list[k].at > at) - 1;
        *ret_run = ranges->list[i].at + ranges->list[i].range.size - at;
        return ranges->list[i].range.offset + (at - ranges->list[i].at);
}
