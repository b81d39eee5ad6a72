/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/documents.h"
#include "memory/device.h"
#include "move/engine.h"
#include "unit.h"
#include "unit_json.h"

static struct json_object *device_json_of(const struct device_inventory *inventory, const struct engine_facts *facts)
{
        struct ferry_json_writer writer = { 0 };

        device_json_write(&writer, inventory, facts);
        return unit_json_read(&writer);
}

TEST(a_machine_without_rdma_says_so)
{
        static const char *const transports[] = { "tcp", "posix" };
        struct device_memory memory = { .name = "cpu", .total_bytes = 1024 };
        struct device_inventory inventory = { .n_memories = 1, .memories = &memory };
        struct engine_facts facts = { .n_transports = 2, .transports = transports };
        struct json_object *object = device_json_of(&inventory, &facts), *part, *field;

        assert_true(json_object_object_get_ex(object, "memory", &part));
        assert_string_equal(json_object_to_json_string_ext(part, JSON_C_TO_STRING_PLAIN),
                            "[{\"name\":\"cpu\",\"total_bytes\":1024}]");
        assert_true(json_object_object_get_ex(object, "rdma", &part));
        assert_int_equal(json_object_array_length(part), 0);
        assert_true(json_object_object_get_ex(object, "transports", &part));
        assert_string_equal(json_object_to_json_string_ext(part, JSON_C_TO_STRING_PLAIN), "[\"tcp\",\"posix\"]");
        assert_true(json_object_object_get_ex(object, "gpu_direct_rdma", &part));
        assert_true(json_object_object_get_ex(part, "possible", &field));
        assert_false(json_object_get_boolean(field));
        assert_true(json_object_object_get_ex(part, "missing", &field));
        assert_true(json_object_array_length(field) > 0);
        assert_false(json_object_object_get_ex(object, "rdma_error", &part));
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
