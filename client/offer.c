/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <ferry/ferry.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "client_internal.h"

/*
 * Messages of the holder of an offer's metadata to its worker: it declines the offer, or asks for more time. The
 * holder has the offer's key, and perhaps no token. It tells the worker itself, by the key, or has a worker of its own
 * do so, which reaches the other one (…_remote). Each may be repeated: a request that declines has an id of its own, so
 * that it counts once.
 *
 * Thread: the one that uses the handle.
 */

enum { OFFER_WAIT_MS = 30000 }; /* the worker answers by then: it connects, and may then try HTTP */

struct state_answer {
        struct ferry_offer_state s;
        const char *status; /* borrowed */
};

static const struct ferry_json_field state_fields[] = {
        FERRY_JSON_FIELD("status", STRING, true, struct state_answer, status),
        FERRY_JSON_FIELD("expires_at", TEXT, false, struct state_answer, s.expires_at),
};

static int state_decode(struct json_object *json, void *state, struct ferry_json_errors *errors)
{
        struct state_answer answer = { 0 };
        int r = DECODE(json, state_fields, &answer, errors);
        if (r < 0)
                return r;
        answer.s.status = ferry_status_from_name(answer.status);
        *(struct ferry_offer_state *)state = answer.s;
        return 0;
}

/* Sends the request; the answer is the offer's state. ret_state NULL = not wanted. */
static int offer_call(struct ferry *f, struct request *request, struct ferry_offer_state *ret_state)
{
        struct ferry_offer_state state = { .status = -1 };
        request->exchange.method = "POST";
        request->repeatable = true;
        int r = call_decode(f, request, state_decode, &state, NULL);
        if (r == 0 && ret_state)
                *ret_state = state;
        return r;
}

/* ---- to the worker itself ---- */

/* Sends a request to POST …/{id}{verb} with the key, which is required. */
static int offer_tell(struct ferry *f, const char *id, const char *key, const char *verb, struct request *request,
                      struct ferry_offer_state *ret_state)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        FERRY_CLEANUP(cleanup_secret) char *authorization = NULL;
        int r = key ? handle_authorization(key, &authorization) : -EKEYREJECTED;
        if (r == -EKEYREJECTED)
                return problem_argument(f, "the key is missing, or has a character that a header cannot carry");
        if (r == 0)
                r = call_path(f, "/v1/operations/", id, verb, &path);
        if (r < 0)
                return r;
        request->exchange.path = path.text.data;
        request->authorization = authorization;
        return offer_call(f, request, ret_state);
}

int ferry_decline_operation(struct ferry *f, const char *id, const char *key, struct ferry_offer_state *ret_state)
{
        char random[CLIENT_KEY_TEXT_SIZE], transfer[64];
        const char *const headers[] = { transfer, NULL };
        struct request request = { .exchange = { .headers = headers } };
        int r = call_key(random);
        if (r < 0)
                return r;
        /* So that a repeated request declines no second use. */
        snprintf(transfer, sizeof(transfer), "Ferry-Transfer: xfr_%.16s", random);
        return offer_tell(f, id, key, "/decline", &request, ret_state);
}

int ferry_renew_by_key(struct ferry *f, const char *id, const char *key, uint64_t ttl_ms,
                       struct ferry_offer_state *ret_state)
{
        struct request request = { 0 };
        char body[48];
        if (ttl_ms) {
                snprintf(body, sizeof(body), "{\"ttl_ms\":%" PRIu64 "}", ttl_ms);
                request_set_body(&request, body);
        }
        return offer_tell(f, id, key, "/renew", &request, ret_state);
}

/* ---- through a worker that reaches that one ---- */

/*
 * The metadata as they are, and ttl_ms; 0 = not given. Returns 0; -EINVAL with f->problem set; -ENOMEM. The body is a
 * secret.
 */
static int offer_body_make(struct ferry *f, const char *metadata, uint64_t ttl_ms, char **ret_body)
{
        struct ferry_json_writer writer = { 0 };
        ferry_json_begin_object(&writer);
        int r = metadata ? operation_add_metadata(&writer, metadata) : -EINVAL;
        if (ttl_ms)
                ferry_json_add_uint(&writer, "ttl_ms", ttl_ms);
        ferry_json_end_object(&writer);
        if (r < 0) {
                ferry_json_writer_clear(&writer);
                return r == -EINVAL ? problem_argument(f, "the metadata are not JSON") : r;
        }
        *ret_body = ferry_json_take(&writer, NULL);
        return *ret_body ? 0 : -ENOMEM;
}

/* Sends the request with the metadata to the handle's own worker, at the path. */
static int offer_tell_remote(struct ferry *f, const char *path, const char *metadata, uint64_t ttl_ms,
                             struct ferry_offer_state *ret_state)
{
        char random[CLIENT_KEY_TEXT_SIZE], transfer[64];
        const char *const headers[] = { transfer, NULL };
        struct request request = { .exchange = { .path = path, .headers = headers, .wait_ms = OFFER_WAIT_MS } };
        FERRY_CLEANUP(cleanup_secret) char *body = NULL;
        int r = call_key(random);
        if (r == 0)
                r = offer_body_make(f, metadata, ttl_ms, &body);
        if (r < 0)
                return r;
        /* So that a repeated request declines no second use. */
        snprintf(transfer, sizeof(transfer), "Ferry-Transfer: xfr_%.16s", random);
        request_set_body(&request, body);
        return offer_call(f, &request, ret_state);
}

int ferry_decline_remote(struct ferry *f, const char *metadata, struct ferry_offer_state *ret_state)
{
        return offer_tell_remote(f, "/v1/operations/decline", metadata, 0, ret_state);
}

int ferry_renew_remote(struct ferry *f, const char *metadata, uint64_t ttl_ms, struct ferry_offer_state *ret_state)
{
        return offer_tell_remote(f, "/v1/operations/renew", metadata, ttl_ms, ret_state);
}
