/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "member.h"
#include "table.h"

static const struct table_column devices_memory[] = {
        { "MEMORY", "name", TABLE_TEXT },
        { "SIZE", "total_bytes", TABLE_BYTES },
        { "MODEL", "model", TABLE_TEXT },
};
static const struct table_column devices_ports[] = {
        { "RDMA PORT", "port", TABLE_TEXT },   { "STATE", "state", TABLE_TEXT }, { "LINK", "link_layer", TABLE_TEXT },
        { "MTU", "active_mtu", TABLE_NUMBER }, { "GIDS", "gids", TABLE_LIST },
};

/* One row a port, named as UCX_NET_DEVICES takes it. */
static struct json_object *devices_ports_of(struct json_object *devices)
{
        struct json_object *rows = json_object_new_array(), *nics, *ports, *number;
        for (size_t i = 0, n = member_list(devices, "rdma", &nics); i < n; i++) {
                struct json_object *nic = json_object_array_get_idx(nics, i);
                for (size_t j = 0, n_ports = member_list(nic, "ports", &ports); j < n_ports; j++) {
                        struct json_object *port = json_object_array_get_idx(ports, j);
                        char text[128];
                        if (!json_object_object_get_ex(port, "number", &number))
                                continue;
                        snprintf(text, sizeof(text), "%s:%d", member_text(nic, "name", "?"),
                                 json_object_get_int(number));
                        json_object_object_add(port, "port", json_object_new_string(text));
                        json_object_array_add(rows, json_object_get(port));
                }
        }
        return rows;
}

static void devices_print(struct json_object *devices)
{
        struct json_object *memory, *gpu, *missing, *rows = devices_ports_of(devices);
        char text[512];
        size_t n = member_list(devices, "memory", &memory), n_rows = json_object_array_length(rows);
        if (n)
                table_print(memory, n, devices_memory, FERRY_ARRAY_SIZE(devices_memory), 0);
        putchar('\n');
        if (n_rows)
                table_print(rows, n_rows, devices_ports, FERRY_ARRAY_SIZE(devices_ports), 0);
        else
                puts("No RDMA devices.");
        json_object_put(rows);
        table_format(devices, &(struct table_column){ "", "transports", TABLE_LIST }, text, sizeof(text));
        printf("\nTransports: %s\n", *text ? text : "none (ferryd --local or --data-listen opens one)");
        if (!json_object_object_get_ex(devices, "gpu_direct_rdma", &gpu))
                return;
        n = member_list(gpu, "missing", &missing);
        printf("GPU Direct RDMA: %s\n", n ? "not possible" : "possible");
        for (size_t i = 0; i < n; i++) {
                snprintf(text, sizeof(text), "%s", member_item(missing, i));
                cli_mask_controls(text);
                printf("  %s\n", text);
        }
}

int cli_run_devices(struct cli *cli, int argc, char **argv)
{
        struct json_object *devices = NULL;
        int status = cli_connect(cli);
        if (status == CLI_OK)
                status = table_get(&cli->worker, "/v1/devices", "transports", json_type_array, &devices);
        if (status == CLI_OK && cli->json)
                status = table_print_document(devices);
        else if (status == CLI_OK)
                devices_print(devices);
        json_object_put(devices);
        return status;
}
