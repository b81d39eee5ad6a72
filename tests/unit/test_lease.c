/* SPDX-License-Identifier: Apache-2.0 */
#include "message/lease.h"

#include "unit.h"

enum { ROUNDS = 200000, WORDS = 64 };

TEST(a_lease_holds_until_it_is_ended)
{
        struct lease_slot slot = { 0 };

        assert_false(lease_is_valid(&slot, 1));
        lease_grant(&slot, 1);
        assert_true(lease_is_valid(&slot, 1));
        assert_true(lease_was_valid(&slot, 1));
        lease_end(&slot);
        assert_false(lease_is_valid(&slot, 1));
        assert_false(lease_was_valid(&slot, 1));
}

TEST(the_next_lease_of_a_slot_is_not_the_last_one)
{
        struct lease_slot slot = { 0 };

        lease_grant(&slot, 1);
        lease_end(&slot);
        lease_grant(&slot, 2);
        assert_false(lease_is_valid(&slot, 1));
        assert_true(lease_is_valid(&slot, 2));
}

struct shared {
        struct lease_slot slot;
        _Atomic uint64_t words[WORDS]; /* the memory; all alike while a lease holds */
        _Atomic uint64_t number;       /* of the latest lease */
        _Atomic bool stop;
};

/* Lends the memory, takes it back, changes it, again and again. */
static void *own(void *context)
{
        struct shared *shared = context;

        for (uint64_t number = 1; number <= ROUNDS; number++) {
                lease_grant(&shared->slot, number);
                atomic_store(&shared->number, number);
                lease_end(&shared->slot);
                for (size_t i = 0; i < WORDS; i++)
                        atomic_store_explicit(&shared->words[i], number, memory_order_relaxed);
        }
        atomic_store(&shared->stop, true);
        return NULL;
}

/* A copy that counts never has bytes of after the end of its lease. */
TEST(what_is_copied_under_a_lease_is_from_before_its_end)
{
        struct shared *shared = aligned_alloc(LEASE_SLOT_SIZE, (sizeof(*shared) + 63) / 64 * 64);
        uint64_t copy[WORDS];
        pthread_t owner;

        memset(shared, 0, sizeof(*shared));
        assert_int_equal(pthread_create(&owner, NULL, own, shared), 0);
        while (!atomic_load(&shared->stop)) {
                uint64_t number = atomic_load(&shared->number) + 1;

                if (!lease_is_valid(&shared->slot, number))
                        continue;
                for (size_t i = 0; i < WORDS; i++)
                        copy[i] = atomic_load_explicit(&shared->words[i], memory_order_relaxed);
                if (!lease_was_valid(&shared->slot, number))
                        continue;
                for (size_t i = 0; i < WORDS; i++)
                        assert_int_equal(copy[i], number - 1);
        }
        pthread_join(owner, NULL);
        free(shared);
}
