/* SPDX-License-Identifier: Apache-2.0 */
#define START_OPTIONS .retries = -1
#include "client_fixture.h"

TEST(an_active_operation_is_created)
{
        START(x, { JSON("201", OPERATION("IN_PROGRESS", "false", "")) });
        const struct ferry_descriptor descriptors[] = { { "rgn_1", 0, 0 }, { "rgn_2", 4096, 8, 3, 16 } };
        struct ferry_operation o;
        const struct ferry_operation_spec spec = {
                .kind = FERRY_READ,
                .layout = FERRY_LAYOUT_STREAM,
                .transports = "shm,t\"cp",
                .descriptors = descriptors,
                .n_descriptors = 2,
                .remote_metadata = "{\"descriptors\": [{\"ptr\":9007199254740991}],\"nixl_metadata\":\"b64:eJ/+\"}",
                .timeout_ms = 1000,
                .verify = true,
                .wait_ms = 1001,
        };
        assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), 0);
        assert_string_equal(o.id, "op_1");
        assert_string_equal(o.descriptors[0].region, "rgn_1");
        ferry_operation_clear(&o);
        sent(x, 0, "POST /v1/operations?wait_ms=1001",
             "{\"kind\":\"read\",\"layout\":\"stream\",\"timeout_ms\":1000,\"verify\":true,"
             "\"transports\":[\"shm\",\"t\\\"cp\"],"
             "\"descriptors\":[{\"region\":\"rgn_1\"},{\"region\":\"rgn_2\",\"offset\":4096,\"size\":8,\"count\":3,"
             "\"stride\":16}],\"remote_metadata\":{\"descriptors\": "
             "[{\"ptr\":9007199254740991}],\"nixl_metadata\":\"b64:eJ/+\"}}");
}

/* As a program of a later header does, which has given reserved room a name. */
TEST(a_field_of_a_later_version_is_refused_where_it_is_used)
{
        START(x, { JSON("201", OPERATION("IN_PROGRESS", "false", "")) });
        struct ferry_descriptor descriptors[2] = { { .region = "rgn_1" }, { .region = "rgn_2", .size = 8 } };
        struct ferry_operation_spec spec = {
                .kind = FERRY_READ, .remote_metadata = "{}", .descriptors = descriptors, .n_descriptors = 2
        };
        struct ferry_operation_query query = { .reserved[0] = 1 };
        struct ferry_region_spec region = { .size = 1, .reserved[1] = 1 };
        struct ferry_exchange exchange = { .method = "GET", .path = "/", .reserved[2] = 1 };
        struct ferry_watch watch = { .reserved[3] = 1 };
        struct ferry_options options = { .reserved[UNIT_COUNT(options.reserved) - 1] = UINT64_C(1) << 63 };
        struct ferry_operation o;
        struct ferry *f;
        spec.reserved[0] = 1;
        assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), -ENOTSUP);
        assert_non_null(strstr(ferry_last_message(x->ferry), "a later version of libferry"));
        spec.reserved[0] = 0;
        descriptors[1].reserved[1] = 1;
        assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), -ENOTSUP);
        descriptors[1].reserved[1] = 0;
        const int refused[] = { ferry_list_operations(x->ferry, &query, &(struct ferry_operation_list){ 0 }),
                                ferry_create_region(x->ferry, &region, &(struct ferry_region){ 0 }),
                                ferry_exchange_perform(x->ferry, &exchange, &(struct ferry_answer){ 0 }),
                                ferry_watch_operation(x->ferry, "op_1", &watch, &o),
                                ferry_new(x->server.url, &options, &f) };
        for (size_t i = 0; i < UNIT_COUNT(refused); i++)
                assert_int_equal(refused[i], -ENOTSUP);
        memset(&o, 0xa5, sizeof(o));
        assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), 0);
        assert_string_equal(o.id, "op_1");
        for (size_t i = 0; i < UNIT_COUNT(o.reserved); i++)
                assert_int_equal(o.reserved[i], 0);
        ferry_operation_clear(&o);
        sent(x, 0, "POST /v1/operations",
             "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"rgn_1\"},{\"region\":\"rgn_2\",\"size\":8}],"
             "\"remote_metadata\":{}}");
}

TEST(a_passive_operation_brings_its_metadata)
{
        START(x, { JSON("201", OPERATION("INITIALIZED", "false", ",\"metadata\":{ \"a\" : [1.50] , \"\\u0062\":[]}")) },
              { JSON("201", OPERATION("IN_PROGRESS", "false", "")) });
        const struct ferry_descriptor descriptor = { "rgn_1", 0, 8 };
        struct ferry_operation o;
        const struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE,
                .descriptors = &descriptor,
                .n_descriptors = 1,
                .readers = 3,
                .ttl_ms = 60000,
                .include_metadata = true,
                .idempotency_key = "mine",
        };
        assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), 0);
        assert_string_equal(o.metadata, "{\"a\":[1.50],\"b\":[]}");
        ferry_operation_clear(&o);
        assert_int_equal(ferry_create_operation(
                                 x->ferry,
                                 &(struct ferry_operation_spec){ .kind = FERRY_WRITE, .remote_url = "http://peer/m" },
                                 &o),
                         0);
        ferry_operation_clear(&o);
        sent(x, 0, "POST /v1/operations?include=metadata",
             "{\"kind\":\"readable\",\"readers\":3,\"ttl_ms\":60000,"
             "\"descriptors\":[{\"region\":\"rgn_1\",\"size\":8}]}");
        has_header(x, 0, "Idempotency-Key: mine");
        sent(x, 1, "POST /v1/operations", "{\"kind\":\"write\",\"remote_url\":\"http://peer/m\",\"descriptors\":[]}");
}

TEST(the_key_takes_the_place_of_the_token)
{
#define MIDDLE "HTTP/1.1 206 Part\r\nContent-Range: bytes 2-5/8\r\nConnection: close\r\n\r\nabcd"
        START_WITH(x, &(struct ferry_options){ .token = "t0" }, { MIDDLE }, { NO_CONTENT }, { NO_CONTENT });
        char bytes[4];
        size_t size;
        assert_int_equal(ferry_get_operation_content(x->ferry, "op_1", "k1", 2, bytes, 4, &size), 0);
        assert_int_equal(size, 4);
        assert_memory_equal(bytes, "abcd", 4);
        assert_int_equal(ferry_put_operation_content(x->ferry, "op_1", "k1", 2, "xy", 2), 0);
        assert_int_equal(ferry_put_operation_content(x->ferry, "op_1", NULL, 0, "xy", 2), 0);
        assert_int_equal(ferry_get_operation_content(x->ferry, "op_1", "k\r\nA: b", 0, bytes, 4, &size), -EINVAL);
        assert_int_equal(ferry_get_operation_content(x->ferry, "op_1", "", 0, bytes, 4, &size), -EINVAL);
        sent(x, 0, "GET /v1/operations/op_1/content", NULL);
        has_header(x, 0, "Range: bytes=2-5");
        has_header(x, 0, "Authorization: Bearer k1");
        assert_null(strstr(request_of(x, 0), "t0"));
        sent(x, 1, "PUT /v1/operations/op_1/content?offset=2", "xy");
        has_header(x, 1, "Authorization: Bearer k1");
        sent(x, 2, "PUT /v1/operations/op_1/content", "xy");
        has_header(x, 2, "Authorization: Bearer t0");
}

TEST(metadata_cannot_break_out_of_the_body)
{
        START(x, { NULL, SERVER_HANG });
        static const char *const wrong[] = { "", "{", "{},\"verify\":true", "{} {}", "{}//", "{}/*" };
        struct ferry_operation o;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct ferry_operation_spec spec = { .kind = FERRY_READ, .remote_metadata = wrong[i] };
                assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), -EINVAL);
        }
        assert_int_equal(ferry_create_operation(x->ferry, &(struct ferry_operation_spec){ .kind = 9 }, &o), -EINVAL);
        assert_int_equal(ferry_create_operation(x->ferry, &(struct ferry_operation_spec){ .n_descriptors = 1 }, &o),
                         -EINVAL);
        assert_int_equal(served(x), 0);
}

TEST(operations_are_fetched_listed_and_ended)
{
        START(x, { RUNNING }, { RUNNING }, { JSON("200", "{\"operations\":[" OPERATION("COMPLETE", "true", "") "]}") },
              { RUNNING }, { RUNNING }, { RUNNING }, { NO_CONTENT }, { JSON("200", "{\"notification_key\":\"k\"}") });
        struct ferry_operation o;
        struct ferry_operation_list list;
        char *metadata;
        assert_int_equal(ferry_get_operation(x->ferry, "op_1", 0, 0, &o), 0);
        ferry_operation_clear(&o);
        assert_int_equal(ferry_get_operation(x->ferry, "op_1", 500, 7, &o), 0);
        ferry_operation_clear(&o);
        assert_int_equal(ferry_list_operations(x->ferry,
                                               &(struct ferry_operation_query){
                                                       .kind = "read", .status = "COMPLETE", .limit = 2, .after = "c" },
                                               &list),
                         0);
        assert_int_equal(list.n, 1);
        assert_true(list.items[0].done);
        ferry_operation_list_clear(&list);
        assert_int_equal(ferry_cancel_operation(x->ferry, "op_1", NULL), 0);
        assert_int_equal(ferry_renew_operation(x->ferry, "op_1", 0, NULL), 0);
        assert_int_equal(ferry_renew_operation(x->ferry, "op_1", 5000, &o), 0);
        ferry_operation_clear(&o);
        assert_int_equal(ferry_delete_operation(x->ferry, "op_1"), 0);
        assert_int_equal(ferry_get_operation_metadata(x->ferry, "op_1", &metadata), 0);
        assert_string_equal(metadata, "{\"notification_key\":\"k\"}");
        ferry_secret_free(metadata);
        sent(x, 0, "GET /v1/operations/op_1", "");
        sent(x, 1, "GET /v1/operations/op_1?wait_ms=500&revision=7", "");
        sent(x, 2, "GET /v1/operations?kind=read&status=COMPLETE&limit=2&after=c", "");
        sent(x, 3, "POST /v1/operations/op_1/cancel", "");
        has_header(x, 3, "Content-Length: 0"); /* a proxy may ask for it */
        sent(x, 4, "POST /v1/operations/op_1/renew", "");
        assert_null(strcasestr(request_of(x, 4), "content-type"));
        sent(x, 5, "POST /v1/operations/op_1/renew", "{\"ttl_ms\":5000}");
        sent(x, 6, "DELETE /v1/operations/op_1", "");
        sent(x, 7, "GET /v1/operations/op_1/metadata", "");
}

/* ---- offers, by their holder ---- */

TEST(a_holder_declines_and_renews_with_the_key)
{
        START(x, { JSON("200", "{\"status\":\"CANCELLED\"}") },
              { JSON("200", "{\"status\":\"INITIALIZED\",\"expires_at\":\"2030-01-01T00:00:00.000Z\"}") },
              { JSON("200", "{\"status\":\"NEW\"}") }, { JSON("200", "{\"expires_at\":\"x\"}") });
        struct ferry_offer_state state;
        assert_int_equal(ferry_decline_operation(x->ferry, "op_1", "k1", &state), 0);
        assert_int_equal(state.status, FERRY_CANCELLED);
        assert_string_equal(state.expires_at, "");
        assert_int_equal(ferry_renew_by_key(x->ferry, "op_1", "k1", 5000, &state), 0);
        assert_string_equal(state.expires_at, "2030-01-01T00:00:00.000Z");
        assert_int_equal(ferry_renew_by_key(x->ferry, "op_1", "k1", 0, &state), 0);
        assert_int_equal(state.status, -1);
        assert_int_equal(ferry_decline_operation(x->ferry, "op_1", "k1", NULL), -EPROTO);
        assert_int_equal(ferry_decline_operation(x->ferry, "op_1", NULL, NULL), -EINVAL);
        assert_int_equal(ferry_decline_operation(x->ferry, "op_1", "", NULL), -EINVAL);
        assert_int_equal(ferry_renew_by_key(x->ferry, "", "k1", 0, NULL), -EINVAL);
        sent(x, 0, "POST /v1/operations/op_1/decline", "");
        has_header(x, 0, "Authorization: Bearer k1");
        assert_non_null(strstr(request_of(x, 0), "\r\nFerry-Transfer: xfr_"));
        sent(x, 1, "POST /v1/operations/op_1/renew", "{\"ttl_ms\":5000}");
        has_header(x, 1, "Authorization: Bearer k1");
        sent(x, 2, "POST /v1/operations/op_1/renew", "");
        assert_int_equal(served(x), 4);
}

TEST(a_worker_declines_and_renews_with_the_metadata)
{
        START(x, { JSON("200", "{\"status\":\"CANCELLED\"}") }, { JSON("200", "{\"status\":\"CANCELLED\"}") });
        static const char *const wrong[] = { "", "{", "{},\"ttl_ms\":1", "{} {}" };
        assert_int_equal(ferry_decline_remote(x->ferry, "{\"a\":1}", NULL), 0);
        assert_int_equal(ferry_renew_remote(x->ferry, "{\"a\":1}", 7, NULL), 0);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_int_equal(ferry_decline_remote(x->ferry, wrong[i], NULL), -EINVAL);
        assert_int_equal(ferry_renew_remote(x->ferry, NULL, 7, NULL), -EINVAL);
        sent(x, 0, "POST /v1/operations/decline", "{\"remote_metadata\":{\"a\":1}}");
        sent(x, 1, "POST /v1/operations/renew", "{\"remote_metadata\":{\"a\":1},\"ttl_ms\":7}");
        assert_int_equal(served(x), 2);
}

/* ---- waiting ---- */

TEST(lists_are_filtered_by_the_worker)
{
        START(x, { JSON("200", "{\"operations\":[]}") }, { JSON("200", "{\"operations\":[]}") });
        struct ferry_operation_list list;
        struct ferry_operation_query query = { .region = "rgn_1", .label = "k v", .done = true, .newest = true };
        assert_int_equal(ferry_list_operations(x->ferry, &query, &list), 0);
        ferry_operation_list_clear(&list);
        query = (struct ferry_operation_query){ .done = true, .running = true };
        assert_int_equal(ferry_list_operations(x->ferry, &query, &list), -EINVAL);
        query.done = false;
        assert_int_equal(ferry_list_operations(x->ferry, &query, &list), 0);
        ferry_operation_list_clear(&list);
        sent(x, 0, "GET /v1/operations?region=rgn_1&label=k%20v&done=true&order=newest", "");
        sent(x, 1, "GET /v1/operations?done=false", "");
}

TEST(several_are_waited_for_until_any_is_done)
{
#define PAIR(first, second) JSON("200", "{\"operations\":[" first "," second "]}")
        START(x, { PAIR(RUNS, RUNS) }, { NULL, SERVER_RESET }, { PAIR(RUNS, OPERATION("COMPLETE", "true", "")) },
              { PAIR(RUNS, OPERATION("COMPLETE", "true", "")) });
        const char *const ids[] = { "op_1", "op_2" };
        struct ferry_operation_results results;
        assert_int_equal(ferry_wait_operations(x->ferry, ids, 2, FERRY_WAIT_ANY, FERRY_FOREVER, &results), 0);
        assert_false(results.items[0].operation->done);
        assert_true(results.items[1].operation->done);
        ferry_operation_results_clear(&results);
        assert_int_equal(ferry_wait_operations(x->ferry, ids, 2, FERRY_WAIT_ALL, 0, &results), -ETIMEDOUT);
        assert_int_equal(results.n, 2);
        assert_true(results.items[1].operation->done);
        ferry_operation_results_clear(&results);
        assert_int_equal(ferry_wait_operations(x->ferry, ids, 0, FERRY_WAIT_ALL, 0, &results), -EINVAL);
        sent(x, 0, "GET /v1/operations?ids=op_1,op_2&wait_for=any&wait_ms=30000", "");
        sent(x, 3, "GET /v1/operations?ids=op_1,op_2", "");
}

TEST(an_answer_about_others_is_refused)
{
        START(x, { JSON("200", "{\"operations\":[" RUNS "]}") },
              { JSON("200", "{\"operations\":[" RUNS ",{\"id\":5}]}") }, { JSON("200", "{\"results\":[" RUNS "]}") },
              { JSON("200", "{\"results\":" RUNS "}") }, { JSON("200", "{\"results\":[" RUNS ",{\"id\":5}]}") },
              { JSON("200", "{\"results\":[" RUNS ",") });
        const char *const ids[] = { "op_1", "op_2" };
        struct ferry_operation_spec specs[2] = { { .kind = FERRY_READ }, { .kind = FERRY_READ } };
        struct ferry_operation_results results = { .n = 77 };
        for (size_t i = 0; i < UNIT_COUNT(steps); i++)
                assert_int_equal(i < 2 ? ferry_wait_operations(x->ferry, ids, 2, FERRY_WAIT_ALL, 1000, &results)
                                       : ferry_create_operations(x->ferry, specs, i == 3 ? 1 : 2, &results),
                                 -EPROTO);
        assert_int_equal(results.n, 77);
        assert_int_equal(ferry_create_operations(x->ferry, specs, 0, &results), -EINVAL);
}

TEST(a_wait_goes_on_over_lost_connections)
{
        START(x, { RUNNING }, { NULL, SERVER_RESET }, { DRAINING }, { COMPLETE });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", FERRY_FOREVER, &o), 0);
        assert_int_equal(o.status, FERRY_COMPLETE);
        ferry_operation_clear(&o);
        sent(x, 0, "GET /v1/operations/op_1?wait_ms=30000", "");
        assert_int_equal(served(x), 4);
}

TEST(arguments_that_are_missing_are_told)
{
        START(x, { RUNNING });
        struct ferry_operation o;
        struct ferry_operation_results results;
        struct ferry_region region;
        struct ferry_answer answer;
        const int answers[] = { ferry_create_operation(x->ferry, NULL, &o),
                                ferry_create_operations(x->ferry, NULL, 2, &results),
                                ferry_wait_operations(x->ferry, NULL, 2, FERRY_WAIT_ALL, 0, &results),
                                ferry_watch_operation(x->ferry, "op_1", NULL, &o),
                                ferry_create_region(x->ferry, NULL, &region),
                                ferry_exchange_perform(x->ferry, NULL, &answer),
                                ferry_get_region_content_to(x->ferry, "rgn_1", 0, 0, NULL, NULL, NULL),
                                ferry_put_region_content_from(x->ferry, "rgn_1", 0, NULL, NULL, 8) };
        for (size_t i = 0; i < UNIT_COUNT(answers); i++)
                assert_int_equal(answers[i], -EINVAL);
        assert_string_not_equal(ferry_last_message(x->ferry), "");
        assert_int_equal(served(x), 0);
}

TEST(a_wait_has_an_end)
{
        START_WITH(x, &(struct ferry_options){ .timeout_ms = 3600000 }, { RUNNING }, { NULL, SERVER_HANG });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 100, &o), -ETIMEDOUT);
        assert_string_equal(o.id, "op_1");
        assert_int_equal(o.status, FERRY_IN_PROGRESS);
        ferry_operation_clear(&o);
}

TEST(a_worker_that_is_away_ends_a_wait_without_end_alone)
{
        START(x, { RUNNING }, { NULL, SERVER_RESET }, { NULL, SERVER_RESET }, { COMPLETE }, { RUNNING },
              { NULL, SERVER_RESET }, { NULL, SERVER_RESET }, { COMPLETE });
        struct ferry_watch watch = { .timeout_ms = 3600000, .away_ms = 1 };
        struct ferry_operation o;
        assert_int_equal(ferry_watch_operation(x->ferry, "op_1", &watch, &o), 0);
        ferry_operation_clear(&o);
        watch.timeout_ms = FERRY_FOREVER;
        assert_int_equal(ferry_watch_operation(x->ferry, "op_1", &watch, &o), -ECONNRESET);
}

TEST(a_wait_does_not_sleep_as_long_as_a_worker_asks_for)
{
        START_WITH(x, NULL, { "HTTP/1.1 503 No\r\nRetry-After: 9\r\nConnection: close\r\n\r\n" }, { COMPLETE });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 5000, &o), 0);
        ferry_operation_clear(&o);
}

#define GATEWAY(status)                                                                                                \
        {                                                                                                              \
                HTML(status), SERVER_KEEP                                                                              \
        }

/* It waits no longer than the gateway does. */
TEST(a_wait_goes_on_behind_a_gateway_and_asks_for_shorter_waits)
{
        START(x, GATEWAY("504"), GATEWAY("502"), GATEWAY("504"), { RUNNING }, { COMPLETE });
        static const char *const asked[] = { "30000", "15000", "15000", "7500", "7500" };
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 3600000, &o), 0);
        ferry_operation_clear(&o);
        for (size_t i = 0; i < UNIT_COUNT(asked); i++)
                sent(x, i, text_format("GET /v1/operations/op_1?wait_ms=%s", asked[i]), "");
}

TEST(a_wait_without_time_looks_once)
{
        START(x, { RUNNING }, { COMPLETE });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 0, &o), -ETIMEDOUT);
        assert_string_equal(ferry_last_message(x->ferry), "not done within the time limit");
        ferry_operation_clear(&o);
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 0, &o), 0);
        ferry_operation_clear(&o);
        sent(x, 0, "GET /v1/operations/op_1", "");
}

TEST(a_wait_for_what_is_gone_ends_at_once)
{
        START(x, { GONE });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", FERRY_FOREVER, &o), FERRY_E_GONE);
}

struct progress {
        int calls, stop_at;
        bool done;
};

static int on_progress(void *context, const struct ferry_operation *operation)
{
        struct progress *p = context;
        p->done = operation->done;
        return ++p->calls == p->stop_at ? -ECANCELED : 0;
}

TEST(a_watcher_sees_every_state)
{
        START(x, { RUNNING }, { RUNNING }, { COMPLETE }, { RUNNING });
        struct progress p = { 0 };
        struct ferry_watch watch = {
                .timeout_ms = FERRY_FOREVER, .interval_ms = 70, .progress = on_progress, .context = &p
        };
        struct ferry_operation o;
        assert_int_equal(ferry_watch_operation(x->ferry, "op_1", &watch, &o), 0);
        ferry_operation_clear(&o);
        assert_int_equal(p.calls, 3);
        assert_true(p.done);
        p = (struct progress){ .stop_at = 1 };
        assert_int_equal(ferry_watch_operation(x->ferry, "op_1", &watch, &o), -ECANCELED);
        sent(x, 0, "GET /v1/operations/op_1", "");
        sent(x, 1, "GET /v1/operations/op_1?wait_ms=70", "");
}
