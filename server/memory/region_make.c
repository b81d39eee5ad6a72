/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/mapping.h>

#include "base/log.h"
#include "memory/available_memory.h"
#include "memory/gpu.h"
#include "region_internal.h"

/*
 * The making of regions. Of a large one a thread of the pool opens the memory, several fill its pages piece by piece,
 * and one registers it and makes it ready.
 */

enum {
        PIECE_MIN = 32 << 20, /* filled by a thread before it takes the next job: 16 ms */
        PIECE_MAX = 128 << 20,
        PIECES_A_THREAD = 2,      /* of a smaller region */
        UNCHECKED_MAX = 16 << 20, /* bytes of small regions made without checking the system's memory */
        MEMORY_MARGIN = 16 << 20, /* left to other processes */
        OVERHEAD_SHIFT = 7,       /* page tables and the like take 1/240 of ordinary pages */
};

/* ---- limits ---- */

enum stage { STAGE_OPEN, STAGE_FILL, STAGE_REGISTER };

/* Whether a resource of this process is limited, and to how much. */
static bool limit_is_set(int resource, uint64_t *ret_limit)
{
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
                return false;
        *ret_limit = limit.rlim_cur;
        return true;
}

/* Turns -errno into FERRY_E_* where a limit is the cause; detail names it. */
static int classify(int r, enum stage stage, char detail[REGION_DETAIL_SIZE])
{
        static const struct {
                enum stage stage;
                int r, resource, error;
                const char *limit, *otherwise;
        } limits[] = {
                { STAGE_OPEN, -EMFILE, RLIMIT_NOFILE, FERRY_E_LIMIT_REACHED,
                  "The limit of open files (RLIMIT_NOFILE, ulimit -n) is", "The worker has too many open files" },
                { STAGE_OPEN, -ENFILE, -1, FERRY_E_LIMIT_REACHED, NULL, "The machine has too many open files" },
                { STAGE_OPEN, -EFBIG, RLIMIT_FSIZE, FERRY_E_NO_SPACE,
                  "The limit of a file's bytes (RLIMIT_FSIZE, ulimit -f) is",
                  "The system does not support files of this size" },
                { STAGE_OPEN, -ENOMEM, RLIMIT_AS, FERRY_E_NO_SPACE,
                  "The limit of address space in bytes (RLIMIT_AS, ulimit -v) is",
                  "The system has no address space of this size" },
                { STAGE_OPEN, -ENOSYS, -1, FERRY_E_UNKNOWN_DEVICE, NULL,
                  "The system has no memfd_create(), of which regions are made" },
                { STAGE_OPEN, -EPERM, -1, FERRY_E_UNKNOWN_DEVICE, NULL,
                  "The system (seccomp?) forbids memfd_create(), of which regions are made" },
                { STAGE_OPEN, -ENOSPC, -1, FERRY_E_NO_SPACE, NULL, "The machine's memory is used up" },
                { STAGE_FILL, -ENOMEM, -1, FERRY_E_NO_SPACE, NULL, "The machine's memory is used up" },
                { STAGE_FILL, -ENOSPC, -1, FERRY_E_NO_SPACE, NULL, "The machine's memory is used up" },
                { STAGE_REGISTER, -ENOMEM, RLIMIT_MEMLOCK, FERRY_E_NO_SPACE,
                  "The memory cannot be registered; the limit of locked bytes (RLIMIT_MEMLOCK, ulimit -l) is",
                  "The memory cannot be registered: the system has no room for it" },
        };
        uint64_t limit;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(limits); i++) {
                if (limits[i].stage != stage || limits[i].r != r)
                        continue;
                if (limits[i].resource >= 0 && limit_is_set(limits[i].resource, &limit))
                        (void)snprintf(detail, REGION_DETAIL_SIZE, "%s %" PRIu64, limits[i].limit, limit);
                else
                        (void)snprintf(detail, REGION_DETAIL_SIZE, "%s", limits[i].otherwise);
                return limits[i].error;
        }
        return r;
}

/* Whether the system has room for so many more bytes: 0 or FERRY_E_NO_SPACE. */
static int check_available_memory(const struct region_table *table, uint64_t bytes, char detail[REGION_DETAIL_SIZE])
{
        const uint64_t needed = bytes + (bytes >> OVERHEAD_SHIFT) + MEMORY_MARGIN;
        struct available_memory memory;

        available_memory_read(table->config.memory_paths, &memory);
        if (needed <= memory.available)
                return 0;
        (void)snprintf(detail, REGION_DETAIL_SIZE, "%" PRIu64 " bytes are needed, and %s has room for %" PRIu64, bytes,
                       memory.available_limit, memory.available > MEMORY_MARGIN ? memory.available - MEMORY_MARGIN : 0);
        return FERRY_E_NO_SPACE;
}

/* ---- registration ---- */

int region_register(struct region_private *private, char detail[REGION_DETAIL_SIZE])
{
        const struct region_registrar *registrar = &private->table->config.registrar;
        struct region *region = &private->region;
        int r = 0;

        if (registrar->register_region)
                r = registrar->register_region(registrar->context, region, &region->registration);
        private->registered = r == 0;
        return classify(r, STAGE_REGISTER, detail);
}

/* Seals and registers memory that is filled. 0 or an error, with the memory not registered. */
static int finish(struct region_private *private, char detail[REGION_DETAIL_SIZE])
{
        struct region *region = &private->region;
        int r;

        if (private->on_gpu)
                return region_register(private, detail);
        r = pages_seal(&private->pages, region->sealed);
        if (r < 0)
                return r;
        region->fd = private->pages.fd;
        region->address = private->pages.address;
        (void)snprintf(region->path, sizeof(region->path), "/proc/%d/fd/%d", (int)getpid(), region->fd);
        return region_register(private, detail);
}

/* ---- small regions: here and now ---- */

/*
 * Whether a small region may be made without a look at the system's memory, which takes longer than to make it. Each
 * UNCHECKED_MAX bytes one is looked at.
 */
static bool small_may_be_unchecked(struct region_table *table, uint64_t bytes)
{
        bool unchecked;

        pthread_mutex_lock(&table->lock);
        table->bytes_unchecked += bytes;
        unchecked = table->bytes_unchecked < UNCHECKED_MAX;
        if (!unchecked)
                table->bytes_unchecked = 0;
        pthread_mutex_unlock(&table->lock);
        return unchecked;
}

int region_make_small(struct region_private *private, char detail[REGION_DETAIL_SIZE])
{
        size_t size = private->region.size;
        int r = 0;

        if (!small_may_be_unchecked(private->table, size))
                r = check_available_memory(private->table, UNCHECKED_MAX, detail);
        if (r == 0)
                r = classify(pages_new(private->region.id, size, &private->pages), STAGE_OPEN, detail);
        if (r == 0)
                r = classify(pages_fill(&private->pages, 0, size, &private->huge), STAGE_FILL, detail);
        if (r == 0)
                r = finish(private, detail);
        if (r != 0)
                pages_free(&private->pages);
        return r;
}

/* ---- large regions: in the pool ---- */

/* Records a failure; the first one counts. Others read it once the state is REGION_FAILED. */
static void make_fail(struct region_private *private, int error, const char *detail)
{
        struct region *region = &private->region;

        pthread_mutex_lock(&private->table->lock);
        if (!atomic_load(&private->failed)) {
                region->error = error;
                (void)snprintf(region->detail, sizeof(region->detail), "%s", detail);
                atomic_store(&private->failed, true);
        }
        pthread_mutex_unlock(&private->table->lock);
}

/* Whether nobody wants the region any more, or it has failed already. */
static bool make_is_over(struct region_private *private)
{
        return atomic_load(&private->failed) || region_deleted(&private->region);
}

/* Bytes that a thread fills at a time: two pieces a thread, within bounds, in whole huge pages. */
static size_t piece_size(size_t size)
{
        const size_t piece = size / (PIECES_A_THREAD * pool_fillers());

        if (piece < PIECE_MIN)
                return PIECE_MIN;
        return piece > PIECE_MAX ? PIECE_MAX : piece / FERRY_HUGE_PAGE * FERRY_HUGE_PAGE;
}

/* Thread: one of the pool, as for the functions below. */
static enum pool_verdict make_begin(struct pool_task *task)
{
        struct region_private *made = region_of_task(task);
        struct region_table *table = made->table;
        const size_t size = made->region.size;
        char detail[REGION_DETAIL_SIZE] = "";
        bool freeing;
        int r;

        if (make_is_over(made))
                return POOL_DONE;
        made->piece = piece_size(size);
        r = region_table_check_limit(table, size, &freeing, detail);
        if (r == 0 && !made->on_gpu)
                r = check_available_memory(table, size, detail);
        if (r != 0 && freeing)
                return POOL_WAITS;
        if (r == 0 && made->on_gpu)
                r = gpu_allocate(made->region.device, size, &made->region.space, &made->region.address, detail);
        else if (r == 0)
                r = classify(pages_new(made->region.id, size, &made->pages), STAGE_OPEN, detail);
        if (r != 0)
                make_fail(made, r, detail);
        else if (!made->on_gpu)
                made->n_pieces = (size - 1) / made->piece + 1;
        return POOL_DONE;
}

/* Fills one piece. The system's memory was checked for the whole before the first one. */
static void fill_piece(struct region_private *private, size_t i)
{
        const struct region_config *config = &private->table->config;
        const size_t offset = i * private->piece, left = private->region.size - offset;
        const size_t size = left < private->piece ? left : private->piece;
        char detail[REGION_DETAIL_SIZE] = "";
        int r = 0;

        if (make_is_over(private))
                return;
        if (config->fill)
                r = config->fill(config->fill_context, size);
        /* Other processes take memory meanwhile. */
        if (r == 0 && i)
                r = check_available_memory(private->table, size, detail);
        if (r == 0)
                r = pages_fill(&private->pages, offset, size, &private->huge);
        r = classify(r, STAGE_FILL, detail);
        if (r != 0)
                make_fail(private, r, detail);
        else
                atomic_fetch_add(&private->bytes_prepared, size);
}

/* Fills the next piece that no thread has taken. POOL_MORE lets further threads join. */
static enum pool_verdict fill(struct pool_task *task)
{
        struct region_private *private = region_of_task(task);
        const size_t i = atomic_fetch_add(&private->n_taken, 1);

        if (i < private->n_pieces)
                fill_piece(private, i);
        return i + 1 < private->n_pieces ? POOL_MORE : POOL_DONE;
}

static void failure_log(const struct region *region)
{
        char id[FERRY_ID_TEXT_SIZE];

        ferry_id_format("rgn_", region->id, id);
        if (region->error < 0)
                log_event(LOG_ERROR, "region failed", LOG_S("region", id), LOG_S("reason", strerror(-region->error)));
        else
                log_event(LOG_INFO, "region failed", LOG_S("region", id), LOG_S("reason", region->detail));
}

/* Registers the region and makes it ready, or frees what there is of it. The task's reference goes with it. */
static void make_end(struct pool_task *task)
{
        struct region_private *private = region_of_task(task);
        struct region *region = &private->region;
        char detail[REGION_DETAIL_SIZE] = "";
        int r;

        if (!make_is_over(private)) {
                r = finish(private, detail);
                if (r != 0)
                        make_fail(private, r, detail);
        }
        if (!atomic_load(&private->failed) && region_table_ready(private->table, private))
                return;
        region_deregister(private);
        region_memory_free(private);
        if (region_table_failed(private->table, private))
                failure_log(region);
        (void)region_unref(region);
}

/* The end waits for others, and leaves its thread to further filling. */
static void filled(struct pool_task *task)
{
        if (!region_task_add(region_of_task(task), make_end))
                make_end(task);
}

/* On the pool's thread, after make_begin(): fills the pages, or ends where there are none to fill. */
static void begun(struct pool_task *task)
{
        struct region_private *private = region_of_task(task);

        if (private->n_pieces == 0) {
                make_end(task);
                return;
        }
        *task = (struct pool_task){ .run = fill, .done = filled, .class = POOL_FILL, .width = pool_fillers() };
        pool_add_or_run(private->table->tasks, task);
}

void region_make_start(struct region_private *private)
{
        private->task = (struct pool_task){
                .run = make_begin, .done = begun, .class = POOL_MAKE, .devices = region_devices(private)
        };
        if (pool_add(private->table->tasks, &private->task))
                return;
        make_fail(private, FERRY_E_LIMIT_REACHED, "The worker can start no further thread (ulimit -u, pids.max)");
        make_end(&private->task);
}
