/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"

/* ---- a list ---- */

/* What is decoded at once, and the value that needs more than a table. */
struct peer_answer {
        struct ferry_peer_info p;
        struct json_object *error; /* borrowed; NULL = none */
};

static const struct ferry_json_field peer_fields[] = {
        FERRY_JSON_FIELD("worker", TEXT, false, struct peer_answer, p.worker),
        FERRY_JSON_FIELD("epoch", TEXT, true, struct peer_answer, p.epoch),
        FERRY_JSON_FIELD("status", TEXT, true, struct peer_answer, p.status),
        FERRY_JSON_FIELD("transport", TEXT, false, struct peer_answer, p.transport),
        FERRY_JSON_FIELD("connected_at", TEXT, false, struct peer_answer, p.connected_at),
        FERRY_JSON_FIELD("opened_by", TEXT, false, struct peer_answer, p.opened_by),
        FERRY_JSON_FIELD("disconnected_at", TEXT, false, struct peer_answer, p.disconnected_at),
        FERRY_JSON_FIELD("error", OBJECT, false, struct peer_answer, error),
        FERRY_JSON_FIELD("connect_us", UINT, false, struct peer_answer, p.connect_us),
        FERRY_JSON_FIELD("transfers", UINT, true, struct peer_answer, p.transfers),
};

static int peer_decode(struct json_object *json, void *peer, struct ferry_json_errors *errors)
{
        struct peer_answer answer = { 0 };
        struct ferry_peer_info *p = &answer.p;
        int r = DECODE(json, peer_fields, &answer, errors);
        if (r == 0)
                r = call_decode_error(answer.error, &p->error, p->error_code, p->error_detail, errors);
        if (r == 0)
                *(struct ferry_peer_info *)peer = *p;
        return r;
}

static const struct call_list peer_list = { "peers", sizeof(struct ferry_peer_info), peer_decode, NULL };

int ferry_list_peers(struct ferry *f, unsigned limit, const char *after, struct ferry_peer_list *ret_list)
{
        struct call_page page = { .list = &peer_list };
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        char *json = NULL;
        path_add(&path, "/v1/peers");
        path_query_number(&path, "limit", limit);
        path_query(&path, "after", after);
        int r = call_get_page(f, &path, &page, &json);
        if (r == 0)
                *ret_list =
                        (struct ferry_peer_list){ .items = page.items, .n = page.n, .next = page.next, .json = json };
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

static const struct ferry_json_field connected_fields[] = {
        FERRY_JSON_FIELD("worker", TEXT, true, struct ferry_peer, worker),
        FERRY_JSON_FIELD("epoch", TEXT, true, struct ferry_peer, epoch),
        FERRY_JSON_FIELD("transport", TEXT, true, struct ferry_peer, transport),
        FERRY_JSON_FIELD("connect_us", UINT, true, struct ferry_peer, connect_us),
        FERRY_JSON_FIELD("reused", BOOL, true, struct ferry_peer, reused),
};

static int connected_decode(struct json_object *json, void *peer, struct ferry_json_errors *errors)
{
        return DECODE(json, connected_fields, peer, errors);
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
        struct request request = { .exchange = { .method = "POST", .path = "/v1/peers", .wait_ms = PEER_WAIT_MS },
                                   .repeatable = true };
        request_set_body(&request, body);
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
