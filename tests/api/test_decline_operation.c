/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wire.h"

/*
 * POST /v1/operations/{id}/decline: the holder of the metadata says that it will not use the operation; and POST
 * /v1/operations/decline and …/renew: it says so through its own worker.
 */

enum { SIZE = 5000, ROUNDS = 200 };

/* The holder's decline, over the worker's own HTTP. */
static int decline(struct worker *w, const struct ferry_operation *offer, int *ret_status)
{
        struct ferry_offer_state state = { 0 };
        int r = ferry_decline_operation(w->client, offer->id, metadata_key(offer->metadata), &state);

        *ret_status = state.status;
        return r;
}

static void frees_its_memory_and_refuses_its_peers(struct pair *p)
{
        pair_expect_failures(p);
        for (int kind = FERRY_READABLE; kind <= FERRY_WRITABLE; kind += FERRY_WRITABLE - FERRY_READABLE) {
                OPERATION offer, active;
                const char *offered = region_make(&p->a, SIZE, 3);
                const char *local = region_make(&p->b, SIZE, 4);
                int status;

                offer_make(&p->a, (enum ferry_kind)kind, offered, &offer);
                assert_int_equal(decline(&p->a, &offer, &status), 0);
                assert_int_equal(status, FERRY_CANCELLED);
                operation_assert_error(&p->a, offer.id, FERRY_CANCELLED, FERRY_E_DECLINED);
                region_drop(&p->a, offered);
                begin_make(&p->b, kind_of_peer((enum ferry_kind)kind), local, offer.metadata, &active);
                operation_assert_error(&p->b, active.id, FERRY_CANCELLED, FERRY_E_DECLINED);
                region_assert_pattern(&p->b, local, 4, 0, SIZE);
                assert_int_equal(decline(&p->a, &offer, &status), 0);
                assert_int_equal(status, FERRY_CANCELLED);
        }
}

ON_EACH_PAIR(a_declined_offer_frees_its_memory_and_refuses_its_peers)
{
        frees_its_memory_and_refuses_its_peers(p);
}

WITH_PAIR(over_http_as_well)
{
        pair_start_apart(p);
        frees_its_memory_and_refuses_its_peers(p);
}

ON_PAIR(each_answer_says_what_is_wrong)
{
        OPERATION offer, other, active;
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);
        const char *path, *ask, *key, *other_key;
        static const char form[] = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n%s%s%s\r\n";

        offer_make(&p->a, FERRY_READABLE, offered, &offer);
        offer_make(&p->a, FERRY_READABLE, offered, &other);
        path = text_format("/v1/operations/%s/decline", offer.id);
        key = text_format("Authorization: Bearer %s\r\n", metadata_key(offer.metadata));
        other_key = text_format("Authorization: Bearer %s\r\n", metadata_key(other.metadata));
        /* Also of a worker without a token: whoever guesses an id must not end the offer. */
        wire_refused(&p->a, 401, "unauthenticated", form, path, "", "", "");
        wire_refused(&p->a, 401, "unauthenticated", form, path, "Authorization: Bearer nothing\r\n", "", "");
        wire_refused(&p->a, 403, "forbidden", form, path, other_key, "", "");
        wire_refused(&p->a, 412, "precondition-failed", form, path, key, "If-Match: \"r9\"\r\n", "");
        begin_make(&p->b, FERRY_READ, local, other.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        ask = text_format("/v1/operations/%s/decline", active.id);
        wire_refused(&p->b, 409, "not-passive", form, ask, key, "", "");
        /* One that is complete stays so. */
        operation_assert_end(&p->a, other.id, FERRY_COMPLETE, NULL);
        ask = text_format("/v1/operations/%s/decline", other.id);
        wire_expect(&p->a, 200, form, ask, other_key, "", "");
        operation_assert_end(&p->a, other.id, FERRY_COMPLETE, NULL);
        wire_expect(&p->a, 200, form, path, key, "", "");
        operation_assert_error(&p->a, offer.id, FERRY_CANCELLED, FERRY_E_DECLINED);
        assert_int_equal(ferry_delete_operation(p->a.client, offer.id), 0);
        wire_refused(&p->a, 410, "gone", form, path, key, "", "");
        assert_null(strstr(worker_log(&p->a), metadata_key(other.metadata)));
}

WITH_PAIR(a_transfer_under_way_is_not_declined)
{
        struct running running;
        struct ferry_operation now;
        char *metadata = NULL;

        pair_start_with(p, false, STRINGS(SMALL_WINDOW));
        pair_expect_failures(p);
        running_start(p, FERRY_READABLE, 64 * STEPS_MIB, 3, &p->b, &running);
        assert_int_equal(ferry_get_operation_metadata(p->a.client, running.passive, &metadata), 0);
        const char *key = json_text(json_parse(metadata), "notification_key");
        assert_int_equal(ferry_decline_operation(p->a.client, running.passive, key, NULL), FERRY_E_ALREADY_CLAIMED);
        ferry_secret_free(metadata);
        worker_resume(&p->b);
        operation_assert_end(&p->b, running.active, FERRY_COMPLETE, &now);
        ferry_operation_clear(&now);
        operation_assert_end(&p->a, running.passive, FERRY_COMPLETE, NULL);
        running_drop(p, &running);
}

ON_PAIR(of_several_uses_one_is_taken)
{
        OPERATION offer, active, now;
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);
        static const char form[] = "POST /v1/operations/%s/decline HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
                                   "Authorization: Bearer %s\r\nFerry-Transfer: xfr_0000000000000007\r\n\r\n";
        int status;

        OFFER(&p->a, offered, &offer, .kind = FERRY_READABLE, .uses = 3);
        assert_int_equal(decline(&p->a, &offer, &status), 0);
        assert_int_equal(status, FERRY_INITIALIZED);
        for (int i = 0; i < 3; i++) /* the same one each time */
                wire_expect(&p->a, 200, form, offer.id, metadata_key(offer.metadata));
        assert_int_equal(ferry_get_operation(p->a.client, offer.id, 0, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        assert_int_equal(now.uses_declined, 2);
        ferry_operation_clear(&now);
        begin_make(&p->b, FERRY_READ, local, offer.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, offer.id, FERRY_COMPLETE, &now);
        assert_int_equal(now.uses_done, 1);
        region_assert_pattern(&p->b, local, 3, 0, SIZE);
}

/* ---- by another worker, whose client does not reach this one ---- */

/* Which a holder may keep. */
#define OFFER_KEPT(w, region, ret_offer)                                                                               \
        OFFER(w, region, ret_offer, .kind = FERRY_READABLE, .ttl_ms = 60000, .renew_max_ms = 600000)

static void declines_and_renews(struct pair *p)
{
        OPERATION offer, now, active;
        struct ferry_offer_state state;
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);

        pair_expect_failures(p);
        OFFER_KEPT(&p->a, offered, &offer);
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
        pair_start_apart(p);
        declines_and_renews(p);
}

WITH_PAIR(only_hosts_that_are_allowed_are_asked_over_http)
{
        OPERATION offer;

        worker_start(&p->a, "a", STRINGS("--local", "off"));
        worker_expect(&p->a, "no transport but HTTP");
        worker_start(&p->b, "b", STRINGS("--local", "off", "--allow-peer", "192.0.2.1"));
        worker_expect(&p->b, "no transport but HTTP");
        OFFER_KEPT(&p->a, region_make(&p->a, SIZE, 3), &offer);
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

        OFFER_KEPT(w, region_make(w, SIZE, 3), &offer);
        assert_int_equal(ferry_renew_remote(w->client, offer.metadata, 300000, &state), 0);
        assert_int_equal(ferry_decline_remote(w->client, offer.metadata, &state), 0);
        operation_assert_error(w, offer.id, FERRY_CANCELLED, FERRY_E_DECLINED);
}

/* ---- in a race ---- */

/* Whoever comes first, both sides tell the same end. asked: a itself, or b, over the link of the read. */
static void race(struct pair *p, struct worker *asked)
{
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);
        unsigned declined = 0;

        for (int i = 0; i < ROUNDS; i++) {
                OPERATION offer, passive_end, active_end;
                int fds[2];

                offer_make(&p->a, FERRY_READABLE, offered, &offer);
                const char *remote = text_format(",\"remote_metadata\":%s", offer.metadata);
                const char *read = json_request("/v1/operations", "", operation_body("read", local, remote));
                const char *decline =
                        asked == &p->b ? json_request("/v1/operations/decline", "", text_format("{%s}", remote + 1))
                                       : text_format("POST /v1/operations/%s/decline HTTP/1.1\r\nHost: localhost\r\n"
                                                     "Content-Length: 0\r\nAuthorization: Bearer %s\r\n\r\n",
                                                     offer.id, metadata_key(offer.metadata));
                fds[0] = raw_connect(asked);
                fds[1] = raw_connect(&p->b);
                for (int k = 0; k < 2; k++)
                        raw_send(fds[i % 2 ^ k], i % 2 ^ k ? read : decline, strlen(i % 2 ^ k ? read : decline));
                struct raw_answer begun = raw_end(fds[1]), answer = raw_end(fds[0]);
                assert_int_equal(begun.status, 201);
                const char *id = json_text(json_parse(begun.body), "id");
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
        }
        print_message("%u of %u were declined\n", declined, ROUNDS);
        region_drop(&p->a, offered);
        region_drop(&p->b, local);
}

ON_EACH_PAIR(a_decline_and_a_read_agree)
{
        race(p, &p->a);
        race(p, &p->b);
}
