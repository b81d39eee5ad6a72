/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "client_internal.h"
#include "sizes.h"

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

int ferry_exchange_perform_sized(struct ferry *f, const struct ferry_exchange *exchange,
                                 struct ferry_answer *ret_answer, const struct ferry_sizes *sizes)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        FERRY_CLEANUP(ferry_answer_clear) struct ferry_answer answer = { 0 };
        struct request request = { .secret = true };
        memset(ret_answer, 0, sizes->answer);
        int r = sizes_take(f, &request.exchange, sizeof(request.exchange), exchange, sizes->exchange);
        if (r < 0)
                return r;
        uint64_t wait_ms = 0;
        if (request.exchange.path)
                (void)path_wait(request.exchange.path, &wait_ms);
        if (request.exchange.wait_ms < wait_ms)
                request.exchange.wait_ms = wait_ms;
        r = call_send(f, &request, &reply);
        if (reply.status)
                answer_fill(&reply, &answer);
        sizes_give_up(ret_answer, sizes->answer, &answer, sizeof(answer));
        return r;
}

int ferry_request_sized(struct ferry *f, const char *method, const char *path, const char *content_type,
                        const void *body, size_t size, struct ferry_answer *ret_answer, const struct ferry_sizes *sizes)
{
        struct ferry_exchange exchange = {
                .method = method,
                .path = path,
                .content_type = content_type,
                .body = body,
                .size = size,
        };
        struct ferry_sizes ours = ferry_sizes_here;
        ours.answer = sizes->answer;
        return ferry_exchange_perform_sized(f, &exchange, ret_answer, &ours);
}

void ferry_answer_clear_sized(struct ferry_answer *answer, const struct ferry_sizes *sizes)
{
        /* Any answer may be metadata. */
        if (answer->body)
                explicit_bzero(answer->body, answer->body_size);
        free(answer->body);
        memset(answer, 0, sizes->answer);
}
