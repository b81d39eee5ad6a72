/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* Everything ends: time to live, time-out, stall limit. */

enum { SIZE = 64 * STEPS_MIB };

ON_WORKER(an_offer_that_nobody_uses_expires, "--ttl", "50ms")
{
        OPERATION operation, now;
        const char *region = region_make(w, 100, 0);

        /* The worker's default, and the operation's own. */
        offer_make(w, FERRY_READABLE, region, &operation);
        operation_assert_error(w, operation.id, FERRY_CANCELLED, FERRY_E_EXPIRED);
        ferry_operation_clear(&operation);
        OFFER(w, region, &operation, .kind = FERRY_WRITABLE, .ttl_ms = 30);
        operation_assert_error(w, operation.id, FERRY_CANCELLED, FERRY_E_EXPIRED);
        ferry_operation_clear(&operation);
        OFFER(w, region, &operation, .kind = FERRY_WRITABLE, .ttl_ms = 60000);
        assert_int_equal(ferry_get_operation(w->client, operation.id, 120, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        assert_int_equal(ferry_delete_operation(w->client, operation.id), 0);
        region_drop(w, region);
}

ON_PAIR(a_claimed_offer_is_not_reaped_under_its_reader, "--ttl", "2s")
{
        OPERATION now;
        struct running r;

        running_start(p, FERRY_READABLE, SIZE, 0, &p->b, &r);
        /* More than its time to live passes while the reader stands still. */
        assert_int_equal(ferry_get_operation(p->a.client, r.passive, 2400, 0, &now), 0);
        assert_int_equal(now.status, FERRY_IN_PROGRESS);
        assert_string_equal(now.expires_at, "");
        worker_resume(&p->b);
        operation_assert_end(&p->b, r.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, r.passive, FERRY_COMPLETE, NULL);
        running_drop(p, &r);
}

/* An active operation whose peer stands still from the start. */
static void begin_against_stopped(struct pair *p, enum ferry_kind passive_kind, uint64_t timeout_ms, int error)
{
        const char *offered = region_make(&p->a, SIZE, 0), *local = region_make(&p->b, SIZE, 0);
        struct ferry_descriptor descriptor = { .region = local };
        struct ferry_operation_spec spec = { .kind = kind_of_peer(passive_kind),
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .timeout_ms = timeout_ms };
        OPERATION passive, active;
        uint64_t start;

        offer_make(&p->a, passive_kind, offered, &passive);
        worker_pause(&p->a);
        start = now_ms();
        spec.remote_metadata = passive.metadata;
        assert_int_equal(ferry_create_operation(p->b.client, &spec, &active), 0);
        operation_assert_error(&p->b, active.id, FERRY_ERRORED, error);
        assert_true(now_ms() - start < 4000 * SLOWNESS);
        region_drop(&p->b, local);
        worker_resume(&p->a);
        assert_int_equal(ferry_delete_operation(p->a.client, passive.id), 0);
}

ON_EACH_PAIR(a_timeout_ends_an_operation_whose_peer_stands_still, "--grace", "200ms")
{
        pair_expect_failures(p);
        begin_against_stopped(p, FERRY_READABLE, 200, FERRY_E_TIMEOUT);
        pair_assert_serving(p);
        begin_against_stopped(p, FERRY_READABLE, 200, FERRY_E_TIMEOUT); /* with a connection from before */
        begin_against_stopped(p, FERRY_WRITABLE, 200, FERRY_E_TIMEOUT);
        pair_assert_serving(p);
}

ON_PAIR(a_timeout_also_counts_while_metadata_is_fetched)
{
        OPERATION passive;
        struct json_object *active;

        pair_expect_failures(p);
        const char *offered = region_make(&p->a, 100, 0);
        const char *local = region_make(&p->b, 100, 0);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        worker_pause(&p->a);
        active = call_json(&p->b, 201, "POST", "/v1/operations",
                           operation_body("read", local,
                                          text_format(",\"timeout_ms\":100,\"remote_url\":\"%s\"",
                                                      metadata_url(&p->a, passive.id))));
        operation_assert_error(&p->b, json_text(active, "id"), FERRY_ERRORED, FERRY_E_TIMEOUT);
        region_drop(&p->b, local);
        worker_resume(&p->a);
        pair_assert_serving(p);
}

/* Bytes moved, then the other worker stands still: the limit ends the operation of the one that runs. */
static void stall(struct pair *p, enum ferry_kind passive_kind, struct worker *paused)
{
        struct worker *here = paused == &p->a ? &p->b : &p->a;
        OPERATION now;
        struct running r;

        running_start(p, passive_kind, SIZE, 0, paused, &r);
        operation_assert_error(here, here == &p->a ? r.passive : r.active, FERRY_ERRORED, FERRY_E_STALLED);
        region_drop(here, here == &p->a ? r.offered : r.local);
        worker_resume(paused);
        /* The other one hears of it, or finds the connection closed. */
        assert_int_equal(ferry_wait_operation(paused->client, here == &p->a ? r.active : r.passive, WAIT_MS, &now), 0);
        assert_int_equal(now.status, FERRY_ERRORED);
        assert_true(now.error == FERRY_E_STALLED || now.error == FERRY_E_PEER_LOST);
        region_drop(paused, here == &p->a ? r.local : r.offered);
        pair_assert_serving(p);
}

ON_EACH_PAIR(a_transfer_that_moves_no_byte_ends_by_the_stall_limit, "--stall-limit", LIMIT_MS(1000), "--grace",
             LIMIT_MS(200), SMALL_WINDOW)
{
        pair_expect_failures(p);
        stall(p, FERRY_READABLE, &p->a);
        stall(p, FERRY_READABLE, &p->b);
        stall(p, FERRY_WRITABLE, &p->a);
        stall(p, FERRY_WRITABLE, &p->b);
        begin_against_stopped(p, FERRY_READABLE, 0, FERRY_E_STALLED);
}
