/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* POST /v1/operations/{id}/renew. */

WITH_WORKER(a_renewed_offer_outlives_its_first_time)
{
        OPERATION operation, now;

        static const char *const flags[] = { "--ttl", "2s", NULL };

        worker_start(w, "a", flags);
        const char *region = region_make(w, 100, 0);
        offer_make(w, FERRY_READABLE, region, &operation);
        assert_int_equal(ferry_renew_operation(w->client, operation.id, 60000, &now), 0);
        assert_true(strcmp(operation.expires_at, now.expires_at) < 0);
        assert_true(now.revision > operation.revision);
        ferry_operation_clear(&now);
        assert_int_equal(ferry_get_operation(w->client, operation.id, 2200, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        ferry_operation_clear(&now);
        /* Without a body: as long as at first, from now on. */
        assert_int_equal(ferry_renew_operation(w->client, operation.id, 0, &now), 0);
        operation_assert_error(w, operation.id, FERRY_CANCELLED, FERRY_E_EXPIRED);
}

ON_PAIR(renewing_shows_in_fresh_metadata)
{
        OPERATION passive, active;
        char *fresh;
        const char *offered = region_make(&p->a, 100, 4);
        const char *local = region_make(&p->b, 100, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        assert_int_equal(ferry_renew_operation(p->a.client, passive.id, 3600000, NULL), 0);
        assert_int_equal(ferry_get_operation_metadata(p->a.client, passive.id, &fresh), 0);
        assert_string_not_equal(fresh, passive.metadata);
        begin_make(&p->b, FERRY_READ, local, fresh, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        ferry_secret_free(fresh);
}

ON_PAIR(only_live_offers_can_be_renewed)
{
        OPERATION passive, active;
        const char *path;
        const char *offered = region_make(&p->a, 100, 4);
        const char *local = region_make(&p->b, 100, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        path = text_format("/v1/operations/%s/renew", passive.id);
        assert_problem(&p->a, "POST", path, "{\"ttl_ms\":0}", 400, "invalid-parameter", "/ttl_ms");
        assert_problem(&p->a, "POST", path, "{\"ttl_ms\":9007199254740991}", 400, "invalid-parameter", "/ttl_ms");
        assert_problem(&p->a, "POST", path, "{\"ttl\":5}", 400, "unknown-field", "/ttl");
        assert_problem(&p->a, "POST", path, "[5]", 400, "invalid-parameter", "");
        assert_problem(&p->a, "POST", path, "{", 400, "invalid-json", "");
        assert_problem(&p->a, "POST", "/v1/operations/op_0123456789abcdef/renew", NULL, 404, "not-found", NULL);
        call_json(&p->a, 200, "POST", path, "{}");
        call_json(&p->a, 200, "POST", path, NULL);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        assert_problem(&p->a, "POST", path, NULL, 410, "gone", NULL);
        path = text_format("/v1/operations/%s/renew", active.id);
        assert_problem(&p->b, "POST", path, NULL, 409, "not-passive", NULL);
}
