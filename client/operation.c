/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include <ferry/ferry.h>
#include <ferry/json.h>

#include "client_internal.h"
#include "decode.h"

/* What is decoded at once, and the values that need more than a table. */
struct operation_answer {
        struct ferry_operation o;
        struct json_object *descriptors, *error, *metadata, *peer, *remote, *transports,
                *uses; /* borrowed; NULL = none */
};

static const struct decode_field operation_peer_fields[] = {
        DECODE_FIELD("worker", DECODE_PROSE, false, struct ferry_operation, peer),
        DECODE_FIELD("epoch", DECODE_TEXT, true, struct ferry_operation, peer_epoch),
};

struct operation_slice {
        char region[FERRY_ID_SIZE];
        uint64_t offset, size, count, stride;
        struct json_object *blocks; /* borrowed; NULL = none */
};

static const struct decode_field operation_slice_fields[] = {
        DECODE_FIELD("region", DECODE_TEXT, true, struct operation_slice, region),
        DECODE_FIELD("offset", DECODE_UINT, false, struct operation_slice, offset),
        DECODE_FIELD("size", DECODE_UINT, true, struct operation_slice, size),
        DECODE_FIELD("count", DECODE_UINT, false, struct operation_slice, count),
        DECODE_FIELD("stride", DECODE_UINT, false, struct operation_slice, stride),
        DECODE_FIELD("blocks", DECODE_VALUE, false, struct operation_slice, blocks),
};

/* Points the descriptors to their regions' texts, and the numbers of their blocks behind them. */
static void operation_point(struct ferry_descriptor *descriptors, size_t n, char *texts)
{
        uint64_t *blocks = (uint64_t *)(void *)(texts + n * FERRY_ID_SIZE);
        for (size_t i = 0; i < n; i++) {
                descriptors[i].region = texts + i * FERRY_ID_SIZE;
                descriptors[i].blocks = descriptors[i].n_blocks ? blocks : NULL;
                blocks += descriptors[i].n_blocks;
        }
}

static const struct decode_field operation_range_fields[] = {
        DECODE_FIELD("offset", DECODE_UINT, true, struct ferry_range, offset),
        DECODE_FIELD("size", DECODE_UINT, true, struct ferry_range, size),
};

/* In the order in which workers write them. */
static const struct decode_field operation_fields[] = {
        DECODE_FIELD("id", DECODE_TEXT, true, struct operation_answer, o.id),
        DECODE_FIELD("label", DECODE_PROSE, false, struct operation_answer, o.label),
        DECODE_FIELD("kind", DECODE_KIND, true, struct operation_answer, o.kind),
        DECODE_FIELD("status", DECODE_STATUS, true, struct operation_answer, o.status),
        DECODE_FIELD("done", DECODE_BOOL, true, struct operation_answer, o.done),
        DECODE_FIELD("revision", DECODE_UINT, true, struct operation_answer, o.revision),
        DECODE_FIELD("bytes_total", DECODE_UINT, true, struct operation_answer, o.bytes_total),
        DECODE_FIELD("bytes_done", DECODE_UINT, true, struct operation_answer, o.bytes_done),
        DECODE_FIELD("descriptors", DECODE_VALUE, false, struct operation_answer, descriptors),
        DECODE_FIELD("remote", DECODE_VALUE, false, struct operation_answer, remote),
        DECODE_FIELD("layout", DECODE_LAYOUT, false, struct operation_answer, o.layout),
        DECODE_FIELD("uses", DECODE_VALUE, false, struct operation_answer, uses),
        DECODE_FIELD("uses_done", DECODE_UINT, false, struct operation_answer, o.uses_done),
        DECODE_FIELD("readers", DECODE_UINT, false, struct operation_answer, o.readers),
        DECODE_FIELD("readers_done", DECODE_UINT, false, struct operation_answer, o.readers_done),
        DECODE_FIELD("follow", DECODE_TEXT, false, struct operation_answer, o.follow),
        DECODE_FIELD("ttl_ms", DECODE_UINT, false, struct operation_answer, o.ttl_ms),
        DECODE_FIELD("timeout_ms", DECODE_UINT, false, struct operation_answer, o.timeout_ms),
        DECODE_FIELD("verify", DECODE_BOOL, false, struct operation_answer, o.verify),
        DECODE_FIELD("relay", DECODE_BOOL, false, struct operation_answer, o.relay),
        DECODE_FIELD("transports", DECODE_VALUE, false, struct operation_answer, transports),
        DECODE_FIELD("request_id", DECODE_PROSE, false, struct operation_answer, o.request_id),
        DECODE_FIELD("created_at", DECODE_TEXT, false, struct operation_answer, o.created_at),
        DECODE_FIELD("cancel_requested", DECODE_BOOL, false, struct operation_answer, o.cancel_requested),
        DECODE_FIELD("expires_at", DECODE_TEXT, false, struct operation_answer, o.expires_at),
        DECODE_FIELD("ended_at", DECODE_TEXT, false, struct operation_answer, o.ended_at),
        DECODE_FIELD("duration_us", DECODE_UINT, false, struct operation_answer, o.duration_us),
        DECODE_FIELD("bytes_prefix", DECODE_UINT, false, struct operation_answer, o.bytes_prefix),
        DECODE_FIELD("peer", DECODE_VALUE, false, struct operation_answer, peer),
        DECODE_FIELD("transport", DECODE_TEXT, false, struct operation_answer, o.transport),
        DECODE_FIELD("connect_us", DECODE_UINT, false, struct operation_answer, o.connect_us),
        DECODE_FIELD("error", DECODE_VALUE, false, struct operation_answer, error),
        DECODE_FIELD("metadata", DECODE_VALUE, false, struct operation_answer, metadata),
};
_Static_assert(FERRY_ARRAY_SIZE(operation_fields) <= DECODE_FIELDS_MAX, "too long a table");

static int operation_decode_error(struct json_object *json, struct ferry_operation *o, const char **ret_field)
{
        struct decode_error error = { 0 };
        int r = decode_error(json, &error, ret_field);
        if (r == 0) {
                o->error = error.number;
                memcpy(o->error_code, error.code, sizeof(o->error_code));
                memcpy(o->error_detail, error.detail, sizeof(o->error_detail));
        }
        return r;
}

/* "shm,tcp". What is beyond the room is left out: a transport more makes no program wrong. */
static int operation_decode_transports(struct json_object *list, struct ferry_operation *o, const char **ret_field)
{
        size_t used = 0;
        if (!list)
                return 0;
        *ret_field = "transports";
        if (!json_object_is_type(list, json_type_array))
                return -EPROTO;
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                if (!json_object_is_type(item, json_type_string))
                        return -EPROTO;
                size_t length = (size_t)json_object_get_string_len(item) + (used ? 1 : 0);
                if (used + length >= sizeof(o->transports))
                        break;
                snprintf(o->transports + used, sizeof(o->transports) - used, "%s%s", used ? "," : "",
                         json_object_get_string(item));
                used += length;
        }
        return 0;
}

/* Adds the numbers of the next descriptor at the end of the allocation, which may move. size: bytes of it so far. */
static int operation_decode_blocks(struct json_object *list, struct ferry_operation *o, size_t *size,
                                   size_t *ret_n_blocks)
{
        if (!list)
                return 0;
        if (!json_object_is_type(list, json_type_array))
                return -EPROTO;
        size_t n = json_object_array_length(list);
        struct ferry_descriptor *grown = realloc(o->descriptors, *size + n * sizeof(uint64_t));
        if (!grown)
                return -ENOMEM;
        o->descriptors = grown;
        uint64_t *numbers = (uint64_t *)(void *)((char *)grown + *size);
        *size += n * sizeof(uint64_t);
        *ret_n_blocks = n;
        return ferry_json_get_uints(list, numbers) == n ? 0 : -EPROTO;
}

/* One allocation: the descriptors, the texts that they point to, the numbers of their blocks. */
static int operation_decode_descriptors(struct json_object *list, struct ferry_operation *o, const char **ret_field)
{
        if (!list)
                return 0;
        *ret_field = "descriptors";
        if (!json_object_is_type(list, json_type_array))
                return -EPROTO;
        size_t n = json_object_array_length(list);
        if (n == 0)
                return 0;
        size_t size = n * (sizeof(*o->descriptors) + FERRY_ID_SIZE);
        o->descriptors = calloc(1, size);
        if (!o->descriptors)
                return -ENOMEM;
        int r = 0;
        while (o->n_descriptors < n) {
                struct operation_slice slice = { .count = 1 };
                r = decode_object(json_object_array_get_idx(list, o->n_descriptors), operation_slice_fields,
                                  FERRY_ARRAY_SIZE(operation_slice_fields), &slice, ret_field);
                struct ferry_descriptor d = {
                        .offset = slice.offset, .size = slice.size, .count = slice.count, .stride = slice.stride
                };
                if (r == 0)
                        r = operation_decode_blocks(slice.blocks, o, &size, &d.n_blocks);
                if (r < 0)
                        break;
                memcpy((char *)(o->descriptors + n) + o->n_descriptors * FERRY_ID_SIZE, slice.region, FERRY_ID_SIZE);
                o->descriptors[o->n_descriptors++] = d;
        }
        operation_point(o->descriptors, n, (char *)(o->descriptors + n));
        return r;
}

static int operation_decode_remote(struct json_object *list, struct ferry_operation *o, const char **ret_field)
{
        if (!list)
                return 0;
        *ret_field = "remote";
        if (!json_object_is_type(list, json_type_array))
                return -EPROTO;
        size_t n = json_object_array_length(list);
        o->remote = n ? calloc(n, sizeof(*o->remote)) : NULL;
        if (n && !o->remote)
                return -ENOMEM;
        int r = 0;
        while (r == 0 && o->n_remote < n) {
                r = decode_object(json_object_array_get_idx(list, o->n_remote), operation_range_fields,
                                  FERRY_ARRAY_SIZE(operation_range_fields), &o->remote[o->n_remote], ret_field);
                o->n_remote += r == 0;
        }
        return r;
}

/* A number, or "unlimited". */
static int operation_decode_uses(struct json_object *uses, struct ferry_operation *o, const char **ret_field)
{
        if (!uses || ferry_json_get_uint(uses, &o->uses))
                return 0;
        *ret_field = "uses";
        o->uses = FERRY_USES_UNLIMITED;
        return json_object_is_type(uses, json_type_string) && strcmp(json_object_get_string(uses), "unlimited") == 0
                       ? 0
                       : -EPROTO;
}

static int operation_decode_metadata(struct json_object *metadata, struct ferry_operation *o, const char **ret_field)
{
        if (!metadata)
                return 0;
        *ret_field = "metadata";
        if (!json_object_is_type(metadata, json_type_object))
                return -EPROTO;
        size_t size;
        const char *text = json_object_to_json_string_length(
                metadata, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);
        o->metadata = text ? strndup(text, size) : NULL;
        return o->metadata ? 0 : -ENOMEM;
}

int operation_get(struct ferry *f, const struct request *request, struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        int r = call_send(f, request, &reply);
        return r == 0 ? call_decode_reply(f, &reply, operation_decode, ret_operation) : r;
}

int operation_decode(struct json_object *json, void *operation, const char **ret_field)
{
        struct operation_answer answer = { 0 };
        struct ferry_operation *o = &answer.o;
        int r = decode_object(json, operation_fields, FERRY_ARRAY_SIZE(operation_fields), &answer, ret_field);
        if (r == 0)
                r = operation_decode_error(answer.error, o, ret_field);
        if (r == 0 && answer.peer)
                r = decode_object(answer.peer, operation_peer_fields, FERRY_ARRAY_SIZE(operation_peer_fields), o,
                                  ret_field);
        if (r == 0)
                r = operation_decode_transports(answer.transports, o, ret_field);
        if (r == 0)
                r = operation_decode_descriptors(answer.descriptors, o, ret_field);
        if (r == 0)
                r = operation_decode_remote(answer.remote, o, ret_field);
        if (r == 0)
                r = operation_decode_uses(answer.uses, o, ret_field);
        if (r == 0)
                r = operation_decode_metadata(answer.metadata, o, ret_field);
        if (r < 0)
                ferry_operation_clear(o);
        else
                *(struct ferry_operation *)operation = *o;
        return r;
}

void ferry_operation_clear(struct ferry_operation *operation)
{
        free(operation->descriptors);
        free(operation->remote);
        ferry_secret_free(operation->metadata);
        *operation = (struct ferry_operation){ 0 };
}

int operation_call(struct ferry *f, const struct request *request, struct ferry_operation *ret_operation)
{
        struct ferry_operation ours = { 0 };
        int r = operation_get(f, request, &ours);
        if (r == 0 && ret_operation)
                *ret_operation = ours;
        else
                ferry_operation_clear(&ours);
        return r;
}

static void operation_clear_item(void *item)
{
        ferry_operation_clear(item);
}

static const struct decode_list operation_list = { "operations", sizeof(struct ferry_operation), operation_decode,
                                                   operation_clear_item };

int operation_page_decode(struct json_object *json, void *list, const char **ret_field)
{
        struct decode_page page;
        int r = decode_page(json, &operation_list, &page, ret_field);
        if (r == 0)
                *(struct ferry_operation_list *)list =
                        (struct ferry_operation_list){ .items = page.items, .n = page.n, .next = page.next };
        return r;
}

void ferry_operation_list_clear(struct ferry_operation_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                ferry_operation_clear(&list->items[i]);
        free(list->items);
        free(list->next);
        *list = (struct ferry_operation_list){ 0 };
}
