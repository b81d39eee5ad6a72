/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fabric_internal.h"
#include "unit.h"

/* What becomes of the local side when its queue is broken and there is no room to say where the new one is. */

struct place {
        int result;     /* of the next publication */
        unsigned asked; /* how often */
        char address[1024];
        size_t size;
};

static int take_address(void *context, const void *address, size_t size)
{
        struct place *place = context;

        place->asked++;
        assert_in_range(size, 1, sizeof(place->address));
        memcpy(place->address, address, size);
        place->size = size;
        return place->result;
}

/* A fabric without a thread, whose ping to itself has not come back. */
static struct fabric *broken_fabric(struct place *place)
{
        struct fabric_config config = { .epoch = 7, .local = true };
        struct fabric *fabric = unit_alloc(sizeof(*fabric));
        struct side *side = &fabric->sides[SIDE_LOCAL];

        memset(fabric, 0, sizeof(*fabric));
        fabric->epoch = config.epoch;
        fabric->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        fabric->local_moved = take_address;
        fabric->local_context = place;
        *side = (struct side){ .fabric = fabric, .name = "local", .event_fd = -1, .chunk_size = FABRIC_CHUNK_LOCAL };
        ucx_log_setup();
        assert_int_equal(side_open(side, &config), 0);
        side->idle = true;
        side->ping = 1;
        side->ping_deadline_us = 1;
        return fabric;
}

static void free_fabric(struct fabric *fabric)
{
        side_close(&fabric->sides[SIDE_LOCAL]);
        (void)close(fabric->epoll_fd);
        free(fabric);
}

static void an_address_that_could_not_be_published_is_published_later(void **state)
{
        struct place place = { .result = -ENOSPC };
        struct fabric *fabric = broken_fabric(&place);
        struct side *side = &fabric->sides[SIDE_LOCAL];
        uint64_t now_us = 1;

        local_check(fabric, now_us);
        assert_int_equal(place.asked, 1);
        for (unsigned i = 2; i < 5; i++) {
                ucp_worker_h worker = side->worker;

                assert_in_range(side->ping_deadline_us, now_us + 1, now_us + 10000000); /* the thread wakes up for it */
                local_check(fabric, side->ping_deadline_us - 1);
                assert_int_equal(place.asked, i - 1);
                now_us = side->ping_deadline_us;
                place.result = i < 4 ? -EMFILE : 0;
                local_check(fabric, now_us);
                assert_int_equal(place.asked, i);
                assert_ptr_equal(side->worker, worker); /* that one works, and is not opened anew */
        }
        assert_int_equal(place.size, side->address_size);
        assert_memory_equal(place.address, side->address, place.size);
        assert_int_equal(side->ping_deadline_us, 0);
        local_check(fabric, now_us + 100000000);
        assert_int_equal(place.asked, 4);
        free_fabric(fabric);
}

static void an_address_that_was_published_is_left_alone(void **state)
{
        struct place place = { .result = 0 };
        struct fabric *fabric = broken_fabric(&place);
        ucp_worker_h old = fabric->sides[SIDE_LOCAL].worker;

        local_check(fabric, 1);
        assert_ptr_not_equal(fabric->sides[SIDE_LOCAL].worker, old);
        local_check(fabric, 100000000);
        assert_int_equal(place.asked, 1);
        free_fabric(fabric);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_address_that_could_not_be_published_is_published_later),
                cmocka_unit_test(an_address_that_was_published_is_left_alone),
        };

        return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
