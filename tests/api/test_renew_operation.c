/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "wire.h"

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
        call_json(&p->a, 200, "POST", path, "{}");
        call_json(&p->a, 200, "POST", path, NULL);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        assert_problem(&p->a, "POST", path, NULL, 410, "gone", NULL);
        path = text_format("/v1/operations/%s/renew", active.id);
        assert_problem(&p->b, "POST", path, NULL, 409, "not-passive", NULL);
}

/* ---- by the holder of the key ---- */

ON_PAIR(its_holder_keeps_an_offer_with_the_metadata_it_has)
{
        OPERATION passive, active, now;
        struct ferry_offer_state state;
        const char *offered = region_make(&p->a, 100, 4);
        const char *local = region_make(&p->b, 100, 0);

        OFFER(&p->a, offered, &passive, .kind = FERRY_READABLE, .ttl_ms = 2000, .renew_max_ms = 60000);
        assert_int_equal(passive.renew_max_ms, 60000);
        assert_int_equal(ferry_renew_by_key(p->a.client, passive.id, metadata_key(passive.metadata), 30000, &state), 0);
        assert_int_equal(state.status, FERRY_INITIALIZED);
        assert_true(strcmp(state.expires_at, passive.expires_at) > 0);
        assert_int_equal(ferry_get_operation(p->a.client, passive.id, 2200, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        assert_string_equal(now.expires_at, state.expires_at);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        assert_int_equal(ferry_renew_by_key(p->a.client, passive.id, metadata_key(passive.metadata), 0, &state),
                         FERRY_E_GONE);
}

ON_WORKER(a_holder_renews_no_further_than_it_may)
{
        OPERATION kept, short_lived, other;
        struct ferry_offer_state first, second;
        const char *region = region_make(w, 100, 4);
        static const char form[] = "POST /v1/operations/%s/renew HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
                                   "Authorization: Bearer %s\r\n\r\n";

        OFFER(w, region, &kept, .kind = FERRY_READABLE, .ttl_ms = 2000, .renew_max_ms = 3000);
        offer_make(w, FERRY_READABLE, region, &other);
        assert_int_equal(ferry_renew_by_key(w->client, kept.id, metadata_key(kept.metadata), 3600000, &first), 0);
        assert_int_equal(ferry_renew_by_key(w->client, kept.id, metadata_key(kept.metadata), 1, &second), 0);
        assert_true(strcmp(first.expires_at, second.expires_at) <= 0); /* never back */
        operation_assert_error(w, kept.id, FERRY_CANCELLED, FERRY_E_EXPIRED);
        /* Its owner alone, where it gave no leave. */
        assert_int_equal(ferry_renew_by_key(w->client, other.id, metadata_key(other.metadata), 0, NULL),
                         FERRY_E_FORBIDDEN);
        assert_non_null(strstr(ferry_last_message(w->client), "renew_max_ms"));
        OFFER(w, region, &short_lived, .kind = FERRY_READABLE, .ttl_ms = 2000, .renew_max_ms = 60000);
        wire_refused(w, 403, "forbidden", form, short_lived.id, metadata_key(other.metadata));
        assert_int_equal(
                ferry_renew_by_key(w->client, short_lived.id, metadata_key(short_lived.metadata), UINT64_MAX, NULL),
                FERRY_E_INVALID_PARAMETER);
        /* The holder learns nothing else of the operation. */
        const char *headers[] = { text_format("Authorization: Bearer %s", metadata_key(short_lived.metadata)), NULL };
        assert_string_equal(
                json_names(call_json_with(w, 200, "POST", text_format("/v1/operations/%s/renew", short_lived.id),
                                          "{\"ttl_ms\":5000}", headers)),
                "status expires_at");
}
