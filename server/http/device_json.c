/* SPDX-License-Identifier: Apache-2.0 */
#include "device_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "fabric/fabric.h"
#include "json_build.h"
#include "memory/device.h"

static struct json_object *memories_new(const struct device_inventory *inventory)
{
        struct json_object *list = json_object_new_array_ext((int)inventory->n_memories);
        bool ok = list;

        for (size_t i = 0; ok && i < inventory->n_memories; i++) {
                const struct device_memory *memory = &inventory->memories[i];
                struct json_object *item = json_object_new_object();
                ok = json_add_string(item, "name", memory->name);
                if (*memory->model)
                        ok = ok && json_add_string(item, "model", memory->model);
                if (memory->total_bytes)
                        ok = ok && json_add_uint(item, "total_bytes", memory->total_bytes);
                ok = json_append(list, item) && ok;
        }
        return json_finish(list, ok);
}

static struct json_object *port_new(const struct device_port *port)
{
        struct json_object *item = json_object_new_object();
        struct json_object *gids = json_object_new_array_ext((int)port->n_gids);
        bool ok = gids;

        for (size_t i = 0; ok && i < port->n_gids; i++)
                ok = json_append(gids, json_object_new_string(port->gids[i]));
        ok = ok && json_add_uint(item, "number", port->number) && json_add_string(item, "state", port->state) &&
             json_add_string(item, "link_layer", port->link_layer) && json_add_uint(item, "lid", port->lid) &&
             json_add_uint(item, "active_mtu", port->active_mtu);
        ok = json_add(item, "gids", gids) && ok;
        return json_finish(item, ok);
}

static struct json_object *nic_new(const struct device_nic *nic)
{
        struct json_object *item = json_object_new_object();
        struct json_object *ports = json_object_new_array_ext((int)nic->n_ports);
        char guid[24];
        bool ok = ports;

        for (size_t i = 0; ok && i < nic->n_ports; i++)
                ok = json_append(ports, port_new(&nic->ports[i]));
        snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x", (unsigned)(nic->node_guid >> 48) & 0xffff,
                 (unsigned)(nic->node_guid >> 32) & 0xffff, (unsigned)(nic->node_guid >> 16) & 0xffff,
                 (unsigned)nic->node_guid & 0xffff);
        ok = ok && json_add_string(item, "name", nic->name) && json_add_string(item, "node_guid", guid);
        ok = json_add(item, "ports", ports) && ok;
        return json_finish(item, ok);
}

static struct json_object *nics_new(const struct device_inventory *inventory)
{
        struct json_object *list = json_object_new_array_ext((int)inventory->n_nics);
        bool ok = list;

        for (size_t i = 0; ok && i < inventory->n_nics; i++)
                ok = json_append(list, nic_new(&inventory->nics[i]));
        return json_finish(list, ok);
}

static struct json_object *transports_new(const struct fabric_facts *facts)
{
        struct json_object *list = json_object_new_array_ext((int)facts->n_transports);
        bool ok = list;

        for (size_t i = 0; ok && i < facts->n_transports; i++)
                ok = json_append(list, json_object_new_string(facts->transports[i]));
        return json_finish(list, ok);
}

static struct json_object *gpu_direct_new(const struct device_inventory *inventory)
{
        struct json_object *object = json_object_new_object(), *missing = json_object_new_array();
        struct device_gpu_direct answer = { 0 };
        bool ok = missing;

        device_gpu_direct(inventory, &answer);
        for (size_t i = 0; ok && i < answer.n_missing; i++)
                ok = json_append(missing, json_object_new_string(answer.missing[i]));
        ok = ok && json_add_bool(object, "possible", answer.possible);
        ok = json_add(object, "missing", missing) && ok;
        return json_finish(object, ok);
}

struct json_object *device_json_new(const struct device_inventory *inventory, const struct fabric_facts *facts)
{
        struct json_object *object = json_object_new_object();

        bool ok = json_add(object, "memory", memories_new(inventory)) &&
                  json_add(object, "rdma", nics_new(inventory)) &&
                  json_add(object, "transports", transports_new(facts)) &&
                  json_add(object, "gpu_direct_rdma", gpu_direct_new(inventory));
        if (*inventory->rdma_error)
                ok = ok && json_add_string(object, "rdma_error", inventory->rdma_error);
        return json_finish(object, ok);
}
