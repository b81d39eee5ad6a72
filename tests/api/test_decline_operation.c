/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wire.h"

/* POST /v1/operations/{id}/decline: the holder of the metadata says that it will not use the operation. */

enum { SIZE = 5000, ROUNDS = 200 };

static const char *key_of(const struct ferry_operation *offer)
{
        return json_text(json_parse(offer->metadata), "notification_key");
}

/* The holder's decline, over the worker's own HTTP. */
static int decline(struct worker *w, const struct ferry_operation *offer, int *ret_status)
{
        struct ferry_offer_state state = { 0 };
        int r = ferry_decline_operation(w->client, offer->id, key_of(offer), &state);

        *ret_status = state.status;
        return r;
}

static void offer_several(struct worker *w, const char *region, unsigned uses, struct ferry_operation *ret_operation)
{
        struct ferry_descriptor descriptor = { .region = region };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE,
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .uses = uses,
                                             .include_metadata = true };

        assert_int_equal(ferry_create_operation(w->client, &spec, ret_operation), 0);
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
        for (struct worker *w = &p->a;; w = &p->b) {
                worker_start(w, w == &p->a ? "a" : "b", STRINGS("--local", "off"));
                worker_expect(w, "no transport but HTTP");
                if (w == &p->b)
                        break;
        }
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
        key = text_format("Authorization: Bearer %s\r\n", key_of(&offer));
        other_key = text_format("Authorization: Bearer %s\r\n", key_of(&other));
        /* Also of a worker without a token: whoever guesses an id must not end the offer. */
        wire_refused(&p->a, 401, "unauthenticated", form, path, "", "", "");
        wire_refused(&p->a, 401, "unauthenticated", form, path, "Authorization: Bearer nothing\r\n", "", "");
        wire_refused(&p->a, 403, "forbidden", form, path, other_key, "", "");
        wire_refused(&p->a, 404, "not-found", form, "/v1/operations/op_0123456789abcdef/decline", key, "", "");
        wire_refused(&p->a, 400, "invalid-parameter", form, path, key, "Ferry-Transfer: xfr_1\r\n", "");
        wire_refused(&p->a, 412, "precondition-failed", form, path, key, "If-Match: \"r9\"\r\n", "");
        wire_refused(&p->a, 405, "method-not-allowed", "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, key);
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
        assert_null(strstr(worker_log(&p->a), key_of(&other)));
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

        offer_several(&p->a, offered, 3, &offer);
        assert_int_equal(decline(&p->a, &offer, &status), 0);
        assert_int_equal(status, FERRY_INITIALIZED);
        for (int i = 0; i < 3; i++) /* the same one each time */
                wire_expect(&p->a, 200, form, offer.id, key_of(&offer));
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

/* Whoever comes first, both sides tell the same end. */
ON_EACH_PAIR(a_decline_and_a_read_agree)
{
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);
        unsigned declined = 0;

        for (int i = 0; i < ROUNDS; i++) {
                OPERATION offer, active, passive_end, active_end;
                const char *path, *headers;
                int fd = -1, status, r = 0;

                offer_make(&p->a, FERRY_READABLE, offered, &offer);
                if (i % 2) { /* the decline is on its way when the read begins */
                        path = text_format("/v1/operations/%s/decline", offer.id);
                        headers = text_format("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
                                              "Authorization: Bearer %s\r\n\r\n",
                                              path, key_of(&offer));
                        fd = raw_connect(&p->a);
                        raw_send(fd, headers, strlen(headers));
                }
                begin_make(&p->b, FERRY_READ, local, offer.metadata, &active);
                if (fd < 0) {
                        r = decline(&p->a, &offer, &status);
                } else {
                        struct raw_answer answer;

                        raw_receive(fd, false, &answer);
                        r = answer.status == 200 ? 0 : FERRY_E_ALREADY_CLAIMED;
                        (void)close(fd);
                }
                assert_int_equal(ferry_wait_operation(p->b.client, active.id, WAIT_MS, &active_end), 0);
                assert_int_equal(ferry_wait_operation(p->a.client, offer.id, WAIT_MS, &passive_end), 0);
                assert_int_equal(active_end.status, passive_end.status);
                assert_int_equal(active_end.error, passive_end.error);
                if (passive_end.status == FERRY_COMPLETE) {
                        assert_true(r == 0 || r == FERRY_E_ALREADY_CLAIMED);
                } else {
                        declined++;
                        assert_int_equal(r, 0);
                        assert_int_equal(passive_end.error, FERRY_E_DECLINED);
                }
        }
        print_message("%u of %u were declined\n", declined, ROUNDS);
        region_drop(&p->a, offered);
        region_drop(&p->b, local);
}
