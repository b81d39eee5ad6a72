/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tries of a call, one after the other. A request is repeated only where that does no harm: it has an
 * Idempotency-Key, or its method allows it, or nothing was sent; and no byte of a body was taken from a source or given
 * to a sink. retry_decide() is the decision, and pure; call_retry() gathers what it must know, and also decides for
 * ferry_aio; call_send() blocks until the last try.
 *
 * Thread: the one that uses the handle. ferry_abort() on another thread ends a try or a pause by the handle's eventfd.
 */
#include "client_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <ferry/clock.h>

enum { RETRY_POLL_MS = 1000 };

/* ---- whether to try again ---- */

/*
 * The worker refused or dropped the connection. A time-out is no reason to repeat: the caller has waited long enough.
 */
static bool retry_connection_failed(int result)
{
        return result == -ECONNREFUSED || result == -ECONNRESET;
}

uint64_t retry_gateway_pause(unsigned n)
{
        return n < 6 ? (uint64_t)RETRY_GATEWAY_FIRST_MS << (n - 1) : RETRY_LONGEST_MS;
}

/*
 * Whether to repeat after a gateway's answer. The number of tries has no limit, as they cost the worker nothing; the
 * time has one.
 */
static bool retry_gateway(const struct retry_facts *facts, uint64_t *ret_delay_ms)
{
        if (!facts->by_status || facts->gateway_ms >= RETRY_GATEWAY_MS ||
            (facts->has_retry_after && facts->retry_after_ms > RETRY_AFTER_LONGEST_MS))
                return false;
        *ret_delay_ms = facts->has_retry_after ? facts->retry_after_ms : retry_gateway_pause(facts->tries);
        return true;
}

bool retry_decide(const struct retry_facts *facts, uint64_t *ret_delay_ms)
{
        if (facts->gateway && facts->allowed && facts->tries > 0 && facts->retries > 0)
                return retry_gateway(facts, ret_delay_ms);
        if (!facts->allowed || facts->tries == 0 || facts->tries > facts->retries)
                return false;
        bool refused = facts->result == 0 && (facts->status == 429 || facts->status == 503);
        if (!retry_connection_failed(facts->result) && !(refused && facts->by_status))
                return false;
        if (refused && facts->has_retry_after) {
                if (facts->retry_after_ms > RETRY_AFTER_LONGEST_MS)
                        return false;
                *ret_delay_ms = facts->retry_after_ms;
                return true;
        }
        unsigned doublings = facts->tries - 1;
        uint64_t delay = doublings < 6 ? (uint64_t)RETRY_FIRST_MS << doublings : RETRY_LONGEST_MS;
        if (delay > RETRY_LONGEST_MS)
                delay = RETRY_LONGEST_MS;
        *ret_delay_ms = delay / 2 + facts->random % (delay / 2 + 1);
        return true;
}

/* ---- one try, which blocks ---- */

/*
 * Takes the wake-up of ferry_abort, which sets its flag before. A wake-up without the flag would end every later wait
 * at once: ferry_resume may overtake ferry_abort, and forked children share the descriptor.
 */
static void call_take_wake(const struct ferry *f, short events)
{
        if (events)
                (void)!read(f->wake, &(uint64_t){ 0 }, sizeof(uint64_t));
}

/*
 * Runs the try until its end, and looks at least once per RETRY_POLL_MS whether it still moves. Returns libcurl's code;
 * or CURLE_ABORTED_BY_CALLBACK after ferry_abort, CURLE_OPERATION_TIMEDOUT when no byte moves.
 */
static CURLcode call_run_try(struct http_try *t)
{
        struct ferry *f = t->f;
        int n;
        for (;;) {
                if (atomic_load(&f->aborted))
                        return CURLE_ABORTED_BY_CALLBACK;
                if (curl_multi_perform(f->multi, &n) != CURLM_OK)
                        return CURLE_OUT_OF_MEMORY;
                CURLMsg *m = curl_multi_info_read(f->multi, &n);
                if (m && m->msg == CURLMSG_DONE)
                        return m->data.result;
                uint64_t left = http_time_left(t);
                if (!left)
                        return CURLE_OPERATION_TIMEDOUT;
                struct curl_waitfd wake = { .fd = f->wake, .events = CURL_WAIT_POLLIN };
                curl_multi_poll(f->multi, &wake, 1, left < RETRY_POLL_MS ? (int)left : RETRY_POLL_MS, NULL);
                call_take_wake(f, wake.revents);
        }
}

/* One try, from its start to its end. Returns 0 when an answer came, of any status, or -errno. */
static int call_try(struct ferry *f, const struct request *request, struct reply *reply)
{
        struct http_try t = { .f = f, .easy = f->easy, .request = request, .reply = reply };
        if (atomic_load(&f->aborted))
                return -ECANCELED;
        struct sigpipe_guard guard = sigpipe_block(f->tls);
        int result = http_try_begin(&t);
        if (result == 0)
                result = http_try_end(&t, call_run_try(&t));
        sigpipe_restore(&guard);
        return result;
}

void call_pause(struct ferry *f, uint64_t ms)
{
        uint64_t end = ferry_clock_ms() + ms;
        for (uint64_t now = ferry_clock_ms(); now < end && !atomic_load(&f->aborted); now = ferry_clock_ms()) {
                uint64_t rest = end - now;
                struct pollfd wake = { .fd = f->wake, .events = POLLIN };
                (void)poll(&wake, 1, rest < RETRY_POLL_MS ? (int)rest : RETRY_POLL_MS);
                call_take_wake(f, wake.revents);
        }
}

/* ---- calls ---- */

static bool request_is_repeatable(const struct request *request)
{
        const struct ferry_exchange *e = &request->exchange;
        return request->repeatable || e->idempotency_key || strcmp(e->method, "POST") != 0;
}

static uint32_t retry_random(void)
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
                .random = gateway || (result == 0 && reply->status < 400) ? 0 : retry_random(),
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
                int r = call_try(f, request, ret_reply);
                if (!call_retry(f, request, ret_reply, r, tries, &delay))
                        return problem_classify(f, request, ret_reply, r);
                call_pause(f, delay);
        }
}
