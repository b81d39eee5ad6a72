/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"
#include "wire.h"

/* "remote": a read or a write of parts of an offer; "unlimited": an offer that stands. */

enum { SIZE = 300 * STEPS_KIB, LARGE = 256 * STEPS_MIB, SEED = 51, OTHER = 52, READERS = 4, MANY = 50 };

struct part {
        uint64_t offset, size;
};

/* Jumps, goes back, has neighbours in order, parts longer than what travels inline, and single bytes. */
static const struct part scattered[] = {
        { 200000, 70000 }, { 5, 1 }, { 6, 10 }, { 16, 4080 }, { 299999, 1000 }, { 8191, 8000 }, { 100000, 1 },
};

static uint64_t sum_of(const struct part *parts, size_t n)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += parts[i].size;
        return sum;
}

static const char *parts_json(const struct part *parts, size_t n)
{
        const char *text = "[";

        for (size_t i = 0; i < n; i++)
                text = text_format("%s%s{\"offset\":%llu,\"size\":%llu}", text, i ? "," : "",
                                   (unsigned long long)parts[i].offset, (unsigned long long)parts[i].size);
        return text_format("%s]", text);
}

/* An offer of a region in three descriptors, of which one is a row: its stream is the region's bytes in order. */
static struct json_object *offer(struct worker *w, const char *kind, const char *region, const char *more)
{
        const char *body =
                text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\",\"size\":1000},{\"region\":"
                            "\"%s\",\"offset\":1000,\"size\":100,\"count\":90,\"stride\":100},{\"region\":"
                            "\"%s\",\"offset\":10000}]%s}",
                            kind, region, region, region, more);

        return call_json(w, 201, "POST", "/v1/operations?include=metadata", body);
}

static const char *metadata_text(struct json_object *offered)
{
        return json_object_to_json_string(json_member(offered, "metadata"));
}

/* A read or a write of parts; size bytes here, from offset 7 on, in two descriptors that match no part. */
static const char *parts_body(const char *kind, const char *region, uint64_t size, const char *parts, const char *more)
{
        const unsigned long long rest = size > 3 ? size - 3 : 0;

        return text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\",\"offset\":7,\"size\":3},{\"region\":"
                           "\"%s\",\"offset\":10,\"size\":%llu}],\"remote\":%s%s}",
                           kind, region, region, rest, parts, more);
}

static const char *with_metadata(struct json_object *offered, const char *more)
{
        return text_format(",\"remote_metadata\":%s%s", metadata_text(offered), more);
}

/* What the region of the destination holds where its source holds SEED's pattern, and itself held OTHER's. */
static void assert_moved(struct worker *w, const char *region, bool reads)
{
        uint8_t *source = calloc(1, SIZE), *wanted = calloc(1, SIZE), *there = calloc(1, SIZE);
        uint64_t at = 7;

        pattern_fill(SEED, 0, source, SIZE);
        pattern_fill(OTHER, 0, wanted, SIZE);
        for (size_t i = 0; i < sizeof(scattered) / sizeof(scattered[0]); at += scattered[i++].size)
                memcpy(wanted + (reads ? at : scattered[i].offset), source + (reads ? scattered[i].offset : at),
                       scattered[i].size);
        assert_int_equal(ferry_get_region_content(w->client, region, 0, there, SIZE, NULL), 0);
        assert_memory_equal(there, wanted, SIZE);
        free(source);
        free(wanted);
        free(there);
}

/* The offer is complete, and so many of its bytes have moved. */
static void assert_complete(struct worker *w, const char *id, uint64_t moved)
{
        OPERATION end;

        assert_int_equal(ferry_wait_operation(w->client, id, WAIT_MS, &end), 0);
        assert_int_equal(end.status, FERRY_COMPLETE);
        assert_int_equal(end.bytes_done, moved);
        assert_int_equal(end.error, 0);
}

static void move_parts(struct pair *p, bool reads, const char *more)
{
        const size_t n = sizeof(scattered) / sizeof(scattered[0]);
        const uint64_t sum = sum_of(scattered, n);
        const char *a = region_make(&p->a, SIZE, reads ? SEED : OTHER), *id;
        const char *b = region_make(&p->b, SIZE, reads ? OTHER : SEED);
        struct json_object *passive, *active;

        (void)test_row(text_format("%s%s", reads ? "read" : "write", more));
        passive = offer(&p->a, reads ? "readable" : "writable", a, "");
        active = call_json(
                &p->b, 201, "POST", "/v1/operations",
                parts_body(reads ? "read" : "write", b, sum, parts_json(scattered, n), with_metadata(passive, more)));
        id = json_text(active, "id");
        operation_assert_end(&p->b, id, FERRY_COMPLETE, NULL);
        assert_complete(&p->a, json_text(passive, "id"), sum);
        active = operation_json(&p->b, id);
        passive = operation_json(&p->a, json_text(passive, "id"));
        assert_int_equal(json_number(active, "bytes_total"), sum);
        assert_int_equal(json_number(active, "bytes_done"), sum);
        assert_int_equal(json_number(passive, "bytes_total"), SIZE);
        assert_int_equal(json_object_array_length(json_member(active, "remote")), n - 2); /* three are one */
        assert_moved(reads ? &p->b : &p->a, reads ? b : a, reads);
        region_drop(&p->a, a);
        region_drop(&p->b, b);
}

ON_EACH_PAIR(parts_move_and_nothing_else_changes)
{
        for (int reads = 0; reads < 2; reads++) {
                move_parts(p, reads, "");
                move_parts(p, reads, ",\"verify\":true");
                move_parts(p, reads, ",\"transports\":[\"http\"]");
                move_parts(p, reads, ",\"transports\":[\"http\"],\"verify\":true");
        }
}

/* More requests than are in flight at once, and more gaps than an HTTP client without a name may leave. */
ON_EACH_PAIR(many_scattered_blocks_are_read)
{
        enum { BLOCKS = 600, BLOCK = 512, STEP = 7 };
        struct part parts[BLOCKS];
        const char *a = region_make(&p->a, BLOCKS * BLOCK * 2, SEED), *b = region_make(&p->b, BLOCKS * BLOCK + 7, 0);
        uint8_t *source = calloc(2, BLOCKS * BLOCK), *there = calloc(1, BLOCKS * BLOCK);

        pattern_fill(SEED, 0, source, BLOCKS * BLOCK * 2);
        for (unsigned i = 0; i < BLOCKS; i++)
                parts[i] = (struct part){ (i * STEP % BLOCKS) * 2 * BLOCK, BLOCK };
        for (int http = 0; http < 2; http++) {
                struct json_object *passive = call_json(&p->a, 201, "POST", "/v1/operations?include=metadata",
                                                        operation_body("readable", a, ",\"layout\":\"stream\""));
                struct json_object *active =
                        call_json(&p->b, 201, "POST", "/v1/operations",
                                  parts_body("read", b, BLOCKS * BLOCK, parts_json(parts, BLOCKS),
                                             with_metadata(passive, http ? ",\"transports\":[\"http\"]" : "")));

                operation_assert_end(&p->b, json_text(active, "id"), FERRY_COMPLETE, NULL);
                assert_complete(&p->a, json_text(passive, "id"), BLOCKS * BLOCK);
                assert_int_equal(ferry_get_region_content(p->b.client, b, 7, there, BLOCKS * BLOCK, NULL), 0);
                for (unsigned i = 0; i < BLOCKS; i++)
                        assert_memory_equal(there + (size_t)i * BLOCK, source + parts[i].offset, BLOCK);
        }
        free(source);
        free(there);
}

/* ---- what does not fit ---- */

ON_PAIR(lists_that_are_no_parts_of_the_offer_are_refused)
{
        static const struct {
                const char *remote;
                uint64_t size;
                int status;
                const char *code, *pointer;
        } rows[] = {
                { "[{\"offset\":9007199254740991,\"size\":5}]", 5, 400, "out-of-bounds", "/remote/0" },
                { "[{\"offset\":1,\"size\":9007199254740991}]", 5, 400, "out-of-bounds", "/remote/0" },
                { "[{\"offset\":0,\"size\":4},{\"offset\":3,\"size\":1}]", 5, 400, "invalid-parameter", "/remote/1" },
                { "[{\"offset\":0,\"size\":4}]", 5, 409, "size-mismatch", "/remote" },
                { "[{\"offset\":0,\"size\":4},{\"offset\":5,\"size\":2}]", 5, 409, "size-mismatch", "/remote" },
                { "[{\"offset\":307196,\"size\":5}]", 5, 400, "out-of-bounds", "/remote" },
                { "[{\"offset\":307200,\"size\":5}]", 5, 400, "out-of-bounds", "/remote" },
                { "[{\"offset\":9007199254740986,\"size\":5}]", 5, 400, "out-of-bounds", "/remote" },
        };
        const char *a = region_make(&p->a, SIZE, SEED), *b = region_make(&p->b, SIZE, 0);
        struct json_object *offered = offer(&p->a, "readable", a, "");
        const char *id = json_text(offered, "id"), *last = "[{\"offset\":307195,\"size\":5}]";

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                (void)test_row(rows[i].remote);
                assert_problem(&p->b, "POST", "/v1/operations",
                               parts_body("read", b, rows[i].size, rows[i].remote, with_metadata(offered, "")),
                               rows[i].status, rows[i].code, rows[i].pointer);
        }
        assert_string_equal(json_text(operation_json(&p->a, id), "status"), "INITIALIZED");
        (void)call_json(&p->b, 201, "POST", "/v1/operations",
                        parts_body("read", b, 5, last, with_metadata(offered, "")));
        assert_complete(&p->a, id, 5);
}

/* With remote_url the offer's size is known later: the read ends, and the offer is as it was. */
ON_PAIR(a_part_beyond_an_offer_by_url_ends_the_read_alone)
{
        const char *a = region_make(&p->a, SIZE, SEED), *b = region_make(&p->b, SIZE, 0);
        struct json_object *offered = offer(&p->a, "readable", a, "");
        const char *id = json_text(offered, "id");
        const char *more = text_format(",\"remote_url\":\"%s\"", metadata_url(&p->a, id));
        struct json_object *read;
        OPERATION end;

        pair_expect_failures(p);
        assert_problem(&p->b, "POST", "/v1/operations", parts_body("read", b, 5, "[{\"size\":6}]", more), 409,
                       "size-mismatch", "/remote");
        read = call_json(&p->b, 201, "POST", "/v1/operations",
                         parts_body("read", b, 5, "[{\"offset\":307197,\"size\":5}]", more));
        operation_assert_end(&p->b, json_text(read, "id"), FERRY_ERRORED, &end);
        assert_int_equal(end.error, FERRY_E_OUT_OF_BOUNDS);
        assert_non_null(strstr(end.error_detail, "307202"));
        assert_string_equal(json_text(operation_json(&p->a, id), "status"), "INITIALIZED");
        read = call_json(&p->b, 201, "POST", "/v1/operations", parts_body("read", b, 5, "[{\"size\":5}]", more));
        operation_assert_end(&p->b, json_text(read, "id"), FERRY_COMPLETE, NULL);
}

/* A transfer over HTTP that announces its bytes: the owner checks them before anything is claimed. */
#define CONTENT(method, id, headers)                                                                                   \
        method " /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n" headers, id, key
#define NAMED "Ferry-Transfer: xfr_0123456789abcdef\r\n"

ON_WORKER(an_announcement_that_does_not_fit_claims_nothing)
{
        static const struct {
                const char *headers;
                int status;
                const char *code;
        } rows[] = {
                { NAMED "Ferry-Bytes: 5/1073741824\r\nRange: bytes=400000-400004\r\n", 409, "size-mismatch" },
                { NAMED "Ferry-Bytes: 5/1073741824\r\nRange: bytes=0-4\r\n", 409, "size-mismatch" },
                { NAMED "Ferry-Bytes: 5/307200\r\nRange: bytes=307200-307204\r\n", 416, "range-not-satisfiable" },
                { NAMED "Ferry-Bytes: 0/307200\r\n", 400, "invalid-parameter" },
                { NAMED "Ferry-Bytes: 307201/307200\r\n", 400, "invalid-parameter" },
                { NAMED "Ferry-Bytes: 5\r\n", 400, "invalid-parameter" },
                { NAMED "Ferry-Bytes: 5/307200x\r\n", 400, "invalid-parameter" },
                { NAMED "Ferry-Bytes: -5/307200\r\n", 400, "invalid-parameter" },
                { "Ferry-Bytes: 5/307200\r\n", 400, "invalid-parameter" },
        };
        const char *region = region_make(w, SIZE, SEED);
        const char *id = json_text(offer(w, "readable", region, ""), "id"), *key = operation_bearer(w, id);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer = wire_ask(w, CONTENT("GET", id, "%s\r\n"), test_row(rows[i].headers));

                assert_int_equal(answer.status, rows[i].status);
                assert_non_null(strstr(answer.body, rows[i].code));
        }
        assert_string_equal(json_text(operation_json(w, id), "status"), "INITIALIZED");
        wire_expect(w, 206, CONTENT("GET", id, NAMED "Ferry-Bytes: 5/307200\r\nRange: bytes=9-11\r\n\r\n"));
        /* Another number, and none, are of another transfer. */
        wire_expect(w, 409, CONTENT("GET", id, NAMED "Ferry-Bytes: 6/307200\r\nRange: bytes=20-21\r\n\r\n"));
        wire_expect(w, 409, CONTENT("GET", id, NAMED "Range: bytes=20-21\r\n\r\n"));
        wire_expect(w, 206, CONTENT("GET", id, NAMED "Ferry-Bytes: 5/307200\r\nRange: bytes=2-3\r\n\r\n"));
        wire_expect(w, 200, CONTENT("DELETE", id, NAMED "\r\n"));
        assert_complete(w, id, 5);
}

/* A client that repeats a range has not moved another one. */
ON_WORKER(a_transfer_of_all_bytes_is_not_complete_without_one_of_them)
{
        const char *region = region_make(w, 6, 0);
        const char *id =
                json_text(call_json(w, 201, "POST", "/v1/operations", operation_body("writable", region, "")), "id");
        const char *key = operation_bearer(w, id);
        struct raw_answer answer;

        for (int i = 0; i < 2; i++)
                wire_expect(w, 204,
                            CONTENT("PUT", id,
                                    NAMED "Ferry-Bytes: 6/6\r\nContent-Range: bytes 0-2/6\r\nContent-Length: 3\r\n\r\n"
                                          "abc"));
        answer = wire_ask(w, CONTENT("DELETE", id, NAMED "\r\n"));
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, "CANCELLED"));
        operation_assert_error(w, id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

/* What cannot be checked must not pass. */
ON_WORKER(a_digest_of_all_bytes_is_refused_with_a_part)
{
        const char *region = region_make(w, 6, 0);
        const char *id =
                json_text(call_json(w, 201, "POST", "/v1/operations", operation_body("writable", region, "")), "id");
        const char *key = operation_bearer(w, id);

        wire_expect(w, 400,
                    CONTENT("PUT", id,
                            NAMED "Ferry-Bytes: 3/6\r\nContent-Range: bytes 0-2/6\r\nContent-Length: 3\r\n"
                                  "Repr-Digest: sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:\r\n\r\nabc"));
        assert_string_equal(json_text(operation_json(w, id), "status"), "INITIALIZED");
        assert_int_equal(ferry_delete_operation(w->client, id), 0);
}

ON_WORKER(a_transfer_is_not_complete_before_what_it_announced_has_moved)
{
        const char *region = region_make(w, SIZE, OTHER);
        const char *id = json_text(offer(w, "writable", region, ""), "id"), *key = operation_bearer(w, id);
        struct raw_answer answer;

        wire_expect(w, 204,
                    CONTENT("PUT", id,
                            NAMED
                            "Ferry-Bytes: 5/307200\r\nContent-Range: bytes 7-9/307200\r\nContent-Length: 3\r\n\r\n"
                            "abc"));
        answer = wire_ask(w, CONTENT("DELETE", id, NAMED "\r\n"));
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, "CANCELLED"));
        operation_assert_error(w, id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

/* ---- several ---- */

struct trio {
        struct pair p;
        struct worker c;
};

ON_EACH_PAIR(readers_of_other_parts_share_an_offer)
{
        const char *a = region_make(&p->a, LARGE, SEED), *targets[READERS];
        const uint64_t share = LARGE / READERS;
        struct json_object *offered = call_json(&p->a, 201, "POST", "/v1/operations?include=metadata",
                                                operation_body("readable", a, text_format(",\"uses\":%d", READERS)));
        const char *reads[READERS];

        for (unsigned i = 0; i < READERS; i++) {
                const struct part part = { i * share, share };

                targets[i] = region_make(&p->b, share + 7, 0);
                reads[i] = json_text(call_json(&p->b, 201, "POST", "/v1/operations",
                                               parts_body("read", targets[i], share, parts_json(&part, 1),
                                                          with_metadata(offered, ""))),
                                     "id");
        }
        for (unsigned i = 0; i < READERS; i++) {
                uint8_t *wanted = malloc(share), *there = malloc(share);

                operation_assert_end(&p->b, reads[i], FERRY_COMPLETE, NULL);
                pattern_fill(SEED, i * share, wanted, share);
                assert_int_equal(ferry_get_region_content(p->b.client, targets[i], 7, there, share, NULL), 0);
                assert_memory_equal(there, wanted, share);
                free(wanted);
                free(there);
                region_drop(&p->b, targets[i]);
        }
        assert_complete(&p->a, json_text(offered, "id"), share);
        assert_int_equal(json_number(operation_json(&p->a, json_text(offered, "id")), "uses_done"), READERS);
}

/* The offer lives on for the next reader. */
SCENE(struct trio, t, a_reader_that_dies_in_the_middle_of_a_part_costs_its_attempt, (void)0)
{
        struct pair *p = &t->p;
        const struct part most = { 4096, LARGE - 8192 }, few = { LARGE - 10, 10 };
        const char *a, *b, *c, *id;
        struct json_object *offered;

        pair_start_with(p, false, STRINGS(SMALL_WINDOW));
        worker_start(&t->c, "c", NULL);
        worker_expect(&p->a, "operation ended");
        a = region_make(&p->a, LARGE, SEED);
        b = region_make(&p->b, LARGE, 0);
        c = region_make(&t->c, LARGE, 0);
        offered = call_json(&p->a, 201, "POST", "/v1/operations?include=metadata",
                            operation_body("readable", a, ",\"uses\":1000"));
        do
                id = json_text(call_json(&p->b, 201, "POST", "/v1/operations",
                                         parts_body("read", b, most.size, parts_json(&most, 1),
                                                    with_metadata(offered, ",\"verify\":true"))),
                               "id");
        while (!operation_await_middle(&p->b, id));
        worker_kill(&p->b);
        worker_clean(&p->b);
        id = json_text(call_json(&t->c, 201, "POST", "/v1/operations",
                                 parts_body("read", c, 10, parts_json(&few, 1), with_metadata(offered, ""))),
                       "id");
        operation_assert_end(&t->c, id, FERRY_COMPLETE, NULL);
        assert_string_equal(json_text(operation_json(&p->a, json_text(offered, "id")), "status"), "IN_PROGRESS");
        assert_int_equal(ferry_delete_operation(p->a.client, json_text(offered, "id")), 0);
        region_drop(&p->a, a);
        region_drop(&t->c, c);
}

/* ---- offers that stand ---- */

ON_PAIR(an_unlimited_offer_stands_until_it_is_deleted)
{
        const char *a = region_make(&p->a, SIZE, SEED), *b = region_make(&p->b, SIZE, 0);
        struct json_object *offered = offer(&p->a, "readable", a, ",\"unlimited\":true"), *reads[MANY], *now;
        const char *id = json_text(offered, "id");

        assert_true(json_truth(offered, "unlimited"));
        assert_false(json_object_object_get_ex(offered, "uses", NULL));
        assert_int_equal(json_number(offered, "uses_done"), 0);
        assert_false(json_object_object_get_ex(offered, "readers", NULL));
        for (unsigned i = 0; i < MANY; i++) {
                const struct part part = { i * 1000, 10 };

                reads[i] = call_json(&p->b, 201, "POST", "/v1/operations",
                                     text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\",\"offset\":%u,"
                                                 "\"size\":10}],\"remote\":%s%s}",
                                                 b, i * 10, parts_json(&part, 1), with_metadata(offered, "")));
        }
        for (unsigned i = 0; i < MANY; i++) {
                uint8_t there[10], wanted[10];

                operation_assert_end(&p->b, json_text(reads[i], "id"), FERRY_COMPLETE, NULL);
                pattern_fill(SEED, i * 1000, wanted, sizeof(wanted));
                assert_int_equal(ferry_get_region_content(p->b.client, b, i * 10, there, sizeof(there), NULL), 0);
                assert_memory_equal(there, wanted, sizeof(there));
        }
        WAIT_UNTIL(json_number(now = operation_json(&p->a, id), "uses_done") == MANY);
        assert_string_equal(json_text(now, "status"), "IN_PROGRESS");
        assert_true(json_truth(now, "unlimited"));
        assert_int_equal(json_number(now, "bytes_done"), 10);
        (void)call_json(&p->a, 204, "DELETE", text_format("/v1/operations/%s", id), NULL);
        region_drop(&p->a, a); /* unused at once */
}

ON_WORKER(an_unlimited_offer_expires_and_can_be_cancelled)
{
        const char *region = region_make(w, SIZE, 0);
        const char *late = json_text(offer(w, "writable", region, ",\"uses\":\"unlimited\",\"ttl_ms\":50"), "id");
        const char *stopped = json_text(offer(w, "readable", region, ",\"uses\":\"unlimited\""), "id");

        operation_assert_error(w, late, FERRY_CANCELLED, FERRY_E_EXPIRED);
        assert_int_equal(ferry_cancel_operation(w->client, stopped, NULL), 0);
        operation_assert_error(w, stopped, FERRY_CANCELLED, FERRY_E_CANCELLED);
        assert_problem(w, "POST", "/v1/operations", operation_body("readable", region, ",\"uses\":\"many\""), 400,
                       "invalid-parameter", "/uses");
        assert_problem(w, "POST", "/v1/operations", operation_body("readable", region, ",\"readers\":\"unlimited\""),
                       400, "invalid-parameter", "/readers");
        assert_problem(w, "POST", "/v1/operations", operation_body("read", region, ",\"uses\":\"unlimited\""), 400,
                       "invalid-parameter", "/uses");
        assert_problem(w, "POST", "/v1/operations", operation_body("read", region, ",\"unlimited\":true"), 400,
                       "invalid-parameter", "/unlimited");
        assert_problem(w, "POST", "/v1/operations",
                       operation_body("readable", region, ",\"unlimited\":true,\"uses\":2"), 400, "invalid-parameter",
                       "/unlimited");
}

/* ---- libferry ---- */

ON_PAIR(libferry_reads_parts_of_an_unlimited_offer)
{
        const struct ferry_range parts[] = { { .offset = 100, .size = 10 }, { .offset = 5, .size = 20 } };
        const char *a = region_make(&p->a, SIZE, SEED), *b = region_make(&p->b, 30, 0);
        const struct ferry_descriptor from = { .region = a }, to = { .region = b };
        OPERATION offered, read, end;
        uint8_t wanted[SIZE], there[30];

        assert_int_equal(ferry_create_operation(p->a.client,
                                                &(struct ferry_operation_spec){ .kind = FERRY_READABLE,
                                                                                .descriptors = &from,
                                                                                .n_descriptors = 1,
                                                                                .uses = FERRY_USES_UNLIMITED,
                                                                                .include_metadata = true },
                                                &offered),
                         0);
        assert_true(offered.uses == FERRY_USES_UNLIMITED);
        assert_int_equal(offered.n_remote, 0);
        assert_int_equal(ferry_create_operation(p->b.client,
                                                &(struct ferry_operation_spec){ .kind = FERRY_READ,
                                                                                .descriptors = &to,
                                                                                .n_descriptors = 1,
                                                                                .remote = parts,
                                                                                .n_remote = 2,
                                                                                .remote_metadata = offered.metadata },
                                                &read),
                         0);
        assert_int_equal(read.n_remote, 2);
        assert_true(read.remote[1].offset == 5 && read.remote[1].size == 20);
        operation_assert_end(&p->b, read.id, FERRY_COMPLETE, &end);
        pattern_fill(SEED, 0, wanted, SIZE);
        assert_int_equal(ferry_get_region_content(p->b.client, b, 0, there, 30, NULL), 0);
        assert_memory_equal(there, wanted + 100, 10);
        assert_memory_equal(there + 10, wanted + 5, 20);
        assert_int_equal(ferry_delete_operation(p->a.client, offered.id), 0);
}
