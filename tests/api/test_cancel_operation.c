/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* POST /v1/operations/{id}/cancel. Cancelled means that no byte of the memory is touched any more. */

enum { SIZE = 64 * STEPS_MIB, SEED = 5, OTHER_SEED = 6 };

ON_WORKER(what_nobody_uses_is_cancelled_at_once)
{
        struct ferry_operation operation, now;
        const char *region = region_make(w, 100, 0);

        for (int kind = 0; kind < FERRY_KIND_COUNT; kind++) {
                if (!ferry_kind_is_passive(kind))
                        continue;
                offer_make(w, (enum ferry_kind)kind, region, &operation);
                assert_int_equal(ferry_cancel_operation(w->client, operation.id, &now), 0);
                assert_int_equal(now.status, FERRY_CANCELLED);
                assert_true(now.done);
                assert_false(now.cancel_requested); /* nothing is waited for */
                assert_int_equal(now.error, FERRY_E_CANCELLED);
                assert_string_not_equal(now.ended_at, "");
                assert_string_equal(now.expires_at, "");
                ferry_operation_clear(&now);
                ferry_operation_clear(&operation);
        }
        region_drop(w, region);
        assert_problem(w, "POST", "/v1/operations/op_0123456789abcdef/cancel", NULL, 404, "not-found", NULL);
}

ON_PAIR(cancelling_a_terminal_operation_changes_nothing)
{
        OPERATION passive, active;
        const char *offered = region_make(&p->a, 100, 1);
        const char *local = region_make(&p->b, 100, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        for (int side = 0; side < 2; side++) {
                struct worker *w = side ? &p->b : &p->a;
                const char *id = side ? active.id : passive.id;
                struct json_object *before = operation_json(w, id), *answer;

                answer = call_json(w, 200, "POST", text_format("/v1/operations/%s/cancel", id), NULL);
                assert_true(json_object_equal(before, answer));
                answer = operation_json(w, id);
                assert_true(json_object_equal(before, answer));
        }
}

static void fill(struct worker *w, const char *region, uint64_t seed)
{
        void *bytes = malloc(SIZE);

        pattern_fill(seed, 0, bytes, SIZE);
        assert_int_equal(ferry_put_region_content(w->client, region, 0, bytes, SIZE), 0);
        free(bytes);
}

/*
 * The other worker stands still in the middle of the transfer. The cancel ends nevertheless, within the grace time; the
 * memory can be used again, and stays as it is when the other worker goes on.
 */
static void cancel_running(struct pair *p, enum ferry_kind passive_kind, bool cancel_active)
{
        struct worker *here = cancel_active ? &p->b : &p->a, *there = cancel_active ? &p->a : &p->b;
        const char *id_here, *id_there;
        OPERATION now;
        uint64_t start;
        struct running r;

        running_start(p, passive_kind, SIZE, SEED, there, &r);
        id_here = cancel_active ? r.active : r.passive;
        id_there = cancel_active ? r.passive : r.active;
        start = now_ms();
        assert_int_equal(ferry_cancel_operation(here->client, id_here, &now), 0);
        assert_true(now.cancel_requested || now.done);
        ferry_operation_clear(&now);
        operation_assert_error(here, id_here, FERRY_CANCELLED, FERRY_E_CANCELLED);
        assert_true(now_ms() - start < 5000);
        if (here == running_target(p, &r))
                fill(here, running_target_region(&r), OTHER_SEED);
        else
                region_drop(here, cancel_active ? r.local : r.offered);
        worker_resume(there);
        assert_int_equal(ferry_wait_operation(there->client, id_there, WAIT_MS, &now), 0);
        /* Whether the word of the cancel came before the connection closed under it. */
        if (now.status == FERRY_CANCELLED)
                assert_string_equal(now.error_code, "cancelled-by-peer");
        else
                assert_string_equal(now.error_code, "peer-lost");
        if (here == running_target(p, &r)) {
                pair_assert_serving(p);
                region_assert_pattern(here, running_target_region(&r), OTHER_SEED, 0, SIZE);
                region_drop(here, running_target_region(&r));
        }
        region_drop(there, cancel_active ? r.offered : r.local);
        pair_assert_serving(p);
}

ON_EACH_PAIR(cancelled_means_quiet_also_when_the_peer_stands_still, "--grace", "300ms", SMALL_WINDOW)
{
        pair_expect_failures(p);
        cancel_running(p, FERRY_READABLE, true);
        cancel_running(p, FERRY_READABLE, false);
        cancel_running(p, FERRY_WRITABLE, true);
        cancel_running(p, FERRY_WRITABLE, false);
}

/* Both run. Returns false when the transfer was faster than the cancel. */
static bool cancel_both_run(struct pair *p, enum ferry_kind passive_kind, bool cancel_active)
{
        struct worker *here = cancel_active ? &p->b : &p->a, *there = cancel_active ? &p->a : &p->b;
        OPERATION now, other;
        struct running r;
        bool cancelled;

        running_start(p, passive_kind, SIZE, SEED, there, &r);
        worker_resume(there);
        assert_int_equal(ferry_cancel_operation(here->client, cancel_active ? r.active : r.passive, &now), 0);
        ferry_operation_clear(&now);
        assert_int_equal(ferry_wait_operation(here->client, cancel_active ? r.active : r.passive, WAIT_MS, &now), 0);
        assert_int_equal(ferry_wait_operation(there->client, cancel_active ? r.passive : r.active, WAIT_MS, &other), 0);
        cancelled = now.status == FERRY_CANCELLED;
        assert_int_equal(other.status, now.status); /* both agree */
        if (cancelled) {
                assert_int_equal(now.error, FERRY_E_CANCELLED);
                assert_int_equal(other.error, FERRY_E_CANCELLED_BY_PEER);
                fill(running_target(p, &r), running_target_region(&r), OTHER_SEED);
                pair_assert_serving(p);
                region_assert_pattern(running_target(p, &r), running_target_region(&r), OTHER_SEED, 0, SIZE);
        } else {
                assert_int_equal(now.status, FERRY_COMPLETE);
        }
        running_drop(p, &r);
        return cancelled;
}

ON_EACH_PAIR(a_cancel_from_either_side_ends_both, SMALL_WINDOW)
{
        for (int i = 0; i < 4; i++) {
                enum ferry_kind kind = i & 1 ? FERRY_WRITABLE : FERRY_READABLE;
                int tries = 20;

                while (!cancel_both_run(p, kind, (i & 2) != 0))
                        assert_true(--tries > 0);
        }
}

/* An operation that waits for metadata from a peer that does not answer. */
ON_PAIR(an_operation_that_has_not_begun_is_cancelled_at_once)
{
        OPERATION passive, now;
        struct json_object *active;
        char *id;
        const char *offered = region_make(&p->a, 100, 1);
        const char *local = region_make(&p->b, 100, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        worker_pause(&p->a);
        active = read_by_url(&p->b, local, metadata_url(&p->a, passive.id));
        id = strdup(json_text(active, "id"));
        assert_string_equal(json_text(active, "status"), "INITIALIZED");
        assert_int_equal(ferry_cancel_operation(p->b.client, id, &now), 0);
        assert_int_equal(now.status, FERRY_CANCELLED);
        ferry_operation_clear(&now);
        region_drop(&p->b, local);
        worker_resume(&p->a);
        pair_assert_serving(p);
        /* The offer was not used up. */
        assert_int_equal(ferry_get_operation(p->a.client, passive.id, 0, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        free(id);
}
