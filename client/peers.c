/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"
#include "decode.h"

/* ---- a list ---- */

/* What is decoded at once, and the value that needs more than a table. */
struct peer_answer {
        struct ferry_peer_info p;
        struct json_object *error; /* borrowed; NULL = none */
};

static const struct decode_field peer_fields[] = {
        DECODE_FIELD("worker", DECODE_TEXT, false, struct peer_answer, p.worker),
        DECODE_FIELD("epoch", DECODE_LABEL, true, struct peer_answer, p.epoch),
        DECODE_FIELD("status", DECODE_TEXT, true, struct peer_answer, p.status),
        DECODE_FIELD("transport", DECODE_TEXT, false, struct peer_answer, p.transport),
        DECODE_FIELD("connected_at", DECODE_TEXT, false, struct peer_answer, p.connected_at),
        DECODE_FIELD("opened_by", DECODE_TEXT, false, struct peer_answer, p.opened_by),
        DECODE_FIELD("disconnected_at", DECODE_TEXT, false, struct peer_answer, p.disconnected_at),
        DECODE_FIELD("error", DECODE_VALUE, false, struct peer_answer, error),
        DECODE_FIELD("connect_us", DECODE_UINT, false, struct peer_answer, p.connect_us),
        DECODE_FIELD("transfers", DECODE_UINT, true, struct peer_answer, p.transfers),
};

static int peer_decode(struct json_object *json, void *peer, const char **ret_field)
{
        struct peer_answer answer = { 0 };
        struct decode_error error = { 0 };
        int r = decode_object(json, peer_fields, FERRY_ARRAY_SIZE(peer_fields), &answer, ret_field);
        if (r == 0)
                r = decode_error(answer.error, &error, ret_field);
        if (r < 0)
                return r;
        answer.p.error = error.number;
        memcpy(answer.p.error_code, error.code, sizeof(error.code));
        memcpy(answer.p.error_detail, error.detail, sizeof(error.detail));
        *(struct ferry_peer_info *)peer = answer.p;
        return 0;
}

static const struct decode_list peer_list = { "peers", sizeof(struct ferry_peer_info), peer_decode, NULL };

static int page_decode(struct json_object *json, void *list, const char **ret_field)
{
        struct decode_page page;
        int r = decode_page(json, &peer_list, &page, ret_field);
        if (r == 0)
                *(struct ferry_peer_list *)list =
                        (struct ferry_peer_list){ .items = page.items, .n = page.n, .next = page.next };
        return r;
}

int ferry_list_peers(struct ferry *f, unsigned limit, const char *after, struct ferry_peer_list *ret_list)
{
        struct ferry_peer_list list = { 0 };
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/peers");
        path_query_number(&path, "limit", limit);
        path_query(&path, "after", after);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "after is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        int r = call_decode(f, &request, page_decode, &list, &list.json);
        if (r == 0)
                *ret_list = list;
        return r;
}

void ferry_peer_list_clear(struct ferry_peer_list *list)
{
        free(list->items);
        free(list->next);
        free(list->json);
        *list = (struct ferry_peer_list){ 0 };
}

/* ---- a connection ---- */

enum { PEER_WAIT_MS = 30000 }; /* the worker answers by then: it fetches, connects, and has limits for both */

static const struct decode_field connected_fields[] = {
        DECODE_FIELD("worker", DECODE_TEXT, true, struct ferry_peer, worker),
        DECODE_FIELD("epoch", DECODE_LABEL, true, struct ferry_peer, epoch),
        DECODE_FIELD("transport", DECODE_TEXT, true, struct ferry_peer, transport),
        DECODE_FIELD("connect_us", DECODE_UINT, true, struct ferry_peer, connect_us),
        DECODE_FIELD("reused", DECODE_BOOL, true, struct ferry_peer, reused),
};

static int connected_decode(struct json_object *json, void *peer, const char **ret_field)
{
        return decode_object(json, connected_fields, FERRY_ARRAY_SIZE(connected_fields), peer, ret_field);
}

static char *connect_body(const char *url)
{
        struct ferry_json_writer writer = { 0 };
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "url", url ? url : "");
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

int ferry_connect_peer(struct ferry *f, const char *url, struct ferry_peer *ret_peer)
{
        FERRY_CLEANUP(cleanup_free) char *body = connect_body(url);
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
        int r = call_decode(f, &request, connected_decode, &peer, &peer.json);
        if (r == 0)
                *ret_peer = peer;
        return r;
}

void ferry_peer_clear(struct ferry_peer *peer)
{
        free(peer->json);
        *peer = (struct ferry_peer){ 0 };
}
