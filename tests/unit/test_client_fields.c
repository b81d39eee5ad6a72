/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker tells of itself, its peers, regions and operations has a place in libferry's structs. */
#include "client_fixture.h"

static struct fixture *answers(const char *body)
{
        return start_with_body(body, &(struct ferry_options){ .retries = -1 });
}

TEST(of_the_worker)
{
        struct fixture *x = answers(
                "{\"name\":\"w\",\"epoch\":\"00ff\",\"version\":\"0.1.0\",\"ucx_version\":\"1.13.1\",\"uptime_ms\":12,"
                "\"started_at\":\"2026-01-31T12:00:00.000Z\",\"pid\":77,\"addresses\":{\"http\":[\"unix:/s\","
                "\"http://h:1\"],\"data\":\"10.0.0.1:9\"},\"local\":true}");
        struct ferry_worker_info info;
        assert_int_equal(ferry_get_worker(x->ferry, &info), 0);
        assert_string_equal(info.started_at, "2026-01-31T12:00:00.000Z");
        assert_int_equal(info.pid, 77);
        assert_true(info.local);
        assert_string_equal(info.url, "http://h:1");
        assert_string_equal(info.data, "10.0.0.1:9");
        ferry_worker_info_clear(&info);
}

/* A list of more bytes than a JSON tree holds as a whole. */
TEST(of_a_worker_that_listens_at_many_places)
{
        enum { SOCKETS = 40 };
        char body[4096];
        struct ferry_worker_info info;
        size_t n = (size_t)snprintf(body, sizeof(body),
                                    "{\"name\":\"w\",\"epoch\":\"00ff\",\"version\":\"0.1.0\","
                                    "\"ucx_version\":\"1.13.1\",\"uptime_ms\":12,\"addresses\":{\"http\":[");
        for (int i = 0; i < SOCKETS; i++)
                n += (size_t)snprintf(body + n, sizeof(body) - n, "\"unix:/run/user/1000/ferry/%d.sock\",", i);
        (void)snprintf(body + n, sizeof(body) - n, "\"http://h:1\"]}}");
        struct fixture *x = answers(body);
        assert_int_equal(ferry_get_worker(x->ferry, &info), 0);
        assert_string_equal(info.url, "http://h:1");
        ferry_worker_info_clear(&info);
}

TEST(of_a_region_that_could_not_be_made)
{
        struct fixture *x = answers(
                "{\"id\":\"rgn_1\",\"size\":4096,\"device\":\"cpu\",\"state\":\"failed\",\"bytes_prepared\":1024,"
                "\"error\":{\"code\":\"limit-reached\",\"detail\":\"The machine's memory is used up\"},\"in_use\":0}");
        struct ferry_region region;
        assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), 0);
        assert_string_equal(region.state, "failed");
        assert_int_equal(region.bytes_prepared, 1024);
        assert_int_equal(region.error, FERRY_E_LIMIT_REACHED);
        assert_string_equal(region.error_code, "limit-reached");
        assert_string_equal(region.error_detail, "The machine's memory is used up");
}

TEST(of_a_peer_that_is_disconnected)
{
        struct fixture *x =
                answers("{\"peers\":[{\"worker\":\"b\",\"epoch\":\"00ff\",\"addresses\":{},\"status\":\"disconnected\","
                        "\"opened_by\":\"peer\",\"disconnected_at\":\"2026-01-31T12:00:00.000Z\",\"transfers\":0,"
                        "\"unused\":[],\"error\":{\"code\":\"later-code\",\"detail\":\"d\"}}]}");
        struct ferry_peer_list list;
        assert_int_equal(ferry_list_peers(x->ferry, 0, NULL, &list), 0);
        assert_string_equal(list.items[0].opened_by, "peer");
        assert_string_equal(list.items[0].disconnected_at, "2026-01-31T12:00:00.000Z");
        assert_int_equal(list.items[0].error, FERRY_E_OTHER);
        assert_string_equal(list.items[0].error_code, "later-code");
        assert_string_equal(list.items[0].error_detail, "d");
        ferry_peer_list_clear(&list);
}

#define OPERATION(more)                                                                                                \
        "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"COMPLETE\",\"done\":true,\"revision\":2,\"bytes_total\":8,"   \
        "\"bytes_done\":8," more "\"descriptors\":[]}"

TEST(of_an_operation)
{
        struct fixture *x = answers(OPERATION("\"layout\":\"stream\",\"ttl_ms\":5,\"timeout_ms\":6,\"verify\":true,"
                                              "\"transports\":[\"shm\",\"tcp\"],"));
        struct ferry_operation o;
        assert_int_equal(ferry_get_operation(x->ferry, "op_1", 0, 0, &o), 0);
        assert_int_equal(o.layout, FERRY_LAYOUT_STREAM);
        assert_int_equal(o.ttl_ms, 5);
        assert_int_equal(o.timeout_ms, 6);
        assert_true(o.verify);
        assert_string_equal(o.transports, "shm,tcp");
        ferry_operation_clear(&o);
}

TEST(of_an_operation_of_a_later_worker)
{
        struct fixture *x =
                answers(OPERATION("\"layout\":\"spiral\",\"transports\":[\"a-name-of-thirty-two-letters-or-so\","
                                  "\"another-name-of-thirty-two-letters\",\"shm\"],"));
        struct ferry_operation o;
        assert_int_equal(ferry_get_operation(x->ferry, "op_1", 0, 0, &o), 0);
        assert_int_equal(o.layout, -1);
        assert_string_equal(o.transports, "a-name-of-thirty-two-letters-or-so");
        ferry_operation_clear(&o);
}

TEST(of_a_restriction_to_transports)
{
        struct fixture *x = answers(OPERATION(""));
        struct ferry_operation o;
        const struct ferry_operation_spec spec = { .kind = FERRY_READ, .transports = "shm,t\"cp" };
        assert_int_equal(ferry_create_operation(x->ferry, &spec, &o), 0);
        ferry_operation_clear(&o);
        assert_non_null(strstr(request_of(x, 0), "\"transports\":[\"shm\",\"t\\\"cp\"],"));
}
