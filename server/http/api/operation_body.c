/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/status.h>

#include "base/util.h"
#include "memory/region.h"
#include "message/ranges.h"

/*
 * The body of POST /v1/operations. The fields are one table, whose limits GET /v1/limits shows; then comes what goes
 * with which kind, then the regions are found and the slices checked. Decoding goes on after a fault, so that one
 * answer names several. Any thread; no state.
 */

enum { CARRIERS_MAX = 8 };

/* The fields of the document; a number 0 = not given. */
struct raw_body {
        const char *kind, *label, *layout, *remote_url, *follow;
        struct json_object *descriptors, *remote, *remote_metadata, *transports;
        uint64_t uses, readers, ttl_ms, renew_max_ms, timeout_ms;
        bool unlimited, verify, relay;
};

struct raw_descriptor {
        const char *region;
        uint64_t offset;
        uint64_t size;   /* 0 = the rest of the region */
        uint64_t count;  /* slices of a row; 0 = not given */
        uint64_t stride; /* 0 = size: contiguous */
        struct json_object *blocks;
};

static const char *const no_limit[] = { "unlimited", NULL }; /* the older form of "unlimited":true */

/* Decodes the fields, and looks at nothing that they name. */
static bool decode_raw(const struct http_config *config, struct json_object *document, struct raw_body *raw,
                       struct ferry_json_errors *errors)
{
        const struct operation_limits *limits = config->operation_limits;
        const struct ferry_json_field fields[] = {
                { "kind", FERRY_JSON_STRING, true, offsetof(struct raw_body, kind), 0, 0, ferry_kind_names },
                { "descriptors", FERRY_JSON_ARRAY, true, offsetof(struct raw_body, descriptors), 1,
                  config->limits.descriptors_max, NULL },
                { "layout", FERRY_JSON_STRING, false, offsetof(struct raw_body, layout), 0, 0, ferry_layout_names },
                { "label", FERRY_JSON_STRING, false, offsetof(struct raw_body, label), 1, OPERATION_LABEL_SIZE - 1,
                  NULL },
                { "uses", FERRY_JSON_UINT, false, offsetof(struct raw_body, uses), 1, limits->uses_max, no_limit },
                { "unlimited", FERRY_JSON_BOOL, false, offsetof(struct raw_body, unlimited), 0, 0, NULL },
                { "readers", FERRY_JSON_UINT, false, offsetof(struct raw_body, readers), 1, limits->uses_max, NULL },
                { "ttl_ms", FERRY_JSON_UINT, false, offsetof(struct raw_body, ttl_ms), 1, limits->ttl_ms_max, NULL },
                { "renew_max_ms", FERRY_JSON_UINT, false, offsetof(struct raw_body, renew_max_ms), 1,
                  limits->ttl_ms_max, NULL },
                { "follow", FERRY_JSON_STRING, false, offsetof(struct raw_body, follow), 0, 0, NULL },
                { "timeout_ms", FERRY_JSON_UINT, false, offsetof(struct raw_body, timeout_ms), 1,
                  limits->timeout_ms_max, NULL },
                { "verify", FERRY_JSON_BOOL, false, offsetof(struct raw_body, verify), 0, 0, NULL },
                { "relay", FERRY_JSON_BOOL, false, offsetof(struct raw_body, relay), 0, 0, NULL },
                { "transports", FERRY_JSON_ARRAY, false, offsetof(struct raw_body, transports), 1, CARRIERS_MAX, NULL },
                { "remote", FERRY_JSON_ARRAY, false, offsetof(struct raw_body, remote), 1,
                  config->limits.descriptors_max, NULL },
                { "remote_metadata", FERRY_JSON_OBJECT, false, offsetof(struct raw_body, remote_metadata), 0, 0, NULL },
                { "remote_url", FERRY_JSON_STRING, false, offsetof(struct raw_body, remote_url), 1,
                  FERRY_METADATA_URL_SIZE, NULL },
        };

        return ferry_json_decode(document, fields, FERRY_ARRAY_SIZE(fields), raw, "", errors);
}

/* Refuses a field that this kind of operation does not have. */
static void refuse(bool given, const char *pointer, const char *kinds_that_have_it, struct ferry_json_errors *errors)
{
        if (given)
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "is for %s only", kinds_that_have_it);
}

/* Refuses what this kind of operation does not have, and what does not go together. */
static void check_kind(const struct raw_body *raw, enum ferry_kind kind, struct ferry_json_errors *errors)
{
        bool passive = ferry_kind_is_passive((int)kind);

        /* 1 is allowed for every kind: generated clients send it with all. */
        refuse(raw->uses > 1 && !passive, "/uses", "readable and writable", errors);
        refuse(raw->unlimited && !passive, "/unlimited", "readable and writable", errors);
        if (raw->unlimited && (raw->uses || raw->readers > 1))
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, "/unlimited", "cannot be combined with uses");
        refuse(raw->readers > 1 && kind != FERRY_READABLE, "/readers", "readable", errors);
        if (raw->uses && raw->readers > 1 && raw->readers != raw->uses)
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, "/readers",
                                    "must equal uses, of which it is an older name");
        refuse(raw->follow && kind != FERRY_READABLE, "/follow", "readable", errors);
        refuse(raw->relay && kind != FERRY_READ, "/relay", "read", errors);
        refuse(raw->ttl_ms && !passive, "/ttl_ms", "readable and writable", errors);
        refuse(raw->renew_max_ms && !passive, "/renew_max_ms", "readable and writable", errors);
        refuse(raw->timeout_ms && passive, "/timeout_ms", "read and write", errors);
        refuse(raw->verify && passive, "/verify", "read and write", errors);
        refuse(raw->transports && passive, "/transports", "read and write", errors);
        refuse(raw->remote && passive, "/remote", "read and write", errors);
        refuse(raw->remote_metadata && passive, "/remote_metadata", "read and write", errors);
        refuse(raw->remote_url && passive, "/remote_url", "read and write", errors);
        if (!passive && !raw->remote_metadata == !raw->remote_url)
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, "",
                                    "needs exactly one of remote_metadata and remote_url");
}

/* Finds the operation that a readable is to follow; takes a reference. */
static void find_follow(const struct http_config *config, const char *name, struct operation_body *body,
                        struct ferry_json_errors *errors)
{
        uint64_t id;

        if (!ferry_id_parse("op_", name, &id))
                ferry_json_complain(errors, FERRY_E_NOT_FOUND, "/follow", "no such operation");
        else if (operation_find(config->operations, id, &body->spec.follow) == OPERATION_GONE)
                ferry_json_complain(errors, FERRY_E_GONE, "/follow", "the operation is gone");
        else if (!body->spec.follow)
                ferry_json_complain(errors, FERRY_E_NOT_FOUND, "/follow", "no such operation");
}

/* The state of resolving a list of descriptors. */
struct resolving {
        const struct http_config *config;
        struct ferry_json_errors *errors;
        size_t i;        /* index of the descriptor */
        uint64_t pieces; /* of all descriptors so far */
        bool too_many;   /* pieces exceed descriptors_max */
        int error;       /* -errno */
};

/* Complains about a field of the descriptor. */
__attribute__((format(printf, 4, 5))) static bool refuse_field(struct resolving *r, int error, const char *field,
                                                               const char *format, ...)
{
        char pointer[FERRY_JSON_POINTER_SIZE], detail[FERRY_JSON_DETAIL_SIZE];
        va_list arguments;

        snprintf(pointer, sizeof(pointer), "/descriptors/%zu/%s", r->i, field);
        va_start(arguments, format);
        vsnprintf(detail, sizeof(detail), format, arguments);
        va_end(arguments);
        ferry_json_complain(r->errors, error, pointer, "%s", detail);
        return false;
}

static bool refuse_block(struct resolving *r, int error, size_t block, const char *detail)
{
        char field[40];

        snprintf(field, sizeof(field), "blocks/%zu", block);
        return refuse_field(r, error, field, "%s", detail);
}

/* Counts the pieces of a row or of blocks one by one. */
static bool count_pieces(struct resolving *r, uint64_t count, const char *field)
{
        uint64_t max = r->config->limits.descriptors_max;

        if (!__builtin_add_overflow(r->pieces, count, &r->pieces) && r->pieces <= max)
                return true;
        r->too_many = true;
        return refuse_field(r, FERRY_E_INVALID_PARAMETER, field,
                            "an operation has at most %llu descriptors, pieces counted one by one: divide the list "
                            "among several operations",
                            (unsigned long long)max);
}

/* room: bytes of the region from the offset on. */
static bool resolve_blocks(struct resolving *r, const struct raw_descriptor *raw, struct operation_slice *slice,
                           uint64_t room)
{
        size_t n = json_object_array_length(raw->blocks), n_read;
        uint64_t *blocks;

        if (raw->count || raw->stride)
                return refuse_field(r, FERRY_E_INVALID_PARAMETER, "blocks", "cannot be combined with count and stride");
        if (!raw->size)
                return refuse_field(r, FERRY_E_INVALID_PARAMETER, "size", "is required with blocks");
        if (!count_pieces(r, n, "blocks"))
                return false;
        slice->blocks = blocks = malloc(n * sizeof(blocks[0]));
        slice->count = n;
        if (!blocks) {
                r->error = -ENOMEM;
                return false;
        }
        n_read = ferry_json_get_uints(raw->blocks, blocks);
        if (n_read < n)
                return refuse_block(r, FERRY_E_INVALID_PARAMETER, n_read, "expected the number of a block");
        for (size_t i = 0; i < n; i++)
                if (blocks[i] >= room / slice->size)
                        return refuse_block(r, FERRY_E_OUT_OF_BOUNDS, i, "the block lies outside the region");
        return true;
}

/* Checks a row, or a single piece. room: bytes of the region from the offset on. */
static bool resolve_row(struct resolving *r, const struct raw_descriptor *raw, struct operation_slice *slice,
                        uint64_t room)
{
        uint64_t end;

        slice->count = raw->count ? raw->count : 1;
        slice->stride = raw->stride ? raw->stride : slice->size;
        if (slice->count > 1 && !raw->size)
                return refuse_field(r, FERRY_E_INVALID_PARAMETER, "size", "is required with a count above 1");
        if (slice->stride < slice->size)
                return refuse_field(r, FERRY_E_INVALID_PARAMETER, "stride", "must not be below the size");
        if (slice->size > room || !operation_slice_end(slice, &end) || end > slice->region->size)
                return refuse_field(r, FERRY_E_OUT_OF_BOUNDS, slice->size > room ? "size" : "count",
                                    "the region has %llu bytes from this offset", (unsigned long long)room);
        return count_pieces(r, slice->count, "count");
}

/* Finds the region, whose reference is the slice's in any case, and checks the slice. */
static bool resolve_descriptor(struct resolving *r, const struct raw_descriptor *raw, struct operation_slice *slice,
                               struct region *before)
{
        slice->region = region_named(r->config->regions, raw->region, before);
        if (!slice->region)
                return refuse_field(r, FERRY_E_NOT_FOUND, "region", "no such region");
        uint64_t size = slice->region->size;
        if (raw->offset >= size)
                return refuse_field(r, FERRY_E_OUT_OF_BOUNDS, "offset", "the region has %llu bytes",
                                    (unsigned long long)size);
        slice->offset = raw->offset;
        slice->size = raw->size ? raw->size : size - raw->offset;
        return raw->blocks ? resolve_blocks(r, raw, slice, size - raw->offset)
                           : resolve_row(r, raw, slice, size - raw->offset);
}

static bool decode_descriptor(struct resolving *r, struct json_object *document, struct operation_slice *slice,
                              struct region *before)
{
        static const struct ferry_json_field fields[] = {
                { "region", FERRY_JSON_STRING, true, offsetof(struct raw_descriptor, region), 0, 0, NULL },
                { "offset", FERRY_JSON_UINT, false, offsetof(struct raw_descriptor, offset), 0, 0, NULL },
                { "size", FERRY_JSON_UINT, false, offsetof(struct raw_descriptor, size), 1, 0, NULL },
                { "count", FERRY_JSON_UINT, false, offsetof(struct raw_descriptor, count), 1, 0, NULL },
                { "stride", FERRY_JSON_UINT, false, offsetof(struct raw_descriptor, stride), 1, 0, NULL },
                { "blocks", FERRY_JSON_ARRAY, false, offsetof(struct raw_descriptor, blocks), 1,
                  FERRY_METADATA_DESCRIPTORS, NULL },
        };
        struct raw_descriptor raw = { 0 };

        return ferry_json_decode_element(document, fields, FERRY_ARRAY_SIZE(fields), &raw, "/descriptors", r->i,
                                         r->errors) &&
               resolve_descriptor(r, &raw, slice, before);
}

/* Goes on after an error, so that one answer names many; stops when the list of errors is full. */
static int decode_descriptors(const struct http_config *config, struct json_object *list, struct operation_body *body,
                              struct ferry_json_errors *errors)
{
        struct resolving r = { .config = config, .errors = errors };
        size_t n = json_object_array_length(list);
        struct region *before = NULL;

        body->slices = calloc(n, sizeof(*body->slices));
        if (!body->slices)
                return -ENOMEM;
        body->spec.slices = body->slices;
        body->spec.n_slices = n;
        for (; r.i < n && !r.too_many && !r.error && errors->n < FERRY_JSON_ERRORS; r.i++) {
                (void)decode_descriptor(&r, json_object_array_get_idx(list, r.i), &body->slices[r.i], before);
                if (body->slices[r.i].region)
                        before = body->slices[r.i].region;
        }
        return r.error;
}

static void refuse_range(struct ferry_json_errors *errors, int error, size_t i, const char *why)
{
        char pointer[FERRY_JSON_POINTER_SIZE];

        (void)snprintf(pointer, sizeof(pointer), "/remote/%zu", i);
        ferry_json_complain(errors, error, pointer, "%s", why);
}

/* Decodes the parts of the offer. */
static int decode_remote(struct json_object *list, struct operation_body *body, struct ferry_json_errors *errors)
{
        static const struct ferry_json_field fields[] = {
                { "offset", FERRY_JSON_UINT, false, offsetof(struct range, offset), 0, 0, NULL },
                { "size", FERRY_JSON_UINT, true, offsetof(struct range, size), 1, 0, NULL },
        };
        const size_t n = json_object_array_length(list);
        FERRY_CLEANUP(cleanup_free) struct range *given = calloc(n, sizeof(*given));
        const char *why;
        size_t bad;
        int r;

        if (!given)
                return -ENOMEM;
        for (size_t i = 0; i < n && errors->n < FERRY_JSON_ERRORS; i++)
                (void)ferry_json_decode_element(json_object_array_get_idx(list, i), fields, FERRY_ARRAY_SIZE(fields),
                                                &given[i], "/remote", i, errors);
        if (errors->n)
                return 0;
        r = ranges_new(given, n, &body->remote, &bad, &why);
        if (r > 0)
                refuse_range(errors, r, bad, why);
        body->spec.remote = body->remote;
        return r < 0 ? r : 0;
}

int operation_body_read(const struct http_config *config, struct json_object *json, struct operation_body *body,
                        struct ferry_json_errors *errors)
{
        struct raw_body raw = { .layout = "pairwise" };

        memset(body, 0, sizeof(*body));
        if (!decode_raw(config, json, &raw, errors))
                return errors->error;
        body->spec.kind = (enum ferry_kind)ferry_kind_from_name(raw.kind);
        body->spec.layout = (enum ferry_layout)ferry_layout_from_name(raw.layout);
        if (ferry_kind_is_passive((int)body->spec.kind))
                body->spec.uses = raw.unlimited || raw.uses == UINT64_MAX
                                          ? OPERATION_USES_UNLIMITED
                                          : (uint32_t)(raw.uses ? raw.uses : raw.readers);
        if (raw.label)
                (void)stpcpy(body->spec.label, raw.label);
        body->spec.ttl_ms = raw.ttl_ms;
        body->spec.renew_max_ms = raw.renew_max_ms;
        body->spec.timeout_ms = raw.timeout_ms;
        body->spec.verify = raw.verify;
        body->spec.relay = raw.relay;
        body->remote_url = raw.remote_url;
        if (raw.transports)
                (void)carriers_decode(raw.transports, &body->spec.carriers, errors);
        check_kind(&raw, body->spec.kind, errors);
        if (raw.follow && !errors->n)
                find_follow(config, raw.follow, body, errors);
        int error = decode_descriptors(config, raw.descriptors, body, errors);
        if (!error && !errors->n && raw.remote)
                error = decode_remote(raw.remote, body, errors);
        if (!error && !errors->n && raw.remote_metadata)
                error = ferry_metadata_read(raw.remote_metadata, "/remote_metadata", &body->metadata, errors);
        return error < 0 ? error : errors->error;
}

void operation_body_clear(struct operation_body *body)
{
        for (size_t i = 0; i < body->spec.n_slices; i++) {
                region_unref(body->slices[i].region);
                free((void *)body->slices[i].blocks);
        }
        free(body->slices);
        free(body->remote);
        operation_unref(body->spec.follow);
        ferry_metadata_free(body->metadata);
        memset(body, 0, sizeof(*body));
}
