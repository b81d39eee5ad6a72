/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/ferry.h>

#include "client_internal.h"
#include "unit.h"
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

TEST(a_running_operation_is_understood)
{
        struct ferry_operation o;
        assert_int_equal(decode(OPERATION_START ",\"descriptors\":[{\"region\":\"rgn_a\",\"offset\":1,\"size\":2},"
                                                "{\"region\":\"rgn_b\",\"offset\":0,\"size\":3}],"
                                                "\"created_at\":\"2026-01-31T12:00:00.000Z\",\"readers\":3,"
                                                "\"readers_done\":1,\"cancel_requested\":true}",
                                operation_decode, &o, NULL),
                         0);
        assert_string_equal(o.id, "op_1");
        assert_int_equal(o.kind, FERRY_READ);
        assert_int_equal(o.status, FERRY_IN_PROGRESS);
        assert_false(o.done);
        assert_true(o.cancel_requested);
        assert_int_equal(o.revision, 2);
        assert_int_equal(o.bytes_total, 9007199254740991);
        assert_int_equal(o.bytes_done, 4096);
        assert_int_equal(o.readers, 3);
        assert_int_equal(o.readers_done, 1);
        assert_int_equal(o.n_descriptors, 2);
        assert_string_equal(o.descriptors[0].region, "rgn_a");
        assert_int_equal(o.descriptors[0].offset, 1);
        assert_int_equal(o.descriptors[0].size, 2);
        assert_string_equal(o.descriptors[1].region, "rgn_b");
        assert_int_equal(o.descriptors[1].size, 3);
        assert_string_equal(o.created_at, "2026-01-31T12:00:00.000Z");
        assert_string_equal(o.ended_at, "");
        assert_null(o.metadata);
        ferry_operation_clear(&o);
        assert_null(o.descriptors);
}

TEST(a_failed_operation_tells_number_and_text)
{
        struct ferry_operation o;
        assert_int_equal(
                decode("{\"id\":\"op_1\",\"kind\":\"write\",\"status\":\"ERRORED\",\"done\":true,\"revision\":"
                       "3,\"bytes_total\":8,\"bytes_done\":1,\"ended_at\":\"t\",\"duration_us\":17,\"connect_us\":5,"
                       "\"transport\":\"tcp\",\"error\":{\"code\":\"peer-lost\",\"detail\":\"it died\"}}",
                       operation_decode, &o, NULL),
                0);
        assert_true(o.done);
        assert_int_equal(o.error, FERRY_E_PEER_LOST);
        assert_string_equal(o.error_code, "peer-lost");
        assert_string_equal(o.error_detail, "it died");
        assert_string_equal(o.transport, "tcp");
        assert_int_equal(o.duration_us, 17);
        assert_int_equal(o.connect_us, 5);
        assert_string_equal(o.ended_at, "t");
        ferry_operation_clear(&o);
}

TEST(what_a_newer_worker_adds_is_borne)
{
        struct ferry_operation o;
        assert_int_equal(
                decode("{\"id\":\"op_1\",\"kind\":\"swap\",\"status\":\"PAUSED\",\"done\":false,\"revision\":3,"
                       "\"bytes_total\":8,\"bytes_done\":1,\"colour\":{\"deep\":[1]},\"transport\":null,"
                       "\"error\":{\"code\":\"moon-phase\",\"severity\":7}}",
                       operation_decode, &o, NULL),
                0);
        assert_int_equal(o.kind, -1);
        assert_int_equal(o.status, -1);
        assert_int_equal(o.error, FERRY_E_OTHER);
        assert_string_equal(o.error_code, "moon-phase");
        assert_string_equal(o.transport, "");
        ferry_operation_clear(&o);
}

TEST(included_metadata_is_handed_over_as_text)
{
        struct ferry_operation o;
        assert_int_equal(decode(OPERATION_START ",\"metadata\":{\"nixl_metadata\":\"b64:eJ/+\",\"operation_kind\":1}}",
                                operation_decode, &o, NULL),
                         0);
        assert_string_equal(o.metadata, "{\"nixl_metadata\":\"b64:eJ/+\",\"operation_kind\":1}");
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
        struct ferry_region region;
        assert_int_equal(decode("{\"id\":\"rgn_1\",\"size\":4096,\"device\":\"cpu\",\"name\":\"kv0\",\"path\":"
                                "\"/proc/1/fd/"
                                "2\",\"state\":\"ready\",\"sealed\":true,\"in_use\":2,\"created_at\":\"t\",\"new\":1,"
                                "\"idle_ms\":5,\"expires_at\":\"u\"}",
                                region_decode, &region, NULL),
                         0);
        assert_string_equal(region.id, "rgn_1");
        assert_int_equal(region.size, 4096);
        assert_string_equal(region.device, "cpu");
        assert_string_equal(region.name, "kv0");
        assert_string_equal(region.path, "/proc/1/fd/2");
        assert_string_equal(region.state, "ready");
        assert_true(region.sealed);
        assert_int_equal(region.in_use, 2);
        assert_string_equal(region.created_at, "t");
        assert_int_equal(region.idle_ms, 5);
        assert_string_equal(region.expires_at, "u");
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
