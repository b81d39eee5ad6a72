/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "etcd.h"
#include "steps.h"

/* Workers that have names in a real etcd. tests/unit/test_registry*.c have what befalls the registry. */

enum { SIZE = 5000 };

static struct etcd etcd;

#define NEEDS_ETCD()                                                                                                   \
        do {                                                                                                           \
                if (!etcd.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

static void start(struct worker *w, const char *name)
{
        worker_start(w, name, (const char *const[]){ "--registry", etcd.url, "--registry-ttl", "2s", NULL });
}

static void pair_register(struct pair *p)
{
        start(&p->a, "a");
        start(&p->b, "b");
}

static struct json_object *begin(struct worker *w, const char *region, const char *url)
{
        char *more = text_format(",\"remote_url\":\"%s\"", url), *body = operation_body("read", region, more);
        struct json_object *answer = call_json(w, 201, "POST", "/v1/operations", body);

        free(more);
        free(body);
        return answer;
}

static void a_read_names_the_worker_that_offers(void **state)
{
        struct pair *p = *state;

        NEEDS_ETCD();
        pair_register(p);
        for (size_t i = 0; i < 2; i++) {
                char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE], url[96];
                struct ferry_operation passive;
                struct json_object *operation;

                region_make(&p->a, SIZE, 1 + i, offered);
                region_make(&p->b, SIZE, 0, local);
                offer_make(&p->a, FERRY_READABLE, offered, &passive);
                (void)snprintf(url, sizeof(url), i ? "ferry://a/v1/operations/%s/metadata" : "ferry://a/%s",
                               passive.id);
                operation = begin(&p->b, local, url);
                operation_assert_end(&p->b, json_text(operation, "id"), FERRY_COMPLETE, NULL);
                region_assert_pattern(&p->b, local, 1 + i, 0, SIZE);
                json_object_put(operation);
                ferry_operation_clear(&passive);
        }
        pair_stop(p);
}

static void a_worker_is_connected_to_by_name(void **state)
{
        struct pair *p = *state;
        struct json_object *answer, *peers, *peer;

        NEEDS_ETCD();
        pair_register(p);
        answer = call_json(&p->b, 201, "POST", "/v1/peers", "{\"url\":\"ferry://a\"}");
        assert_string_equal(json_text(answer, "worker"), "a");
        assert_string_equal(json_text(answer, "url"), "ferry://a");
        json_object_put(answer);
        answer = call_json(&p->b, 200, "GET", "/v1/peers", NULL);
        peers = json_member(answer, "peers");
        assert_int_equal(json_object_array_length(peers), 1);
        peer = json_member(json_member(json_object_array_get_idx(peers, 0), "addresses"), "http");
        assert_string_equal(json_object_get_string(json_object_array_get_idx(peer, 0)), p->a.url);
        json_object_put(answer);
        pair_stop(p);
}

static void a_name_that_nobody_has_is_told(void **state)
{
        struct pair *p = *state;
        char local[FERRY_ID_SIZE];
        struct json_object *operation;
        struct ferry_operation ended;

        NEEDS_ETCD();
        pair_register(p);
        worker_expect(&p->b, "operation ended");
        region_make(&p->b, SIZE, 0, local);
        operation = begin(&p->b, local, "ferry://nobody/op_0123456789abcdef");
        operation_assert_end(&p->b, json_text(operation, "id"), FERRY_ERRORED, &ended);
        assert_int_equal(ended.error, FERRY_E_PEER_UNREACHABLE);
        assert_string_equal(ended.error_detail, "the registry has no worker of the name nobody");
        ferry_operation_clear(&ended);
        json_object_put(operation);
        /* The worker is there, the operation is not. */
        operation = begin(&p->b, local, "ferry://a/op_0123456789abcdef");
        operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, FERRY_E_STALE_METADATA);
        json_object_put(operation);
        assert_problem(&p->b, "POST", "/v1/peers", "{\"url\":\"ferry://nobody\"}", 502, "peer-unreachable", NULL);
        pair_stop(p);
}

static void without_a_registry_names_are_refused(void **state)
{
        struct pair *p = *state;
        char local[FERRY_ID_SIZE], *body;

        worker_start(&p->b, "b", NULL);
        region_make(&p->b, SIZE, 0, local);
        body = operation_body("read", local, ",\"remote_url\":\"ferry://a/op_0123456789abcdef\"");
        assert_problem(&p->b, "POST", "/v1/operations", body, 400, "invalid-parameter", "/remote_url");
        assert_problem(&p->b, "POST", "/v1/peers", "{\"url\":\"ferry://a\"}", 400, "invalid-parameter", "/url");
        free(body);
        worker_stop(&p->b);
}

static void the_registry_cannot_widen_allow_peer(void **state)
{
        struct pair *p = *state;
        char local[FERRY_ID_SIZE];
        struct json_object *operation;

        NEEDS_ETCD();
        start(&p->a, "a");
        worker_start(&p->b, "b",
                     (const char *const[]){ "--registry", etcd.url, "--registry-ttl", "2s", "--allow-peer", "192.0.2.1",
                                            NULL });
        worker_expect(&p->b, "operation ended");
        region_make(&p->b, SIZE, 0, local);
        operation = begin(&p->b, local, "ferry://a/op_0123456789abcdef");
        operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, FERRY_E_FORBIDDEN);
        json_object_put(operation);
        pair_stop(p);
}

static void the_worker_says_how_its_name_stands(void **state)
{
        struct pair *p = *state;
        struct json_object *answer, *registry;

        NEEDS_ETCD();
        start(&p->a, "a");
        answer = call_json(&p->a, 200, "GET", "/v1/worker", NULL);
        registry = json_member(answer, "registry");
        assert_string_equal(json_text(registry, "status"), "registered");
        assert_string_equal(json_text(registry, "key"), "/ferry/workers/a");
        assert_int_equal(json_number(registry, "ttl_ms"), 2000);
        json_object_put(answer);
        worker_await_metric(&p->a, "ferry_registry_registered", 1);
        worker_stop(&p->a);
}

static void a_second_living_worker_of_a_name_does_not_start(void **state)
{
        struct pair *p = *state;
        char *output, *errors;
        int status;

        NEEDS_ETCD();
        start(&p->a, "a");
        status = ferryd_run((const char *const[]){ "--listen", "127.0.0.1:0", "--name", "a", "--registry", etcd.url,
                                                   "--registry-ttl", "2s", NULL },
                            &output, &errors);
        assert_int_equal(status, 1);
        assert_string_equal(output, "");
        assert_non_null(strstr(errors, "ferryd: the name a is taken in the registry"));
        assert_non_null(strstr(errors, p->a.url));
        assert_null(strstr(errors, "level=error"));
        free(output);
        free(errors);
        worker_stop(&p->a);
}

static void a_worker_that_was_killed_gets_its_name_back(void **state)
{
        struct pair *p = *state;
        uint64_t began;

        NEEDS_ETCD();
        start(&p->a, "a");
        worker_kill(&p->a);
        worker_clean(&p->a);
        began = now_ms();
        start(&p->a, "a");
        assert_true(now_ms() - began < (2 + 2) * 1000 * SLOWNESS);
        worker_await_metric(&p->a, "ferry_registry_registered", 1);
        worker_stop(&p->a);
}

static void a_worker_that_drains_is_not_found_any_more(void **state)
{
        struct pair *p = *state;
        char *answer;

        NEEDS_ETCD();
        start(&p->a, "a");
        worker_stop(&p->a);
        answer = etcd_ask(&etcd, "/v3/kv/range", "{\"key\":\"L2ZlcnJ5L3dvcmtlcnMvYQ==\"}");
        assert_null(strstr(answer, "\"kvs\""));
        free(answer);
}

static void without_its_registry_a_worker_serves(void **state)
{
        struct pair *p = *state;

        NEEDS_ETCD();
        pair_register(p);
        worker_expect(&p->a, "the registry does not answer");
        worker_expect(&p->b, "the registry does not answer");
        etcd_kill(&etcd);
        worker_await_metric(&p->a, "ferry_registry_registered", 0);
        pair_assert_serving(p);
        etcd_start_again(&etcd, false);
        worker_await_metric(&p->a, "ferry_registry_registered", 1);
        pair_stop(p);
}

static int setup(void **state)
{
        (void)state;
        if (etcd_is_here())
                etcd_start(&etcd);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        etcd_clean(&etcd);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                WITH_PAIR(a_read_names_the_worker_that_offers),
                WITH_PAIR(a_worker_is_connected_to_by_name),
                WITH_PAIR(a_name_that_nobody_has_is_told),
                WITH_PAIR(without_a_registry_names_are_refused),
                WITH_PAIR(the_registry_cannot_widen_allow_peer),
                WITH_PAIR(the_worker_says_how_its_name_stands),
                WITH_PAIR(a_second_living_worker_of_a_name_does_not_start),
                WITH_PAIR(a_worker_that_was_killed_gets_its_name_back),
                WITH_PAIR(a_worker_that_drains_is_not_found_any_more),
                WITH_PAIR(without_its_registry_a_worker_serves),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
