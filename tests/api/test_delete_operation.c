/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* DELETE /v1/operations/{id}: cancel and forget. */

ON_WORKER(a_deleted_operation_is_gone)
{
        static const char *const requests[][2] = {
                { "GET", "" },          { "DELETE", "" },      { "GET", "?wait_ms=60000" },
                { "GET", "/metadata" }, { "POST", "/cancel" }, { "POST", "/renew" }
        };
        OPERATION operation;
        struct ferry_operation_list list;
        const char *region = region_make(w, 100, 0);

        offer_make(w, FERRY_READABLE, region, &operation);
        assert_int_equal(ferry_delete_operation(w->client, operation.id), 0);
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
                assert_problem(w, requests[i][0], text_format("/v1/operations/%s%s", operation.id, requests[i][1]),
                               NULL, 410, "gone", NULL);
        assert_int_equal(ferry_list_operations(w->client, NULL, &list), 0);
        assert_int_equal(list.n, 0);
        ferry_operation_list_clear(&list);
        region_drop(w, region);
}

ON_WORKER(a_terminal_operation_can_be_deleted)
{
        OPERATION operation;
        struct ferry_operation now;
        const char *region = region_make(w, 100, 0);

        offer_make(w, FERRY_READABLE, region, &operation);
        assert_int_equal(ferry_cancel_operation(w->client, operation.id, NULL), 0);
        assert_int_equal(ferry_delete_operation(w->client, operation.id), 0);
        assert_int_equal(ferry_get_operation(w->client, operation.id, 0, 0, &now), FERRY_E_GONE);
}

/* Deletes on one side while bytes move; the other side hears of it, and both regions become free. */
static void delete_running(struct pair *p, enum ferry_kind passive_kind, bool delete_active)
{
        struct worker *here = delete_active ? &p->b : &p->a, *there = delete_active ? &p->a : &p->b;
        const char *id_there;
        struct running r;
        int error;

        running_start(p, passive_kind, 128 * STEPS_MIB, 5, there, &r);
        id_there = delete_active ? r.passive : r.active;
        assert_int_equal(ferry_delete_operation(here->client, delete_active ? r.active : r.passive), 0);
        worker_resume(there);
        operation_assert_error(there, id_there, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        region_drop(there, delete_active ? r.offered : r.local);
        /* The deleted one cannot be asked for any more; its memory is free as soon as it is quiet. */
        WAIT_UNTIL((error = ferry_delete_region(here->client, delete_active ? r.local : r.offered)) !=
                   FERRY_E_REGION_IN_USE);
        assert_int_equal(error, 0);
        pair_assert_serving(p);
}

ON_EACH_PAIR(deleting_a_running_operation_ends_both_sides, SMALL_WINDOW)
{
        delete_running(p, FERRY_READABLE, false);
        delete_running(p, FERRY_READABLE, true);
        delete_running(p, FERRY_WRITABLE, false);
        delete_running(p, FERRY_WRITABLE, true);
}
