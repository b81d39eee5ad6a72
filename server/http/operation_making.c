/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_making.h"

#include <stdio.h>

#include <ferry/error.h>
#include <ferry/status.h>

#include "base/util.h"
#include "http_internal.h"
#include "memory/region.h"
#include "operation_body.h"
#include "operations/operations.h"
#include "peers/peers.h"
#include "peers/remote.h"
#include "problem.h"
#include "refusal.h"
#include "request.h"

/* Where the fault is of what does not fit the offer. */
static const char *remote_pointer(const struct operation_body *body, int error)
{
        if (body->remote && (error == FERRY_E_SIZE_MISMATCH || error == FERRY_E_OUT_OF_BOUNDS))
                return "/remote";
        return body->metadata ? "/remote_metadata" : "/remote_url";
}

/* Checks the body before anything is made. */
static bool check(const struct http_config *config, struct operation_body *body, bool passive, struct refusal *refusal)
{
        char detail[OPERATION_DETAIL_SIZE] = "";
        int error = 0;

        if (passive && !ferry_kind_is_passive((int)body->spec.kind))
                return refuse(refusal, FERRY_E_INVALID_PARAMETER,
                              "Only readable and writable operations have metadata to include");
        if (body->metadata)
                error = operation_check(config->operations, &body->spec, body->metadata, detail);
        else if (body->remote_url)
                error = peers_check_url(config->peers, body->remote_url, detail, sizeof(detail));
        if (error)
                return refuse_at(refusal, error, remote_pointer(body, error), detail);
        return true;
}

/* Deletes an operation whose creation is answered with a problem. */
static void unmake(struct operation_store *store, struct operation *operation, int error, const char *detail)
{
        operation_fail(store, operation, error > 0 ? error : FERRY_E_INTERNAL, detail);
        operation_delete(store, operation);
        operation_unref(operation);
}

static bool start(const struct http_config *config, struct operation *operation, const struct operation_body *body,
                  bool may_run_inline, struct refusal *refusal)
{
        char detail[OPERATION_DETAIL_SIZE] = "";
        int error = 0;

        if (body->metadata)
                error = operation_begin(config->operations, operation, body->metadata, may_run_inline, detail);
        else if (body->remote_url)
                error = remote_begin(config->operations, config->peers, operation, body->remote_url, detail,
                                     sizeof(detail));
        if (!error)
                return true;
        unmake(config->operations, operation, error, detail);
        return refuse_at(refusal, error, remote_pointer(body, error), detail);
}

/* Names a region that is not ready; the last one, where it has become ready meanwhile. */
static void refuse_unready(const struct operation_spec *spec, struct refusal *refusal)
{
        char pointer[FERRY_JSON_POINTER_SIZE];
        size_t i = 0;

        while (i + 1 < spec->n_slices && region_state(spec->slices[i].region) == REGION_READY)
                i++;
        (void)snprintf(pointer, sizeof(pointer), "/descriptors/%zu/region", i);
        (void)refuse_at(refusal, FERRY_E_REGION_NOT_READY, pointer,
                        region_state(spec->slices[i].region) == REGION_FAILED ? PROBLEM_UNMADE : PROBLEM_PREPARING);
}

/* Fills in why the store refused to create the operation. */
static void refuse_creation(const struct operation_spec *spec, int error, const char *detail, struct refusal *refusal)
{
        if (spec->remote && error == FERRY_E_SIZE_MISMATCH)
                (void)refuse_at(refusal, error, "/remote", detail);
        else if (spec->follow && error == FERRY_E_OUT_OF_BOUNDS)
                (void)refuse_at(refusal, error, "/descriptors", detail);
        else if (spec->follow &&
                 (error == FERRY_E_KIND_MISMATCH || error == FERRY_E_INVALID_PARAMETER || error == FERRY_E_GONE))
                (void)refuse_at(refusal, error, "/follow", detail);
        else if (error == FERRY_E_REGION_NOT_READY)
                refuse_unready(spec, refusal);
        else
                (void)refuse(refusal, error, error == FERRY_E_DRAINING ? PROBLEM_DRAINING : *detail ? detail : NULL);
}

struct operation *operation_make(struct http_request *request, struct json_object *json, bool passive,
                                 bool may_run_inline, struct refusal *refusal)
{
        FERRY_CLEANUP(operation_body_clear) struct operation_body body = { 0 };
        const struct http_config *config = &request->server->config;
        char detail[OPERATION_DETAIL_SIZE] = "";
        struct operation *operation;
        int error;

        error = operation_body_read(config, json, &body, &refusal->errors);
        if (!error && !check(config, &body, passive, refusal))
                return NULL;
        body.spec.request_id = request->id;
        if (!error)
                error = operation_create(config->operations, &body.spec, &operation, detail);
        if (error) {
                refuse_creation(&body.spec, error, detail, refusal);
                return NULL;
        }
        return start(config, operation, &body, may_run_inline, refusal) ? operation : NULL;
}
