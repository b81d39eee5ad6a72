/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <ferry/error.h>

#include "base/log.h"
#include "worker.h"

/* libferry-worker as an embedding program uses it. */

enum { MIB = 1 << 20, SIZE = 3 * MIB };

static struct ferry_worker *worker;

static int setup(void **state)
{
        static const char *const listen[] = { "127.0.0.1:0" };
        const struct ferry_worker_options options = {
                .listen = listen, .n_listen = 1, .local = "off", .memory_limit = 4 * MIB
        };

        log_setup(LOG_ERROR, LOG_LOGFMT);
        return ferry_worker_new(&options, &worker, NULL, 0);
}

static int teardown(void **state)
{
        worker = ferry_worker_free(worker);
        return 0;
}

/* The seals of the only memory of a region that this process has. */
static int seals(void)
{
        DIR *directory = opendir("/proc/self/fd");
        char target[64];
        int found = -1;

        assert_non_null(directory);
        for (struct dirent *entry; (entry = readdir(directory));) {
                ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

                if (n <= 0)
                        continue;
                target[n] = '\0';
                if (!strstr(target, "memfd:ferry-region"))
                        continue;
                assert_int_equal(found, -1);
                found = fcntl(atoi(entry->d_name), F_GET_SEALS);
        }
        closedir(directory);
        return found;
}

static void allocated_memory_is_zeros_that_this_process_alone_writes(void **state)
{
        char id[FERRY_WORKER_ID_SIZE];
        void *address = NULL;

        assert_int_equal(ferry_worker_region_alloc(worker, SIZE, NULL, "kv", &address, id), 0);
        assert_memory_equal(id, "rgn_", 4);
        for (size_t i = 0; i < SIZE; i++)
                assert_int_equal(((char *)address)[i], 0);
        memset(address, 'x', SIZE);
        assert_int_equal(seals() & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
        assert_int_equal(ferry_worker_region_remove(worker, id), 0);
        assert_int_equal(ferry_worker_region_remove(worker, id), FERRY_E_NOT_FOUND);
}

static void removed_memory_makes_room_at_once(void **state)
{
        char id[FERRY_WORKER_ID_SIZE];
        void *address;

        for (int i = 0; i < 10; i++) {
                assert_int_equal(ferry_worker_region_alloc(worker, SIZE, "cpu", NULL, &address, id), 0);
                assert_int_equal(ferry_worker_region_remove(worker, id), 0);
        }
        assert_int_equal(ferry_worker_region_alloc(worker, 1, "cpu", NULL, &address, id), 0);
}

static void what_cannot_be_allocated_leaves_nothing(void **state)
{
        char id[FERRY_WORKER_ID_SIZE] = "untouched";
        void *address = &address;

        assert_int_equal(ferry_worker_region_alloc(worker, 0, "cpu", NULL, &address, id), FERRY_E_INVALID_PARAMETER);
        assert_int_equal(ferry_worker_region_alloc(worker, 1, "cuda:9", NULL, &address, id), FERRY_E_UNKNOWN_DEVICE);
        assert_int_equal(ferry_worker_region_alloc(worker, 5 * MIB, "cpu", NULL, &address, id), FERRY_E_NO_SPACE);
        assert_ptr_equal(address, &address);
        assert_string_equal(id, "untouched");
        assert_int_equal(ferry_worker_region_alloc(worker, 4 * MIB, "cpu", NULL, &address, id), 0);
}

static void memory_of_the_program_is_offered_and_taken_back(void **state)
{
        static char memory[SIZE];
        char id[FERRY_WORKER_ID_SIZE];

        assert_int_equal(ferry_worker_region_add(worker, memory, SIZE, NULL, NULL, id), 0);
        assert_int_equal(seals(), -1);
        assert_int_equal(ferry_worker_region_remove(worker, id), 0);
        assert_int_equal(ferry_worker_region_remove(worker, "rgn_x"), FERRY_E_NOT_FOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(allocated_memory_is_zeros_that_this_process_alone_writes),
                TEST(removed_memory_makes_room_at_once),
                TEST(what_cannot_be_allocated_leaves_nothing),
                TEST(memory_of_the_program_is_offered_and_taken_back),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
