/* SPDX-License-Identifier: Apache-2.0 */
#include "base/space.h"
#include "leases.h"
#include "unit.h"

/* How GPUs and transfers share the leases of a link. */

enum { SIZE = 16 << 10, OWNERS = 4 };

struct bench {
        struct leases leases;
        struct space spaces[OWNERS / 2];
        struct segment segments[OWNERS];
        struct stream streams[OWNERS]; /* of GPUs, then of the host */
        struct message messages[OWNERS];
        uint64_t number;
};

static void bench_free(void *context)
{
        struct bench *b = context;

        leases_clear(&b->leases, NULL);
        for (size_t i = 0; i < OWNERS; i++)
                stream_clear(&b->streams[i]);
        free(b);
}

static struct lease_slot words[FRAME_LEASES];

static struct bench *bench_new(void)
{
        struct bench *b = test_keep(calloc(1, sizeof(*b)), bench_free);

        b->leases.words = words;
        for (unsigned i = 0; i < OWNERS; i++) {
                struct space *space = i < OWNERS / 2 ? &b->spaces[i] : NULL;

                if (space)
                        space->device = i;
                b->segments[i] = (struct segment){ (uint8_t *)b, SIZE, NULL, space };
                assert_int_equal(stream_init(&b->streams[i], &b->segments[i], 1), 0);
                b->messages[i] = (struct message){ .stream = &b->streams[i], .length = SIZE };
        }
        return b;
}

/* Grants the owner as many leases as it may have; returns how many. */
static unsigned take_all(struct bench *b, unsigned owner)
{
        unsigned n = 0;

        for (; leases_may_grant(&b->leases, leases_owner(&b->streams[owner], 0)); n++)
                (void)leases_grant(&b->leases, ++b->number, &b->messages[owner], -1);
        return n;
}

TEST(what_one_does_not_release_leaves_leases_to_the_others)
{
        struct bench *b = bench_new();
        unsigned share = FRAME_LEASES / 2;

        for (unsigned owner = 0; owner < OWNERS; owner++, share /= 2)
                assert_int_equal(take_all(b, owner), share);
        assert_true(b->leases.n_used < FRAME_LEASES);
}

TEST(a_released_lease_may_be_granted_again)
{
        struct bench *b = bench_new();
        struct message *message;

        (void)take_all(b, 0);
        assert_true(leases_release(&b->leases, FRAME_LEASES / 2 - 1, FRAME_LEASES / 2, &message));
        assert_ptr_equal(message, &b->messages[0]);
        assert_false(leases_release(&b->leases, FRAME_LEASES / 2 - 1, FRAME_LEASES / 2, &message)); /* once */
        assert_false(leases_release(&b->leases, FRAME_LEASES / 2 - 2, FRAME_LEASES / 2, &message)); /* another's */
        assert_int_equal(take_all(b, 0), 1);
}
