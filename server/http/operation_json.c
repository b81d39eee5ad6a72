/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_json.h"

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/status.h>

#include "base/clock.h"
#include "json_build.h"
#include "operations/operations.h"

static bool add_id(struct json_object *object, const char *key, const char *prefix, uint64_t id)
{
        char text[FERRY_ID_TEXT_SIZE];

        ferry_id_format(prefix, id, text);
        return json_add_string(object, key, text);
}

static bool add_time(struct json_object *object, const char *key, uint64_t unix_ms)
{
        char text[CLOCK_TEXT_SIZE];

        clock_format(unix_ms, text);
        return json_add_string(object, key, text);
}

static struct json_object *descriptors_new(const struct operation_view *view)
{
        struct json_object *list = json_object_new_array_ext((int)view->n_descriptors);
        bool ok = list;

        for (size_t i = 0; ok && i < view->n_descriptors; i++) {
                const struct operation_descriptor *descriptor = &view->descriptors[i];
                struct json_object *item = json_object_new_object();
                ok = add_id(item, "region", "rgn_", descriptor->region_id) &&
                     json_add_uint(item, "offset", descriptor->offset) && json_add_uint(item, "size", descriptor->size);
                ok = json_append(list, item) && ok;
        }
        return json_finish(list, ok);
}

static struct json_object *error_new(const struct operation_view *view)
{
        struct json_object *error = json_object_new_object();
        const char *detail = *view->detail ? view->detail : ferry_error_title(view->error);

        bool ok = json_add_string(error, "code", ferry_error_code(view->error)) &&
                  json_add_string(error, "detail", detail);
        return json_finish(error, ok);
}

/* What was asked for beyond the defaults. */
static bool add_options(struct json_object *object, const struct operation_view *view)
{
        bool ok = true;

        if (view->layout != FERRY_LAYOUT_PAIRWISE)
                ok = ok && json_add_string(object, "layout", ferry_layout_name((int)view->layout));
        if (view->readers)
                ok = ok && json_add_uint(object, "readers", view->readers) &&
                     json_add_uint(object, "readers_done", view->readers_done);
        if (view->ttl_ms && ferry_kind_is_passive((int)view->kind))
                ok = ok && json_add_uint(object, "ttl_ms", view->ttl_ms);
        if (view->timeout_ms)
                ok = ok && json_add_uint(object, "timeout_ms", view->timeout_ms);
        if (view->verify)
                ok = ok && json_add_bool(object, "verify", true);
        return ok;
}

/* What its state brings. */
static bool add_state(struct json_object *object, const struct operation_view *view)
{
        bool ok = true;

        if (view->cancel_requested)
                ok = ok && json_add_bool(object, "cancel_requested", true);
        if (view->expires_unix_ms)
                ok = ok && add_time(object, "expires_at", view->expires_unix_ms);
        if (view->done)
                ok = ok && add_time(object, "ended_at", view->ended_unix_ms) &&
                     json_add_uint(object, "duration_us", view->duration_us);
        if (*view->transport)
                ok = ok && json_add_string(object, "transport", view->transport);
        if (view->connect_us)
                ok = ok && json_add_uint(object, "connect_us", view->connect_us);
        if (view->error)
                ok = ok && json_add(object, "error", error_new(view));
        return ok;
}

struct json_object *operation_json_new(const struct operation_view *view)
{
        struct json_object *object = json_object_new_object();

        bool ok = add_id(object, "id", "op_", view->id) &&
                  json_add_string(object, "kind", ferry_kind_name((int)view->kind)) &&
                  json_add_string(object, "status", ferry_status_name((int)view->status)) &&
                  json_add_bool(object, "done", view->done) && json_add_uint(object, "revision", view->revision) &&
                  json_add_uint(object, "bytes_total", view->bytes_total) &&
                  json_add_uint(object, "bytes_done", view->bytes_done) &&
                  json_add(object, "descriptors", descriptors_new(view)) && add_options(object, view) &&
                  add_time(object, "created_at", view->created_unix_ms) && add_state(object, view);
        return json_finish(object, ok);
}
