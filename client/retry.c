/* SPDX-License-Identifier: Apache-2.0 */
#include "retry.h"

#include <errno.h>

/* Time-outs are not among them: the caller has waited long enough. */
static bool retry_connection_failed(int result)
{
        return result == -ECONNREFUSED || result == -ECONNRESET;
}

uint64_t retry_gateway_pause(unsigned n)
{
        return n < 6 ? (uint64_t)RETRY_GATEWAY_FIRST_MS << (n - 1) : RETRY_LONGEST_MS;
}

/* As often as the time allows: how often does not matter to a gateway. */
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
