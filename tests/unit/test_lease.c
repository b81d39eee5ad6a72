/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/presence.h"
#include "base/util.h"
#include "lease.h"

enum { ROUNDS = 20000 };

struct fixture {
        uint64_t epoch;
        struct leases *leases;
        struct lease_slot *slots; /* as the holder maps them */
};

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        char path[PRESENCE_PATH_SIZE];
        void *slots;
        int fd;

        f->epoch = random_id();
        assert_int_equal(leases_new(f->epoch, &f->leases), 0);
        presence_path(f->epoch, LEASE_FILE, path);
        fd = presence_open_file(path, O_RDWR);
        assert_true(fd >= 0);
        slots = mmap(NULL, LEASE_TABLE * LEASE_SLOT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(slots != MAP_FAILED);
        (void)close(fd);
        f->slots = slots;
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        char path[PRESENCE_PATH_SIZE];

        (void)munmap(f->slots, LEASE_TABLE * LEASE_SLOT_SIZE);
        assert_null(leases_free(f->leases));
        presence_path(f->epoch, LEASE_FILE, path);
        assert_int_equal(access(path, F_OK), -1);
        free(f);
        return 0;
}

static void a_holder_comes_and_goes_until_the_lease_is_taken_back(void **state)
{
        struct fixture *f = *state;
        struct lease lease;

        assert_true(lease_give(f->leases, &lease));
        for (int i = 0; i < 3; i++) {
                assert_true(lease_enter(&f->slots[lease.slot], lease.number));
                assert_true(lease_is_busy(&lease));
                assert_true(lease_leave(&f->slots[lease.slot]));
                assert_false(lease_is_busy(&lease));
        }
        lease_revoke(&lease);
        lease_revoke(&lease);
        assert_false(lease_enter(&f->slots[lease.slot], lease.number));
        assert_false(lease_is_busy(&lease));
        lease_drop(&lease);
}

static void a_holder_at_work_is_seen_until_it_leaves(void **state)
{
        struct fixture *f = *state;
        struct lease lease;

        assert_true(lease_give(f->leases, &lease));
        assert_true(lease_enter(&f->slots[lease.slot], lease.number));
        lease_revoke(&lease);
        assert_true(lease_is_busy(&lease));
        assert_false(lease_leave(&f->slots[lease.slot]));
        assert_false(lease_is_busy(&lease));
        assert_false(lease_enter(&f->slots[lease.slot], lease.number));
        lease_drop(&lease);
}

static void an_old_number_does_not_open_the_next_lease_of_its_place(void **state)
{
        struct fixture *f = *state;
        struct lease old, next;
        uint64_t number;
        uint32_t slot;

        assert_true(lease_give(f->leases, &old));
        number = old.number;
        slot = old.slot;
        lease_revoke(&old);
        lease_drop(&old);
        assert_null(old.leases);
        assert_true(lease_give(f->leases, &next));
        assert_int_equal(next.slot, slot);
        assert_false(lease_enter(&f->slots[slot], number));
        assert_true(lease_enter(&f->slots[slot], next.number));
        assert_true(lease_leave(&f->slots[slot]));
        lease_drop(&next);
        assert_false(lease_enter(&f->slots[slot], next.number));
}

static void a_full_table_gives_none_until_one_is_dropped(void **state)
{
        struct fixture *f = *state;
        struct lease *leases = calloc(LEASE_TABLE, sizeof(*leases)), more;

        for (size_t i = 0; i < LEASE_TABLE; i++)
                assert_true(lease_give(f->leases, &leases[i]));
        assert_false(lease_give(f->leases, &more));
        lease_drop(&leases[7]);
        assert_true(lease_give(f->leases, &more));
        free(leases);
}

struct race {
        struct lease_slot *slot;
        uint64_t number;
        int *shared; /* touched by whoever may */
};

static void *hold(void *context)
{
        struct race *race = context;

        while (lease_enter(race->slot, race->number)) {
                (*race->shared)++;
                lease_leave(race->slot);
        }
        return NULL;
}

/* Revoked and not busy: the holder never touches the memory again. ThreadSanitizer sees it if it does. */
static void no_touch_follows_a_revoke_that_found_nobody_at_work(void **state)
{
        struct fixture *f = *state;
        int shared = 0;

        for (int i = 0; i < ROUNDS / 100; i++) {
                struct lease lease;
                struct race race = { .shared = &shared };
                pthread_t thread;
                int seen;

                assert_true(lease_give(f->leases, &lease));
                /* The owner's own mapping: the sanitizer tells memory by its address. */
                race.slot = lease_slot(&lease);
                race.number = lease.number;
                assert_int_equal(pthread_create(&thread, NULL, hold, &race), 0);
                lease_revoke(&lease);
                while (lease_is_busy(&lease))
                        ;
                seen = shared++;
                assert_int_equal(pthread_join(thread, NULL), 0);
                assert_int_equal(shared, seen + 1);
                lease_drop(&lease);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_holder_comes_and_goes_until_the_lease_is_taken_back, setup, teardown),
                cmocka_unit_test_setup_teardown(a_holder_at_work_is_seen_until_it_leaves, setup, teardown),
                cmocka_unit_test_setup_teardown(an_old_number_does_not_open_the_next_lease_of_its_place, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(a_full_table_gives_none_until_one_is_dropped, setup, teardown),
                cmocka_unit_test_setup_teardown(no_touch_follows_a_revoke_that_found_nobody_at_work, setup, teardown),
        };

        return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
