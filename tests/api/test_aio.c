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
        const char *target, *source;
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

#define CASE(name) TEST_OF(struct fixture *x, name, setup, teardown)

CASE(hundreds_of_operations_run_at_once_from_one_thread)
{
        static struct block blocks[OPERATIONS];
        struct ferry_operation_list left;

        x->source = region_make(&x->w, OPERATIONS * BLOCK, 7);
        x->target = region_make(&x->w, OPERATIONS * BLOCK, 0);
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

CASE(a_wait_ends_in_time_or_with_the_operation)
{
        OPERATION offer;
        struct seen late = { 0 }, done = { 0 }, cancelled = { 0 }, missing = { 0 };

        x->source = region_make(&x->w, BLOCK, 0);
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
}

enum { MANY = 512 }; /* ids of one request at most */

/* MANY reads of one block each, and one of a region that is not there; what they read is offered by the same call. */
struct batch {
        struct fixture *x;
        struct ferry_operation_spec specs[MANY + 1];
        struct ferry_descriptor descriptors[MANY + 1];
        char ids[MANY][FERRY_ID_SIZE];
        const char *id_list[MANY];
        bool waited;
};

static void on_many_done(void *context, const struct ferry_aio_result *result)
{
        struct batch *batch = context;

        assert_int_equal(result->result, 0);
        assert_int_equal(result->results->n, MANY);
        for (size_t i = 0; i < MANY; i++) {
                assert_string_equal(result->results->items[i].operation->id, batch->ids[i]);
                assert_int_equal(result->results->items[i].operation->status, FERRY_COMPLETE);
        }
        batch->waited = true;
}

static void on_many_begun(void *context, const struct ferry_aio_result *result)
{
        struct batch *batch = context;

        assert_int_equal(result->result, 0);
        assert_null(result->operation);
        assert_int_equal(result->results->n, MANY + 1);
        assert_int_equal(result->results->items[MANY].result, FERRY_E_NOT_FOUND);
        for (size_t i = 0; i < MANY; i++) {
                strcpy(batch->ids[i], result->results->items[i].operation->id);
                batch->id_list[i] = batch->ids[i];
        }
        assert_int_equal(ferry_aio_wait_operations(batch->x->aio, batch->id_list, MANY, FERRY_WAIT_ALL, WAIT_MS,
                                                   on_many_done, batch),
                         0);
}

CASE(many_are_made_by_one_call_and_waited_for_by_another)
{
        static struct batch batch;
        struct ferry_operation_results offered;
        const uint64_t order[] = { 1, 0 };

        batch.x = x;
        x->source = region_make(&x->w, (MANY + 1) * BLOCK, 9);
        x->target = region_make(&x->w, (MANY + 1) * BLOCK, 0);
        for (size_t i = 0; i <= MANY; i++) {
                batch.descriptors[i] = (struct ferry_descriptor){
                        .region = x->source, .offset = i * BLOCK, .size = BLOCK / 2, .blocks = order, .n_blocks = 2
                };
                batch.specs[i] = (struct ferry_operation_spec){ .kind = FERRY_READABLE,
                                                                .descriptors = &batch.descriptors[i],
                                                                .n_descriptors = 1,
                                                                .include_metadata = true,
                                                                .label = "page" };
        }
        assert_int_equal(ferry_create_operations(x->w.client, batch.specs, MANY + 1, &offered), 0);
        assert_int_equal(offered.n, MANY + 1);
        for (size_t i = 0; i <= MANY; i++) {
                assert_string_equal(offered.items[i].operation->label, "page");
                assert_int_equal(offered.items[i].operation->descriptors[0].n_blocks, 2);
                assert_int_equal(offered.items[i].operation->descriptors[0].blocks[0], 1);
                batch.descriptors[i].region = i < MANY ? x->target : "rgn_00000000000000ff";
                batch.specs[i].kind = FERRY_READ;
                batch.specs[i].remote_metadata = offered.items[i].operation->metadata;
        }
        assert_int_equal(ferry_aio_create_operations(x->aio, batch.specs, MANY + 1, on_many_begun, &batch), 0);
        dispatch_until_quiet(x->aio);
        assert_true(batch.waited);
        region_assert_pattern(&x->w, x->target, 9, 0, MANY * BLOCK);
        ferry_operation_results_clear(&offered);
}

CASE(any_of_several_ends_a_wait)
{
        OPERATION first, second;
        struct ferry_operation_results results;
        struct ferry_operation_list list;
        struct ferry_operation_query query = { .done = true, .newest = true };

        x->source = region_make(&x->w, BLOCK, 0);
        offer_make(&x->w, FERRY_READABLE, x->source, &first);
        offer_make(&x->w, FERRY_READABLE, x->source, &second);
        const char *const ids[] = { first.id, second.id, "op_00000000000000ff" };
        assert_int_equal(ferry_wait_operations(x->w.client, ids, 2, FERRY_WAIT_ANY, 50, &results), -ETIMEDOUT);
        assert_int_equal(results.n, 2);
        ferry_operation_results_clear(&results);
        assert_int_equal(ferry_cancel_operation(x->w.client, second.id, NULL), 0);
        assert_int_equal(ferry_wait_operations(x->w.client, ids, 2, FERRY_WAIT_ANY, WAIT_MS, &results), 0);
        assert_false(results.items[0].operation->done);
        assert_int_equal(results.items[1].operation->status, FERRY_CANCELLED);
        ferry_operation_results_clear(&results);
        assert_int_equal(ferry_wait_operations(x->w.client, ids, 3, FERRY_WAIT_ALL, 0, &results), -ETIMEDOUT);
        assert_int_equal(results.items[2].result, FERRY_E_NOT_FOUND);
        ferry_operation_results_clear(&results);
        query.region = x->source;
        assert_int_equal(ferry_list_operations(x->w.client, &query, &list), 0);
        assert_int_equal(list.n, 1);
        assert_string_equal(list.items[0].id, second.id);
        assert_true(list.items[0].request_id[0]);
        ferry_operation_list_clear(&list);
}

CASE(wrong_arguments_are_told_at_once)
{
        struct seen seen = { 0 };

        assert_int_equal(ferry_aio_wait_operation(x->aio, "", 0, on_seen, &seen), -EINVAL);
        assert_int_equal(ferry_aio_delete_operation(x->aio, NULL, on_seen, &seen), -EINVAL);
        assert_int_equal(
                ferry_aio_create_operation(x->aio, &(struct ferry_operation_spec){ .kind = 9 }, on_seen, &seen),
                -EINVAL);
        assert_int_equal(ferry_aio_pending(x->aio), 0);
        assert_int_equal(seen.calls, 0);
}

CASE(what_still_runs_is_cancelled_with_its_set)
{
        OPERATION offer;
        struct seen seen[3] = { 0 };

        x->source = region_make(&x->w, BLOCK, 0);
        offer_make(&x->w, FERRY_READABLE, x->source, &offer);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(ferry_aio_wait_operation(x->aio, offer.id, FERRY_FOREVER, on_seen, &seen[i]), 0);
        assert_true(ferry_aio_dispatch(x->aio, -1) >= 0); /* they are on their way */
        x->aio = ferry_aio_free(x->aio);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(seen[i].calls, 1);
                assert_int_equal(seen[i].result, -ECANCELED);
        }
}

CASE(a_worker_that_is_gone_is_told)
{
        struct seen seen = { 0 };

        worker_stop(&x->w);
        assert_int_equal(ferry_aio_delete_operation(x->aio, "op_1", on_seen, &seen), 0);
        dispatch_until_quiet(x->aio);
        assert_int_equal(seen.result, -ECONNREFUSED);
}
