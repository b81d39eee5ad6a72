/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include <ferry/aio.h>

#include "steps.h"

/* Hundreds of operations from one thread, beside its own descriptors. */

enum { OPERATIONS = 300, BLOCK = 4096 };

struct fixture {
        struct worker w;
        struct ferry_aio *aio;
        char source[FERRY_ID_SIZE], target[FERRY_ID_SIZE];
};

/* As an event loop does it: nothing is called before the descriptor says so. */
static void dispatch_until_quiet(struct ferry_aio *aio)
{
        struct pollfd descriptor = { .fd = ferry_aio_fd(aio), .events = POLLIN };

        while (ferry_aio_pending(aio)) {
                assert_int_equal(poll(&descriptor, 1, WAIT_MS), 1);
                assert_true(ferry_aio_dispatch(aio, 0) >= 0);
        }
}

/* One block: offer, read, wait for the read, delete both. Each callback starts the next call. */
struct block {
        struct fixture *x;
        uint64_t offset;
        char offer[FERRY_ID_SIZE], read[FERRY_ID_SIZE];
        unsigned deleted;
};

static void on_deleted(void *context, const struct ferry_aio_result *result)
{
        struct block *block = context;

        assert_int_equal(result->result, 0);
        assert_null(result->operation);
        block->deleted++;
}

static void on_read(void *context, const struct ferry_aio_result *result)
{
        struct block *block = context;

        assert_int_equal(result->result, 0);
        assert_int_equal(result->operation->status, FERRY_COMPLETE);
        assert_int_equal(ferry_aio_delete_operation(block->x->aio, block->read, on_deleted, block), 0);
        assert_int_equal(ferry_aio_delete_operation(block->x->aio, block->offer, on_deleted, block), 0);
}

static void on_begun(void *context, const struct ferry_aio_result *result)
{
        struct block *block = context;

        assert_int_equal(result->result, 0);
        strcpy(block->read, result->operation->id);
        assert_int_equal(ferry_aio_wait_operation(block->x->aio, block->read, WAIT_MS, on_read, block), 0);
}

static void on_offered(void *context, const struct ferry_aio_result *result)
{
        struct block *block = context;
        const struct ferry_descriptor target = { .region = block->x->target, .offset = block->offset, .size = BLOCK };

        assert_int_equal(result->result, 0);
        assert_int_equal(result->operation->n_descriptors, 1);
        assert_int_equal(result->operation->descriptors[0].offset, block->offset);
        strcpy(block->offer, result->operation->id);
        assert_int_equal(ferry_aio_create_operation(block->x->aio,
                                                    &(struct ferry_operation_spec){
                                                            .kind = FERRY_READ,
                                                            .descriptors = &target,
                                                            .n_descriptors = 1,
                                                            .remote_metadata = result->operation->metadata,
                                                    },
                                                    on_begun, block),
                         0);
}

static void hundreds_of_operations_run_at_once_from_one_thread(void **state)
{
        static struct block blocks[OPERATIONS];
        struct fixture *x = *state;
        struct ferry_operation_list left;

        region_make(&x->w, OPERATIONS * BLOCK, 7, x->source);
        region_make(&x->w, OPERATIONS * BLOCK, 0, x->target);
        for (size_t i = 0; i < OPERATIONS; i++) {
                const struct ferry_descriptor source = { .region = x->source, .offset = i * BLOCK, .size = BLOCK };

                blocks[i] = (struct block){ .x = x, .offset = i * BLOCK };
                assert_int_equal(ferry_aio_create_operation(x->aio,
                                                            &(struct ferry_operation_spec){
                                                                    .kind = FERRY_READABLE,
                                                                    .descriptors = &source,
                                                                    .n_descriptors = 1,
                                                                    .include_metadata = true,
                                                            },
                                                            on_offered, &blocks[i]),
                                 0);
        }
        assert_int_equal(ferry_aio_pending(x->aio), OPERATIONS);
        dispatch_until_quiet(x->aio);
        for (size_t i = 0; i < OPERATIONS; i++)
                assert_int_equal(blocks[i].deleted, 2);
        region_assert_pattern(&x->w, x->target, 7, 0, OPERATIONS * BLOCK);
        assert_int_equal(ferry_list_operations(x->w.client, NULL, &left), 0);
        assert_int_equal(left.n, 0);
        ferry_operation_list_clear(&left);
}

struct seen {
        unsigned calls;
        int result, status;
        char message[256];
};

static void on_seen(void *context, const struct ferry_aio_result *result)
{
        struct seen *seen = context;

        seen->calls++;
        seen->result = result->result;
        seen->status = result->operation ? result->operation->status : -1;
        snprintf(seen->message, sizeof(seen->message), "%s", result->message);
}

static void a_wait_ends_in_time_or_with_the_operation(void **state)
{
        struct fixture *x = *state;
        struct ferry_operation offer;
        struct seen late = { 0 }, done = { 0 }, cancelled = { 0 }, missing = { 0 };

        region_make(&x->w, BLOCK, 0, x->source);
        offer_make(&x->w, FERRY_READABLE, x->source, &offer);
        assert_int_equal(ferry_aio_wait_operation(x->aio, offer.id, 50, on_seen, &late), 0);
        dispatch_until_quiet(x->aio);
        assert_int_equal(late.result, -ETIMEDOUT);
        assert_int_equal(late.status, FERRY_INITIALIZED);

        assert_int_equal(ferry_aio_wait_operation(x->aio, offer.id, FERRY_FOREVER, on_seen, &done), 0);
        assert_int_equal(ferry_aio_cancel_operation(x->aio, offer.id, on_seen, &cancelled), 0);
        assert_int_equal(ferry_aio_wait_operation(x->aio, "op_0000000000000001", 1000, on_seen, &missing), 0);
        dispatch_until_quiet(x->aio);
        assert_int_equal(done.calls, 1);
        assert_int_equal(done.result, 0);
        assert_int_equal(done.status, FERRY_CANCELLED);
        assert_int_equal(cancelled.result, 0);
        assert_int_equal(missing.result, FERRY_E_NOT_FOUND);
        assert_non_null(strstr(missing.message, "not-found"));
        ferry_operation_clear(&offer);
}

static void wrong_arguments_are_told_at_once(void **state)
{
        struct fixture *x = *state;
        struct seen seen = { 0 };

        assert_int_equal(ferry_aio_wait_operation(x->aio, "", 0, on_seen, &seen), -EINVAL);
        assert_int_equal(ferry_aio_delete_operation(x->aio, NULL, on_seen, &seen), -EINVAL);
        assert_int_equal(
                ferry_aio_create_operation(x->aio, &(struct ferry_operation_spec){ .kind = 9 }, on_seen, &seen),
                -EINVAL);
        assert_int_equal(ferry_aio_pending(x->aio), 0);
        assert_int_equal(seen.calls, 0);
}

static void what_still_runs_is_cancelled_with_its_set(void **state)
{
        struct fixture *x = *state;
        struct ferry_operation offer;
        struct seen seen[3] = { 0 };

        region_make(&x->w, BLOCK, 0, x->source);
        offer_make(&x->w, FERRY_READABLE, x->source, &offer);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(ferry_aio_wait_operation(x->aio, offer.id, FERRY_FOREVER, on_seen, &seen[i]), 0);
        assert_true(ferry_aio_dispatch(x->aio, -1) >= 0); /* they are on their way */
        x->aio = ferry_aio_free(x->aio);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(seen[i].calls, 1);
                assert_int_equal(seen[i].result, -ECANCELED);
        }
        ferry_operation_clear(&offer);
}

static void a_worker_that_is_gone_is_told(void **state)
{
        struct fixture *x = *state;
        struct seen seen = { 0 };

        worker_stop(&x->w);
        assert_int_equal(ferry_aio_delete_operation(x->aio, "op_1", on_seen, &seen), 0);
        dispatch_until_quiet(x->aio);
        assert_int_equal(seen.result, -ECONNREFUSED);
}

static int setup(void **state)
{
        static struct fixture x;

        x = (struct fixture){ 0 };
        worker_start(&x.w, "w", NULL);
        *state = &x;
        return ferry_aio_new(x.w.client, &x.aio);
}

static int teardown(void **state)
{
        struct fixture *x = *state;

        ferry_aio_free(x->aio);
        if (x->w.pid)
                worker_stop(&x->w);
        worker_clean(&x->w);
        return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(hundreds_of_operations_run_at_once_from_one_thread),
                TEST(a_wait_ends_in_time_or_with_the_operation),
                TEST(wrong_arguments_are_told_at_once),
                TEST(what_still_runs_is_cancelled_with_its_set),
                TEST(a_worker_that_is_gone_is_told),
        };

        return cmocka_run_group_tests_name("aio", tests, NULL, NULL);
}
