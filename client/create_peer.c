/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"
#include "decode.h"

enum { PEER_WAIT_MS = 30000 }; /* the worker answers by then: it fetches, connects, and has limits for both */

static const struct decode_field peer_fields[] = {
        DECODE_FIELD("worker", DECODE_TEXT, true, struct ferry_peer, worker),
        DECODE_FIELD("epoch", DECODE_LABEL, true, struct ferry_peer, epoch),
        DECODE_FIELD("transport", DECODE_TEXT, true, struct ferry_peer, transport),
        DECODE_FIELD("connect_us", DECODE_UINT, true, struct ferry_peer, connect_us),
        DECODE_FIELD("reused", DECODE_BOOL, true, struct ferry_peer, reused),
};

static int peer_decode(struct json_object *json, void *peer, const char **ret_field)
{
        return decode_object(json, peer_fields, FERRY_ARRAY_SIZE(peer_fields), peer, ret_field);
}

static char *peer_body(const char *url)
{
        struct ferry_json_writer writer = { 0 };
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "url", url ? url : "");
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

int ferry_connect_peer(struct ferry *f, const char *url, struct ferry_peer *ret_peer)
{
        FERRY_CLEANUP(cleanup_free) char *body = peer_body(url);
        if (!body)
                return -ENOMEM;
        struct request request = { .exchange = {
                                           .method = "POST",
                                           .path = "/v1/peers",
                                           .content_type = "application/json",
                                           .body = body,
                                           .size = strlen(body),
                                           .wait_ms = PEER_WAIT_MS,
                                   },
                                   .repeatable = true };
        struct ferry_peer peer = { 0 };
        int r = call_decode(f, &request, peer_decode, &peer, &peer.json);
        if (r == 0)
                *ret_peer = peer;
        return r;
}

void ferry_peer_clear(struct ferry_peer *peer)
{
        free(peer->json);
        *peer = (struct ferry_peer){ 0 };
}
