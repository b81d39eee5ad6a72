/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/gpu.h"
#include "region_internal.h"

/*
 * References to a region, and the end of its memory in two steps. region_deregister_unref, when the region is off the
 * lists: the registrar deregisters the memory. free_region, when the last reference is given back: the pages are freed.
 * Large memory takes both steps on a maker thread; small memory that a GPU has pinned, the first.
 */

unsigned region_gpu(const struct region_private *private)
{
        const struct region_registrar *registrar = &private->table->config.registrar;
        unsigned n;

        if (private->on_gpu)
                return gpu_parse(private->region.device, &n) ? 1 + n % MAKERS_GPUS : 0;
        return private->registered && registrar->gpu ? registrar->gpu(private->region.registration) : 0;
}

bool region_is_ended_by_maker(const struct region_private *private)
{
        return region_is_large(private) || (private->owned && region_gpu(private) > 0);
}

void region_deregister(struct region_private *private)
{
        const struct region_registrar *registrar = &private->table->config.registrar;

        if (private->registered && registrar->deregister_region)
                registrar->deregister_region(registrar->context, private->region.registration);
        private->registered = false;
}

void region_memory_free(struct region_private *private)
{
        struct region *region = &private->region;

        if (private->on_gpu)
                gpu_free(FERRY_STEAL(region->space));
        else
                pages_free(&private->pages);
        region->address = NULL;
}

struct region_private *region_private_free(struct region_private *private)
{
        if (private->on_gpu)
                gpu_free(private->region.space);
        else
                foreign_free(private->region.space);
        region_table_unref(private->table);
        free(private);
        return NULL;
}

static void free_job_end(struct maker_job *job)
{
        struct region_private *private = region_of_job(job);

        region_memory_free(private);
        region_table_end_freeing(private->table, private);
        region_private_free(private);
}

/* Frees the worker's own memory of a region without references, then the region; large memory by a maker. */
static void free_region(struct region_private *private)
{
        static const struct maker_kind kind = { .end = free_job_end };

        region_table_begin_freeing(private->table, private);
        if (!region_is_large(private) || !makers_add(private->table->makers, &private->job, &kind, region_gpu(private)))
                free_job_end(&private->job);
}

struct region *region_ref(struct region *region)
{
        atomic_fetch_add(&region->private->references, 1);
        return region;
}

struct region *region_unref(struct region *region)
{
        if (!region || atomic_fetch_sub(&region->private->references, 1) != 1)
                return NULL;
        if (region->private->owned && region->address)
                free_region(region->private);
        else
                region_private_free(region->private);
        return NULL;
}

static void deregister_job_end(struct maker_job *job)
{
        struct region_private *private = region_of_job(job);

        region_deregister(private);
        region_table_keep(private->table, private);
        (void)region_unref(&private->region);
}

void region_deregister_unref(struct region_private *private)
{
        static const struct maker_kind kind = { .end = deregister_job_end };

        if (!region_is_ended_by_maker(private)) {
                region_deregister(private);
                (void)region_unref(&private->region);
        } else if (!makers_add(private->table->makers, &private->job, &kind, region_gpu(private))) {
                deregister_job_end(&private->job);
        }
}
