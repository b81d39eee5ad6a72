/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>

#include "documents/documents.h"
#include "memory/device.h"
#include "move/engine.h"
#include "operations/operations.h"
#include "unit.h"
#include "unit_json.h"

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
                                        .expires_unix_ms = 61000 };
}

TEST(options_are_shown_when_they_were_asked_for)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view = passive();
        char *text;

        view.layout = FERRY_LAYOUT_STREAM;
        view.uses = 3;
        view.uses_done = 1;
        view.label = "layer \"7\"";
        view.cancel_requested = true;
        operation_json_write(&writer, &view);
        text = ferry_json_take(&writer, NULL);
        assert_string_equal(
                text, "{\"id\":\"op_00000000000000c3\",\"label\":\"layer \\\"7\\\"\",\"kind\":\"readable\","
                      "\"status\":\"INITIALIZED\",\"done\":false,"
                      "\"revision\":1,\"bytes_total\":128,\"bytes_done\":0,\"descriptors\":[],\"layout\":\"stream\","
                      "\"uses\":3,\"uses_done\":1,\"readers\":3,\"readers_done\":1,\"ttl_ms\":60000,\"created_at\":"
                      "\"1970-01-01T00:00:01.000Z\","
                      "\"cancel_requested\":true,\"expires_at\":\"1970-01-01T00:01:01.000Z\"}");
        free(text);
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

static struct json_object *device_json_of(const struct device_inventory *inventory, const struct engine_facts *facts)
{
        struct ferry_json_writer writer = { 0 };

        device_json_write(&writer, inventory, facts);
        return unit_json_read(&writer);
}

TEST(an_rdma_device_shows_its_ports)
{
        struct device_port port = { .number = 1,
                                    .state = "ACTIVE",
                                    .link_layer = "Ethernet",
                                    .active_mtu = 1024,
                                    .n_gids = 1,
                                    .gids = { "fe80::1" } };
        struct device_nic nic = { .name = "mlx5_0", .node_guid = 0x0002c90300103abc, .n_ports = 1, .ports = &port };
        struct device_inventory inventory = { .n_nics = 1, .nics = &nic, .rdma_error = "half of them" };
        struct engine_facts facts = { 0 };
        struct json_object *object = device_json_of(&inventory, &facts), *part;

        assert_true(json_object_object_get_ex(object, "rdma", &part));
        assert_string_equal(json_object_to_json_string_ext(part, JSON_C_TO_STRING_PLAIN),
                            "[{\"name\":\"mlx5_0\",\"node_guid\":\"0002:c903:0010:3abc\",\"ports\":[{\"number\":1,"
                            "\"state\":\"ACTIVE\",\"link_layer\":\"Ethernet\",\"lid\":0,\"active_mtu\":1024,"
                            "\"gids\":[\"fe80::1\"]}]}]");
        assert_true(json_object_object_get_ex(object, "rdma_error", &part));
}

TEST(errors_of_operations_alone_are_our_fault_as_a_problem)
{
        assert_int_equal(problem_status(FERRY_E_PEER_LOST), 500);
        assert_int_equal(problem_status(FERRY_E_NO_SPACE), 507);
        assert_int_equal(problem_status(FERRY_E_NOT_FOUND), 404);
}

TEST(limits_and_draining_say_when_to_come_again)
{
        assert_true(problem_retry_after(FERRY_E_LIMIT_REACHED) > 0);
        assert_true(problem_retry_after(FERRY_E_NO_SPACE) > 0);
        assert_true(problem_retry_after(FERRY_E_DRAINING) > 0);
        assert_int_equal(problem_retry_after(FERRY_E_NOT_FOUND), 0);
}
