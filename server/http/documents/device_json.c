/* SPDX-License-Identifier: Apache-2.0 */
#include "resources.h"

#include <stdio.h>

#include <ferry/json_write.h>

#include "memory/device.h"
#include "transfer/engine.h"

static void add_memories(struct ferry_json_writer *writer, const struct device_inventory *inventory)
{
        ferry_json_open_array(writer, "memory");
        for (size_t i = 0; i < inventory->n_memories; i++) {
                const struct device_memory *memory = &inventory->memories[i];

                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "name", memory->name);
                document_add_text(writer, "model", memory->model);
                if (memory->total_bytes)
                        ferry_json_add_uint(writer, "total_bytes", memory->total_bytes);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

static void put_port(struct ferry_json_writer *writer, const struct device_port *port)
{
        ferry_json_begin_object(writer);
        ferry_json_add_uint(writer, "number", port->number);
        ferry_json_add_string(writer, "state", port->state);
        ferry_json_add_string(writer, "link_layer", port->link_layer);
        ferry_json_add_uint(writer, "lid", port->lid);
        ferry_json_add_uint(writer, "active_mtu", port->active_mtu);
        ferry_json_open_array(writer, "gids");
        for (size_t i = 0; i < port->n_gids; i++)
                ferry_json_put_string(writer, port->gids[i]);
        ferry_json_end_array(writer);
        ferry_json_end_object(writer);
}

static void put_nic(struct ferry_json_writer *writer, const struct device_nic *nic)
{
        char guid[24];

        snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x", (unsigned)(nic->node_guid >> 48) & 0xffff,
                 (unsigned)(nic->node_guid >> 32) & 0xffff, (unsigned)(nic->node_guid >> 16) & 0xffff,
                 (unsigned)nic->node_guid & 0xffff);
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "name", nic->name);
        ferry_json_add_string(writer, "node_guid", guid);
        ferry_json_open_array(writer, "ports");
        for (size_t i = 0; i < nic->n_ports; i++)
                put_port(writer, &nic->ports[i]);
        ferry_json_end_array(writer);
        ferry_json_end_object(writer);
}

static void add_nics(struct ferry_json_writer *writer, const struct device_inventory *inventory)
{
        ferry_json_open_array(writer, "rdma");
        for (size_t i = 0; i < inventory->n_nics; i++)
                put_nic(writer, &inventory->nics[i]);
        ferry_json_end_array(writer);
}

static void add_transports(struct ferry_json_writer *writer, const struct engine_facts *facts)
{
        ferry_json_open_array(writer, "transports");
        for (size_t i = 0; !atomic_load(&facts->network_waits) && i < facts->n_transports; i++)
                ferry_json_put_string(writer, facts->transports[i]);
        ferry_json_end_array(writer);
}

static void add_gpu_direct(struct ferry_json_writer *writer, const struct device_inventory *inventory)
{
        struct device_gpu_direct answer = { 0 };

        device_gpu_direct(inventory, &answer);
        ferry_json_open_object(writer, "gpu_direct_rdma");
        ferry_json_add_bool(writer, "possible", answer.possible);
        ferry_json_open_array(writer, "missing");
        for (size_t i = 0; i < answer.n_missing; i++)
                ferry_json_put_string(writer, answer.missing[i]);
        ferry_json_end_array(writer);
        ferry_json_end_object(writer);
}

void device_json_write(struct ferry_json_writer *writer, const struct device_inventory *inventory,
                       const struct engine_facts *facts)
{
        ferry_json_begin_object(writer);
        add_memories(writer, inventory);
        add_nics(writer, inventory);
        add_transports(writer, facts);
        add_gpu_direct(writer, inventory);
        document_add_text(writer, "rdma_error", inventory->rdma_error);
        ferry_json_end_object(writer);
}
