/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

static int region_compare(const void *a, const void *b)
{
        struct region *const *x = a, *const *y = b;

        return ((uintptr_t)*x > (uintptr_t)*y) - ((uintptr_t)*x < (uintptr_t)*y);
}

/* Stores each region once. Sorting keeps many descriptors of few regions cheap. */
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

int operation_hold_new(const struct operation_slice *slices, size_t n, struct operation_hold **ret_hold)
{
        struct operation_hold *hold;
        struct segment *segment;
        size_t n_regions, n_segments = 0;
        int r;

        for (size_t i = 0; i < n; i++)
                n_segments += slice_segments(&slices[i], NULL);
        hold = calloc(1, sizeof(*hold) + n_segments * sizeof(hold->segments[0]) + n * sizeof(hold->regions[0]));
        if (!hold)
                return -ENOMEM;
        hold->n_segments = n_segments;
        hold->regions = (struct region **)(void *)&hold->segments[n_segments];
        n_regions = regions_distinct(slices, n, hold->regions);
        while (hold->n_regions < n_regions) {
                r = region_use(hold->regions[hold->n_regions]);
                if (r) {
                        operation_hold_unuse(hold);
                        (void)operation_hold_free(hold);
                        return r;
                }
                (void)region_ref(hold->regions[hold->n_regions++]);
        }
        segment = hold->segments;
        for (size_t i = 0; i < n; i++)
                segment += slice_segments(&slices[i], segment);
        *ret_hold = hold;
        return 0;
}

void operation_hold_unuse(struct operation_hold *hold)
{
        for (size_t i = 0; i < hold->n_regions; i++)
                region_unuse(hold->regions[i]);
}

struct operation_hold *operation_hold_free(struct operation_hold *hold)
{
        if (!hold)
                return NULL;
        for (size_t i = 0; i < hold->n_regions; i++)
                (void)region_unref(hold->regions[i]);
        free(hold);
        return NULL;
}
