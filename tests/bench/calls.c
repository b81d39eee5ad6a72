/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* The three calls of a transfer, by libferry and by raw sockets; bare.c has them by libcurl. */

enum { WAIT_MS = 60000 };

/* ---- by libferry ---- */

static void assert_complete(const struct ferry_operation *operation)
{
        if (!operation->done || operation->status != FERRY_COMPLETE)
                bench_fail("%s is %s: %s %s", operation->id, ferry_status_name(operation->status),
                           operation->error_code, operation->error_detail);
}

struct timing pair_move(struct pair *p, enum ferry_kind passive, uint64_t size)
{
        const struct ferry_descriptor from = { .region = p->at_a.id, .size = size };
        const struct ferry_descriptor to = { .region = p->at_b.id, .size = size };
        struct ferry_operation_spec offer = {
                .kind = passive, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
        };
        struct ferry_operation_spec begin = {
                .kind = passive == FERRY_READABLE ? FERRY_READ : FERRY_WRITE,
                .descriptors = &to,
                .n_descriptors = 1,
                .wait_ms = WAIT_MS,
        };
        struct ferry *a = p->a.client, *b = p->b.client;
        struct ferry_operation offered, active, ended;
        uint64_t start = now_ns();
        struct timing timing;

        bench_check(a, ferry_create_operation(a, &offer, &offered), "create the passive operation");
        begin.remote_metadata = offered.metadata;
        bench_check(b, ferry_create_operation(b, &begin, &active), "create the active operation");
        bench_check(a, ferry_get_operation(a, offered.id, WAIT_MS, 0, &ended), "wait for the passive operation");
        timing = (struct timing){ seconds_since(start), (double)active.duration_us / 1e6 };
        assert_complete(&active);
        assert_complete(&ended);
        ferry_operation_clear(&offered);
        ferry_operation_clear(&active);
        ferry_operation_clear(&ended);
        return timing;
}

/* ---- by raw sockets ---- */

void raw_open(struct raw *r, const char *url_a, const char *url_b)
{
        *r = (struct raw){ 0 };
        http_open(&r->a, url_a);
        http_open(&r->b, url_b);
        r->b.prefer_wait = true;
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
        r->offer = bench_text("{\"kind\":\"readable\",\"descriptors\":[%s]}", at_a);
        r->read = bench_text("{\"kind\":\"read\",\"descriptors\":[%s],\"remote_metadata\":", at_b);
        r->read_fixed = strlen(r->read);
}

char *raw_whole(const struct ferry_region *region)
{
        return bench_text("{\"region\":\"%s\"}", region->id);
}

/* The metadata are the last member of an answer that has them. */
static void append_metadata(struct raw *r)
{
        static const char mark[] = "\"metadata\":";
        const char *from = strstr(r->a.body, mark), *end = strrchr(r->a.body, '}');
        size_t size;

        if (!from || end < from)
                bench_fail("no metadata in %.200s", r->a.body);
        from += strlen(mark);
        size = (size_t)(end - from);
        r->read = realloc(r->read, r->read_fixed + size + sizeof("}"));
        if (!r->read)
                bench_fail("out of memory");
        memcpy(r->read + r->read_fixed, from, size);
        memcpy(r->read + r->read_fixed + size, "}", sizeof("}"));
}

void raw_offer(struct raw *r)
{
        char id[FERRY_ID_SIZE];

        http_call(&r->a, "POST", "/v1/operations?include=metadata", r->offer, 201);
        http_take_id(&r->a, id);
        append_metadata(r);
        (void)snprintf(r->wait_path, sizeof(r->wait_path), "/v1/operations/%s?wait_ms=%d", id, WAIT_MS);
}

static void assert_raw_complete(const struct http *h)
{
        if (!strstr(h->body, "\"COMPLETE\""))
                bench_fail("not complete: %.500s", h->body);
}

struct timing raw_move(struct raw *r)
{
        static const char mark[] = "\"duration_us\":";
        uint64_t start = now_ns();
        const char *duration;
        struct timing timing;

        raw_offer(r);
        http_call(&r->b, "POST", "/v1/operations", r->read, 201);
        http_call(&r->a, "GET", r->wait_path, NULL, 200);
        timing.cycle_s = seconds_since(start);
        assert_raw_complete(&r->a);
        assert_raw_complete(&r->b);
        duration = strstr(r->b.body, mark);
        if (!duration)
                bench_fail("no duration: %.500s", r->b.body);
        timing.transfer_s = strtod(duration + strlen(mark), NULL) / 1e6;
        return timing;
}
