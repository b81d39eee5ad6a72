/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cmocka.h>
#include <ferry/error.h>

#include "base/metrics.h"
#include "base/presence.h"
#include "base/util.h"
#include "memory/region.h"

enum { KIB = 1024, LIMIT = 1024 * KIB, MAX_REGIONS = 40 };

/* The fake of the layer that registers. */
static atomic_int enrolled, withdrawn;
static atomic_int enroll_error;

static struct presence *presence;
static uint64_t epoch;
static struct metrics *metrics;
static struct region_table *table;

static int enroll(void *context, void *address, size_t size, uint64_t file, void **ret_registration)
{
        assert_ptr_equal(context, &enrolled);
        if (enroll_error)
                return enroll_error;
        /* The memory must be there, all of it. */
        ((char *)address)[0] = ((char *)address)[size - 1] = 0;
        atomic_fetch_add(&enrolled, 1);
        *ret_registration = address;
        return 0;
}

static void withdraw(void *context, void *registration)
{
        assert_ptr_equal(context, &enrolled);
        assert_non_null(registration);
        atomic_fetch_add(&withdrawn, 1);
}

static int make_table(uint64_t limit, size_t max_regions)
{
        struct region_config config = {
                .epoch = epoch,
                .memory_limit = limit,
                .max_regions = max_regions,
                .registrar = { .enroll = enroll, .withdraw = withdraw, .context = &enrolled },
                .metrics = metrics,
        };
        return region_table_new(&config, &table);
}

/* With the presence file of a worker, so that a reaper elsewhere takes the region files for those of a live one. */
static int setup(void **state)
{
        enrolled = withdrawn = enroll_error = 0;
        epoch = random_id();
        int r = presence_new(epoch, NULL, 0, &presence);
        if (r == 0)
                r = metrics_new(&metrics);
        return r ? r : make_table(LIMIT, MAX_REGIONS);
}

/* How many region files of this test there are. */
static size_t files(void)
{
        char prefix[PRESENCE_PATH_SIZE];
        presence_path(epoch, "", prefix);
        const char *name = strrchr(prefix, '/') + 1;
        DIR *directory = opendir("/dev/shm");
        size_t n = 0;
        for (struct dirent *entry; (entry = readdir(directory));)
                n += strncmp(entry->d_name, name, strlen(name)) == 0;
        closedir(directory);
        return n;
}

static int teardown(void **state)
{
        table = region_table_free(table);
        metrics = metrics_free(metrics);
        presence = presence_free(presence);
        return files() != 0 || enrolled != withdrawn;
}

static struct region *create(uint64_t size)
{
        struct region *region = NULL;
        assert_int_equal(region_create(table, size, "cpu", "r", &region), 0);
        assert_non_null(region);
        return region;
}

static int create_fails(uint64_t size, const char *device)
{
        struct region *region = NULL;
        int r = region_create(table, size, device, "r", &region);
        assert_null(region);
        return r;
}

static void assert_totals(size_t regions, uint64_t bytes)
{
        size_t n;
        uint64_t sum;
        region_totals(table, &n, &sum);
        assert_int_equal(n, regions);
        assert_int_equal(sum, bytes);
}

static bool file_exists(const char *path)
{
        struct stat st;
        return lstat(path, &st) == 0;
}

static int64_t gauge(const char *name)
{
        return metric_value(metric_get(metrics_family(metrics, METRIC_GAUGE, name, "", 0, NULL, NULL, 0), NULL));
}

static void region_is_a_private_file_of_zeros_that_others_can_map(void **state)
{
        struct region *region = create(10000);
        char prefix[REGION_PATH_SIZE];
        struct stat st;
        presence_path(epoch, "rgn_", prefix);
        assert_memory_equal(region->path, prefix, strlen(prefix));
        assert_int_equal(lstat(region->path, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        assert_int_equal(st.st_size, 10000);
        assert_true(st.st_blocks * 512 >= 10000);
        for (size_t i = 0; i < region->size; i++)
                assert_int_equal(((char *)region->address)[i], 0);

        int fd = open(region->path, O_RDWR | O_CLOEXEC);
        char *other = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        assert_true(other != MAP_FAILED);
        memset(region->address, 'f', region->size);
        assert_int_equal(other[9999], 'f');
        munmap(other, region->size);

        assert_string_equal(region->name, "r");
        assert_string_equal(region->device, "cpu");
        assert_ptr_equal(region->registration, region->address);
        assert_int_not_equal(region->id, 0);
        assert_int_not_equal(region->created_unix_ms, 0);
        region_unref(region);
}

static void bad_parameters_are_refused(void **state)
{
        assert_int_equal(create_fails(0, "cpu"), FERRY_E_INVALID_PARAMETER);
        static const char *const devices[] = { "cuda:0", "", "cpu ", "CPU", "cpu:0", "a device with a very long name" };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(devices); i++)
                assert_int_equal(create_fails(4096, devices[i]), FERRY_E_UNKNOWN_DEVICE);
        char name[REGION_NAME_SIZE + 1] = "";
        memset(name, 'n', REGION_NAME_SIZE);
        struct region *region = NULL;
        assert_int_equal(region_create(table, 1, "cpu", name, &region), FERRY_E_INVALID_PARAMETER);
        name[REGION_NAME_SIZE - 1] = '\0';
        assert_int_equal(region_create(table, 1, "cpu", name, &region), 0);
        assert_string_equal(region->name, name);
        region_unref(region);
        assert_totals(1, 1);
}

static void sizes_beyond_the_limit_are_refused_and_cost_nothing(void **state)
{
        static const uint64_t sizes[] = { LIMIT + 1, (uint64_t)INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1,
                                          UINT64_MAX };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(sizes); i++)
                assert_int_equal(create_fails(sizes[i], "cpu"), FERRY_E_NO_SPACE);
        struct region *all = create(LIMIT);
        assert_int_equal(create_fails(1, "cpu"), FERRY_E_NO_SPACE);
        assert_int_equal(region_delete(table, all->id), 0);
        /* The memory is there until the last reference is gone, and counts. */
        assert_int_equal(create_fails(1, "cpu"), FERRY_E_NO_SPACE);
        region_unref(all);
        region_unref(create(LIMIT));
        assert_totals(1, LIMIT);
}

static void full_shared_memory_is_no_space_and_leaves_no_file(void **state)
{
        region_table_free(table);
        assert_int_equal(make_table(UINT64_MAX, 4), 0);
        struct statvfs fs;
        assert_int_equal(statvfs("/dev/shm", &fs), 0);
        /* Twice the file system, so that fallocate gives up before it takes anything. */
        uint64_t size = (uint64_t)fs.f_blocks * fs.f_frsize * 2;
        if (size == 0)
                skip();
        assert_int_equal(create_fails(size, "cpu"), FERRY_E_NO_SPACE);
        assert_int_equal(create_fails((uint64_t)INT64_MAX, "cpu"), FERRY_E_NO_SPACE);
        assert_totals(0, 0);
        assert_int_equal(files(), 0);
        region_unref(create(4096));
}

static void a_lack_of_descriptors_is_a_limit_and_passes(void **state)
{
        struct rlimit before, none;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        int r = create_fails(4096, "cpu");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, FERRY_E_LIMIT_REACHED);
        assert_totals(0, 0);
        region_unref(create(4096));
}

static void registration_without_room_is_no_space_and_leaves_nothing(void **state)
{
        enroll_error = -ENOMEM;
        assert_int_equal(create_fails(LIMIT, "cpu"), FERRY_E_NO_SPACE);
        enroll_error = -EIO;
        assert_int_equal(create_fails(LIMIT, "cpu"), -EIO);
        enroll_error = 0;
        assert_totals(0, 0);
        assert_int_equal(files(), 0);
        region_unref(create(LIMIT));
        assert_int_equal(files(), 1);
}

static void too_many_regions_are_refused(void **state)
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

static void deleted_region_is_not_found_and_its_file_is_gone_but_memory_stays_for_holders(void **state)
{
        struct region *region = create(4096);
        char path[REGION_PATH_SIZE];
        strcpy(path, region->path);
        struct region *found = region_find(table, region->id);
        assert_ptr_equal(found, region);
        assert_int_equal(region_delete(table, region->id), 0);
        assert_null(region_find(table, region->id));
        assert_int_equal(region_delete(table, region->id), FERRY_E_NOT_FOUND);
        assert_false(file_exists(path));
        assert_int_equal(withdrawn, 1);
        memset(found->address, 'x', found->size);
        region_unref(found);
        memset(region->address, 'y', region->size);
        assert_null(region_unref(region));
        assert_null(region_unref(NULL));
}

static void region_in_use_cannot_be_deleted(void **state)
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
        assert_true(file_exists(region->path));
        assert_int_equal(region_delete(table, region->id), 0);
        assert_int_equal(region_use(region), FERRY_E_NOT_FOUND);
        assert_int_equal(region_in_use(region), 0);
        region_unref(region);
}

static void own_memory_may_be_deleted_under_a_stream_but_foreign_memory_may_not(void **state)
{
        static char foreign[4096];
        struct region *own = create(4096), *adopted;

        assert_int_equal(region_stream_begin(own), 0);
        assert_int_equal(region_in_use(own), 0);
        assert_int_equal(region_delete(table, own->id), 0);
        assert_true(region_deleted(own));
        region_unref(own);
        memset(own->address, 1, own->size); /* the stream keeps it mapped */
        region_stream_end(own);

        assert_int_equal(region_adopt(table, foreign, sizeof(foreign), "cpu", NULL, &adopted), 0);
        assert_int_equal(region_stream_begin(adopted), 0);
        assert_int_equal(region_delete(table, adopted->id), FERRY_E_REGION_IN_USE);
        region_stream_end(adopted);
        assert_int_equal(region_delete(table, adopted->id), 0);
        assert_int_equal(region_stream_begin(adopted), FERRY_E_NOT_FOUND);
        region_unref(adopted);
}

static void unknown_ids_are_not_found(void **state)
{
        assert_null(region_find(table, 1));
        assert_int_equal(region_delete(table, 0), FERRY_E_NOT_FOUND);
        assert_int_equal(region_delete(table, UINT64_MAX), FERRY_E_NOT_FOUND);
}

static void adopted_memory_is_registered_but_not_counted_against_the_limit(void **state)
{
        static char memory[2 * LIMIT];
        struct region *region = NULL;
        assert_int_equal(region_adopt(table, memory, sizeof(memory), "cpu", NULL, &region), 0);
        assert_ptr_equal(region->address, memory);
        assert_string_equal(region->path, "");
        assert_string_equal(region->name, "");
        assert_totals(1, sizeof(memory));
        region_unref(create(LIMIT));
        assert_int_equal(region_delete(table, region->id), 0);
        region_unref(region);
        memset(memory, 'm', sizeof(memory));

        region = NULL;
        assert_int_equal(region_adopt(table, NULL, 1, "cpu", NULL, &region), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(region_adopt(table, memory, 0, "cpu", NULL, &region), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(region_adopt(table, memory, 1, "cuda:0", NULL, &region), FERRY_E_UNKNOWN_DEVICE);
        enroll_error = -EFAULT;
        assert_int_equal(region_adopt(table, memory, 1, "cpu", NULL, &region), -EFAULT);
        enroll_error = 0;
        assert_null(region);
}

static void pages_follow_the_order_of_creation_though_regions_go(void **state)
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

static void page_that_ends_with_the_last_region_ends_the_listing(void **state)
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

static void gauges_follow_the_regions(void **state)
{
        struct region *one = create(1000);
        region_unref(create(24));
        assert_int_equal(gauge("ferry_regions"), 2);
        assert_int_equal(gauge("ferry_region_bytes"), 1024);
        assert_int_equal(region_delete(table, one->id), 0);
        assert_int_equal(gauge("ferry_regions"), 1);
        assert_int_equal(gauge("ferry_region_bytes"), 24);
        region_unref(one);
}

static void free_removes_all_files_and_held_memory_outlives_the_table(void **state)
{
        struct region *held = create(4096);
        struct region *other = create(4096);
        char path[REGION_PATH_SIZE];
        strcpy(path, other->path);
        region_unref(other);
        table = region_table_free(table);
        assert_null(table);
        assert_false(file_exists(path) || file_exists(held->path));
        assert_int_equal(withdrawn, 2);
        memset(held->address, 'h', held->size);
        assert_int_equal(region_use(held), FERRY_E_NOT_FOUND);
        region_unref(held);
        assert_null(region_table_free(NULL));
}

/* Creates, uses, finds and deletes; what is in use by one thread must stay for it though others try to delete it. */
static void *churn(void *argument)
{
        unsigned seed = (unsigned)(uintptr_t)argument;
        intptr_t wrong = 0;
        for (int i = 0; i < 400; i++) {
                struct region *region = NULL, *page[4];
                uint64_t cursor = (uint64_t)(rand_r(&seed) % 300);
                int r = region_create(table, (uint64_t)(1 + rand_r(&seed) % 9000), "cpu", NULL, &region);
                if (r == 0)
                        region_unref(region);
                else
                        wrong += r != FERRY_E_LIMIT_REACHED && r != FERRY_E_NO_SPACE;
                size_t n = region_page(table, &cursor, page, 4);
                for (size_t k = 0; k < n; k++) {
                        if (region_use(page[k]) == 0) {
                                wrong += region_delete(table, page[k]->id) != FERRY_E_REGION_IN_USE;
                                struct region *found = region_find(table, page[k]->id);
                                wrong += found != page[k];
                                region_unref(found);
                                region_unuse(page[k]);
                        }
                        if (k % 2)
                                (void)region_delete(table, page[k]->id);
                        region_unref(page[k]);
                }
        }
        return (void *)wrong;
}

static void threads_may_do_everything_at_once(void **state)
{
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
        for (size_t i = 0; i < 4; i++) {
                void *wrong;
                pthread_join(threads[i], &wrong);
                assert_int_equal((intptr_t)wrong, 0);
        }
        struct region *page[MAX_REGIONS];
        uint64_t cursor = 0, bytes = 0;
        size_t n = region_page(table, &cursor, page, MAX_REGIONS);
        for (size_t i = 0; i < n; i++)
                bytes += page[i]->size;
        assert_totals(n, bytes);
        assert_int_equal(gauge("ferry_region_bytes"), bytes);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(region_delete(table, page[i]->id), 0);
                region_unref(page[i]);
        }
        assert_totals(0, 0);
        region_unref(create(LIMIT));
}

#define REGION_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                REGION_TEST(region_is_a_private_file_of_zeros_that_others_can_map),
                REGION_TEST(bad_parameters_are_refused),
                REGION_TEST(sizes_beyond_the_limit_are_refused_and_cost_nothing),
                REGION_TEST(full_shared_memory_is_no_space_and_leaves_no_file),
                REGION_TEST(a_lack_of_descriptors_is_a_limit_and_passes),
                REGION_TEST(registration_without_room_is_no_space_and_leaves_nothing),
                REGION_TEST(too_many_regions_are_refused),
                REGION_TEST(deleted_region_is_not_found_and_its_file_is_gone_but_memory_stays_for_holders),
                REGION_TEST(region_in_use_cannot_be_deleted),
                REGION_TEST(own_memory_may_be_deleted_under_a_stream_but_foreign_memory_may_not),
                REGION_TEST(unknown_ids_are_not_found),
                REGION_TEST(adopted_memory_is_registered_but_not_counted_against_the_limit),
                REGION_TEST(pages_follow_the_order_of_creation_though_regions_go),
                REGION_TEST(page_that_ends_with_the_last_region_ends_the_listing),
                REGION_TEST(gauges_follow_the_regions),
                REGION_TEST(free_removes_all_files_and_held_memory_outlives_the_table),
                REGION_TEST(threads_may_do_everything_at_once),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
