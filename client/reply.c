/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

void reply_clear(struct reply *reply)
{
        ferry_buffer_clear(&reply->body, reply->secret);
        *reply = (struct reply){ 0 };
}

void reply_restart(struct reply *reply)
{
        struct reply kept = { .secret = reply->secret, .gateway_ms = reply->gateway_ms, .lost = reply->lost };
        reply_clear(reply);
        *reply = kept;
}
