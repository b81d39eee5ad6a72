/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/content_ranges.h"

#include <string.h>

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
