/* SPDX-License-Identifier: Apache-2.0 */
#include "client_fixture.h"
#include "client_internal.h"
#include "unit_json.h"

#define OPERATION_START                                                                                                \
        "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"IN_PROGRESS\",\"done\":false,\"revision\":2,"                 \
        "\"bytes_total\":9007199254740991,\"bytes_done\":4096"

/* Decodes text; pointer gets what was wrong. */
static int decode(const char *text, call_decoder decoder, void *target, char pointer[FERRY_JSON_POINTER_SIZE])
{
        struct ferry_json_errors errors = { .lenient = true };
        int r = decoder(unit_json_parse(text), target, &errors);
        assert_int_equal(errors.n > 0, r == -EPROTO);
        if (pointer)
                strcpy(pointer, errors.items[0].pointer);
        return r;
}

TEST(an_operation_is_understood)
{
        struct ferry_operation o;
        assert_int_equal(
                decode(OPERATION_START
                       ",\"descriptors\":[{\"region\":\"rgn_a\",\"offset\":1,\"size\":2},"
                       "{\"region\":\"rgn_b\",\"offset\":0,\"size\":3}],\"created_at\":\"2026-01-31T12:00:00.000Z\","
                       "\"readers\":3,\"readers_done\":1,\"cancel_requested\":true,\"layout\":\"stream\",\"ttl_ms\":5,"
                       "\"timeout_ms\":6,\"verify\":true,\"transports\":[\"shm\",\"tcp\"],\"label\":\"kv\",\"uses\":7,"
                       "\"uses_done\":8,\"request_id\":\"r1\",\"peer\":{\"worker\":\"b\",\"epoch\":\"00ff\"},"
                       "\"duration_us\":17,\"connect_us\":9,\"transport\":\"tcp\",\"ended_at\":\"t\","
                       "\"error\":{\"code\":\"peer-lost\",\"detail\":\"it died\"},"
                       "\"metadata\":{\"nixl_metadata\":\"b64:eJ/+\",\"operation_kind\":1}}",
                       operation_decode, &o, NULL),
                0);
        const struct {
                const char *text, *expected;
        } texts[] = {
                { o.id, "op_1" },
                { o.descriptors[0].region, "rgn_a" },
                { o.descriptors[1].region, "rgn_b" },
                { o.created_at, "2026-01-31T12:00:00.000Z" },
                { o.expires_at, "" },
                { o.transports, "shm,tcp" },
                { o.label, "kv" },
                { o.request_id, "r1" },
                { o.peer, "b" },
                { o.peer_epoch, "00ff" },
                { o.transport, "tcp" },
                { o.ended_at, "t" },
                { o.error_code, "peer-lost" },
                { o.error_detail, "it died" },
                { o.metadata, "{\"nixl_metadata\":\"b64:eJ/+\",\"operation_kind\":1}" },
        };
        const uint64_t numbers[] = { o.kind,
                                     o.status,
                                     o.done,
                                     o.cancel_requested,
                                     o.revision,
                                     o.bytes_total,
                                     o.bytes_done,
                                     o.readers,
                                     o.readers_done,
                                     o.n_descriptors,
                                     o.descriptors[0].offset,
                                     o.descriptors[0].size,
                                     o.descriptors[1].size,
                                     o.layout,
                                     o.ttl_ms,
                                     o.timeout_ms,
                                     o.verify,
                                     o.uses,
                                     o.uses_done,
                                     o.duration_us,
                                     o.connect_us,
                                     o.error };
        const uint64_t expected[] = { FERRY_READ, FERRY_IN_PROGRESS,
                                      false,      true,
                                      2,          9007199254740991,
                                      4096,       3,
                                      1,          2,
                                      1,          2,
                                      3,          FERRY_LAYOUT_STREAM,
                                      5,          6,
                                      true,       7,
                                      8,          17,
                                      9,          FERRY_E_PEER_LOST };
        for (size_t i = 0; i < UNIT_COUNT(texts); i++)
                assert_string_equal(texts[i].text, texts[i].expected);
        _Static_assert(sizeof(numbers) == sizeof(expected), "one for each");
        for (size_t i = 0; i < UNIT_COUNT(numbers); i++)
                if (numbers[i] != expected[i])
                        fail_msg("number %zu is %llu", i, (unsigned long long)numbers[i]);
        ferry_operation_clear(&o);
        assert_null(o.descriptors);
        assert_null(o.metadata);
}

TEST(what_a_newer_worker_adds_is_borne)
{
        struct ferry_operation o;
        assert_int_equal(
                decode("{\"id\":\"op_1\",\"kind\":\"swap\",\"status\":\"PAUSED\",\"done\":false,\"revision\":3,"
                       "\"bytes_total\":8,\"bytes_done\":1,\"colour\":{\"deep\":[1]},\"transport\":null,\"layout\":"
                       "\"spiral\","
                       "\"transports\":[\"a-name-of-thirty-two-letters-or-so\",\"another-name-of-thirty-two-letters\"],"
                       "\"error\":{\"code\":\"moon-phase\",\"severity\":7}}",
                       operation_decode, &o, NULL),
                0);
        assert_int_equal(o.kind, -1);
        assert_int_equal(o.status, -1);
        assert_int_equal(o.error, FERRY_E_OTHER);
        assert_int_equal(o.layout, -1);
        assert_string_equal(o.transports, "a-name-of-thirty-two-letters-or-so");
        assert_string_equal(o.error_code, "moon-phase");
        assert_string_equal(o.transport, "");
        ferry_operation_clear(&o);
}

TEST(fields_that_lack_or_are_wrong_are_named)
{
        static const struct {
                const char *text, *pointer;
        } cases[] = {
                { "[]", "" },
                { "{}", "/id" },
                { "{\"id\":7}", "/id" },
                { "{\"id\":\"op_0123456789012345678901234567890123456789\"}", "/id" },
                { "{\"id\":\"op_1\",\"kind\":2}", "/kind" },
                { "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"COMPLETE\",\"done\":\"yes\"}", "/done" },
                { "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"COMPLETE\",\"done\":1}", "/done" },
                { "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"COMPLETE\",\"done\":true,\"revision\":-1}",
                  "/revision" },
                { "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"COMPLETE\",\"done\":true,\"revision\":1.5}",
                  "/revision" },
                { OPERATION_START ",\"error\":\"bad\"}", "/error" },
                { OPERATION_START ",\"error\":{}}", "/code" },
                { OPERATION_START ",\"descriptors\":{}}", "/descriptors" },
                { OPERATION_START ",\"descriptors\":[{\"region\":\"a\"}]}", "/size" },
                { OPERATION_START ",\"descriptors\":[{\"region\":\"a\",\"size\":1},7]}", "" },
                { OPERATION_START ",\"metadata\":\"text\"}", "/metadata" },
        };
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct ferry_operation o = { .revision = 77 };
                char pointer[FERRY_JSON_POINTER_SIZE];
                assert_int_equal(decode(cases[i].text, operation_decode, &o, pointer), -EPROTO);
                assert_string_equal(pointer, cases[i].pointer);
                assert_int_equal(o.revision, 77);
        }
}

TEST(a_long_detail_is_cut_between_characters)
{
        struct ferry_operation o;
        char text[2048], detail[1024] = "";
        for (size_t i = 0; i < 300; i++)
                strcat(detail, i ? "\xc3\xa9" : "x"); /* from then on each character is two bytes */
        snprintf(text, sizeof(text), OPERATION_START ",\"error\":{\"code\":\"timeout\",\"detail\":\"%s\"}}", detail);
        assert_int_equal(decode(text, operation_decode, &o, NULL), 0);
        assert_int_equal(strlen(o.error_detail), 511);
        ferry_operation_clear(&o);
        snprintf(text, sizeof(text), OPERATION_START ",\"error\":{\"code\":\"timeout\",\"detail\":\"x%s\"}}", detail);
        assert_int_equal(decode(text, operation_decode, &o, NULL), 0);
        assert_int_equal(strlen(o.error_detail), 510);
        ferry_operation_clear(&o);
}

TEST(a_region_is_understood)
{
        struct ferry_region r;
        assert_int_equal(
                decode("{\"id\":\"rgn_1\",\"size\":4096,\"device\":\"cpu\",\"name\":\"kv0\",\"path\":\"/proc/1/fd/2\","
                       "\"state\":\"failed\",\"sealed\":true,\"in_use\":2,\"created_at\":\"t\",\"new\":1,\"idle_ms\":5,"
                       "\"expires_at\":\"u\",\"bytes_prepared\":1024,\"error\":{\"code\":\"limit-reached\","
                       "\"detail\":\"The machine's memory is used up\"}}",
                       region_decode, &r, NULL),
                0);
        assert_string_equal(text_format("%s %s %s %s %s %s %s %s %s", r.id, r.device, r.name, r.path, r.state,
                                        r.created_at, r.expires_at, r.error_code, r.error_detail),
                            "rgn_1 cpu kv0 /proc/1/fd/2 failed t u limit-reached The machine's memory is used up");
        assert_string_equal(text_format("%d %d %d %d %d", (int)r.size, r.sealed, (int)r.in_use, (int)r.idle_ms,
                                        (int)r.bytes_prepared),
                            "4096 1 2 5 1024");
        assert_int_equal(r.error, FERRY_E_LIMIT_REACHED);
}

TEST(pages_are_understood)
{
        struct call_page page = { .list = &region_list };
        assert_int_equal(
                decode("{\"regions\":[{\"id\":\"rgn_1\",\"size\":1,\"device\":\"cpu\"},{\"id\":\"rgn_2\",\"size\":"
                       "2,\"device\":\"cpu\"}],\"next\":\"rgn_2\"}",
                       call_decode_page, &page, NULL),
                0);
        assert_int_equal(page.n, 2);
        assert_string_equal(((struct ferry_region *)page.items)[1].id, "rgn_2");
        assert_string_equal(page.next, "rgn_2");
        free(page.items);
        free(page.next);
        assert_int_equal(decode("{\"regions\":[]}", call_decode_page, &page, NULL), 0);
        assert_int_equal(page.n, 0);
        assert_null(page.next);
        free(page.items);
}

TEST(one_bad_item_spoils_the_page)
{
        static const char *const wrong[] = {
                "{\"operations\":[" OPERATION_START
                ",\"descriptors\":[{\"region\":\"r\",\"size\":1}]},{\"id\":\"op_2\"}]}",
                "{\"operations\":[" OPERATION_START "}],\"next\":5}",
                "{\"operations\":{}}",
                "{\"regions\":[]}",
                "[]",
        };
        struct call_page page = { .list = &operation_list, .n = 77 };
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                assert_int_equal(decode(wrong[i], call_decode_page, &page, NULL), -EPROTO);
                assert_int_equal(page.n, 77);
        }
}

/* ---- by calls, whose decoders are their own ---- */

#define WORKER "{\"name\":\"w\",\"epoch\":\"00ff\",\"version\":\"0.1.0\",\"ucx_version\":\"1.13.1\",\"uptime_ms\":12,"

TEST(a_worker_is_understood)
{
        char sockets[4096] = ""; /* of more bytes than a JSON tree holds as a whole */
        for (size_t n = 0; n < 40 * strlen("\"unix:/run/user/1000/ferry/0.sock\","); n = strlen(sockets))
                strcat(sockets, "\"unix:/run/user/1000/ferry/0.sock\",");
        const char *body = text_format(WORKER "\"started_at\":\"2026-01-31T12:00:00.000Z\",\"pid\":77,\"local\":true,"
                                              "\"addresses\":{\"http\":[%s\"http://h:1\"],\"data\":\"10.0.0.1:9\"}}",
                                       sockets);
        const char *answer = text_format(JSON("200", "%s"), body);
        struct fixture *x = start_with((struct server_step){ .answer = answer }, NULL);
        struct ferry_worker_info info;
        assert_int_equal(ferry_get_worker(x->ferry, &info), 0);
        assert_string_equal(text_format("%s %s %s %s %d %s %d %d %s %s", info.name, info.epoch, info.version,
                                        info.ucx_version, (int)info.uptime_ms, info.started_at, (int)info.pid,
                                        info.local, info.url, info.data),
                            "w 00ff 0.1.0 1.13.1 12 2026-01-31T12:00:00.000Z 77 1 http://h:1 10.0.0.1:9");
        assert_string_equal(info.json, body);
        ferry_worker_info_clear(&info);
        x = start_with((struct server_step){ .answer = JSON("200", "{\"name\":\"w\"}") }, NULL);
        assert_int_equal(ferry_get_worker(x->ferry, &info), -EPROTO);
        sent(x, 0, "GET /v1/worker", "");
}

TEST(a_peer_that_is_disconnected_is_understood)
{
        START(x, { JSON("200",
                        "{\"peers\":[{\"worker\":\"b\",\"epoch\":\"00ff\",\"addresses\":{},\"transfers\":0,"
                        "\"opened_by\":\"peer\",\"disconnected_at\":\"t\",\"status\":\"disconnected\",\"unused\":[],"
                        "\"error\":{\"code\":\"later-code\",\"detail\":\"d\"}}]}") });
        struct ferry_peer_list list;
        assert_int_equal(ferry_list_peers(x->ferry, 0, NULL, &list), 0);
        const struct ferry_peer_info *p = list.items;
        assert_string_equal(text_format("%s %s %s %s %s %s %s", p->worker, p->epoch, p->status, p->opened_by,
                                        p->disconnected_at, p->error_code, p->error_detail),
                            "b 00ff disconnected peer t later-code d");
        assert_int_equal(p->error, FERRY_E_OTHER);
        ferry_peer_list_clear(&list);
}
