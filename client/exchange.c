/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "client_internal.h"

static void answer_fill(struct reply *reply, struct ferry_answer *answer)
{
        answer->http_status = reply->status;
        snprintf(answer->content_type, sizeof(answer->content_type), "%s", reply->content_type);
        snprintf(answer->etag, sizeof(answer->etag), "%s", reply->etag);
        snprintf(answer->location, sizeof(answer->location), "%s", reply->location);
        snprintf(answer->content_digest, sizeof(answer->content_digest), "%s", reply->content_digest);
        if (reply->body.data) {
                answer->body_size = reply->body.size;
                answer->body = ferry_buffer_take(&reply->body);
        }
}

int ferry_exchange_perform(struct ferry *f, const struct ferry_exchange *exchange, struct ferry_answer *ret_answer)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct request request = { .secret = true };
        *ret_answer = (struct ferry_answer){ 0 };
        int r = ARGUMENT_CHECK(f, exchange);
        if (r < 0)
                return r;
        uint64_t wait_ms = 0;
        request.exchange = *exchange;
        if (request.exchange.path)
                (void)path_wait(request.exchange.path, &wait_ms);
        if (request.exchange.wait_ms < wait_ms)
                request.exchange.wait_ms = wait_ms;
        r = call_send(f, &request, &reply);
        if (reply.status)
                answer_fill(&reply, ret_answer);
        return r;
}

int ferry_request(struct ferry *f, const char *method, const char *path, const char *content_type, const void *body,
                  size_t size, struct ferry_answer *ret_answer)
{
        struct ferry_exchange exchange = {
                .method = method,
                .path = path,
                .content_type = content_type,
                .body = body,
                .size = size,
        };
        return ferry_exchange_perform(f, &exchange, ret_answer);
}

void ferry_answer_clear(struct ferry_answer *answer)
{
        /* Any answer may be metadata. */
        if (answer->body)
                explicit_bzero(answer->body, answer->body_size);
        free(answer->body);
        *answer = (struct ferry_answer){ 0 };
}
