/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

enum { WAIT_MS = 60000 };

void region_create(struct ferry *f, uint64_t size, struct region *ret_region)
{
        *ret_region = (struct region){ 0 };
        bench_check(f, ferry_create_region(f, &(struct ferry_region_spec){ .size = size }, &ret_region->info),
                    "create region");
}

void region_map(struct region *region)
{
        int fd = open(region->info.path, O_RDWR | O_CLOEXEC);
        void *memory = fd < 0 ? MAP_FAILED
                              : mmap(NULL, region->info.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

        if (memory == MAP_FAILED)
                bench_fail("cannot map a region: %s", strerror(errno));
        (void)close(fd);
        region->memory = memory;
}

struct ferry_descriptor *slices_new(const struct region *region, size_t n, uint64_t size, uint64_t stride)
{
        struct ferry_descriptor *items = calloc(n, sizeof(*items));

        for (size_t i = 0; i < n; i++)
                items[i] = (struct ferry_descriptor){ region->info.id, i * stride, size };
        return items;
}

static void assert_complete(const struct ferry_operation *operation)
{
        if (!operation->done || operation->status != FERRY_COMPLETE)
                bench_fail("%s is %s: %s %s", operation->id, ferry_status_name(operation->status),
                           operation->error_code, operation->error_detail);
}

void move_run(const struct move *m, struct timing *ret_timing)
{
        struct ferry_operation_spec offer = {
                .kind = m->passive,
                .descriptors = m->at_a.items,
                .n_descriptors = m->at_a.n,
                .include_metadata = true,
        };
        struct ferry_operation_spec begin = {
                .kind = m->passive == FERRY_READABLE ? FERRY_READ : FERRY_WRITE,
                .descriptors = m->at_b.items,
                .n_descriptors = m->at_b.n,
                .wait_ms = WAIT_MS,
        };
        struct ferry_operation passive, active, ended;
        uint64_t start = now_ns(), posting;

        bench_check(m->a, ferry_create_operation(m->a, &offer, &passive), "create the passive operation");
        begin.remote_metadata = passive.metadata;
        posting = now_ns();
        bench_check(m->b, ferry_create_operation(m->b, &begin, &active), "create the active operation");
        ret_timing->post_s = seconds_since(posting);
        bench_check(m->a, ferry_get_operation(m->a, passive.id, WAIT_MS, 0, &ended), "wait for the passive operation");
        ret_timing->cycle_s = seconds_since(start);
        ret_timing->transfer_s = (double)active.duration_us / 1e6;
        assert_complete(&active);
        assert_complete(&ended);
        ferry_operation_clear(&passive);
        ferry_operation_clear(&active);
        ferry_operation_clear(&ended);
}

void move_simple(struct ferry *a, struct ferry *b, enum ferry_kind passive, const struct region *at_a,
                 const struct region *at_b, uint64_t size, struct timing *ret_timing)
{
        const struct ferry_descriptor from = { at_a->info.id, 0, size }, to = { at_b->info.id, 0, size };
        const struct move m = { a, b, passive, { &from, 1 }, { &to, 1 } };

        move_run(&m, ret_timing);
}
