/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "client_internal.h"
#include "retry.h"

void reply_clear(struct reply *reply)
{
        buffer_clear(&reply->body, reply->secret);
        *reply = (struct reply){ 0 };
}

/* Forgets what one attempt brought, but not what it did. */
static void reply_restart(struct reply *reply)
{
        struct reply kept = { .secret = reply->secret, .lost = reply->lost };
        reply_clear(reply);
        *reply = kept;
}

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

int perform(struct ferry *f, const struct request *request, struct reply *ret_reply)
{
        problem_clear(f);
        *ret_reply = (struct reply){ .secret = request->secret };
        const char *wrong = request_check(&request->exchange);
        if (wrong)
                return problem_argument(f, wrong);
        for (unsigned attempt = 1;; attempt++) {
                int r = exchange_attempt(f, request, ret_reply);
                struct retry_facts facts = {
                        .result = r,
                        .status = ret_reply->status,
                        /* What a refused connection did not take did not reach the worker. */
                        .allowed = (r == -ECONNREFUSED || request_is_repeatable(request)) && !ret_reply->delivered &&
                                   !ret_reply->consumed,
                        .by_status = !request->exchange.no_status_retry,
                        .attempt = attempt,
                        .retries = f->retries,
                        .has_retry_after = ret_reply->retry_after[0] != '\0',
                        .retry_after_ms = ret_reply->retry_after_ms,
                        .random = r == 0 && ret_reply->status < 400 ? 0 : perform_random(),
                };
                uint64_t delay;
                if (!retry_decide(&facts, &delay))
                        return problem_judge(f, request, ret_reply, r);
                if (request->deadline_ms && clock_ms() + delay >= request->deadline_ms)
                        return problem_judge(f, request, ret_reply, r);
                /* The request may have reached the worker. */
                if (r == -ECONNRESET)
                        ret_reply->lost = true;
                reply_restart(ret_reply);
                exchange_pause(f, delay);
        }
}
