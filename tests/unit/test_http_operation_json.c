/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/ferry.h>
#include <ferry/json_write.h>

#include "client_internal.h"
#include "documents/documents.h"
#include "operations/operations.h"
#include "unit.h"
#include "unit_json.h"

static const struct operation_descriptor descriptors[] = { { 0xa1, 0, 100, "cpu", 1, 100 },
                                                           { 0xa2, 5, 7, "cpu", 4, 8 } };

static struct operation_view passive(void)
{
        return (struct operation_view){ .id = 0xc3,
                                        .kind = FERRY_READABLE,
                                        .status = FERRY_INITIALIZED,
                                        .revision = 1,
                                        .bytes_total = 128,
                                        .label = "",
                                        .request_id = "",
                                        .ttl_ms = 60000,
                                        .created_unix_ms = 1000,
                                        .expires_unix_ms = 61000,
                                        .descriptors = descriptors,
                                        .n_descriptors = 2 };
}

static void check(const struct operation_view *view, const char *expected)
{
        struct ferry_json_writer writer = { 0 };
        char *text;

        operation_json_write(&writer, view);
        text = ferry_json_take(&writer, NULL);
        assert_string_equal(text, expected);
        free(text);
}

TEST(an_offer_shows_what_applies_and_nothing_else)
{
        struct operation_view view = passive();

        check(&view, "{\"id\":\"op_00000000000000c3\",\"kind\":\"readable\",\"status\":\"INITIALIZED\",\"done\":false,"
                     "\"revision\":1,\"bytes_total\":128,\"bytes_done\":0,\"descriptors\":["
                     "{\"region\":\"rgn_00000000000000a1\",\"offset\":0,\"size\":100},"
                     "{\"region\":\"rgn_00000000000000a2\",\"offset\":5,\"size\":7,\"count\":4,\"stride\":8}],\"ttl_"
                     "ms\":60000,"
                     "\"created_at\":\"1970-01-01T00:00:01.000Z\",\"expires_at\":\"1970-01-01T00:01:01.000Z\"}");
}

TEST(blocks_are_shown_as_they_were_given)
{
        static const uint64_t blocks[] = { 7, 3, 9007199254740991 };
        const struct operation_descriptor descriptor = { 0xa1, 5, 16, "cpu", 3, 16, blocks };
        struct operation_view view = passive();

        view.descriptors = &descriptor;
        view.n_descriptors = 1;
        check(&view,
              "{\"id\":\"op_00000000000000c3\",\"kind\":\"readable\",\"status\":\"INITIALIZED\",\"done\":false,"
              "\"revision\":1,\"bytes_total\":128,\"bytes_done\":0,\"descriptors\":["
              "{\"region\":\"rgn_00000000000000a1\",\"offset\":5,\"size\":16,\"blocks\":[7,3,9007199254740991]}],"
              "\"ttl_ms\":60000,"
              "\"created_at\":\"1970-01-01T00:00:01.000Z\",\"expires_at\":\"1970-01-01T00:01:01.000Z\"}");
}

TEST(options_are_shown_when_they_were_asked_for)
{
        struct operation_view view = passive();

        view.layout = FERRY_LAYOUT_STREAM;
        view.uses = 3;
        view.uses_done = 1;
        view.label = "layer \"7\"";
        view.cancel_requested = true;
        view.n_descriptors = 0;
        check(&view, "{\"id\":\"op_00000000000000c3\",\"label\":\"layer \\\"7\\\"\",\"kind\":\"readable\","
                     "\"status\":\"INITIALIZED\",\"done\":false,"
                     "\"revision\":1,\"bytes_total\":128,\"bytes_done\":0,\"descriptors\":[],\"layout\":\"stream\","
                     "\"uses\":3,\"uses_done\":1,\"readers\":3,\"readers_done\":1,\"ttl_ms\":60000,\"created_at\":"
                     "\"1970-01-01T00:00:01.000Z\","
                     "\"cancel_requested\":true,\"expires_at\":\"1970-01-01T00:01:01.000Z\"}");
}

TEST(the_end_has_time_transport_and_error)
{
        struct operation_view view = { .id = 1,
                                       .label = "",
                                       .request_id = "",
                                       .kind = FERRY_READ,
                                       .status = FERRY_ERRORED,
                                       .done = true,
                                       .verify = true,
                                       .revision = 4,
                                       .bytes_total = 128,
                                       .bytes_done = 64,
                                       .timeout_ms = 5000,
                                       .created_unix_ms = 1000,
                                       .ended_unix_ms = 2000,
                                       .duration_us = 77,
                                       .transport = "tcp",
                                       .connect_us = 55,
                                       .error = FERRY_E_PEER_LOST,
                                       .detail = "It went away" };

        check(&view, "{\"id\":\"op_0000000000000001\",\"kind\":\"read\",\"status\":\"ERRORED\",\"done\":true,"
                     "\"revision\":4,\"bytes_total\":128,\"bytes_done\":64,\"descriptors\":[],\"timeout_ms\":5000,"
                     "\"verify\":true,\"created_at\":\"1970-01-01T00:00:01.000Z\","
                     "\"ended_at\":\"1970-01-01T00:00:02.000Z\",\"duration_us\":77,\"transport\":\"tcp\","
                     "\"connect_us\":55,"
                     "\"error\":{\"code\":\"peer-lost\",\"detail\":\"It went away\"}}");
}

TEST(an_error_without_detail_has_the_tables_text)
{
        struct operation_view view = passive();
        struct ferry_json_writer writer = { 0 };
        struct json_object *object, *error, *detail;

        view.error = FERRY_E_EXPIRED;
        operation_json_write(&writer, &view);
        object = unit_json_read(&writer);
        assert_true(json_object_object_get_ex(object, "error", &error));
        assert_true(json_object_object_get_ex(error, "detail", &detail));
        assert_string_equal(json_object_get_string(detail), ferry_error_title(FERRY_E_EXPIRED));
}

TEST(libferry_reads_it_as_it_is_written)
{
        static const struct operation_descriptor slice = { 0xa1, 0, 128, "cpu", 1, 128 };
        struct operation_view view = passive();

        view.descriptors = &slice;
        view.n_descriptors = 1;
        view.request_id = "r1";
        for (int done = 0; done < 2; done++) {
                struct ferry_json_writer writer = { 0 };
                struct ferry_operation operation;
                struct ferry_json_errors errors = { .lenient = true };

                operation_json_write(&writer, &view);
                assert_int_equal(operation_decode(unit_json_read(&writer), &operation, &errors), 0);
                assert_string_equal(operation.request_id, "r1");
                assert_string_equal(operation.peer, done ? "b" : "");
                assert_int_equal(operation.descriptors[0].size, 128);
                ferry_operation_clear(&operation);
                view.done = true;
                view.status = FERRY_COMPLETE;
                view.peer = (struct operation_peer){ .worker = "b", .epoch = 7 };
                strcpy(view.transport, "shm");
                view.connect_us = 5;
        }
}
