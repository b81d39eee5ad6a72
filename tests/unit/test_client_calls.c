/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>

#include "client_fixture.h"

#define JSON(status, body)                                                                                             \
        "HTTP/1.1 " status " Yes\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n" body
#define OPERATION(status, done, extra)                                                                                 \
        "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"" status "\",\"done\":" done                                  \
        ",\"revision\":2,\"bytes_total\":8,\"bytes_done\":4,\"descriptors\":[{\"region\":\"rgn_1\",\"offset\":0,"      \
        "\"size\":8}]" extra "}"
#define RUNNING JSON("200", OPERATION("IN_PROGRESS", "false", ""))
#define COMPLETE JSON("200", OPERATION("COMPLETE", "true", ""))
#define REGION "{\"id\":\"rgn_1\",\"size\":4096,\"device\":\"cpu\",\"name\":\"kv\"}"
#define NO_CONTENT "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
#define DRAINING                                                                                                       \
        "HTTP/1.1 503 No\r\nContent-Type: application/problem+json\r\nConnection: "                                    \
        "close\r\n\r\n{\"code\":\"draining\"}"

#define START(x, ...) START_WITH(x, &(struct ferry_options){ .retries = -1 }, __VA_ARGS__)

/* Compares the request line and, when not NULL, the body of request i. */
static void sent(struct fixture *x, size_t i, const char *line, const char *body)
{
        const char *request = request_of(x, i);
        if (strncmp(request, line, strlen(line)) != 0 || strncmp(request + strlen(line), " HTTP/1.1\r\n", 11) != 0)
                fail_msg("not \"%s\": %s", line, request);
        if (body)
                assert_string_equal(strstr(request, "\r\n\r\n") + 4, body);
}

static void has_header(struct fixture *x, size_t i, const char *line)
{
        if (!strstr(request_of(x, i), text_format("\r\n%s\r\n", line)))
                fail_msg("no \"%s\": %s", line, request_of(x, i));
}

/* ---- the worker ---- */

TEST(the_worker_is_described)
{
        START(x,
              { JSON("200", "{\"name\":\"w\",\"epoch\":\"00ff\",\"version\":\"0.1.0\",\"ucx_version\":\"1.13.1\","
                            "\"uptime_ms\":12,\"http\":[]}") },
              { JSON("200", "{\"name\":\"w\"}") });
        struct ferry_worker_info info;
        assert_int_equal(ferry_get_worker(x->ferry, &info), 0);
        assert_string_equal(info.name, "w");
        assert_string_equal(info.epoch, "00ff");
        assert_string_equal(info.version, "0.1.0");
        assert_string_equal(info.ucx_version, "1.13.1");
        assert_int_equal(info.uptime_ms, 12);
        assert_non_null(strstr(info.json, "\"http\":[]"));
        ferry_worker_info_clear(&info);
        assert_int_equal(ferry_get_worker(x->ferry, &info), -EPROTO);
        sent(x, 0, "GET /v1/worker", "");
}

TEST(a_peer_is_connected_to)
{
        START(x,
              { JSON("201", "{\"url\":\"http://h\",\"worker\":\"w\",\"epoch\":\"00ff\",\"transport\":\"tcp\","
                            "\"connect_us\":9,\"reused\":false}") },
              { JSON("200", "{\"worker\":\"w\",\"epoch\":\"00ff\",\"transport\":\"tcp\"}") },
              { "HTTP/1.1 502 No\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n"
                "{\"code\":\"peer-unreachable\"}" });
        struct ferry_peer peer;
        assert_int_equal(ferry_connect_peer(x->ferry, "http://h\"", &peer), 0);
        assert_string_equal(peer.worker, "w");
        assert_string_equal(peer.epoch, "00ff");
        assert_string_equal(peer.transport, "tcp");
        assert_int_equal(peer.connect_us, 9);
        assert_false(peer.reused);
        assert_non_null(strstr(peer.json, "\"url\":\"http://h\""));
        ferry_peer_clear(&peer);
        assert_int_equal(ferry_connect_peer(x->ferry, "http://h", &peer), -EPROTO);
        assert_int_equal(ferry_connect_peer(x->ferry, "http://h", &peer), FERRY_E_PEER_UNREACHABLE);
        sent(x, 0, "POST /v1/peers", "{\"url\":\"http://h\\\"\"}");
}

TEST(texts_come_as_they_are)
{
#define EVENTS "{\"events\":[],\"next\":\"00000000000000ff-7\"}"
#define TEXT(type, body) "HTTP/1.1 200 OK\r\nContent-Type: " type "\r\nConnection: close\r\n\r\n" body
        START(x, { JSON("200", "{ \"a\":1 }") }, { JSON("200", "{}") }, { TEXT("text/plain; version=0.0.4", "up 1\n") },
              { TEXT("application/yaml", "openapi: 3.0\n") }, { NO_CONTENT }, { NO_CONTENT },
              { TEXT("text/html", "hm") });
        char *text = NULL;
        assert_int_equal(ferry_get_root(x->ferry, &text), 0);
        assert_string_equal(text, "{ \"a\":1 }");
        free(text);
        assert_int_equal(ferry_get_devices(x->ferry, &text), 0);
        free(text);
        assert_int_equal(ferry_get_metrics(x->ferry, &text), 0);
        assert_string_equal(text, "up 1\n");
        free(text);
        assert_int_equal(ferry_get_openapi(x->ferry, &text), 0);
        assert_string_equal(text, "openapi: 3.0\n");
        free(text);
        assert_int_equal(ferry_get_livez(x->ferry), 0);
        assert_int_equal(ferry_get_readyz(x->ferry), 0);
        assert_int_equal(ferry_get_metrics(x->ferry, &text), -EPROTO);
        static const char *const lines[] = { "GET /",      "GET /v1/devices", "GET /metrics", "GET /openapi.yaml",
                                             "GET /livez", "GET /readyz" };
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                sent(x, i, lines[i], "");
}

TEST(events_are_asked_for_from_where_the_caller_was)
{
        START(x, { JSON("200", EVENTS) }, { JSON("200", EVENTS) });
        char *text = NULL;
        assert_int_equal(ferry_list_events(x->ferry, NULL, NULL, 0, &text), 0);
        assert_string_equal(text, EVENTS);
        free(text);
        assert_int_equal(ferry_list_events(x->ferry, "00000000000000ff-6", "a b", 500, &text), 0);
        free(text);
        sent(x, 0, "GET /v1/events?limit=1000", "");
        sent(x, 1, "GET /v1/events?limit=1000&after=00000000000000ff-6&label=a%20b&wait_ms=500", "");
}

/* ---- regions ---- */

TEST(a_region_is_created)
{
        START(x, { JSON("201", REGION) }, { JSON("201", REGION) });
        struct ferry_region region;
        assert_int_equal(ferry_create_region(x->ferry,
                                             &(struct ferry_region_spec){ .size = UINT64_C(1) << 40,
                                                                          .device = "cuda:0",
                                                                          .name = "a\"b/c",
                                                                          .idempotency_key = "mine" },
                                             &region),
                         0);
        assert_string_equal(region.name, "kv");
        assert_int_equal(
                ferry_create_region(x->ferry, &(struct ferry_region_spec){ .size = 1, .sealed = true }, &region), 0);
        sent(x, 0, "POST /v1/regions", "{\"size\":1099511627776,\"device\":\"cuda:0\",\"name\":\"a\\\"b/c\"}");
        has_header(x, 0, "Idempotency-Key: mine");
        has_header(x, 0, "Content-Type: application/json");
        sent(x, 1, "POST /v1/regions", "{\"size\":1,\"sealed\":true}");
}

TEST(regions_are_fetched_listed_and_deleted)
{
        START(x, { JSON("200", REGION) }, { JSON("200", "{\"regions\":[" REGION "],\"next\":\"c+/=\"}") },
              { JSON("200", "{\"regions\":[]}") }, { NO_CONTENT });
        struct ferry_region region;
        struct ferry_region_list list;
        assert_int_equal(ferry_get_region(x->ferry, "rgn/1", &region), 0);
        assert_int_equal(ferry_list_regions(x->ferry, 0, NULL, &list), 0);
        assert_int_equal(list.n, 1);
        char *next = strdup(list.next);
        ferry_region_list_clear(&list);
        assert_int_equal(ferry_list_regions(x->ferry, 5, next, &list), 0);
        assert_int_equal(list.n, 0);
        ferry_region_list_clear(&list);
        free(next);
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), 0);
        sent(x, 0, "GET /v1/regions/rgn%2F1", "");
        sent(x, 1, "GET /v1/regions", "");
        sent(x, 2, "GET /v1/regions?limit=5&after=c%2B%2F%3D", "");
        sent(x, 3, "DELETE /v1/regions/rgn_1", "");
}

#define PART(range, body) "HTTP/1.1 206 Partial\r\nContent-Range: bytes " range "\r\nConnection: close\r\n\r\n" body

TEST(content_is_read_by_parts)
{
        START(x, { PART("16-23/4096", "01234567") }, { PART("4092-4095/4096", "tail") });
        char buffer[9] = "";
        size_t size = 0;
        assert_int_equal(ferry_get_region_content(x->ferry, "rgn_1", 16, buffer, 8, &size), 0);
        assert_string_equal(buffer, "01234567");
        assert_int_equal(size, 8);
        assert_int_equal(ferry_get_region_content(x->ferry, "rgn_1", 4092, buffer, 8, &size), 0);
        assert_int_equal(size, 4);
        assert_memory_equal(buffer, "tail4567", 8);
        sent(x, 0, "GET /v1/regions/rgn_1/content", "");
        has_header(x, 0, "Range: bytes=16-23");
}

TEST(content_that_is_another_part_is_refused)
{
        START(x, { PART("0-7/4096", "01234567") }, { PART("16-24/4096", "012345678") },
              { "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n01234567" }, { PART("lies", "01234567") });
        char buffer[9];
        for (int i = 0; i < 4; i++) {
                buffer[8] = '!';
                assert_int_equal(ferry_get_region_content(x->ferry, "rgn_1", 16, buffer, 8, NULL), -EPROTO);
                assert_int_equal(buffer[8], '!');
        }
        assert_int_equal(ferry_get_region_content(x->ferry, "rgn_1", UINT64_MAX, buffer, 2, NULL), -EINVAL);
        assert_int_equal(ferry_get_region_content(x->ferry, "rgn_1", 0, buffer, 0, NULL), -EINVAL);
}

TEST(content_flows_into_a_file)
{
        START(x, { "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", .filler = 1000000 },
              { PART("9-10/11", "xy") });
        int fd = memfd_create("content", MFD_CLOEXEC);
        uint64_t size = 0;
        char last = 0;
        assert_int_equal(ferry_get_region_content_fd(x->ferry, "rgn_1", 0, 0, fd, &size), 0);
        assert_int_equal(size, 1000000);
        assert_int_equal(pread(fd, &last, 1, 999999), 1);
        assert_int_equal(last, 'x');
        assert_int_equal(ferry_get_region_content_fd(x->ferry, "rgn_1", 9, 0, fd, &size), 0);
        assert_int_equal(size, 2);
        close(fd);
        sent(x, 0, "GET /v1/regions/rgn_1/content", "");
        assert_null(strstr(request_of(x, 0), "\r\nRange:"));
        has_header(x, 1, "Range: bytes=9-");
}

static int count_and_stop(void *context, const void *data, size_t size)
{
        size_t *calls = context;
        return ++*calls == 2 ? -ECANCELED : 0;
}

TEST(a_sink_can_end_the_transfer)
{
        START(x, { "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n", .filler = 10000000 });
        size_t calls = 0;
        assert_int_equal(ferry_get_region_content_to(x->ferry, "rgn_1", 0, 0, count_and_stop, &calls, NULL),
                         -ECANCELED);
        assert_int_equal(calls, 2);
}

TEST(content_that_broke_off_is_not_asked_for_again)
{
        START_WITH(x, NULL, { "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf" },
                   { "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull" });
        size_t calls = 5;
        assert_int_equal(ferry_get_region_content_to(x->ferry, "rgn_1", 0, 0, count_and_stop, &calls, NULL),
                         -ECONNRESET);
        assert_int_equal(calls, 6);
}

TEST(content_is_written_from_memory)
{
        START(x, { NO_CONTENT }, { NO_CONTENT });
        assert_int_equal(ferry_put_region_content(x->ferry, "rgn_1", 12, "bytes", 5), 0);
        assert_int_equal(ferry_put_region_content(x->ferry, "rgn_1", 0, NULL, 0), 0);
        sent(x, 0, "PUT /v1/regions/rgn_1/content?offset=12", "bytes");
        has_header(x, 0, "Content-Type: application/octet-stream");
        has_header(x, 0, "Content-Length: 5");
        sent(x, 1, "PUT /v1/regions/rgn_1/content", "");
        has_header(x, 1, "Content-Length: 0");
}

TEST(memory_is_sent_again_after_a_reset)
{
        START_WITH(x, NULL, { NULL, SERVER_RESET }, { NO_CONTENT });
        assert_int_equal(ferry_put_region_content(x->ferry, "rgn_1", 0, "bytes", 5), 0);
        sent(x, 1, "PUT /v1/regions/rgn_1/content", "bytes");
}

TEST(content_is_written_from_a_file)
{
        START(x, { NO_CONTENT }, { NULL, SERVER_HANG });
        int fd = memfd_create("content", MFD_CLOEXEC);
        assert_int_equal(write(fd, "skip:bytes:rest", 15), 15);
        lseek(fd, 5, SEEK_SET);
        assert_int_equal(ferry_put_region_content_fd(x->ferry, "rgn_1", 0, fd, 5), 0);
        /* A file that is shorter than announced must not leave the worker waiting. */
        assert_int_equal(ferry_put_region_content_fd(x->ferry, "rgn_1", 0, fd, 100), -ENODATA);
        close(fd);
        sent(x, 0, "PUT /v1/regions/rgn_1/content", "bytes");
}

static ssize_t three_letters(void *context, void *buffer, size_t size)
{
        size_t *calls = context;
        if (++*calls > 3)
                return 0;
        *(char *)buffer = (char)('a' + *calls - 1);
        return 1;
}

static ssize_t broken_source(void *context, void *buffer, size_t size)
{
        return -ENOTRECOVERABLE;
}

TEST(content_is_written_from_a_source)
{
        START(x, { NO_CONTENT }, { NO_CONTENT }, { NULL, SERVER_HANG });
        size_t calls = 0;
        assert_int_equal(ferry_put_region_content_from(x->ferry, "rgn_1", 0, three_letters, &calls, 3), 0);
        calls = 0;
        assert_int_equal(ferry_put_region_content_from(x->ferry, "rgn_1", 0, three_letters, &calls, FERRY_SIZE_UNKNOWN),
                         0);
        assert_int_equal(ferry_put_region_content_from(x->ferry, "rgn_1", 0, broken_source, NULL, 3), -ENOTRECOVERABLE);
        sent(x, 0, "PUT /v1/regions/rgn_1/content", "abc");
        has_header(x, 1, "Transfer-Encoding: chunked");
}

/* ---- operations ---- */

TEST(an_active_operation_is_created)
{
        START(x, { JSON("201", OPERATION("IN_PROGRESS", "false", "")) });
        const struct ferry_descriptor descriptors[] = { { "rgn_1", 0, 0 }, { "rgn_2", 4096, 8, 3, 16 } };
        struct ferry_operation o;
        const struct ferry_operation_spec spec = {
                .kind = FERRY_READ,
                .layout = FERRY_LAYOUT_STREAM,
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
             "\"descriptors\":[{\"region\":\"rgn_1\"},{\"region\":\"rgn_2\",\"offset\":4096,\"size\":8,\"count\":3,"
             "\"stride\":16}],\"remote_metadata\":{\"descriptors\": "
             "[{\"ptr\":9007199254740991}],\"nixl_metadata\":\"b64:eJ/+\"}}");
}

TEST(a_passive_operation_brings_its_metadata_as_they_came)
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
        assert_string_equal(o.metadata, "{ \"a\" : [1.50] , \"\\u0062\":[]}");
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
        static const char *const wrong[] = { "", "{", "{},\"verify\":true", "{} {}", "NaN", "{\"a\":1,\"a\":2}" };
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
        sent(x, 4, "POST /v1/operations/op_1/renew", "");
        assert_null(strcasestr(request_of(x, 4), "content-type"));
        sent(x, 5, "POST /v1/operations/op_1/renew", "{\"ttl_ms\":5000}");
        sent(x, 6, "DELETE /v1/operations/op_1", "");
        sent(x, 7, "GET /v1/operations/op_1/metadata", "");
}

/* ---- waiting ---- */

TEST(lists_are_filtered_by_the_worker)
{
        START(x,
              { JSON("200", "{\"operations\":[" OPERATION("COMPLETE", "true",
                                                          ",\"label\":\"kv\",\"uses\":3,\"uses_done\":2,"
                                                          "\"request_id\":\"r1\",\"peer\":{\"worker\":\"b\","
                                                          "\"epoch\":\"00ff\"}") "]}") },
              { JSON("200", "{\"operations\":[]}") });
        struct ferry_operation_list list;
        struct ferry_operation_query query = { .region = "rgn_1", .label = "k v", .done = true, .newest = true };
        assert_int_equal(ferry_list_operations(x->ferry, &query, &list), 0);
        assert_string_equal(list.items[0].label, "kv");
        assert_int_equal(list.items[0].uses, 3);
        assert_int_equal(list.items[0].uses_done, 2);
        assert_string_equal(list.items[0].request_id, "r1");
        assert_string_equal(list.items[0].peer, "b");
        assert_string_equal(list.items[0].peer_epoch, "00ff");
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
#define RUNS OPERATION("IN_PROGRESS", "false", "")
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

TEST(an_answer_about_another_number_is_refused)
{
        START(x, { JSON("200", "{\"operations\":[" RUNS "]}") }, { JSON("200", "[" RUNS "]") }, { JSON("200", RUNS) });
        const char *const ids[] = { "op_1", "op_2" };
        struct ferry_operation_spec specs[2] = { { .kind = FERRY_READ }, { .kind = FERRY_READ } };
        struct ferry_operation_results results;
        assert_int_equal(ferry_wait_operations(x->ferry, ids, 2, FERRY_WAIT_ALL, 1000, &results), -EPROTO);
        assert_int_equal(ferry_create_operations(x->ferry, specs, 2, &results), -EPROTO);
        assert_int_equal(ferry_create_operations(x->ferry, specs, 1, &results), -EPROTO);
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

TEST(a_wait_has_an_end)
{
        START(x, { RUNNING }, { NULL, SERVER_HANG });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 100, &o), -ETIMEDOUT);
        assert_string_equal(o.id, "op_1");
        assert_int_equal(o.status, FERRY_IN_PROGRESS);
        ferry_operation_clear(&o);
}

TEST(a_wait_without_time_looks_once)
{
        START(x, { RUNNING }, { COMPLETE });
        struct ferry_operation o;
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 0, &o), -ETIMEDOUT);
        ferry_operation_clear(&o);
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 0, &o), 0);
        ferry_operation_clear(&o);
        sent(x, 0, "GET /v1/operations/op_1", "");
}

TEST(a_wait_for_what_is_gone_ends_at_once)
{
        START(x, { "HTTP/1.1 410 No\r\nContent-Type: application/problem+json\r\nConnection: "
                   "close\r\n\r\n{\"code\":\"gone\"}" });
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
