/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/documents.h"

#include <stdio.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/util.h"
#include "memory/device.h"
#include "memory/region.h"
#include "move/engine.h"

/*
 * The resources as JSON: problems, regions, peers, devices, in the form that openapi.yaml describes. A field without a
 * value is left out. Each function writes into the caller's writer, which remembers that memory was short. Pure, but
 * that a region's state is read as it is now; any thread.
 */

/* ---- problems ---- */

unsigned problem_status(int error)
{
        int status = ferry_error_http(error);

        return status ? (unsigned)status : 500;
}

unsigned problem_retry_after(int error)
{
        switch (error) {
        case FERRY_E_LIMIT_REACHED:
        case FERRY_E_NO_SPACE:
                return 1;
        case FERRY_E_DRAINING:
                return 5;
        default:
                return 0;
        }
}

static void add_complaints(struct ferry_json_writer *writer, const struct ferry_json_errors *errors)
{
        ferry_json_open_array(writer, "errors");
        for (size_t i = 0; i < errors->n; i++) {
                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "pointer", errors->items[i].pointer);
                ferry_json_add_string(writer, "detail", errors->items[i].detail);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

void problem_members(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                     const struct ferry_json_errors *errors)
{
        char type[64], first[FERRY_JSON_POINTER_SIZE + FERRY_JSON_DETAIL_SIZE + 4];

        if (errors && errors->n) {
                const struct ferry_json_complaint *item = &errors->items[0];

                snprintf(first, sizeof(first), "%s%s%s", item->pointer, *item->pointer ? ": " : "", item->detail);
                detail = first;
        }
        snprintf(type, sizeof(type), "/docs#error-%s", ferry_error_code(error));
        ferry_json_add_string(writer, "type", type);
        ferry_json_add_string(writer, "title", ferry_error_title(error));
        ferry_json_add_uint(writer, "status", problem_status(error));
        ferry_json_add_string(writer, "detail", detail && *detail ? detail : ferry_error_title(error));
        ferry_json_add_string(writer, "code", ferry_error_code(error));
        ferry_json_add_bool(writer, "retryable", retryable);
        if (errors && errors->n)
                add_complaints(writer, errors);
}

void problem_write(struct ferry_json_writer *writer, int error, bool retryable, const char *detail,
                   const struct ferry_json_errors *errors)
{
        ferry_json_begin_object(writer);
        problem_members(writer, error, retryable, detail, errors);
        ferry_json_end_object(writer);
}

void problem_add_error(struct ferry_json_writer *writer, int error, const char *detail)
{
        ferry_json_open_object(writer, "error");
        ferry_json_add_string(writer, "code", ferry_error_code(error));
        ferry_json_add_string(writer, "detail", *detail ? detail : ferry_error_title(error));
        ferry_json_end_object(writer);
}

/* ---- members of documents ---- */

void document_add_time(struct ferry_json_writer *writer, const char *key, uint64_t unix_ms)
{
        char text[CLOCK_TEXT_SIZE];

        if (!unix_ms)
                return;
        clock_format(unix_ms, text);
        ferry_json_key(writer, key);
        ferry_json_put_plain(writer, text, CLOCK_TEXT_LENGTH);
}

void document_add_text(struct ferry_json_writer *writer, const char *key, const char *text)
{
        if (text && *text)
                ferry_json_add_string(writer, key, text);
}

/* ---- regions ---- */

/* What is left of idle_ms, or that it has run out. */
static void write_idle(struct ferry_json_writer *writer, const struct region *region)
{
        const uint64_t due_us = region_idle_due_us(region), now_us = clock_now_us();

        ferry_json_add_uint(writer, "idle_ms", region->idle_ms);
        if (region_deleted(region)) {
                if (due_us <= now_us)
                        ferry_json_add_bool(writer, "expired", true);
        } else if (due_us != UINT64_MAX) {
                document_add_time(writer, "expires_at",
                                  clock_unix_ms() + (due_us > now_us ? (due_us - now_us) / 1000 : 0));
        }
}

void region_json_write(struct ferry_json_writer *writer, const struct region *region)
{
        const enum region_state state = region_state(region);

        ferry_json_begin_object(writer);
        ferry_json_add_id(writer, "id", "rgn_", region->id);
        ferry_json_add_uint(writer, "size", region->size);
        ferry_json_add_string(writer, "device", region->device);
        document_add_text(writer, "name", region->name);
        ferry_json_add_string(writer, "state", region_state_name(state));
        switch (state) {
        case REGION_PREPARING:
                ferry_json_add_uint(writer, "bytes_prepared", region_bytes_prepared(region));
                break;
        case REGION_READY:
                document_add_text(writer, "path", region->path);
                break;
        case REGION_FAILED:
                problem_add_error(writer, region->error, region->detail);
                break;
        }
        if (region->sealed)
                ferry_json_add_bool(writer, "sealed", true);
        ferry_json_add_uint(writer, "in_use", region_in_use(region));
        document_add_time(writer, "created_at", region->created_unix_ms);
        if (region->idle_ms)
                write_idle(writer, region);
        ferry_json_end_object(writer);
}

/* ---- peers ---- */

static const char *const states[] = {
        [ENGINE_PEER_CONNECTING] = "connecting",
        [ENGINE_PEER_CONNECTED] = "connected",
        [ENGINE_PEER_DISCONNECTED] = "disconnected",
};

void peer_json_addresses(struct ferry_json_writer *writer, const char *url, const char *data)
{
        ferry_json_open_object(writer, "addresses");
        ferry_json_open_array(writer, "http");
        if (*url)
                ferry_json_put_string(writer, url);
        ferry_json_end_array(writer);
        document_add_text(writer, "data", data);
        ferry_json_end_object(writer);
}

static void add_unused(struct ferry_json_writer *writer, const struct engine_peer_view *peer)
{
        ferry_json_open_array(writer, "unused");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(peer->unused) && peer->unused[i].transport; i++) {
                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "transport", peer->unused[i].transport);
                ferry_json_add_string(writer, "reason", peer->unused[i].reason);
                document_add_time(writer, "retry_at", peer->unused[i].retry_unix_ms);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

void peer_json_write(struct ferry_json_writer *writer, const struct engine_peer_view *peer)
{
        ferry_json_begin_object(writer);
        document_add_text(writer, "worker", peer->name);
        ferry_json_add_id(writer, "epoch", "", peer->epoch);
        peer_json_addresses(writer, peer->url, peer->data);
        ferry_json_add_string(writer, "status", states[peer->state]);
        document_add_text(writer, "transport", peer->transport);
        if (peer->state != ENGINE_PEER_DISCONNECTED)
                ferry_json_add_string(writer, "opened_by", peer->accepted ? "peer" : "this-worker");
        document_add_time(writer, "connected_at", peer->connected_unix_ms);
        if (peer->state == ENGINE_PEER_CONNECTED && peer->connect_us)
                ferry_json_add_uint(writer, "connect_us", peer->connect_us);
        document_add_time(writer, "disconnected_at", peer->disconnected_unix_ms);
        ferry_json_add_uint(writer, "transfers", peer->n_transfers);
        ferry_json_add_uint(writer, "transfers_completed", peer->n_completed);
        ferry_json_add_uint(writer, "bytes_done", peer->bytes);
        add_unused(writer, peer);
        if (peer->error)
                problem_add_error(writer, peer->error, peer->detail);
        ferry_json_end_object(writer);
}

/* ---- devices ---- */

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
