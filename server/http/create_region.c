/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "idempotency.h"
#include "memory/region.h"
#include "region_json.h"
#include "request.h"

struct region_body {
        uint64_t size;
        const char *device;
        const char *name;
};

static const struct ferry_json_field fields[] = {
        { "size", FERRY_JSON_UINT, true, offsetof(struct region_body, size), 1, 0, NULL },
        { "device", FERRY_JSON_STRING, false, offsetof(struct region_body, device), 1, 0, NULL },
        { "name", FERRY_JSON_STRING, false, offsetof(struct region_body, name), 0, REGION_NAME_SIZE - 1, NULL },
};

static bool decode(struct http_request *request, struct region_body *body)
{
        struct ferry_json_errors errors = { 0 };

        ferry_json_decode(ferry_json_root(request->json), fields, FERRY_ARRAY_SIZE(fields), body, "", &errors);
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

static void make(struct http_request *request, const struct region_body *body)
{
        struct region *region;

        int error = region_create(request->server->config.regions, body->size, body->device, body->name, &region);
        switch (error) {
        case 0:
                replay_commit(request, region->id);
                answer(request, region);
                break;
        case FERRY_E_UNKNOWN_DEVICE:
                request_problem_at(request, error, "/device", NULL);
                break;
        case FERRY_E_NO_SPACE:
                request_problem(request, error, "The memory limit or the machine's shared memory is used up");
                break;
        case FERRY_E_LIMIT_REACHED:
                request_problem(request, error,
                                "The worker has as many regions, or as many open files, as it may have");
                break;
        default:
                request_problem(request, error, NULL);
        }
}

void create_region(struct http_request *request)
{
        struct region_body body = { .device = "cpu", .name = "" };
        struct region *region;
        uint64_t id;

        if (!decode(request, &body))
                return;
        switch (replay_begin(request, &id)) {
        case REPLAY_MAKE:
                make(request, &body);
                break;
        case REPLAY_AGAIN:
                region = region_find(request->server->config.regions, id);
                if (region)
                        answer(request, region);
                else
                        request_problem(request, FERRY_E_GONE, "The region that this key made was deleted");
                break;
        case REPLAY_ANSWERED:
                break;
        }
}
