/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <ferry/clock.h>

#include "client_internal.h"
#include "http.h"
#include "retry.h"

static bool request_is_repeatable(const struct request *request)
{
        const struct ferry_exchange *e = &request->exchange;
        return request->repeatable || e->idempotency_key || strcmp(e->method, "POST") != 0;
}

static uint32_t perform_random(void)
{
        uint32_t random;

        /* Only spreads the load: a zero when the kernel has none does no harm. */
        return getentropy(&random, sizeof(random)) == 0 ? random : 0;
}

/* Notes the answer of a gateway. For how long none but such have come, beside what the worker was asked to wait. */
static uint64_t call_gateway_ms(struct reply *reply, bool gateway, uint64_t wait_ms)
{
        uint64_t now = ferry_clock_ms();
        if (!gateway)
                reply->gateway_ms = 0;
        else if (!reply->gateway_ms)
                reply->gateway_ms = now;
        return gateway && now - reply->gateway_ms > wait_ms ? now - reply->gateway_ms - wait_ms : 0;
}

bool call_retry(struct ferry *f, const struct request *request, struct reply *reply, int result, unsigned tries,
                uint64_t *ret_delay_ms)
{
        bool gateway = result == 0 && problem_is_gateway(reply);
        if (gateway && request->awaits)
                return false;
        struct retry_facts facts = {
                .result = result,
                .status = reply->status,
                /* What a refused connection did not take did not reach the worker. */
                .allowed = (result == -ECONNREFUSED || request_is_repeatable(request)) && !reply->delivered &&
                           !reply->consumed,
                .by_status = !request->exchange.no_status_retry,
                .gateway = gateway,
                .gateway_ms = call_gateway_ms(reply, gateway, request->exchange.wait_ms),
                .tries = tries,
                .retries = f->retries,
                .has_retry_after = reply->retry_after[0] != '\0',
                .retry_after_ms = reply->retry_after_ms,
                .random = gateway || (result == 0 && reply->status < 400) ? 0 : perform_random(),
        };
        if (!retry_decide(&facts, ret_delay_ms))
                return false;
        if (request->deadline_ms && ferry_clock_ms() + *ret_delay_ms >= request->deadline_ms)
                return false;
        /* The request may have reached the worker. */
        if (result == -ECONNRESET)
                reply->lost = true;
        reply_restart(reply);
        return true;
}

int call_send(struct ferry *f, const struct request *request, struct reply *ret_reply)
{
        *ret_reply = (struct reply){ .secret = request->secret };
        if (!handle_is_ours(f))
                return problem_forked(f);
        const char *wrong = request_check(&request->exchange);
        if (wrong)
                return problem_argument(f, wrong);
        for (unsigned tries = 1;; tries++) {
                uint64_t delay;
                int r = http_try_once(f, request, ret_reply);
                if (!call_retry(f, request, ret_reply, r, tries, &delay))
                        return problem_classify(f, request, ret_reply, r);
                http_pause(f, delay);
        }
}
