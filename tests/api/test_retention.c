/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"

/* How long and how many operations are kept. */

ON_WORKER(an_ended_operation_is_kept_for_the_retention_then_gone, "--retention", "200ms")
{
        OPERATION operation, live, now;
        uint64_t began;
        int error;
        const char *region = region_make(w, 100, 0);

        offer_make(w, FERRY_READABLE, region, &live);
        offer_make(w, FERRY_READABLE, region, &operation);
        began = now_ms();
        assert_int_equal(ferry_cancel_operation(w->client, operation.id, &now), 0);
        assert_int_equal(now.status, FERRY_CANCELLED);
        ferry_operation_clear(&now);
        WAIT_UNTIL((error = ferry_cancel_operation(w->client, operation.id, NULL)) != 0); /* which changes nothing */
        assert_int_equal(error, FERRY_E_GONE);
        assert_true(now_ms() >= began + 200);
        /* A live one stays. */
        assert_int_equal(ferry_get_operation(w->client, live.id, 0, 0, &now), 0);
}

ON_WORKER(live_operations_are_bounded_and_ended_ones_make_room, "--max-operations", "4")
{
        struct ferry_operation operations[6], now;
        const char *body, *retry;
        const char *region = region_make(w, 100, 0);

        for (int i = 0; i < 4; i++)
                offer_make(w, FERRY_READABLE, region, &operations[i]);
        body = operation_body("readable", region, "");
        assert_problem(w, "POST", "/v1/operations", body, 429, "limit-reached", NULL);
        struct raw_answer answer = raw_exchange(w, json_request("/v1/operations", "", body));
        assert_int_equal(answer.status, 429);
        assert_non_null(strstr(answer.body, "\"retryable\":true"));
        retry = raw_header(&answer, "Retry-After");
        assert_non_null(retry);
        assert_in_range(atoi(retry), 1, 60);
        /* The oldest ended one goes, the live ones stay. */
        assert_int_equal(ferry_cancel_operation(w->client, operations[2].id, NULL), 0);
        assert_int_equal(ferry_cancel_operation(w->client, operations[1].id, NULL), 0);
        offer_make(w, FERRY_READABLE, region, &operations[4]);
        assert_int_equal(ferry_get_operation(w->client, operations[2].id, 0, 0, &now), FERRY_E_GONE);
        assert_int_equal(ferry_get_operation(w->client, operations[1].id, 0, 0, &now), 0);
        ferry_operation_clear(&now);
        offer_make(w, FERRY_READABLE, region, &operations[5]);
        assert_int_equal(ferry_get_operation(w->client, operations[1].id, 0, 0, &now), FERRY_E_GONE);
        assert_problem(w, "POST", "/v1/operations", body, 429, "limit-reached", NULL);
        for (int i = 0; i < 6; i += i == 0 ? 3 : 1) {
                assert_int_equal(ferry_get_operation(w->client, operations[i].id, 0, 0, &now), 0);
                assert_int_equal(now.status, FERRY_INITIALIZED);
                ferry_operation_clear(&now);
        }
        /* Deleting makes room too. */
        assert_int_equal(ferry_delete_operation(w->client, operations[0].id), 0);
        offer_make(w, FERRY_READABLE, region, &now);
        ferry_operation_clear(&now);
        for (int i = 0; i < 6; i++)
                ferry_operation_clear(&operations[i]);
}
