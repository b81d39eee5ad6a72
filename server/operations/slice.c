/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/space.h"
#include "operations_internal.h"

/*
 * Slices: a piece of a region, a row of pieces, or blocks. Their numbers come from requests, so each sum and product is
 * checked before it is used (slices_valid); after that no arithmetic can overflow. Pure.
 */

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

                        if (!r)
                                continue;
                        (void)snprintf(detail, OPERATION_DETAIL_SIZE, "Descriptor %zu: %s", i, space_error(r));
                        return FERRY_E_FORBIDDEN;
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
