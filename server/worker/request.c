/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/util.h"
#include "memory/region.h"
#include "message/ranges.h"

/*
 * Requests of programs: the description of an operation, filled in call by call, and resolved when an operation is
 * created from it. A request names regions and operations by their ids, so it may be made before they are, and used
 * again. Fields are one table, of name, kinds and setter; a value that is refused leaves the request as it was.
 *
 * Contract: ferry/worker.h. Thread: one at a time for one request.
 */

struct request_slice {
        char region[FERRY_WORKER_ID_SIZE];
        struct operation_slice slice; /* without the region; owns its blocks */
};

/* The spec has neither slices nor remote nor follow before request_resolve. */
struct ferry_worker_request {
        struct operation_spec spec;
        uint64_t follow; /* id of an operation; 0 = none */
        struct request_slice *slices;
        size_t n_slices, room;
        struct range *remote;
        size_t n_remote, remote_room;
};

/* ---- making ---- */

struct ferry_worker_request *ferry_worker_request_new(enum ferry_kind kind)
{
        struct ferry_worker_request *request;

        if ((unsigned)kind >= FERRY_KIND_COUNT) {
                (void)worker_fail(FERRY_E_INVALID_PARAMETER, "No kind of operation has the number %d", (int)kind);
                return NULL;
        }
        request = calloc(1, sizeof(*request));
        if (!request)
                (void)worker_fail(-ENOMEM, NULL);
        else
                request->spec.kind = kind;
        return request;
}

/* Appends a descriptor. Returns 0, or an error set by worker_fail; the blocks become the request's on success only. */
static int add_slice(struct ferry_worker_request *request, const char *region, struct operation_slice slice)
{
        struct request_slice *slices;

        if (!region)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The descriptor names no region");
        slices = ferry_reserve(request->slices, &request->room, request->n_slices + 1, sizeof(*slices));
        if (!slices)
                return worker_fail(-ENOMEM, NULL);
        request->slices = slices;
        slices += request->n_slices++;
        (void)snprintf(slices->region, sizeof(slices->region), "%s", region);
        slices->slice = slice;
        return 0;
}

int ferry_worker_request_add(struct ferry_worker_request *request, const char *region, uint64_t offset, uint64_t size)
{
        return add_slice(request, region, (struct operation_slice){ .offset = offset, .size = size, .count = 1 });
}

int ferry_worker_request_add_row(struct ferry_worker_request *request, const char *region, uint64_t offset,
                                 uint64_t size, uint64_t count, uint64_t stride)
{
        const struct operation_slice slice = { .offset = offset, .size = size, .count = count, .stride = stride };

        if (!size || !count)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "A row has one piece or more, of one byte or more");
        if (count > 1 && stride < size)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The stride of a row is the size of a piece or more");
        return add_slice(request, region, slice);
}

int ferry_worker_request_add_blocks(struct ferry_worker_request *request, const char *region, uint64_t offset,
                                    uint64_t size, const uint64_t *blocks, size_t n_blocks)
{
        struct operation_slice slice = { .offset = offset, .size = size, .count = n_blocks };
        uint64_t *copy;
        int r;

        if (!size || !blocks || !n_blocks || n_blocks > FERRY_METADATA_DESCRIPTORS)
                return worker_fail(
                        FERRY_E_INVALID_PARAMETER,
                        "A list has 1 to %d blocks, of one byte or more: divide a longer one among several operations",
                        FERRY_METADATA_DESCRIPTORS);
        slice.blocks = copy = malloc(n_blocks * sizeof(*blocks));
        if (!copy)
                return worker_fail(-ENOMEM, NULL);
        memcpy(copy, blocks, n_blocks * sizeof(*blocks));
        r = add_slice(request, region, slice);
        if (r)
                free(copy);
        return r;
}

int ferry_worker_request_add_remote(struct ferry_worker_request *request, const uint64_t *offsets,
                                    const uint64_t *sizes, size_t n)
{
        struct range *remote;

        if (ferry_kind_is_passive((int)request->spec.kind))
                return worker_fail(FERRY_E_INVALID_PARAMETER, "A %s operation reads or writes no part of an offer",
                                   ferry_kind_name((int)request->spec.kind));
        if (!offsets || !sizes || !n || n > FERRY_METADATA_DESCRIPTORS - request->n_remote)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "An operation reads or writes 1 to %d parts of an offer",
                                   FERRY_METADATA_DESCRIPTORS);
        remote = ferry_reserve(request->remote, &request->remote_room, request->n_remote + n, sizeof(*remote));
        if (!remote)
                return worker_fail(-ENOMEM, NULL);
        request->remote = remote;
        for (size_t i = 0; i < n; i++)
                request->remote[request->n_remote++] = (struct range){ .offset = offsets[i], .size = sizes[i] };
        return 0;
}

struct ferry_worker_request *ferry_worker_request_free(struct ferry_worker_request *request)
{
        if (!request)
                return NULL;
        for (size_t i = 0; i < request->n_slices; i++)
                free((void *)(uintptr_t)request->slices[i].slice.blocks);
        free(request->slices);
        free(request->remote);
        free(request);
        return NULL;
}

/* ---- fields ---- */

/* The setters of fields: each reads a text into its target. Return false when the text is no such value. */
static bool set_uint32(void *target, const char *value)
{
        uint64_t number;

        if (!ferry_uint_parse(value, UINT32_MAX, &number))
                return false;
        *(uint32_t *)target = (uint32_t)number;
        return number > 0;
}

static bool set_readers(void *target, const char *value)
{
        return set_uint32(target, value) && *(uint32_t *)target != OPERATION_USES_UNLIMITED;
}

static bool set_uses(void *target, const char *value)
{
        if (strcmp(value, "unlimited") != 0)
                return set_readers(target, value);
        *(uint32_t *)target = OPERATION_USES_UNLIMITED;
        return true;
}

static bool set_uint64(void *target, const char *value)
{
        return ferry_uint_parse(value, UINT64_MAX - 1, target) && *(uint64_t *)target > 0;
}

static bool set_bool(void *target, const char *value)
{
        *(bool *)target = strcmp(value, "true") == 0;
        return *(bool *)target || strcmp(value, "false") == 0;
}

static bool set_label(void *target, const char *value)
{
        size_t length = strlen(value);

        if (length < 1 || length >= OPERATION_LABEL_SIZE || !ferry_utf8_valid(value))
                return false;
        memcpy(target, value, length + 1);
        return true;
}

static bool set_layout(void *target, const char *value)
{
        int layout = ferry_layout_from_name(value);

        *(enum ferry_layout *)target = (enum ferry_layout)layout;
        return layout >= 0;
}

static bool set_carriers(void *target, const char *value)
{
        unsigned carriers = 0, carrier = 0;

        do {
                size_t length = strcspn(value, ",");

                carrier = engine_carrier_from_name(value, length);
                carriers |= carrier;
                value += length;
        } while (carrier && *value++);
        *(unsigned *)target = carriers;
        return carrier != 0;
}

static bool set_operation(void *target, const char *value)
{
        return ferry_id_parse("op_", value, target);
}

#define KIND(kind) (1u << FERRY_##kind)
#define AT(field) offsetof(struct ferry_worker_request, field)

static const struct field {
        const char *name;
        size_t offset;
        unsigned kinds;
        bool (*set)(void *target, const char *value);
        const char *takes;
} fields[] = {
        { "layout", AT(spec.layout), ~0u, set_layout, "\"pairwise\" or \"stream\"" },
        { "follow", AT(follow), KIND(READABLE), set_operation, "the id of an operation" },
        { "label", AT(spec.label), ~0u, set_label, "1 to 64 bytes of UTF-8" },
        { "readers", AT(spec.uses), KIND(READABLE), set_readers, "a number from 1" },
        { "relay", AT(spec.relay), KIND(READ), set_bool, "\"true\" or \"false\"" },
        { "renew_max_ms", AT(spec.renew_max_ms), KIND(READABLE) | KIND(WRITABLE), set_uint64, "a number from 1" },
        { "timeout_ms", AT(spec.timeout_ms), KIND(READ) | KIND(WRITE), set_uint64, "a number from 1" },
        { "transports", AT(spec.carriers), KIND(READ) | KIND(WRITE), set_carriers,
          "a list of \"shm\", \"tcp\", \"rdma\", \"http\", \"https\", with commas" },
        { "ttl_ms", AT(spec.ttl_ms), KIND(READABLE) | KIND(WRITABLE), set_uint64, "a number from 1" },
        { "uses", AT(spec.uses), KIND(READABLE) | KIND(WRITABLE), set_uses, "a number from 1, or \"unlimited\"" },
        { "verify", AT(spec.verify), KIND(READ) | KIND(WRITE), set_bool, "\"true\" or \"false\"" },
};

int ferry_worker_request_set(struct ferry_worker_request *request, const char *name, const char *value)
{
        struct ferry_worker_request changed = *request;

        if (!name || !value)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The field's name or value is missing");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(fields); i++) {
                const struct field *field = &fields[i];

                if (strcmp(field->name, name) != 0)
                        continue;
                if (!(field->kinds & (1u << changed.spec.kind)))
                        return worker_fail(FERRY_E_INVALID_PARAMETER, "A %s operation has no %s",
                                           ferry_kind_name((int)changed.spec.kind), name);
                if (!field->set((char *)&changed + field->offset, value))
                        return worker_fail(FERRY_E_INVALID_PARAMETER, "%s takes %s", name, field->takes);
                *request = changed;
                return 0;
        }
        return worker_fail(FERRY_E_UNKNOWN_FIELD, "An operation has no field \"%s\"", name);
}

/* ---- resolving ---- */

/*
 * Finds the region of descriptor i, and fills in a size that was left open: the rest of the region. Returns 0 or
 * FERRY_E_*, set by worker_fail; the reference to the region is slice's in any case.
 */
static int resolve_slice(const struct ferry_worker *worker, const struct request_slice *from, size_t i,
                         struct region *before, struct operation_slice *slice)
{
        uint64_t end;

        *slice = from->slice;
        slice->region = region_named(worker->regions, from->region, before);
        if (!slice->region)
                return worker_fail(FERRY_E_NOT_FOUND, "Descriptor %zu: no region \"%s\"", i, from->region);
        if (!slice->size && slice->offset < slice->region->size)
                slice->size = slice->region->size - slice->offset;
        if (!slice->size || !operation_slice_end(slice, &end) || end > slice->region->size)
                return worker_fail(FERRY_E_OUT_OF_BOUNDS, "Descriptor %zu: region \"%s\" has %zu bytes", i,
                                   from->region, slice->region->size);
        return 0;
}

static int resolve_slices(const struct ferry_worker_request *request, const struct ferry_worker *worker,
                          struct request_objects *objects)
{
        struct operation_slice *before = NULL;

        objects->slices = calloc(request->n_slices, sizeof(*objects->slices));
        if (!objects->slices)
                return worker_fail(-ENOMEM, NULL);
        for (size_t i = 0; i < request->n_slices; before = &objects->slices[i++]) {
                int r = resolve_slice(worker, &request->slices[i], i, before ? before->region : NULL,
                                      &objects->slices[i]);

                objects->n_slices = i + 1;
                if (r)
                        return r;
        }
        return 0;
}

static int resolve_remote(const struct ferry_worker_request *request, struct request_objects *objects)
{
        const char *why;
        size_t i;
        int r;

        if (!request->n_remote)
                return 0;
        r = ranges_new(request->remote, request->n_remote, &objects->remote, &i, &why);
        return r > 0 ? worker_fail(r, "Part %zu of the offer: %s", i, why) : r < 0 ? worker_fail(r, NULL) : 0;
}

static int resolve_follow(const struct ferry_worker_request *request, const struct ferry_worker *worker,
                          struct request_objects *objects)
{
        if (!request->follow)
                return 0;
        switch (operation_find(worker->operations, request->follow, &objects->follow)) {
        case OPERATION_GONE:
                return worker_fail(FERRY_E_GONE, "The operation to follow is gone");
        case OPERATION_UNKNOWN:
                return worker_fail(FERRY_E_NOT_FOUND, "The operation to follow is not one of this worker");
        default:
                return 0;
        }
}

int request_resolve(const struct ferry_worker_request *request, struct ferry_worker *worker,
                    struct request_objects *objects, struct operation_spec *ret_spec)
{
        int r;

        if (!request || !request->n_slices)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "The request has no descriptor");
        r = resolve_slices(request, worker, objects);
        if (!r)
                r = resolve_remote(request, objects);
        if (!r)
                r = resolve_follow(request, worker, objects);
        if (r)
                return r;
        *ret_spec = request->spec;
        ret_spec->slices = objects->slices;
        ret_spec->n_slices = objects->n_slices;
        ret_spec->remote = objects->remote;
        ret_spec->follow = objects->follow;
        return 0;
}

void request_objects_clear(struct request_objects *objects)
{
        for (size_t i = 0; i < objects->n_slices; i++)
                region_unref(objects->slices[i].region);
        free(objects->slices);
        free(objects->remote);
        (void)operation_unref(objects->follow);
}
