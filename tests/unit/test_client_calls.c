/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>

#include <ferry/clock.h>

#define START_OPTIONS .retries = -1
#include "client_fixture.h"

/* ---- the worker ---- */

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
        START(x, { JSON("200", "{ \"a\":1 }") }, { JSON("200", "{}") }, { JSON("200", "{}") },
              { TEXT("text/plain; version=0.0.4", "up 1\n") }, { TEXT("application/yaml", "openapi: 3.0\n") },
              { NO_CONTENT }, { NO_CONTENT }, { TEXT("text/html", "hm") });
        char *text = NULL;
        assert_int_equal(ferry_get_root(x->ferry, &text), 0);
        assert_string_equal(text, "{ \"a\":1 }");
        free(text);
        assert_int_equal(ferry_get_devices(x->ferry, &text), 0);
        free(text);
        assert_int_equal(ferry_get_throughput(x->ferry, &text), 0);
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
        static const char *const lines[] = { "GET /",        "GET /v1/devices",   "GET /v1/throughput",
                                             "GET /metrics", "GET /openapi.yaml", "GET /livez",
                                             "GET /readyz" };
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
        assert_int_equal(ferry_create_region(x->ferry,
                                             &(struct ferry_region_spec){ .size = 1, .sealed = true, .idle_ms = 9 },
                                             &region),
                         0);
        sent(x, 0, "POST /v1/regions", "{\"size\":1099511627776,\"device\":\"cuda:0\",\"name\":\"a\\\"b/c\"}");
        has_header(x, 0, "Idempotency-Key: mine");
        has_header(x, 0, "Content-Type: application/json");
        sent(x, 1, "POST /v1/regions", "{\"size\":1,\"sealed\":true,\"idle_ms\":9}");
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

TEST(a_source_gets_a_fresh_connection_and_is_not_asked_for_the_same_again)
{
        START_WITH(x, NULL, { "HTTP/1.1 204 No Content\r\n\r\n", SERVER_KEEP }, { NO_CONTENT }, { NULL, SERVER_RESET },
                   { NO_CONTENT });
        size_t calls = 0;
        assert_int_equal(ferry_put_region_content(x->ferry, "rgn_1", 0, "bytes", 5), 0);
        assert_int_equal(ferry_put_region_content_from(x->ferry, "rgn_1", 0, three_letters, &calls, 3), 0);
        calls = 0;
        assert_int_equal(ferry_put_region_content_from(x->ferry, "rgn_1", 0, three_letters, &calls, 3), -ECONNRESET);
        assert_int_equal(served(x), 3);
        assert_int_equal(x->server.connections, 3);
}

/* Content may take longer than the time limit of an answer as long as it moves. */
enum { LIMIT_MS = 1000, MUCH = 10000000 };

static int outlast_the_limit(void *context, const void *data, size_t size)
{
        const uint64_t *start = context;
        while (ferry_clock_ms() <= *start + LIMIT_MS)
                ;
        return 0;
}

TEST(content_that_moves_outlasts_the_time_limit)
{
        START_WITH(x, &(struct ferry_options){ .timeout_ms = LIMIT_MS },
                   { "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n", .filler = MUCH });
        uint64_t start = ferry_clock_ms(), size = 0;
        assert_int_equal(ferry_get_region_content_to(x->ferry, "rgn_1", 0, 0, outlast_the_limit, &start, &size), 0);
        assert_int_equal(size, MUCH);
}

TEST(memory_is_sent_again_after_a_reset)
{
        START_WITH(x, NULL, { NULL, SERVER_RESET }, { NO_CONTENT });
        assert_int_equal(ferry_put_region_content(x->ferry, "rgn_1", 0, "bytes", 5), 0);
        sent(x, 1, "PUT /v1/regions/rgn_1/content", "bytes");
}
