/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGION_FIXTURE_H
#define REGION_FIXTURE_H

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/metrics.h"
#include "base/util.h"
#include "memory/available_memory.h"
#include "memory/region.h"

#include "unit.h"

/* A region of LIMIT bytes is large: maker threads make it. */
enum { KIB = 1024, LIMIT = 1024 * KIB, SMALL = 4 * KIB, MAX_REGIONS = 40 };

/* The fake of the layer that registers. */
static atomic_int registered, deregistered;
static atomic_int register_error;

/* Maker threads stand still before they fill pages while the gate is shut. */
static struct gate {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool shut;
        size_t n_waiting;
        int error; /* what they get once they may go on */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static struct metrics *metrics;
static struct region_table *table;
static struct loop *table_loop;

static inline int adopt(void *address, size_t size, const char *device, struct region **ret_region)
{
        const struct region_spec spec = { .size = size, .device = device, .held = true };
        char detail[REGION_DETAIL_SIZE];

        return region_adopt(table, address, &spec, ret_region, detail);
}

static inline int register_region(void *context, const struct region *region, void **ret_registration)
{
        char *address = region->address;

        assert_ptr_equal(context, &registered);
        assert_int_not_equal(region->id, 0);
        if (register_error)
                return register_error;
        /* The memory must be there, all of it. */
        address[0] = address[region->size - 1] = 0;
        if (region->fd >= 0)
                assert_true(fcntl(region->fd, F_GET_SEALS) & F_SEAL_SHRINK);
        atomic_fetch_add(&registered, 1);
        *ret_registration = address;
        return 0;
}

/* Memory that begins with this is pinned by cuda:0, which stands still while the gate is shut. */
#define PINNED "pinned"

static inline unsigned gpu_of_registration(const void *registration)
{
        return memcmp(registration, PINNED, sizeof(PINNED)) == 0; /* of a page or more */
}

static inline void deregister_region(void *context, void *registration)
{
        assert_ptr_equal(context, &registered);
        assert_non_null(registration);
        if (gpu_of_registration(registration)) {
                pthread_mutex_lock(&gate.lock);
                while (gate.shut)
                        pthread_cond_wait(&gate.changed, &gate.lock);
                pthread_mutex_unlock(&gate.lock);
        }
        pthread_mutex_lock(&gate.lock);
        atomic_fetch_add(&deregistered, 1);
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
}

static inline int fill(void *context, size_t size)
{
        int error;

        assert_ptr_equal(context, &gate);
        pthread_mutex_lock(&gate.lock);
        gate.n_waiting++;
        pthread_cond_broadcast(&gate.changed);
        while (gate.shut)
                pthread_cond_wait(&gate.changed, &gate.lock);
        gate.n_waiting--;
        error = gate.error;
        pthread_mutex_unlock(&gate.lock);
        return error;
}

static inline void gate_shut(bool shut)
{
        pthread_mutex_lock(&gate.lock);
        gate.shut = shut;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
}

static inline void gate_await(size_t n)
{
        pthread_mutex_lock(&gate.lock);
        WAIT_SIGNAL(&gate.changed, &gate.lock, gate.n_waiting >= n);
        pthread_mutex_unlock(&gate.lock);
}

static inline int make_table_in(uint64_t limit, size_t max_regions, const struct available_memory_paths *paths)
{
        struct region_config config = {
                .memory_limit = limit,
                .max_regions = max_regions,
                .registrar = { .register_region = register_region,
                               .deregister_region = deregister_region,
                               .gpu = gpu_of_registration,
                               .context = &registered },
                .loop = table_loop,
                .metrics = metrics,
                .fill = fill,
                .fill_context = &gate,
                .memory_paths = paths,
        };
        return region_table_new(&config, &table);
}

static inline int make_table(uint64_t limit, size_t max_regions)
{
        return make_table_in(limit, max_regions, NULL);
}

static inline int setup(void **state)
{
        registered = deregistered = register_error = 0;
        gate.shut = false;
        gate.error = 0;
        int r = metrics_new(&metrics);
        return r ? r : make_table(LIMIT, MAX_REGIONS);
}

static inline int teardown(void **state)
{
        gate_shut(false);
        table = region_table_free(table);
        metrics = metrics_free(metrics);
        return registered != deregistered;
}

/* Inlined, it makes gcc 12 warn at -O3 of a dangling pointer, where there is none. */
static __attribute__((noinline)) struct region *begin(uint64_t size)
{
        const struct region_spec spec = { .size = size, .device = "cpu", .name = "r" };
        struct region *region = NULL;

        assert_int_equal(region_create(table, &spec, &region, NULL), 0);
        assert_non_null(region);
        return region;
}

static inline struct region *create(uint64_t size)
{
        struct region *region = begin(size);

        assert_int_equal(region_await(region), 0);
        assert_int_equal(region_state(region), REGION_READY);
        return region;
}

/* At once or later; nothing is left. */
static inline int create_fails_with(uint64_t size, const char *device, char detail[REGION_DETAIL_SIZE])
{
        const struct region_spec spec = { .size = size, .device = device, .name = "r" };
        struct region *region = NULL;
        int r = region_create(table, &spec, &region, detail);

        if (r != 0) {
                assert_null(region);
                return r;
        }
        r = region_await(region);
        assert_int_not_equal(r, 0);
        assert_int_equal(region_state(region), REGION_FAILED);
        assert_int_equal(region->error, r);
        strcpy(detail, region->detail);
        assert_int_equal(region_use(region), FERRY_E_REGION_NOT_READY);
        assert_int_equal(region_delete(table, region->id), 0);
        region_unref(region);
        return r;
}

static inline int create_fails(uint64_t size, const char *device)
{
        char detail[REGION_DETAIL_SIZE];

        return create_fails_with(size, device, detail);
}

static inline void assert_refused_by(uint64_t size, int error, const char *limit)
{
        char detail[REGION_DETAIL_SIZE];

        assert_int_equal(create_fails_with(size, "cpu", detail), error);
        if (!strstr(detail, limit))
                fail_msg("\"%s\" does not name %s", detail, limit);
}

static inline void assert_totals(size_t regions, uint64_t bytes)
{
        size_t n;
        uint64_t sum;
        region_totals(table, &n, &sum);
        assert_int_equal(n, regions);
        assert_int_equal(sum, bytes);
}

static inline int64_t gauge(const char *name)
{
        return metric_value(metric_get(metrics_family(metrics, METRIC_GAUGE, name, "", 0, NULL, NULL, 0), NULL));
}

#endif
