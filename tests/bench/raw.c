/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* A transfer's calls on raw connections: what they cost without a client library. */

void raw_open(struct raw *r, const struct pair *p, uint64_t size)
{
        *r = (struct raw){ 0 };
        region_create(p->a.client, size, &r->at_a);
        region_create(p->b.client, size, &r->at_b);
        http_open(&r->a, p->a.url);
        http_open(&r->b, p->b.url);
        r->b.prefer_wait = true;
        raw_describe(r, NULL, NULL);
}

void raw_close(struct raw *r)
{
        http_close(&r->a);
        http_close(&r->b);
        free(r->offer);
        free(r->read);
}

void raw_describe(struct raw *r, const char *at_a, const char *at_b)
{
        free(r->offer);
        free(r->read);
        r->offer = r->read = NULL;
        if (at_a ? asprintf(&r->offer, "{\"kind\":\"readable\",\"descriptors\":[%s]}", at_a) < 0
                 : asprintf(&r->offer, "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}",
                            r->at_a.info.id) < 0)
                bench_fail("out of memory");
        if (at_b ? asprintf(&r->read, "{\"kind\":\"read\",\"descriptors\":[%s],", at_b) < 0
                 : asprintf(&r->read, "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],", r->at_b.info.id) < 0)
                bench_fail("out of memory");
        r->read_fixed = strlen(r->read);
}

/* The metadata object in an answer; keys and strings in it have no braces. */
static void append_metadata(struct raw *r)
{
        static const char mark[] = "\"metadata\":";
        const char *from = strstr(r->a.body, mark), *to;
        int depth = 0;
        size_t size;

        if (!from)
                bench_fail("no metadata in %.200s", r->a.body);
        from += strlen(mark);
        for (to = from; *to; to++) {
                depth += *to == '{' ? 1 : *to == '}' ? -1 : 0;
                if (depth == 0)
                        break;
        }
        size = r->read_fixed + (size_t)(to - from) + sizeof("\"remote_metadata\":}}");
        r->read = realloc(r->read, size);
        if (!r->read)
                bench_fail("out of memory");
        (void)snprintf(r->read + r->read_fixed, size - r->read_fixed, "\"remote_metadata\":%.*s}", (int)(to + 1 - from),
                       from);
}

void raw_offer(struct raw *r)
{
        http_call(&r->a, "POST", "/v1/operations?include=metadata", r->offer, 201);
        http_take_id(&r->a, r->id);
        append_metadata(r);
        (void)snprintf(r->wait_path, sizeof(r->wait_path), "/v1/operations/%s?wait_ms=60000", r->id);
}

void raw_assert_complete(const struct http *h)
{
        if (!strstr(h->body, "\"COMPLETE\""))
                bench_fail("not complete: %.500s", h->body);
}

double raw_number(const struct http *h, const char *field)
{
        char mark[64];
        const char *found;

        (void)snprintf(mark, sizeof(mark), "\"%s\":", field);
        found = strstr(h->body, mark);
        return found ? strtod(found + strlen(mark), NULL) : -1;
}

void raw_cycle(struct raw *r, struct raw_timing *ret_timing)
{
        uint64_t start = now_ns();

        raw_offer(r);
        ret_timing->offer_s = seconds_since(start);
        http_call(&r->b, "POST", "/v1/operations", r->read, 201);
        ret_timing->read_s = seconds_since(start) - ret_timing->offer_s;
        raw_assert_complete(&r->b);
        http_call(&r->a, "GET", r->wait_path, NULL, 200);
        ret_timing->cycle_s = seconds_since(start);
        ret_timing->wait_s = ret_timing->cycle_s - ret_timing->offer_s - ret_timing->read_s;
        raw_assert_complete(&r->a);
        ret_timing->transfer_s = raw_number(&r->b, "duration_us") / 1e6;
        ret_timing->connect_s = raw_number(&r->b, "connect_us") / 1e6;
}
