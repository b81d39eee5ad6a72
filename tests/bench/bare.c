/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "bench.h"

/*
 * A client of a worker that has nothing but libcurl and json-c: what libferry is measured beside. It sends what
 * libferry sends and takes from the answers what libferry gives, into memory of its own; it repeats nothing, gives no
 * reasons and cannot be interrupted.
 */

enum { WAIT_MS = 60000, KEY_BYTES = 16 };

struct answer {
        size_t n, room;
        char *text;
};

struct side {
        CURL *curl;
        const char *url, *region;
        struct answer answer;
};

struct bare {
        struct side a, b; /* of the passive and the active worker */
};

struct descriptor {
        char region[FERRY_ID_SIZE];
        uint64_t offset, size;
};

/* What a program learns of an operation, as in struct ferry_operation. */
struct operation {
        char id[FERRY_ID_SIZE], kind[32], status[32], transport[64], peer[128], peer_epoch[32], request_id[128];
        char created_at[FERRY_TIME_SIZE], ended_at[FERRY_TIME_SIZE], expires_at[FERRY_TIME_SIZE];
        char label[128], error_code[64], error_detail[512];
        bool done, cancel_requested;
        uint64_t revision, bytes_total, bytes_done, duration_us, connect_us, uses, uses_done;
        size_t n_descriptors;
        struct descriptor *descriptors;
        char *metadata;
};

/* ---- a call ---- */

static size_t take_bytes(char *data, size_t one, size_t size, void *context)
{
        struct answer *answer = context;

        (void)one; /* is 1 */
        if (answer->room - answer->n <= size) {
                answer->room = 2 * (answer->n + size) + 4096;
                answer->text = realloc(answer->text, answer->room);
                if (!answer->text)
                        bench_fail("out of memory");
        }
        memcpy(answer->text + answer->n, data, size);
        answer->n += size;
        answer->text[answer->n] = '\0';
        return size;
}

static struct curl_slist *headers_new(bool wait)
{
        uint8_t bytes[KEY_BYTES];
        char key[64] = "Idempotency-Key: ";
        size_t n = strlen(key);
        struct curl_slist *headers;

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                bench_fail("no random bytes");
        for (size_t i = 0; i < sizeof(bytes); i++)
                n += (size_t)snprintf(key + n, sizeof(key) - n, "%02x", bytes[i]);
        headers = curl_slist_append(NULL, "Content-Type: application/json");
        headers = curl_slist_append(headers, key);
        return wait ? curl_slist_append(headers, "Prefer: wait=60") : headers;
}

/* A POST of body, or a GET where that is NULL. The answer, for json_object_put(). */
static struct json_object *call(struct side *side, const char *path, const char *body, bool wait)
{
        struct curl_slist *headers = body ? headers_new(wait) : NULL;
        char url[512];
        struct json_object *json;
        CURLcode result;
        long status = 0;

        side->answer.n = 0;
        (void)snprintf(url, sizeof(url), "%s%s", side->url, path);
        (void)curl_easy_setopt(side->curl, CURLOPT_URL, url);
        if (body)
                (void)curl_easy_setopt(side->curl, CURLOPT_POSTFIELDS, body);
        else
                (void)curl_easy_setopt(side->curl, CURLOPT_HTTPGET, 1L);
        (void)curl_easy_setopt(side->curl, CURLOPT_HTTPHEADER, headers);
        result = curl_easy_perform(side->curl);
        (void)curl_easy_getinfo(side->curl, CURLINFO_RESPONSE_CODE, &status);
        (void)curl_easy_setopt(side->curl, CURLOPT_HTTPHEADER, NULL);
        curl_slist_free_all(headers);
        json = result == CURLE_OK ? json_tokener_parse(side->answer.text) : NULL;
        if (!json || status != (body ? 201 : 200))
                bench_fail("%s: %s, HTTP %ld: %.300s", url, curl_easy_strerror(result), status, side->answer.text);
        return json;
}

/* ---- an answer ---- */

static void take_text(struct json_object *json, const char *name, char *text, size_t size)
{
        struct json_object *value;

        text[0] = '\0';
        if (json_object_object_get_ex(json, name, &value) && value)
                (void)snprintf(text, size, "%s", json_object_get_string(value));
}

static uint64_t number_of(struct json_object *json, const char *name)
{
        struct json_object *value;

        return json_object_object_get_ex(json, name, &value) ? json_object_get_uint64(value) : 0;
}

static bool bool_of(struct json_object *json, const char *name)
{
        return json_object_get_boolean(json_object_object_get(json, name));
}

static void take_descriptors(struct json_object *list, struct operation *o)
{
        o->n_descriptors = json_object_array_length(list);
        o->descriptors = calloc(o->n_descriptors, sizeof(*o->descriptors));
        for (size_t i = 0; o->descriptors && i < o->n_descriptors; i++) {
                struct json_object *item = json_object_array_get_idx(list, i);

                take_text(item, "region", o->descriptors[i].region, sizeof(o->descriptors[i].region));
                o->descriptors[i].offset = number_of(item, "offset");
                o->descriptors[i].size = number_of(item, "size");
        }
}

/* json is freed; the operation goes to operation_clear(). */
static void operation_take(struct json_object *json, struct operation *o)
{
        const struct {
                const char *name;
                char *text;
                size_t size;
        } texts[] = {
                { "id", o->id, sizeof(o->id) },
                { "kind", o->kind, sizeof(o->kind) },
                { "status", o->status, sizeof(o->status) },
                { "transport", o->transport, sizeof(o->transport) },
                { "peer", o->peer, sizeof(o->peer) },
                { "peer_epoch", o->peer_epoch, sizeof(o->peer_epoch) },
                { "request_id", o->request_id, sizeof(o->request_id) },
                { "created_at", o->created_at, sizeof(o->created_at) },
                { "ended_at", o->ended_at, sizeof(o->ended_at) },
                { "expires_at", o->expires_at, sizeof(o->expires_at) },
                { "label", o->label, sizeof(o->label) },
        };
        struct json_object *value, *metadata;

        memset(o, 0, sizeof(*o));
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                take_text(json, texts[i].name, texts[i].text, texts[i].size);
        o->done = bool_of(json, "done");
        o->cancel_requested = bool_of(json, "cancel_requested");
        o->revision = number_of(json, "revision");
        o->bytes_total = number_of(json, "bytes_total");
        o->bytes_done = number_of(json, "bytes_done");
        o->duration_us = number_of(json, "duration_us");
        o->connect_us = number_of(json, "connect_us");
        o->uses = number_of(json, "uses");
        o->uses_done = number_of(json, "uses_done");
        if (json_object_object_get_ex(json, "error", &value) && value) {
                take_text(value, "code", o->error_code, sizeof(o->error_code));
                take_text(value, "detail", o->error_detail, sizeof(o->error_detail));
        }
        if (json_object_object_get_ex(json, "descriptors", &value))
                take_descriptors(value, o);
        if (json_object_object_get_ex(json, "metadata", &metadata))
                o->metadata = strdup(json_object_to_json_string_ext(metadata, JSON_C_TO_STRING_PLAIN));
        json_object_put(json);
}

static void operation_clear(struct operation *o)
{
        free(o->descriptors);
        free(o->metadata);
}

static void assert_complete(const struct operation *o)
{
        if (!o->done || strcmp(o->status, "COMPLETE") != 0)
                bench_fail("%s is %s: %s %s", o->id, o->status, o->error_code, o->error_detail);
}

/* ---- the three calls ---- */

static void side_open(struct side *side, const struct worker *w, const struct ferry_region *region)
{
        *side = (struct side){ .curl = curl_easy_init(), .url = w->url, .region = region->id };
        if (!side->curl)
                bench_fail("no libcurl");
        (void)curl_easy_setopt(side->curl, CURLOPT_WRITEFUNCTION, take_bytes);
        (void)curl_easy_setopt(side->curl, CURLOPT_WRITEDATA, &side->answer);
        (void)curl_easy_setopt(side->curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(side->curl, CURLOPT_PROXY, "");
}

static void side_close(struct side *side)
{
        curl_easy_cleanup(side->curl);
        free(side->answer.text);
}

struct bare *bare_new(const struct pair *p)
{
        struct bare *bare = calloc(1, sizeof(*bare));

        if (!bare)
                bench_fail("out of memory");
        side_open(&bare->a, &p->a, &p->at_a);
        side_open(&bare->b, &p->b, &p->at_b);
        return bare;
}

struct bare *bare_free(struct bare *bare)
{
        side_close(&bare->a);
        side_close(&bare->b);
        free(bare);
        return NULL;
}

struct timing bare_move(struct bare *bare)
{
        struct operation offer, active, ended;
        uint64_t start = now_ns();
        struct timing timing;
        char path[128], *body;

        body = bench_text("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}", bare->a.region);
        operation_take(call(&bare->a, "/v1/operations?include=metadata", body, false), &offer);
        free(body);
        body = bench_text("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s}",
                          bare->b.region, offer.metadata);
        operation_take(call(&bare->b, "/v1/operations", body, true), &active);
        free(body);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=%d", offer.id, WAIT_MS);
        operation_take(call(&bare->a, path, NULL, false), &ended);
        timing = (struct timing){ seconds_since(start), (double)active.duration_us / 1e6 };
        assert_complete(&active);
        assert_complete(&ended);
        operation_clear(&offer);
        operation_clear(&active);
        operation_clear(&ended);
        return timing;
}
