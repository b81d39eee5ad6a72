/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "connection.h"
#include "handlers.h"
#include "http_internal.h"
#include "making.h"
#include "memory/region.h"
#include "operations/operations.h"
#include "problem.h"
#include "region_json.h"
#include "replay.h"
#include "request.h"
#include "wait.h"

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
static void answer(struct http_request *request, struct region *region)
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
        struct region *region = region_ref(making_region(request->state));
        enum region_state state = region_state(region);
        bool deleted = region_deleted(region);

        if (!deleted && !connection_has_ended(request->connection) &&
            (state == REGION_READY || (state == REGION_PREPARING && request->headers.prefer_async))) {
                replay_commit(request, &region->id);
                making_keep(request->state);
                request_drop(request);
                answer(request, region);
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
        struct region *region = region_ref(making_region(request->state));

        request_drop(request);
        if (!region_deleted(region)) {
                answer(request, region);
                return;
        }
        request_problem(request, FERRY_E_GONE, "The region created with this key was deleted");
        region_unref(region);
}

/*
 * Parks the request until the region is ready or has failed. Takes over the reference. owner: as of making_begin;
 * without a wait the region is deleted from it, too.
 */
static void wait_made(struct http_request *request, struct region *region, struct region_table *owner,
                      void (*resume)(struct http_request *))
{
        uint64_t wait_ms = MAKING_MS;
        int error;

        if (request->headers.prefer_async) {
                request_header(request, "Preference-Applied", "respond-async");
                wait_ms = request_wait_ms(request);
        }
        error = making_begin(request, region, owner);
        if (error) {
                if (owner)
                        (void)region_delete(owner, region->id);
                region_unref(region);
                request_problem(request, error, NULL);
                return;
        }
        switch (wait_ms ? wait_park_latch(request, making_over(request->state), wait_ms, resume) : WAIT_NEEDLESS) {
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
                answer(request, region);
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
                answer(request, region);
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
