/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "http_internal.h"
#include "idempotency.h"
#include "request.h"

enum replay replay_begin(struct http_request *request, uint64_t *ret_ids, size_t n)
{
        const char *key = request->headers.idempotency_key;

        if (!key)
                return REPLAY_MAKE;
        if (!headers_idempotency_key_valid(key)) {
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "Idempotency-Key must be 1 to 255 visible ASCII characters");
                return REPLAY_ANSWERED;
        }
        switch (idempotency_begin(request->server->idempotency, key, request->idempotency_hash, clock_now_us(), ret_ids,
                                  n, &request->reserved)) {
        case IDEMPOTENCY_NEW:
                return REPLAY_MAKE;
        case IDEMPOTENCY_RETRY:
        case IDEMPOTENCY_REPLAY:
                request_header(request, "Idempotency-Replayed", "true");
                return REPLAY_AGAIN;
        case IDEMPOTENCY_CONFLICT:
                request_problem(request, FERRY_E_IDEMPOTENCY_CONFLICT, "Use a new key for a new request");
                return REPLAY_ANSWERED;
        case IDEMPOTENCY_BUSY:
                request_header(request, "Retry-After", "1");
                request_problem(request, FERRY_E_IDEMPOTENCY_CONFLICT,
                                "The first request with this key has not been answered yet; try again");
                return REPLAY_ANSWERED;
        case IDEMPOTENCY_FULL:
                request_problem(request, FERRY_E_LIMIT_REACHED, "idempotency_max is %llu, and as many keys are in use",
                                (unsigned long long)request->server->config.limits.idempotency_max);
                return REPLAY_ANSWERED;
        }
        __builtin_unreachable();
}

void replay_commit(struct http_request *request, const uint64_t *ids)
{
        if (request->reserved)
                idempotency_commit(request->server->idempotency, FERRY_STEAL(request->reserved), ids);
}

void replay_abort(struct http_request *request)
{
        if (request->reserved)
                idempotency_abort(request->server->idempotency, FERRY_STEAL(request->reserved));
}
