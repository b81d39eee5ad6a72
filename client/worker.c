/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>

/*
 * The calls on the worker itself: what it is, its limits, its events, its peers. Each decodes what programs need most,
 * and gives the whole document as text beside it, where a later worker may tell more.
 *
 * Thread: the one that uses the handle.
 */

/* ---- what it is ---- */

/* What is decoded at once, and the values that need more than a table. */
struct worker_answer {
        struct ferry_worker_info info;
        struct json_object *addresses, *http; /* borrowed; NULL = none */
};

static const struct ferry_json_field worker_fields[] = {
        FERRY_JSON_FIELD("name", TEXT, true, struct worker_answer, info.name),
        FERRY_JSON_FIELD("epoch", TEXT, true, struct worker_answer, info.epoch),
        FERRY_JSON_FIELD("version", TEXT, true, struct worker_answer, info.version),
        FERRY_JSON_FIELD("commit", TEXT, false, struct worker_answer, info.commit),
        FERRY_JSON_FIELD("protocol", UINT, false, struct worker_answer, info.protocol),
        FERRY_JSON_FIELD("ucx_version", TEXT, false, struct worker_answer, info.ucx_version),
        FERRY_JSON_FIELD("uptime_ms", UINT, false, struct worker_answer, info.uptime_ms),
        FERRY_JSON_FIELD("started_at", TEXT, false, struct worker_answer, info.started_at),
        FERRY_JSON_FIELD("pid", UINT, false, struct worker_answer, info.pid),
        FERRY_JSON_FIELD("addresses", OBJECT, false, struct worker_answer, addresses),
        FERRY_JSON_FIELD("local", BOOL, false, struct worker_answer, info.local),
};

static const struct ferry_json_field worker_address_fields[] = {
        FERRY_JSON_FIELD("http", ARRAY, false, struct worker_answer, http),
        FERRY_JSON_FIELD("data", PROSE, false, struct worker_answer, info.data),
};

static int worker_decode(struct json_object *json, void *info, struct ferry_json_errors *errors)
{
        struct worker_answer answer = { 0 };
        int r = DECODE(json, worker_fields, &answer, errors);
        if (r == 0 && answer.addresses)
                r = DECODE(answer.addresses, worker_address_fields, &answer, errors);
        if (r < 0)
                return r;
        size_t n = answer.http ? json_object_array_length(answer.http) : 0;
        for (size_t i = 0; i < n && !answer.info.url[0]; i++) {
                const char *url = json_object_get_string(json_object_array_get_idx(answer.http, i));
                if (url && strncmp(url, "http", 4) == 0)
                        snprintf(answer.info.url, sizeof(answer.info.url), "%s", url);
        }
        *(struct ferry_worker_info *)info = answer.info;
        return 0;
}

int ferry_get_worker(struct ferry *f, struct ferry_worker_info *ret_info)
{
        struct ferry_worker_info info = { 0 };
        int r = call_get(f, "/v1/worker", worker_decode, &info, &info.json);
        if (r == 0)
                *ret_info = info;
        return r;
}

void ferry_worker_info_clear(struct ferry_worker_info *info)
{
        free(info->json);
        *info = (struct ferry_worker_info){ 0 };
}

int ferry_get_root(struct ferry *f, char **ret_json)
{
        return call_get(f, "/", NULL, NULL, ret_json);
}

int ferry_get_devices(struct ferry *f, char **ret_json)
{
        return call_get(f, "/v1/devices", NULL, NULL, ret_json);
}

/* ---- how much of everything ---- */

/* clang-format off */
#define LIMIT(name) FERRY_JSON_FIELD(#name, UINT, false, struct ferry_limits, name)
/* clang-format on */

static const struct ferry_json_field limits_fields[] = {
        LIMIT(body_max),
        LIMIT(batch_max),
        LIMIT(ids_max),
        LIMIT(descriptors_max),
        LIMIT(wait_ms_max),
        LIMIT(waiters_max),
        LIMIT(connections_max),
        LIMIT(page_max),
        LIMIT(regions_max),
        LIMIT(memory_limit),
        LIMIT(idempotency_max),
        LIMIT(links_max),
        LIMIT(head_max),
        LIMIT(head_ms),
        LIMIT(body_ms),
        LIMIT(read_ms),
        LIMIT(rate_min),
        LIMIT(content_ranges_max),
        LIMIT(digest_max),
        LIMIT(fetches_max),
        LIMIT(event_readers_max),
        LIMIT(events_kept),
        LIMIT(address_connections_max),
        LIMIT(operations_max),
        LIMIT(terminal_max),
        LIMIT(gone_max),
        LIMIT(uses_max),
        LIMIT(ttl_ms_default),
        LIMIT(ttl_ms_max),
        LIMIT(timeout_ms_max),
        LIMIT(stall_ms),
        LIMIT(retention_ms),
        LIMIT(answer_max),
        LIMIT(claims_max),
        LIMIT(lookups_max),
        LIMIT(pieces_max),
        LIMIT(bodies_max),
        LIMIT(mappings_max),
};
_Static_assert(FERRY_ARRAY_SIZE(limits_fields) == offsetof(struct ferry_limits, json) / sizeof(uint64_t),
               "every field is decoded");

static int limits_decode(struct json_object *json, void *limits, struct ferry_json_errors *errors)
{
        return DECODE(json, limits_fields, limits, errors);
}

int ferry_get_limits(struct ferry *f, struct ferry_limits *ret_limits)
{
        struct ferry_limits limits = { 0 };
        int r = call_get(f, "/v1/limits", limits_decode, &limits, &limits.json);
        if (r == 0)
                *ret_limits = limits;
        return r;
}

void ferry_limits_clear(struct ferry_limits *limits)
{
        free(limits->json);
        *limits = (struct ferry_limits){ 0 };
}

int ferry_get_throughput(struct ferry *f, char **ret_json)
{
        return call_get(f, "/v1/throughput", NULL, NULL, ret_json);
}

int ferry_get_metrics(struct ferry *f, char **ret_text)
{
        static const char *const types[] = { "text/plain", NULL };
        return call_text(f, "/metrics", types, ret_text);
}

int ferry_get_openapi(struct ferry *f, char **ret_yaml)
{
        /* RFC 9512 names application/yaml; the others were in use before. */
        static const char *const types[] = { "application/yaml", "application/x-yaml", "text/yaml", NULL };
        return call_text(f, "/openapi.yaml", types, ret_yaml);
}

/* ---- what has happened ---- */

enum { EVENTS_PAGE = 1000 };

/* The caller takes the document as it is: types of events may be added. */
int ferry_list_events(struct ferry *f, const char *after, const char *label, unsigned wait_ms, char **ret_json)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/events");
        path_query_number(&path, "limit", EVENTS_PAGE);
        path_query(&path, "after", after);
        path_query(&path, "label", label);
        path_query_number(&path, "wait_ms", wait_ms);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "after or label is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data, .wait_ms = wait_ms } };
        return call_decode(f, &request, NULL, NULL, ret_json);
}

/* ---- whether it is there ---- */

int ferry_get_livez(struct ferry *f)
{
        return call_plain(
                f, &(struct request){ .exchange = { .method = "GET", .path = "/livez", .no_status_retry = true } });
}

int ferry_get_readyz(struct ferry *f)
{
        return call_plain(
                f, &(struct request){ .exchange = { .method = "GET", .path = "/readyz", .no_status_retry = true } });
}

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
