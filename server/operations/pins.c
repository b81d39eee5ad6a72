/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

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
