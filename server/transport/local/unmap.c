/* SPDX-License-Identifier: Apache-2.0 */
#include "unmap.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Unpinning may take long and wait for the device, so the progress thread must not do it. */

static void unmap(const struct gpu_pin *range)
{
        (void)munmap((void *)(uintptr_t)range->address, range->size);
}

static void unpin_run(void *context)
{
        struct gpu_pin *range = context;

        gpu_pin_end(range);
        unmap(range);
        free(range);
}

static void close_run(void *context)
{
        gpu_close(context);
}

void unmap_range(struct gpu_pin *range, struct copier *copier)
{
        struct gpu_pin *copy = gpu_is_pinned(range) ? malloc(sizeof(*copy)) : NULL;

        if (copy) {
                gpu_pin_move(copy, range);
                copier_run_detached(copier, (struct copier_gpus){ .one = 1 + copy->gpu }, unpin_run, copy);
                return;
        }
        gpu_pin_end(range);
        unmap(range);
}

void unmap_gpu(const struct space *space, struct copier *copier)
{
        if (space)
                copier_run_detached(copier, copier_gpus_of(space, NULL), close_run, (void *)(uintptr_t)space);
}
