/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/presence.h"
#include "base/util.h"
#include "mapping.h"

enum { SIZE = 5 << 20 };

struct fixture {
        uint64_t epoch;
        struct mappings mappings;
        uint64_t files; /* 1 … files exist */
};

static void path_of(const struct fixture *f, uint64_t file, char path[PRESENCE_PATH_SIZE])
{
        presence_region_path(f->epoch, file, path);
}

static void file_make(struct fixture *f, size_t size)
{
        char path[PRESENCE_PATH_SIZE];
        int fd;

        path_of(f, ++f->files, path);
        fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        (void)close(fd);
}

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        f->epoch = random_id();
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        char path[PRESENCE_PATH_SIZE];

        mappings_clear(&f->mappings);
        for (; f->files; f->files--) {
                path_of(f, f->files, path);
                (void)unlink(path);
        }
        free(f);
        return 0;
}

static void a_file_is_mapped_once_for_each_way_of_use(void **state)
{
        struct fixture *f = *state;
        struct mapping *read, *again, *write;

        file_make(f, SIZE);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &read), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &again), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, true, &write), 0);
        assert_ptr_equal(read, again);
        assert_ptr_not_equal(read, write);
        assert_int_equal(read->size, SIZE);
        mapping_prepare(write, 0, SIZE);
        mapping_prepare(read, SIZE - 1, 1);
        write->address[SIZE - 1] = 9;
        assert_int_equal(read->address[SIZE - 1], 9);
        mapping_put(&f->mappings, read);
        mapping_put(&f->mappings, again);
        mapping_put(&f->mappings, write);
}

static void a_file_that_is_gone_is_dropped_with_its_last_user(void **state)
{
        struct fixture *f = *state;
        struct mapping *used, *other;

        file_make(f, SIZE);
        file_make(f, SIZE);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &used), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 2, false, &other), 0);
        mapping_put(&f->mappings, other);
        mappings_forget(&f->mappings, f->epoch, 1);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 2);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &other), -ENOENT);
        assert_int_equal(used->address[0], 0);
        mapping_put(&f->mappings, used);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 1);
        mappings_forget_worker(&f->mappings, f->epoch ^ 1);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 1);
        mappings_forget_worker(&f->mappings, f->epoch);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 0);
}

static void what_is_not_used_is_dropped_after_a_time(void **state)
{
        struct fixture *f = *state;
        struct mapping *used, *idle;

        file_make(f, SIZE);
        file_make(f, SIZE);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &used), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 2, false, &idle), 0);
        mapping_put(&f->mappings, idle);
        mappings_drop_unused(&f->mappings, 1);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 2);
        mappings_drop_unused(&f->mappings, clock_now_us() + 1);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 1);
        mapping_put(&f->mappings, used);
}

static bool is_mapped(const struct fixture *f, uint64_t file)
{
        struct mapping_key key = { .epoch = f->epoch, .file = file };
        struct mapping *mapping;

        HASH_FIND(hh, f->mappings.by_key, &key, sizeof(key), mapping);
        return mapping != NULL;
}

static void mappings_are_bounded(void **state)
{
        struct fixture *f = *state;
        struct mapping *mapping, *held[MAPPINGS_MAX];

        for (size_t i = 0; i < MAPPINGS_MAX + 2; i++)
                file_make(f, 4096);
        for (uint64_t file = 1; file <= MAPPINGS_MAX + 2; file++) {
                assert_int_equal(mapping_get(&f->mappings, f->epoch, file, false, &mapping), 0);
                mapping_put(&f->mappings, mapping);
                assert_true(HASH_COUNT(f->mappings.by_key) <= MAPPINGS_MAX);
                /* Those that were not used for the longest time made room. */
                assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &mapping), 0);
                mapping_put(&f->mappings, mapping);
        }
        assert_false(is_mapped(f, 2));
        assert_false(is_mapped(f, 3));
        assert_true(is_mapped(f, 1));
        assert_true(is_mapped(f, 4));
        mappings_clear(&f->mappings);
        for (uint64_t file = 1; file <= MAPPINGS_MAX; file++)
                assert_int_equal(mapping_get(&f->mappings, f->epoch, file, false, &held[file - 1]), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, MAPPINGS_MAX + 1, false, &mapping), -ENOSPC);
        for (size_t i = 0; i < MAPPINGS_MAX; i++)
                mapping_put(&f->mappings, held[i]);
}

static void only_a_file_of_a_worker_of_this_user_is_mapped(void **state)
{
        struct fixture *f = *state;
        char path[PRESENCE_PATH_SIZE];
        struct mapping *mapping;

        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &mapping), -ENOENT);
        file_make(f, SIZE);
        path_of(f, 1, path);
        assert_int_equal(chmod(path, 0640), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &mapping), -EACCES);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink("/etc/hostname", path), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &mapping), -EACCES);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 1, false, &mapping), -EACCES);
        file_make(f, 0);
        assert_int_equal(mapping_get(&f->mappings, f->epoch, 2, false, &mapping), -EBADMSG);
        assert_int_equal(HASH_COUNT(f->mappings.by_key), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_file_is_mapped_once_for_each_way_of_use, setup, teardown),
                cmocka_unit_test_setup_teardown(a_file_that_is_gone_is_dropped_with_its_last_user, setup, teardown),
                cmocka_unit_test_setup_teardown(what_is_not_used_is_dropped_after_a_time, setup, teardown),
                cmocka_unit_test_setup_teardown(mappings_are_bounded, setup, teardown),
                cmocka_unit_test_setup_teardown(only_a_file_of_a_worker_of_this_user_is_mapped, setup, teardown),
        };

        return cmocka_run_group_tests_name("mapping", tests, NULL, NULL);
}
