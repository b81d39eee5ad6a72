/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/space.h"
#include "operations/content_ranges.h"
#include "operations_internal.h"

/*
 * Slices: a piece of a region, a row of pieces, or blocks. Their numbers come from requests, so each sum and product is
 * checked before it is used (slices_valid); after that no arithmetic can overflow. Pure.
 */

int operation_refuse(char detail[OPERATION_DETAIL_SIZE], int error, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(detail, OPERATION_DETAIL_SIZE, format, arguments);
        va_end(arguments);
        return error;
}

/* Offset of the i-th piece from that of the slice. */
static uint64_t piece_at(const struct operation_slice *slice, uint64_t i)
{
        return slice->blocks ? slice->blocks[i] * slice->size : i * slice->stride;
}

/* The last block decides where the slice ends; blocks may come in any order. */
static uint64_t highest_block(const struct operation_slice *slice)
{
        uint64_t highest = 0;

        for (uint64_t i = 0; i < slice->count; i++)
                if (slice->blocks[i] > highest)
                        highest = slice->blocks[i];
        return highest;
}

bool operation_slice_end(const struct operation_slice *slice, uint64_t *ret_end)
{
        uint64_t count = slice_count(slice), last = 0, end;

        if (slice->blocks) {
                if (!slice->count || __builtin_mul_overflow(highest_block(slice), slice->size, &last))
                        return false;
        } else if (count > 1 &&
                   (slice->stride < slice->size || __builtin_mul_overflow(count - 1, slice->stride, &last))) {
                return false;
        }
        if (__builtin_add_overflow(slice->offset, last, &end) || __builtin_add_overflow(end, slice->size, &end))
                return false;
        *ret_end = end;
        return true;
}

bool slices_valid(const struct operation_slice *slices, size_t n, uint64_t *ret_total, size_t *ret_pieces)
{
        uint64_t total = 0, pieces = 0, bytes, end;

        if (n < 1 || n > FERRY_METADATA_DESCRIPTORS)
                return false;
        for (size_t i = 0; i < n; i++) {
                const struct operation_slice *slice = &slices[i];

                if (!slice->region || !slice->size || !operation_slice_end(slice, &end) || end > slice->region->size ||
                    __builtin_mul_overflow(slice_count(slice), slice->size, &bytes) ||
                    __builtin_add_overflow(total, bytes, &total) ||
                    __builtin_add_overflow(pieces, slice_count(slice), &pieces))
                        return false;
        }
        *ret_total = total;
        *ret_pieces = pieces;
        return total <= FERRY_JSON_INTEGER_MAX && pieces <= FERRY_METADATA_DESCRIPTORS;
}

int slices_check_writable(const struct operation_slice *slices, size_t n, char detail[OPERATION_DETAIL_SIZE])
{
        for (size_t i = 0; i < n; i++)
                for (uint64_t k = 0; slices[i].region->read_only && k < slice_count(&slices[i]); k++) {
                        int r = region_check_writable(slices[i].region, slices[i].offset + piece_at(&slices[i], k),
                                                      slices[i].size);

                        if (r)
                                return operation_refuse(detail, FERRY_E_FORBIDDEN, "Descriptor %zu: %s", i,
                                                        space_error(r));
                }
        return 0;
}

/* Pieces that touch are one segment. */
size_t slice_segments(const struct operation_slice *slice, struct segment *segments)
{
        const uint64_t count = slice_count(slice);
        size_t n = 0;

        for (uint64_t i = 0; i < count;) {
                const uint64_t start = piece_at(slice, i);
                uint64_t end = start + slice->size;

                while (++i < count && piece_at(slice, i) == end)
                        end += slice->size;
                if (segments)
                        segments[n] = (struct segment){
                                .address = (uint8_t *)slice->region->address + slice->offset + start,
                                .size = end - start,
                                .memory = slice->region->registration,
                                .space = slice->region->space,
                        };
                n++;
        }
        return n;
}

size_t slices_count_blocks(const struct operation_slice *slices, size_t n)
{
        size_t n_blocks = 0;

        for (size_t i = 0; i < n; i++)
                n_blocks += slices[i].blocks ? slices[i].count : 0;
        return n_blocks;
}

void slices_copy_blocks(const struct operation_slice *slices, size_t n, uint64_t *to)
{
        for (size_t i = 0; i < n; i++)
                if (slices[i].blocks)
                        to = (uint64_t *)mempcpy(to, slices[i].blocks, slices[i].count * sizeof(to[0]));
}

/*
 * A set of ranges: see content_ranges.h. The list is short, so each function walks through it. A range that has no
 * place is forgotten: then bytes that are there count as missing until the end, which is safe. Pure.
 */

void content_ranges_add(struct content_ranges *ranges, uint64_t first, uint64_t end)
{
        size_t from = 0, to;

        if (first >= end)
                return;
        while (from < ranges->n && ranges->list[from].end < first)
                from++;
        /* Ranges [from, to) merge with the new one. */
        for (to = from; to < ranges->n && ranges->list[to].first <= end; to++) {
                if (ranges->list[to].first < first)
                        first = ranges->list[to].first;
                if (ranges->list[to].end > end)
                        end = ranges->list[to].end;
                ranges->total -= ranges->list[to].end - ranges->list[to].first;
        }
        if (from == to && ranges->n == CONTENT_RANGES_MAX)
                return;
        memmove(&ranges->list[from + 1], &ranges->list[to], (ranges->n - to) * sizeof(ranges->list[0]));
        ranges->n = ranges->n - (to - from) + 1;
        ranges->list[from].first = first;
        ranges->list[from].end = end;
        ranges->total += end - first;
}

uint64_t content_ranges_run(const struct content_ranges *ranges, uint64_t first)
{
        for (size_t i = 0; i < ranges->n && ranges->list[i].first <= first; i++)
                if (first < ranges->list[i].end)
                        return ranges->list[i].end - first;
        return 0;
}

/*
 * Pins: what keeps an operation's regions where they are. A use lets a region be deleted only after the operation; a
 * reference keeps its struct. Uses end when the operation becomes terminal, under the store's lock; references and the
 * waiters of regions follow without it (store_unlock).
 */

/* The order by address, for qsort(). */
static int region_compare(const void *a, const void *b)
{
        struct region *const *x = a, *const *y = b;

        return ((uintptr_t)*x > (uintptr_t)*y) - ((uintptr_t)*x < (uintptr_t)*y);
}

/* Stores each region once. Sorting keeps it fast for many descriptors. */
static size_t regions_distinct(const struct operation_slice *slices, size_t n, struct region **ret_regions)
{
        size_t n_distinct = 0;

        for (size_t i = 0; i < n; i++)
                if (!n_distinct || ret_regions[n_distinct - 1] != slices[i].region)
                        ret_regions[n_distinct++] = slices[i].region;
        if (n_distinct < 2)
                return n_distinct;
        qsort(ret_regions, n_distinct, sizeof(struct region *), region_compare);
        n = n_distinct;
        n_distinct = 1;
        for (size_t i = 1; i < n; i++)
                if (ret_regions[i] != ret_regions[n_distinct - 1])
                        ret_regions[n_distinct++] = ret_regions[i];
        return n_distinct;
}

int operation_pins_new(const struct operation_slice *slices, size_t n, struct operation_pins **ret_pins)
{
        struct operation_pins *pins;
        struct segment *segment;
        size_t n_regions, n_segments = 0;
        int r;

        for (size_t i = 0; i < n; i++)
                n_segments += slice_segments(&slices[i], NULL);
        pins = calloc(1, sizeof(*pins) + n_segments * sizeof(pins->segments[0]) + n * sizeof(pins->regions[0]));
        if (!pins)
                return -ENOMEM;
        pins->n_segments = n_segments;
        pins->regions = (struct region **)(void *)&pins->segments[n_segments];
        n_regions = regions_distinct(slices, n, pins->regions);
        while (pins->n_regions < n_regions) {
                r = region_use(pins->regions[pins->n_regions]);
                if (r) {
                        operation_pins_unuse(pins);
                        (void)operation_pins_free(pins);
                        return r;
                }
                (void)region_ref(pins->regions[pins->n_regions++]);
        }
        segment = pins->segments;
        for (size_t i = 0; i < n; i++)
                segment += slice_segments(&slices[i], segment);
        *ret_pins = pins;
        return 0;
}

void operation_pins_unuse(struct operation_pins *pins)
{
        for (size_t i = 0; i < pins->n_regions; i++)
                region_unuse(pins->regions[i]);
}

struct operation_pins *operation_pins_free(struct operation_pins *pins)
{
        if (!pins)
                return NULL;
        for (size_t i = 0; i < pins->n_regions; i++) {
                region_tell_unused(pins->regions[i]);
                (void)region_unref(pins->regions[i]);
        }
        free(pins);
        return NULL;
}
