/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wire.h"

/* POST /v1/operations/decline and …/renew: a client says it through its own worker, which reaches the other one. */

enum { SIZE = 5000, ROUNDS = 200 };

static void offer_kept(struct worker *w, const char *region, struct ferry_operation *ret_offer)
{
        struct ferry_descriptor descriptor = { .region = region };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE,
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .ttl_ms = 60000,
                                             .renew_max_ms = 600000,
                                             .include_metadata = true };

        assert_int_equal(ferry_create_operation(w->client, &spec, ret_offer), 0);
}

static void declines_and_renews(struct pair *p)
{
        OPERATION offer, now, active;
        struct ferry_offer_state state;
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);

        pair_expect_failures(p);
        offer_kept(&p->a, offered, &offer);
        assert_int_equal(ferry_renew_remote(p->b.client, offer.metadata, 300000, &state), 0);
        assert_int_equal(state.status, FERRY_INITIALIZED);
        assert_true(strcmp(state.expires_at, offer.expires_at) > 0);
        assert_int_equal(ferry_get_operation(p->a.client, offer.id, 0, 0, &now), 0);
        assert_true(strcmp(now.expires_at, offer.expires_at) > 0);
        ferry_operation_clear(&now);
        assert_int_equal(ferry_decline_remote(p->b.client, offer.metadata, &state), 0);
        assert_int_equal(state.status, FERRY_CANCELLED);
        assert_string_equal(state.expires_at, "");
        operation_assert_error(&p->a, offer.id, FERRY_CANCELLED, FERRY_E_DECLINED);
        assert_int_equal(ferry_decline_remote(p->b.client, offer.metadata, &state), 0);
        assert_int_equal(ferry_renew_remote(p->b.client, offer.metadata, 0, &state), FERRY_E_GONE);
        region_drop(&p->a, offered);
        begin_make(&p->b, FERRY_READ, local, offer.metadata, &active);
        operation_assert_error(&p->b, active.id, FERRY_CANCELLED, FERRY_E_DECLINED);
        /* One that its owner lets nobody renew, a wrong key, and one that is gone. */
        offered = region_make(&p->a, SIZE, 3);
        ferry_operation_clear(&offer);
        offer_make(&p->a, FERRY_READABLE, offered, &offer);
        assert_int_equal(ferry_renew_remote(p->b.client, offer.metadata, 0, &state), FERRY_E_FORBIDDEN);
        const char *forged = metadata_with(offer.metadata, "notification_key",
                                           json_object_new_string("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
        int r = ferry_decline_remote(p->b.client, forged, &state);
        assert_true(r == FERRY_E_PEER_REFUSED || r == FERRY_E_FORBIDDEN);
        assert_int_equal(ferry_get_operation(p->a.client, offer.id, 0, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        assert_int_equal(ferry_delete_operation(p->a.client, offer.id), 0);
        assert_int_equal(ferry_decline_remote(p->b.client, offer.metadata, &state), FERRY_E_GONE);
}

ON_EACH_PAIR(by_the_link_to_the_other_worker)
{
        declines_and_renews(p);
        assert_int_equal(worker_metric(&p->b, "ferry_peer_fetches_total{result=\"ok\"}"), 0);
}

WITH_PAIR(over_http_where_there_is_no_link)
{
        worker_start(&p->a, "a", STRINGS("--local", "off"));
        worker_expect(&p->a, "no transport but HTTP");
        worker_start(&p->b, "b", STRINGS("--local", "off"));
        worker_expect(&p->b, "no transport but HTTP");
        declines_and_renews(p);
}

WITH_PAIR(only_hosts_that_are_allowed_are_asked_over_http)
{
        OPERATION offer;

        worker_start(&p->a, "a", STRINGS("--local", "off"));
        worker_expect(&p->a, "no transport but HTTP");
        worker_start(&p->b, "b", STRINGS("--local", "off", "--allow-peer", "192.0.2.1"));
        worker_expect(&p->b, "no transport but HTTP");
        offer_kept(&p->a, region_make(&p->a, SIZE, 3), &offer);
        assert_int_equal(ferry_decline_remote(p->b.client, offer.metadata, NULL), FERRY_E_FORBIDDEN);
        assert_int_equal(ferry_renew_remote(p->b.client, offer.metadata, 0, NULL), FERRY_E_FORBIDDEN);
        worker_stop(&p->b);
        worker_start(&p->b, "b", STRINGS("--local", "off"));
        worker_expect(&p->b, "no transport but HTTP");
        worker_kill(&p->a);
        assert_int_equal(ferry_decline_remote(p->b.client, offer.metadata, NULL), FERRY_E_PEER_UNREACHABLE);
}

ON_WORKER(its_own_offer_as_well)
{
        OPERATION offer;
        struct ferry_offer_state state;

        offer_kept(w, region_make(w, SIZE, 3), &offer);
        assert_int_equal(ferry_renew_remote(w->client, offer.metadata, 300000, &state), 0);
        assert_int_equal(ferry_decline_remote(w->client, offer.metadata, &state), 0);
        operation_assert_error(w, offer.id, FERRY_CANCELLED, FERRY_E_DECLINED);
}

ON_WORKER(what_a_request_must_have)
{
        OPERATION offer;
        const char *paths[] = { "/v1/operations/decline", "/v1/operations/renew" };

        offer_kept(w, region_make(w, SIZE, 3), &offer);
        for (int i = 0; i < 2; i++) {
                const char *good = text_format("{\"remote_metadata\":%s", offer.metadata);

                assert_problem(w, "POST", paths[i], NULL, 400, "invalid-json", NULL);
                assert_problem(w, "POST", paths[i], "{}", 400, "invalid-parameter", "/remote_metadata");
                assert_problem(w, "POST", paths[i], "{\"remote_metadata\":{}}", 400, "invalid-metadata", NULL);
                assert_problem(w, "POST", paths[i], "{\"remote_metadata\":\"x\"}", 400, "invalid-parameter",
                               "/remote_metadata");
                assert_problem(w, "POST", paths[i], text_format("%s,\"other\":1}", good), 400, "unknown-field",
                               "/other");
                assert_problem(w, "GET", paths[i], NULL, 405, "method-not-allowed", NULL);
                assert_problem(w, "POST", paths[i], text_format("%s,\"ttl_ms\":0}", good), 400,
                               i ? "invalid-parameter" : "unknown-field", "/ttl_ms");
        }
        assert_int_equal(ferry_decline_remote(w->client, "", NULL), -EINVAL);
}

/* Over the link of the read that it races with. */
ON_EACH_PAIR(a_decline_and_a_read_agree)
{
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);
        unsigned declined = 0;

        for (int i = 0; i < ROUNDS; i++) {
                OPERATION offer, passive_end, active_end;
                struct raw_answer answer;

                offer_make(&p->a, FERRY_READABLE, offered, &offer);
                const char *ask = json_request("/v1/operations/decline", "",
                                               text_format("{\"remote_metadata\":%s}", offer.metadata));
                const char *read = json_request(
                        "/v1/operations", "",
                        text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s}",
                                    local, offer.metadata));
                int fds[2] = { raw_connect(&p->b), raw_connect(&p->b) };

                raw_send(fds[i % 2], ask, strlen(ask));
                raw_send(fds[!(i % 2)], read, strlen(read));
                raw_receive(fds[!(i % 2)], false, &answer);
                assert_int_equal(answer.status, 201);
                const char *id = json_text(json_parse(answer.body), "id");
                raw_receive(fds[i % 2], false, &answer);
                assert_int_equal(ferry_wait_operation(p->b.client, id, WAIT_MS, &active_end), 0);
                assert_int_equal(ferry_wait_operation(p->a.client, offer.id, WAIT_MS, &passive_end), 0);
                assert_int_equal(active_end.status, passive_end.status);
                assert_int_equal(active_end.error, passive_end.error);
                if (passive_end.status == FERRY_COMPLETE) {
                        assert_true(answer.status == 200 || answer.status == 409);
                } else {
                        declined++;
                        assert_int_equal(answer.status, 200);
                        assert_int_equal(passive_end.error, FERRY_E_DECLINED);
                }
                (void)close(fds[0]);
                (void)close(fds[1]);
        }
        print_message("%u of %u were declined\n", declined, ROUNDS);
}
