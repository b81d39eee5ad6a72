/* SPDX-License-Identifier: Apache-2.0 */
#include "region_fixture.h"

static int seals_of(const struct region *region)
{
        int fd = open(region->path, O_RDONLY | O_CLOEXEC), seals;

        assert_true(fd >= 0);
        seals = fcntl(fd, F_GET_SEALS);
        close(fd);
        return seals;
}

static void assert_is_zeros_that_others_can_map(uint64_t size)
{
        struct region *region = create(size);
        struct stat st;

        assert_int_equal(stat(region->path, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        assert_int_equal(st.st_size, size);
        assert_true((uint64_t)st.st_blocks * 512 >= size);
        for (size_t i = 0; i < region->size; i++)
                assert_int_equal(((char *)region->address)[i], 0);
        assert_int_equal(seals_of(region) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE),
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);

        int fd = open(region->path, O_RDWR | O_CLOEXEC);
        char *other = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_int_equal(ftruncate(fd, 0), -1);
        close(fd);
        assert_true(other != MAP_FAILED);
        memset(region->address, 'f', region->size);
        assert_int_equal(other[size - 1], 'f');
        munmap(other, region->size);

        assert_string_equal(region->name, "r");
        assert_string_equal(region->device, "cpu");
        assert_ptr_equal(region->registration, region->address);
        assert_int_equal(region_bytes_prepared(region), size);
        assert_int_not_equal(region->id, 0);
        assert_int_not_equal(region->created_unix_ms, 0);
        assert_int_equal(region_delete(table, region->id), 0);
        region_unref(region);
}

TEST_WITH(region_is_sealed_zeros_that_others_can_map, setup, teardown)
{
        assert_is_zeros_that_others_can_map(10000);
        assert_is_zeros_that_others_can_map(LIMIT - 1);
}

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

static void assert_nobody_else_writes(uint64_t size)
{
        const struct region_spec spec = { .size = size, .device = "cpu", .sealed = true };
        struct region *region;

        assert_int_equal(region_create(table, &spec, &region, NULL), 0);
        assert_int_equal(region_await(region), 0);
        assert_true(region->sealed);
        assert_true(seals_of(region) & F_SEAL_FUTURE_WRITE);
        int fd = open(region->path, O_RDWR | O_CLOEXEC);
        assert_true(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
        assert_int_equal(errno, EPERM);
        assert_int_equal(pwrite(fd, "x", 1, 0), -1);
        char *other = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        assert_true(other != MAP_FAILED);
        assert_int_equal(mprotect(other, size, PROT_READ | PROT_WRITE), -1);
        memset(region->address, 's', size);
        assert_int_equal(other[size - 1], 's');
        munmap(other, size);
        assert_int_equal(region_delete(table, region->id), 0);
        region_unref(region);
}

TEST_WITH(nobody_else_can_write_a_sealed_region, setup, teardown)
{
        assert_nobody_else_writes(SMALL);
        assert_nobody_else_writes(LIMIT);
}

TEST_WITH(bad_parameters_are_refused, setup, teardown)
{
        assert_int_equal(create_fails(0, "cpu"), FERRY_E_INVALID_PARAMETER);
        FOR_EACH_TEXT (item, "cuda:0", "", "cpu ", "CPU", "cpu:0", "a device with a very long name")
                assert_int_equal(create_fails(4096, item), FERRY_E_UNKNOWN_DEVICE);
        char name[REGION_NAME_SIZE + 1] = "";
        memset(name, 'n', REGION_NAME_SIZE);
        struct region *region = NULL;
        const struct region_spec spec = { .size = 1, .device = "cpu", .name = name };
        assert_int_equal(region_create(table, &spec, &region, NULL), FERRY_E_INVALID_PARAMETER);
        name[REGION_NAME_SIZE - 1] = '\0';
        assert_int_equal(region_create(table, &spec, &region, NULL), 0);
        assert_string_equal(region->name, name);
        region_unref(region);
        assert_totals(1, 1);
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

TEST_WITH(too_many_regions_are_refused, setup, teardown)
{
        uint64_t last = 0;
        for (int i = 0; i < MAX_REGIONS; i++) {
                struct region *region = create(1);
                last = region->id;
                region_unref(region);
        }
        assert_int_equal(create_fails(1, "cpu"), FERRY_E_LIMIT_REACHED);
        assert_int_equal(region_delete(table, last), 0);
        region_unref(create(1));
}

TEST_WITH(deleted_region_is_not_found_but_memory_stays_for_holders, setup, teardown)
{
        struct region *region = create(4096);
        struct region *found = region_find(table, region->id);
        assert_ptr_equal(found, region);
        assert_int_equal(region_delete(table, region->id), 0);
        assert_null(region_find(table, region->id));
        assert_int_equal(region_delete(table, region->id), FERRY_E_NOT_FOUND);
        assert_int_equal(deregistered, 1);
        memset(found->address, 'x', found->size);
        region_unref(found);
        memset(region->address, 'y', region->size);
        assert_null(region_unref(region));
        assert_null(region_unref(NULL));
}

TEST_WITH(region_in_use_cannot_be_deleted, setup, teardown)
{
        struct region *region = create(4096);
        assert_int_equal(region_use(region), 0);
        assert_int_equal(region_use(region), 0);
        assert_int_equal(region_in_use(region), 2);
        assert_int_equal(region_delete(table, region->id), FERRY_E_REGION_IN_USE);
        region_unuse(region);
        assert_int_equal(region_delete(table, region->id), FERRY_E_REGION_IN_USE);
        region_unuse(region);
        assert_int_equal(region_in_use(region), 0);
        assert_int_equal(region_delete(table, region->id), 0);
        assert_int_equal(region_use(region), FERRY_E_NOT_FOUND);
        assert_int_equal(region_in_use(region), 0);
        region_unref(region);
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

TEST_WITH(unknown_ids_are_not_found, setup, teardown)
{
        assert_null(region_find(table, 1));
        assert_int_equal(region_delete(table, 0), FERRY_E_NOT_FOUND);
        assert_int_equal(region_delete(table, UINT64_MAX), FERRY_E_NOT_FOUND);
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

TEST_WITH(pages_follow_the_order_of_creation_though_regions_go, setup, teardown)
{
        uint64_t ids[10];
        for (size_t i = 0; i < 10; i++) {
                struct region *region = create(i + 1);
                ids[i] = region->id;
                region_unref(region);
        }
        struct region *page[4];
        uint64_t cursor = 0;
        assert_int_equal(region_page(table, &cursor, page, 4), 4);
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(page[i]->id, ids[i]);
                region_unref(page[i]);
        }
        assert_int_not_equal(cursor, 0);
        /* The last one of that page, and the first of the next, go meanwhile. */
        assert_int_equal(region_delete(table, ids[3]), 0);
        assert_int_equal(region_delete(table, ids[4]), 0);
        assert_int_equal(region_page(table, &cursor, page, 4), 4);
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(page[i]->id, ids[5 + i]);
                region_unref(page[i]);
        }
        assert_int_not_equal(cursor, 0);
        assert_int_equal(region_page(table, &cursor, page, 4), 1);
        assert_int_equal(page[0]->id, ids[9]);
        region_unref(page[0]);
        assert_int_equal(cursor, 0);
}

TEST_WITH(page_that_ends_with_the_last_region_ends_the_listing, setup, teardown)
{
        struct region *page[4];
        uint64_t cursor = 0;
        assert_int_equal(region_page(table, &cursor, page, 4), 0);
        assert_int_equal(cursor, 0);
        region_unref(create(1));
        region_unref(create(1));
        assert_int_equal(region_page(table, &cursor, page, 2), 2);
        assert_int_equal(cursor, 0);
        region_unref(page[0]);
        region_unref(page[1]);
        cursor = UINT64_MAX;
        assert_int_equal(region_page(table, &cursor, page, 4), 0);
        assert_int_equal(cursor, 0);
}
