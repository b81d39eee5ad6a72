/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "memory/region.h"
#include "operations/operations.h"

/*
 * Regions: create, get, list, delete. A large region is prepared by the pool while the request is parked; if the client
 * leaves before it has an answer, the region is deleted, since nobody would know its id. A delete waits a moment for a
 * peer that has every byte and has not said so yet.
 *
 * Thread: that of the request's connection; on_over() any.
 */

/* ---- the wait for a region ---- */

/*
 * A request's wait for a region being prepared, or for the end of its uses. It is the request's state, and ends with
 * it. Other threads touch only the flag.
 */
struct awaited {
        struct http_work work;      /* over: the region is ready or has failed, or is unused */
        struct region *region;      /* a reference, the request's */
        struct region_table *owner; /* the wait's end deletes the region from it; NULL = others have the region, too */
        struct region_waiter waiter;
};

/* Any thread. */
static void on_over(struct region_waiter *waiter)
{
        work_end(&FERRY_CONTAINER_OF(waiter, struct awaited, waiter)->work, 0, "");
}

static void awaited_end(struct http_request *request)
{
        struct awaited *awaited = request->state;

        if (region_unwait(awaited->region, &awaited->waiter))
                work_unref(&awaited->work);
        if (awaited->owner)
                (void)region_delete(awaited->owner, awaited->region->id);
        region_unref(awaited->region);
        work_unref(&awaited->work);
}

/* wait: region_wait or region_wait_unused. Takes over the reference of region. NULL: no memory, and it does not. */
static struct awaited *awaited_begin(struct http_request *request, struct region *region, struct region_table *owner,
                                     bool (*wait)(struct region *region, struct region_waiter *waiter))
{
        struct awaited *awaited = work_new(sizeof(*awaited));

        if (!awaited)
                return NULL;
        awaited->region = region;
        awaited->owner = owner;
        awaited->waiter.wake = on_over;
        if (!wait(region, &awaited->waiter))
                on_over(&awaited->waiter);
        request_keep(request, awaited, awaited_end);
        return awaited;
}

static struct region *awaited_region(const struct http_request *request)
{
        const struct awaited *awaited = request->state;

        return awaited->region;
}

/* ---- GET ---- */

static void answer_region(struct http_request *request, const struct region *region)
{
        struct ferry_json_writer writer = { 0 };

        if (region_deleted(region)) {
                request_problem(request, FERRY_E_GONE, "The region was deleted");
                return;
        }
        region_json_write(&writer, region);
        request_answer_json(request, 200, &writer);
}

static void answer_region_in_time(struct http_request *request)
{
        answer_region(request, awaited_region(request));
}

void get_region(struct http_request *request)
{
        struct region *region = request_find_region(request);
        struct awaited *awaited = NULL;
        uint64_t wait_ms;

        if (!region)
                return;
        wait_ms = request_wait_ms(request);
        if (wait_ms && region_state(region) == REGION_PREPARING)
                awaited = awaited_begin(request, region, NULL, region_wait);
        if (!awaited) {
                answer_region(request, region);
                region_unref(region);
        } else if (wait_park_flag(request, &awaited->work.over, wait_ms, answer_region_in_time) != WAIT_PARKED) {
                answer_region_in_time(request);
        }
}

void list_regions(struct http_request *request)
{
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct region **page = calloc(limit, sizeof(struct region *));
        struct ferry_json_writer writer = { 0 };

        if (!page) {
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        size_t n = region_page(request->server->config.regions, &cursor, page, limit);
        page_begin(&writer, "regions");
        for (size_t i = 0; i < n; i++) {
                region_json_write(&writer, page[i]);
                region_unref(page[i]);
        }
        page_end(&writer, request, cursor);
        request_answer_json(request, 200, &writer);
}

/* ---- POST ---- */

/* Longest wait: pinning a terabyte takes minutes. A client that does not want to wait sends respond-async. */
enum { MAKING_MS = 3600 * 1000 };

struct region_body {
        uint64_t size;
        const char *device;
        const char *name;
        bool sealed;
        uint64_t idle_ms;
};

static bool decode(struct http_request *request, struct region_body *body)
{
        const uint64_t longest_ms = request->server->config.operation_limits->ttl_ms_max;
        const struct ferry_json_field fields[] = {
                { "size", FERRY_JSON_UINT, true, offsetof(struct region_body, size), 1, 0, NULL },
                { "device", FERRY_JSON_STRING, false, offsetof(struct region_body, device), 0, 0, NULL },
                { "name", FERRY_JSON_STRING, false, offsetof(struct region_body, name), 0, REGION_NAME_SIZE - 1, NULL },
                { "sealed", FERRY_JSON_BOOL, false, offsetof(struct region_body, sealed), 0, 0, NULL },
                { "idle_ms", FERRY_JSON_UINT, false, offsetof(struct region_body, idle_ms), 1, longest_ms, NULL },
        };
        struct ferry_json_errors errors = { 0 };

        ferry_json_decode(request->json, fields, FERRY_ARRAY_SIZE(fields), body, "", &errors);
        for (const char *c = body->name; *c; c++) {
                if ((unsigned char)*c >= 0x20 && *c != 0x7f)
                        continue;
                ferry_json_complain(&errors, FERRY_E_INVALID_PARAMETER, "/name", "must not have control characters");
                break;
        }
        if (errors.n)
                request_problem_body(request, &errors);
        return !errors.n;
}

/* Answers 201 with the present state. Takes over the reference, and drops it before the client has the answer. */
static void answer_created(struct http_request *request, struct region *region)
{
        struct ferry_json_writer writer = { 0 };
        char id[FERRY_ID_TEXT_SIZE];

        ferry_id_format("rgn_", region->id, id);
        request_header_text(request, "Location", "/v1/regions/", id);
        region_json_write(&writer, region);
        request_answer_json(request, 201, &writer);
        region_unref(region);
}

static void answer_error(struct http_request *request, int error, const char *detail, const char *device, uint64_t size)
{
        if (error == FERRY_E_NO_SPACE && !region_may_fit(request->server->config.regions, device, size))
                request_problem_lasting(request, error, detail);
        else if (error == FERRY_E_UNKNOWN_DEVICE)
                request_problem_at(request, error, "/device", *detail ? detail : NULL);
        else if (error > 0 && *detail)
                request_problem(request, error, "%s", detail);
        else
                request_problem(request, error, NULL);
}

/* ---- a region that is being prepared ---- */

/*
 * Answers after the wait, whatever ended it. libmicrohttpd may find the client's end first, and never call this: so the
 * wait owns the region until there is an answer that names it.
 */
static void answer_made(struct http_request *request)
{
        struct region *region = region_ref(awaited_region(request));
        enum region_state state = region_state(region);
        bool deleted = region_deleted(region);

        if (!deleted && !connection_has_ended(request->connection) &&
            (state == REGION_READY || (state == REGION_PREPARING && request->headers.prefer_async))) {
                replay_commit(request, &region->id);
                ((struct awaited *)request->state)->owner = NULL; /* the client will have the region */
                request_drop(request);
                answer_created(request, region);
                return;
        }
        request_drop(request); /* deletes it before the client has the answer */
        if (deleted)
                request_problem(request, FERRY_E_GONE, "The region was deleted while it was being created");
        else if (state == REGION_FAILED)
                answer_error(request, region->error, region->detail, region->device, region->size);
        else if (!wait_abandoned(request, "the region was ready"))
                request_problem(request, FERRY_E_LIMIT_REACHED,
                                "The region was not ready within %u s, the most that a request waits for it",
                                MAKING_MS / 1000);
        region_unref(region);
}

/* The same for a repeated request, which does not delete the region. */
static void answer_again(struct http_request *request)
{
        struct region *region = region_ref(awaited_region(request));

        request_drop(request);
        if (!region_deleted(region)) {
                answer_created(request, region);
                return;
        }
        request_problem(request, FERRY_E_GONE, "The region created with this key was deleted");
        region_unref(region);
}

/*
 * Parks the request until the region is ready or has failed. Takes over the reference. owner: see awaited;
 * without a wait the region is deleted from it, too.
 */
static void wait_made(struct http_request *request, struct region *region, struct region_table *owner,
                      void (*resume)(struct http_request *))
{
        uint64_t wait_ms = MAKING_MS;
        struct awaited *awaited;

        if (request->headers.prefer_async) {
                request_header(request, "Preference-Applied", "respond-async");
                wait_ms = request_wait_ms(request);
        }
        awaited = awaited_begin(request, region, owner, region_wait);
        if (!awaited) {
                if (owner)
                        (void)region_delete(owner, region->id);
                region_unref(region);
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        switch (wait_ms ? wait_park_flag(request, &awaited->work.over, wait_ms, resume) : WAIT_NEEDLESS) {
        case WAIT_PARKED:
                break;
        case WAIT_NEEDLESS:
                resume(request);
                break;
        case WAIT_FULL:
                request_drop(request);
                wait_refuse(request);
                break;
        }
}

static void make(struct http_request *request, const struct region_body *body)
{
        struct region_table *regions = request->server->config.regions;
        const struct region_spec spec = { .size = body->size,
                                          .device = body->device,
                                          .name = body->name,
                                          .sealed = body->sealed,
                                          .idle_ms = body->idle_ms };
        char detail[REGION_DETAIL_SIZE];
        struct region *region;
        int error;

        error = region_create(regions, &spec, &region, detail);
        if (error) {
                answer_error(request, error, detail, body->device, body->size);
        } else if (region_state(region) == REGION_READY) {
                replay_commit(request, &region->id);
                answer_created(request, region);
        } else {
                wait_made(request, region, regions, answer_made);
        }
}

static void make_again(struct http_request *request, uint64_t id)
{
        struct region *region = region_find(request->server->config.regions, id);

        if (!region)
                request_problem(request, FERRY_E_GONE, "The region created with this key was deleted");
        else if (region_state(region) == REGION_PREPARING)
                wait_made(request, region, NULL, answer_again);
        else
                answer_created(request, region);
}

void create_region(struct http_request *request)
{
        struct region_body body = { .device = "cpu", .name = "" };
        uint64_t id;

        if (!decode(request, &body))
                return;
        switch (replay_begin(request, &id, 1)) {
        case REPLAY_MAKE:
                make(request, &body);
                break;
        case REPLAY_AGAIN:
                make_again(request, id);
                break;
        case REPLAY_ANSWERED:
                break;
        }
}

/* ---- DELETE ---- */

enum {
        NAMED_MAX = 8,
        DETAIL_SIZE = 256,
        LET_GO_MS = 2000, /* for a peer that has all bytes to say so: a round trip, and one lost packet */
};

static const char *reason(int error)
{
        if (error == FERRY_E_REGION_IN_USE)
                return "An operation or a content request uses it";
        return "It is memory of the program that runs the worker, which alone can remove it";
}

/* Formats the detail of region-in-use: the oldest operations that are not done. */
static void name_operations(struct http_request *request, uint64_t region, char detail[DETAIL_SIZE])
{
        const struct operation_filter filter = { .kind = -1, .status = -1, .done = 0, .region = region };
        struct operation *page[NAMED_MAX];
        uint64_t cursor = 0;
        size_t n = operation_page(request->server->config.operations, &filter, &cursor, page, NAMED_MAX), used;

        used = (size_t)snprintf(detail, DETAIL_SIZE, "%s", n ? "Used by" : reason(FERRY_E_REGION_IN_USE));
        for (size_t i = 0; i < n; i++) {
                char id[FERRY_ID_TEXT_SIZE];

                ferry_id_format("op_", operation_id(page[i]), id);
                used += (size_t)snprintf(detail + used, DETAIL_SIZE - used, "%s %s", i ? "," : "", id);
                operation_unref(page[i]);
        }
        if (cursor)
                snprintf(detail + used, DETAIL_SIZE - used, " and others");
}

static void answer_deleted(struct http_request *request, uint64_t id, int error)
{
        char detail[DETAIL_SIZE];

        if (error == FERRY_E_REGION_IN_USE)
                name_operations(request, id, detail);
        if (!error)
                request_answer_empty(request, 204);
        else if (error == FERRY_E_NOT_FOUND)
                request_problem(request, error, "No region \"%s\"", request->resource_id);
        else
                request_problem(request, error, "%s", error == FERRY_E_REGION_IN_USE ? detail : reason(error));
}

/* Whatever ended the wait. */
static void delete_again(struct http_request *request)
{
        uint64_t id = awaited_region(request)->id;

        request_drop(request);
        answer_deleted(request, id, region_delete(request->server->config.regions, id));
}

/* false: an operation keeps the region in use, or the request cannot wait. */
static bool wait_unused(struct http_request *request, uint64_t id)
{
        struct awaited *awaited;
        struct region *region;

        if (!operation_store_lets_go(request->server->config.operations, id))
                return false;
        region = region_find(request->server->config.regions, id);
        if (!region)
                return false;
        awaited = awaited_begin(request, region, NULL, region_wait_unused);
        if (!awaited) {
                region_unref(region);
                return false;
        }
        if (wait_park_work(request, &awaited->work.over, LET_GO_MS, delete_again) != WAIT_PARKED)
                delete_again(request);
        return true;
}

/*
 * Takes no reference, so that a small region without other references is freed before the answer. A large one is freed
 * later, by a thread of the pool.
 */
void delete_region(struct http_request *request)
{
        int error = FERRY_E_NOT_FOUND;
        uint64_t id = 0;

        if (request->headers.if_match || request->headers.if_none_match) {
                struct region *region = request_find_region(request);

                if (!region)
                        return;
                region_unref(region);
        }
        if (ferry_id_parse("rgn_", request->resource_id, &id))
                error = region_delete(request->server->config.regions, id);
        if (error != FERRY_E_REGION_IN_USE || !wait_unused(request, id))
                answer_deleted(request, id, error);
}
