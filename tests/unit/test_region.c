/* SPDX-License-Identifier: Apache-2.0 */
#include "region_fixture.h"

/* Odd sizes about the pieces in which large regions are filled, and about huge pages. */
TEST_WITH(every_size_is_filled, setup, teardown)
{
        region_table_free(table);
        assert_int_equal(make_table(UINT64_MAX, 4), 0);
        FOR_EACH (size_t, size, 2048 * KIB, 2048 * KIB + 1, 4096 * KIB - 1, 32768 * KIB, 32768 * KIB + 1,
                  65536 * KIB - 1, 40960 * KIB - 4096) {
                struct region *region = create(size);
                size_t pages = (size + 4095) / 4096;
                unsigned char *present = calloc(pages, 1);

                assert_int_equal(mincore(region->address, size, present), 0);
                for (size_t k = 0; k < pages; k++)
                        assert_true(present[k] & 1);
                free(present);
                assert_int_equal(region_delete(table, region->id), 0);
                region_unref(region);
        }
}

TEST_WITH(sizes_beyond_the_limit_are_refused_and_cost_nothing, setup, teardown)
{
        FOR_EACH (uint64_t, size, LIMIT + 1, (uint64_t)INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX)
                assert_int_equal(create_fails(size, "cpu"), FERRY_E_NO_SPACE);
        struct region *all = create(LIMIT);
        assert_int_equal(create_fails(1, "cpu"), FERRY_E_NO_SPACE);
        /* The memory is there until the last stream has ended, and counts. */
        assert_int_equal(region_stream_begin(all), 0);
        assert_int_equal(region_delete(table, all->id), 0);
        assert_int_equal(create_fails(1, "cpu"), FERRY_E_NO_SPACE);
        assert_totals(0, 0);
        region_stream_end(all);
        region_unref(all);
        region_unref(create(LIMIT));
        assert_totals(1, LIMIT);
}

TEST_WITH(the_limit_that_refuses_is_named, setup, teardown)
{
        assert_refused_by(LIMIT + 1, FERRY_E_NO_SPACE, "--memory-limit");
        assert_refused_by(UINT64_MAX, FERRY_E_NO_SPACE, "address space");
        region_table_free(table);
        assert_int_equal(make_table(UINT64_MAX, 1), 0);
        assert_refused_by((uint64_t)INT64_MAX, FERRY_E_NO_SPACE, "the machine's memory");
        assert_refused_by(UINT64_C(1) << 46, FERRY_E_NO_SPACE, "the machine's memory");
        assert_totals(0, 0);
        region_unref(create(4096));
        assert_refused_by(1, FERRY_E_LIMIT_REACHED, "--max-regions");
}

static void refused_by_rlimit(int resource, rlim_t value, uint64_t size, int error, const char *limit)
{
        struct rlimit before, less;

        assert_int_equal(getrlimit((__rlimit_resource_t)resource, &before), 0);
        less = (struct rlimit){ .rlim_cur = value, .rlim_max = before.rlim_max };
        assert_int_equal(setrlimit((__rlimit_resource_t)resource, &less), 0);
        assert_refused_by(size, error, limit);
        assert_int_equal(setrlimit((__rlimit_resource_t)resource, &before), 0);
        assert_totals(0, 0);
}

TEST_WITH(limits_of_the_process_are_named, setup, teardown)
{
        refused_by_rlimit(RLIMIT_FSIZE, 4096, 4097, FERRY_E_NO_SPACE, "RLIMIT_FSIZE");
        refused_by_rlimit(RLIMIT_FSIZE, 4096, LIMIT, FERRY_E_NO_SPACE, "RLIMIT_FSIZE");
        refused_by_rlimit(RLIMIT_NOFILE, 0, 4096, FERRY_E_LIMIT_REACHED, "RLIMIT_NOFILE");
        refused_by_rlimit(RLIMIT_NOFILE, 0, LIMIT, FERRY_E_LIMIT_REACHED, "RLIMIT_NOFILE");
        region_unref(create(4096));
}

/* What memfd_create fails with; 0 = it does not. */
static int memfd_error;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

int __wrap_memfd_create(const char *name, unsigned flags)
{
        if (!memfd_error)
                return __real_memfd_create(name, flags);
        errno = memfd_error;
        return -1;
}

/* As in a sandbox that knows fewer system calls. */
TEST_WITH(a_system_without_memfds_is_named, setup, teardown)
{
        FOR_EACH (int, error, ENOSYS, EPERM) {
                memfd_error = error;
                assert_refused_by(4096, FERRY_E_UNKNOWN_DEVICE, "memfd_create");
                memfd_error = 0;
        }
        region_unref(create(4096));
}

/* The system as files say it is. */
static void write_text(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

TEST_WITH(a_full_machine_refuses_before_anything_is_taken, setup, teardown)
{
        static const struct available_memory_paths nowhere = { .overcommit = "/nowhere",
                                                               .cgroup = "/nowhere",
                                                               .mountinfo = "/nowhere" };
        char path[] = "/tmp/ferry-meminfo-XXXXXX";
        struct available_memory_paths paths = nowhere;
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        close(fd);
        paths.meminfo = path;
        write_text(path, "MemTotal: 100000 kB\nMemAvailable: 40000 kB\n");
        region_table_free(table);
        assert_int_equal(make_table_in(UINT64_MAX, 100, &paths), 0);
        assert_refused_by(40000 * KIB, FERRY_E_NO_SPACE, "the machine's memory has room for");
        region_unref(create(LIMIT));

        /* What others take while a region grows ends it as well. */
        enum { SIZE = 160 * 1024 * KIB };
        write_text(path, "MemTotal: 1000000 kB\nMemAvailable: 400000 kB\n");
        gate_shut(true);
        struct region *region = begin(SIZE);
        gate_await(1);
        write_text(path, "MemTotal: 1000000 kB\nMemAvailable: 16000 kB\n");
        gate_shut(false);
        assert_int_equal(region_await(region), FERRY_E_NO_SPACE);
        assert_non_null(strstr(region->detail, "the machine's memory"));
        region_unref(region);

        /* Of small regions, only so many are made without asking again. */
        const struct region_spec small = { .size = 256 * KIB, .device = "cpu" };
        int r, n = 0;
        for (; (r = region_create(table, &small, &region, NULL)) == 0; n++)
                region_unref(region);
        assert_int_equal(r, FERRY_E_NO_SPACE);
        assert_in_range(n, 1, 64);
        unlink(path);
}

TEST_WITH(registration_without_room_is_no_space_and_leaves_nothing, setup, teardown)
{
        register_error = -ENOMEM;
        assert_int_equal(create_fails(LIMIT, "cpu"), FERRY_E_NO_SPACE);
        register_error = -EIO;
        assert_int_equal(create_fails(LIMIT, "cpu"), -EIO);
        register_error = 0;
        assert_totals(0, 0);
        region_unref(create(LIMIT));
}

static void count_wake(struct region_waiter *waiter)
{
        *(unsigned *)(void *)(waiter + 1) += 1;
}

/* Any thread; the use ends, and the wait for it. */
static void *end_use(void *region)
{
        region_unuse(region);
        region_tell_unused(region);
        return NULL;
}

TEST_WITH(a_wait_for_the_last_use_ends_with_it, setup, teardown)
{
        struct region *region = create(4096);
        struct {
                struct region_waiter waiter;
                unsigned n;
        } wait = { .waiter.wake = count_wake };
        pthread_t thread;

        assert_false(region_wait_unused(region, &wait.waiter));
        assert_int_equal(region_use(region), 0);
        assert_int_equal(region_use(region), 0);
        assert_true(region_wait_unused(region, &wait.waiter));
        (void)end_use(region);
        region_unuse(region);
        assert_int_equal(wait.n, 0);
        region_tell_unused(region);
        region_tell_unused(region);
        assert_int_equal(wait.n, 1);
        assert_false(region_unwait(region, &wait.waiter));

        assert_int_equal(region_use(region), 0);
        assert_true(region_wait_unused(region, &wait.waiter));
        assert_true(region_unwait(region, &wait.waiter));
        region_await_unused(region, 1);
        assert_int_equal(region_in_use(region), 1);
        assert_int_equal(pthread_create(&thread, NULL, end_use, region), 0);
        region_await_unused(region, WAIT_MS);
        assert_int_equal(region_delete(table, region->id), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(wait.n, 1);
        region_unref(region);
}

TEST_WITH(own_memory_may_be_deleted_under_a_stream_but_foreign_memory_may_not, setup, teardown)
{
        static char foreign[4096];
        struct region *own = create(4096), *adopted;

        assert_int_equal(region_stream_begin(own), 0);
        assert_int_equal(region_in_use(own), 0);
        assert_int_equal(region_delete(table, own->id), 0);
        assert_true(region_deleted(own));
        assert_int_equal(region_stream_begin(own), FERRY_E_NOT_FOUND);
        region_unref(own);
        memset(own->address, 1, own->size); /* the stream keeps it mapped */
        region_stream_end(own);

        assert_int_equal(adopt(foreign, sizeof(foreign), "cpu", &adopted), 0);
        assert_int_equal(region_stream_begin(adopted), 0);
        assert_int_equal(region_delete_held(table, adopted->id), FERRY_E_REGION_IN_USE);
        region_stream_end(adopted);
        assert_int_equal(region_delete_held(table, adopted->id), 0);
        assert_int_equal(region_stream_begin(adopted), FERRY_E_NOT_FOUND);
        region_unref(adopted);
}

TEST_WITH(only_its_holder_removes_a_held_region, setup, teardown)
{
        static char foreign[4096];
        const struct region_spec spec = { .size = 4096, .device = "cpu", .held = true };
        struct region *regions[2] = { NULL, NULL };

        assert_int_equal(adopt(foreign, sizeof(foreign), "cpu", &regions[0]), 0);
        assert_int_equal(region_create(table, &spec, &regions[1], NULL), 0);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(region_delete(table, regions[i]->id), FERRY_E_REGION_HELD);
                assert_false(region_deleted(regions[i]));
                assert_false(region_content_allowed(regions[i]));
                region_allow_content(regions[i], true);
                assert_true(region_content_allowed(regions[i]));
                assert_int_equal(region_delete_held(table, regions[i]->id), 0);
                assert_int_equal(region_delete_held(table, regions[i]->id), FERRY_E_NOT_FOUND);
                region_unref(regions[i]);
        }
}

TEST_WITH(adopted_memory_is_registered_but_not_counted_against_the_limit, setup, teardown)
{
        static char memory[2 * LIMIT];
        struct region *region = NULL;
        assert_int_equal(adopt(memory, sizeof(memory), "cpu", &region), 0);
        assert_ptr_equal(region->address, memory);
        assert_string_equal(region->path, "");
        assert_string_equal(region->name, "");
        assert_totals(0, 0);
        assert_int_equal(gauge("ferry_region_bytes"), 0); /* what is near the limit is seen by it */
        region_unref(create(LIMIT));
        assert_totals(1, LIMIT);
        assert_int_equal(region_delete_held(table, region->id), 0);
        region_unref(region);
        memset(memory, 'm', sizeof(memory));

        region = NULL;
        assert_int_equal(adopt(NULL, 1, "cpu", &region), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(adopt(memory, 0, "cpu", &region), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(adopt(memory, 1, "cuda:0", &region), FERRY_E_UNKNOWN_DEVICE);
        register_error = -EFAULT;
        for (int i = 0; i < MAX_REGIONS; i++) /* none takes a place */
                assert_int_equal(adopt(memory, 1, "cpu", &region), -EFAULT);
        register_error = 0;
        assert_null(region);
        assert_int_equal(adopt(memory, 1, "cpu", &region), 0);
        assert_int_equal(region_delete_held(table, region->id), 0);
        region_unref(region);
}
