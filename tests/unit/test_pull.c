/* SPDX-License-Identifier: Apache-2.0 */
#include "base/space.h"
#include "pull.h"
#include "unit.h"

/* Payloads that a device copies, which reads later than it is told to. */

enum { SIZE = 64, NUMBER = 5 };

static struct lease_slot slot;
static bool ends;

static int copy_later(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                      size_t size)
{
        return 0;
}

static int finish_copies(const struct space *space)
{
        if (ends)
                lease_end(&slot);
        return 0;
}

static int result_of_copy(void)
{
        static const struct space_ops ops = { .copy = copy_later, .finish = finish_copies };
        static const struct space space = { .ops = &ops };
        static uint8_t from[SIZE], to[SIZE];
        struct memory memory = { .address = to, .size = SIZE, .fd = -1 };
        struct segment segment = { to, SIZE, &memory };
        struct stream stream;
        struct message message = { .stream = &stream, .length = SIZE };
        struct pull *pull = test_keep(pull_new(1), free);

        assert_int_equal(stream_init(&stream, &segment, 1), 0);
        pull->message = &message;
        pull->lease = &slot;
        pull->number = NUMBER;
        pull->n = 1;
        pull->extents[0] = (struct pull_extent){ .address = from, .size = SIZE, .space = &space };
        lease_grant(&slot, NUMBER);
        int r = pull_copy(pull);
        stream_clear(&stream);
        return r;
}

TEST(a_lease_that_ends_before_the_device_has_read_all_is_noticed)
{
        ends = false;
        assert_int_equal(result_of_copy(), 0);
        ends = true;
        assert_int_equal(result_of_copy(), -ESTALE);
}
