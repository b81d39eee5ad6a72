/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/documents.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "message/ranges.h"
#include "move/engine.h"
#include "operations/operations.h"

/*
 * An operation as JSON, and the names of the transports that may carry its bytes. An event shows it without descriptors
 * (brief). Pure; any thread.
 */

/* ---- the transports that may carry its bytes ---- */

bool carriers_decode(struct json_object *list, unsigned *ret_carriers, struct ferry_json_errors *errors)
{
        *ret_carriers = 0;
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *element = json_object_array_get_idx(list, i);
                const char *name =
                        json_object_is_type(element, json_type_string) ? json_object_get_string(element) : "";
                unsigned carrier = engine_carrier_from_name(name, strlen(name));
                char pointer[FERRY_JSON_POINTER_SIZE];

                if (!carrier) {
                        (void)snprintf(pointer, sizeof(pointer), "/transports/%zu", i);
                        ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer,
                                            "must be one of \"shm\", \"tcp\", \"rdma\", \"http\", \"https\"");
                        break;
                }
                *ret_carriers |= carrier;
        }
        return errors->n == 0;
}

/* Adds "transports":[…]; nothing when all are allowed (0). */
static void carriers_write(struct ferry_json_writer *writer, unsigned carriers)
{
        const char *name;

        if (!carriers)
                return;
        ferry_json_open_array(writer, "transports");
        for (size_t i = 0; (name = engine_carrier_name(i)); i++)
                if (carriers & engine_carrier_from_name(name, strlen(name)))
                        ferry_json_put_string(writer, name);
        ferry_json_end_array(writer);
}

/* ---- the document ---- */

static void add_blocks(struct ferry_json_writer *writer, const struct operation_descriptor *descriptor)
{
        ferry_json_open_array(writer, "blocks");
        for (uint64_t i = 0; i < descriptor->count; i++)
                ferry_json_put_uint(writer, descriptor->blocks[i]);
        ferry_json_end_array(writer);
}

static void add_descriptors(struct ferry_json_writer *writer, const struct operation_view *view)
{
        ferry_json_open_array(writer, "descriptors");
        for (size_t i = 0; i < view->n_descriptors; i++) {
                const struct operation_descriptor *descriptor = &view->descriptors[i];

                ferry_json_begin_object(writer);
                ferry_json_add_id(writer, "region", "rgn_", descriptor->region_id);
                ferry_json_add_uint(writer, "offset", descriptor->offset);
                ferry_json_add_uint(writer, "size", descriptor->size);
                if (descriptor->blocks) {
                        add_blocks(writer, descriptor);
                } else if (descriptor->count > 1) {
                        ferry_json_add_uint(writer, "count", descriptor->count);
                        ferry_json_add_uint(writer, "stride", descriptor->stride);
                }
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

static void add_remote(struct ferry_json_writer *writer, const struct ranges *remote)
{
        ferry_json_open_array(writer, "remote");
        for (size_t i = 0; i < remote->n; i++) {
                ferry_json_begin_object(writer);
                ferry_json_add_uint(writer, "offset", remote->list[i].range.offset);
                ferry_json_add_uint(writer, "size", remote->list[i].range.size);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
}

/* Adds the options that differ from the defaults. */
static void add_options(struct ferry_json_writer *writer, const struct operation_view *view)
{
        if (view->layout != FERRY_LAYOUT_PAIRWISE)
                ferry_json_add_string(writer, "layout", ferry_layout_name((int)view->layout));
        if (view->uses == OPERATION_USES_UNLIMITED)
                ferry_json_add_bool(writer, "unlimited", true);
        else if (view->uses)
                ferry_json_add_uint(writer, "uses", view->uses);
        if (view->uses)
                ferry_json_add_uint(writer, "uses_done", view->uses_done);
        if (view->uses_declined)
                ferry_json_add_uint(writer, "uses_declined", view->uses_declined);
        if (view->uses && view->uses != OPERATION_USES_UNLIMITED &&
            view->kind == FERRY_READABLE) { /* their older names */
                ferry_json_add_uint(writer, "readers", view->uses);
                ferry_json_add_uint(writer, "readers_done", view->uses_done);
        }
        if (view->follow)
                ferry_json_add_id(writer, "follow", "op_", view->follow);
        if (view->ttl_ms && ferry_kind_is_passive((int)view->kind))
                ferry_json_add_uint(writer, "ttl_ms", view->ttl_ms);
        if (view->renew_max_ms)
                ferry_json_add_uint(writer, "renew_max_ms", view->renew_max_ms);
        if (view->timeout_ms)
                ferry_json_add_uint(writer, "timeout_ms", view->timeout_ms);
        if (view->verify)
                ferry_json_add_bool(writer, "verify", true);
        if (view->relay)
                ferry_json_add_bool(writer, "relay", true);
        carriers_write(writer, view->carriers);
}

static void add_peer(struct ferry_json_writer *writer, const struct operation_peer *peer)
{
        ferry_json_open_object(writer, "peer");
        document_add_text(writer, "worker", peer->worker);
        ferry_json_add_id(writer, "epoch", "", peer->epoch);
        ferry_json_end_object(writer);
}

/* Adds what depends on the status. */
static void add_state(struct ferry_json_writer *writer, const struct operation_view *view)
{
        if (view->cancel_requested)
                ferry_json_add_bool(writer, "cancel_requested", true);
        document_add_time(writer, "expires_at", view->expires_unix_ms);
        if (view->done) {
                document_add_time(writer, "ended_at", view->ended_unix_ms);
                ferry_json_add_uint(writer, "duration_us", view->duration_us);
                if (view->bytes_prefix)
                        ferry_json_add_uint(writer, "bytes_prefix", view->bytes_prefix);
        }
        if (view->peer.epoch)
                add_peer(writer, &view->peer);
        document_add_text(writer, "transport", view->transport);
        if (view->connect_us)
                ferry_json_add_uint(writer, "connect_us", view->connect_us);
        if (view->error)
                problem_add_error(writer, view->error, view->detail);
}

void operation_json_members(struct ferry_json_writer *writer, const struct operation_view *view)
{
        ferry_json_add_id(writer, "id", "op_", view->id);
        document_add_text(writer, "label", view->label);
        ferry_json_add_string(writer, "kind", ferry_kind_name((int)view->kind));
        ferry_json_add_string(writer, "status", ferry_status_name((int)view->status));
        ferry_json_add_bool(writer, "done", view->done);
        ferry_json_add_uint(writer, "revision", view->revision);
        ferry_json_add_uint(writer, "bytes_total", view->bytes_total);
        ferry_json_add_uint(writer, "bytes_done", view->bytes_done);
        if (!view->brief)
                add_descriptors(writer, view);
        if (!view->brief && view->remote)
                add_remote(writer, view->remote);
        add_options(writer, view);
        document_add_text(writer, "request_id", view->request_id);
        document_add_time(writer, "created_at", view->created_unix_ms);
        add_state(writer, view);
}

void operation_json_offer(struct ferry_json_writer *writer, enum ferry_status status, uint64_t expires_unix_ms)
{
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "status", ferry_status_name((int)status));
        document_add_time(writer, "expires_at", expires_unix_ms);
        ferry_json_end_object(writer);
}

void operation_json_write(struct ferry_json_writer *writer, const struct operation_view *view)
{
        ferry_json_begin_object(writer);
        operation_json_members(writer, view);
        ferry_json_end_object(writer);
}
