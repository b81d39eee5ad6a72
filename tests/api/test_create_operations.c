/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <stdio.h>
#include <unistd.h>

/* Several operations by one request: offered, read, waited for, deleted, and left alone by a peer that dies. */

enum { MOST = 1024, MOST_IDS = 512, SLICE = 64, SEED = 5 };

#define PARKED "ferry_http_waiters"

static const char *const patient[] = { "Prefer: wait=30", NULL };

struct text {
        char *at;
        size_t size;
        FILE *file;
};

static FILE *text_open(struct text *text)
{
        text->file = open_memstream(&text->at, &text->size);
        assert_non_null(text->file);
        return text->file;
}

static char *text_close(struct text *text)
{
        (void)fclose(text->file);
        return text->at;
}

/* The bodies that offer n slices, one after the other, for free(). */
static char *offers(const char *region, size_t n)
{
        struct text text;
        FILE *file = text_open(&text);

        for (size_t i = 0; i < n; i++)
                fprintf(file,
                        "%c{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"offset\":%zu,\"size\":%d}]}",
                        i ? ',' : '[', region, i * SLICE, SLICE);
        fputc(']', file);
        return text_close(&text);
}

/* The bodies that read every offer of a batch, for free(). */
static char *reads(struct json_object *offered, const char *region, const char *more)
{
        struct text text;
        FILE *file = text_open(&text);

        for (size_t i = 0; i < json_object_array_length(offered); i++) {
                fprintf(file,
                        "%c{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\",\"offset\":%zu,\"size\":%d}],"
                        "\"remote_metadata\":%s%s}",
                        i ? ',' : '[', region, i * SLICE, SLICE,
                        json_object_to_json_string(json_member(json_object_array_get_idx(offered, i), "metadata")),
                        more);
        }
        fputc(']', file);
        return text_close(&text);
}

/* "/v1/operations?ids=…" of n results from the first on, and more, for free(). */
static char *ids_path(struct json_object *results, size_t first, size_t n, const char *more)
{
        struct text text;
        FILE *file = text_open(&text);

        fputs("/v1/operations?ids=", file);
        for (size_t i = 0; i < n; i++)
                fprintf(file, "%s%s", i ? "," : "", json_text(json_object_array_get_idx(results, first + i), "id"));
        fputs(more, file);
        return text_close(&text);
}

static void assert_all(struct json_object *results, size_t n, const char *status)
{
        assert_int_equal(json_object_array_length(results), n);
        for (size_t i = 0; i < n; i++)
                assert_string_equal(json_text(json_object_array_get_idx(results, i), "status"), status);
}

/* bodies: freed. */
static struct json_object *batch(struct worker *w, const char *query, char *bodies, const char *const *headers)
{
        struct json_object *results = operations_make(w, query, bodies, headers);

        free(bodies);
        return results;
}

ON_PAIR(a_full_batch_is_offered_read_and_waited_for)
{
        struct json_object *offered, *done;
        char *path;
        const char *source = region_make(&p->a, MOST * SLICE, SEED);
        const char *target = region_make(&p->b, MOST * SLICE, 0);

        offered = batch(&p->a, "?include=metadata", offers(source, MOST), NULL);
        assert_all(offered, MOST, "INITIALIZED");
        done = batch(&p->b, "", reads(offered, target, ""), patient);
        assert_all(done, MOST, "COMPLETE");
        region_assert_pattern(&p->b, target, SEED, 0, MOST * SLICE);
        for (size_t first = 0; first < MOST; first += MOST_IDS) {
                path = ids_path(offered, first, MOST_IDS, "&wait_ms=30000");
                assert_all(json_member(call_json(&p->a, 200, "GET", path, NULL), "operations"), MOST_IDS, "COMPLETE");
                free(path);
        }
        path = ids_path(offered, 0, MOST_IDS + 1, "");
        assert_problem(&p->a, "GET", path, NULL, 400, "invalid-parameter", NULL);
        free(path);
}

ON_PAIR(a_peer_that_dies_ends_all_of_a_batch)
{
        enum { N = 64 };
        struct json_object *offered, *begun;
        char *path;

        pair_assert_serving(p);
        worker_expect(&p->b, "operation ended");
        const char *source = region_make(&p->a, N * SLICE, SEED);
        const char *target = region_make(&p->b, N * SLICE, 0);
        offered = batch(&p->a, "?include=metadata", offers(source, N), NULL);
        worker_pause(&p->a);
        begun = batch(&p->b, "", reads(offered, target, ""), NULL);
        worker_kill(&p->a);
        path = ids_path(begun, 0, N, "&wait_ms=30000");
        assert_all(json_member(call_json(&p->b, 200, "GET", path, NULL), "operations"), N, "ERRORED");
        region_drop(&p->b, target);
        free(path);
}

/* Clients wait for the same operations in many ways, some leave, and one operation after the other is deleted. */
ON_WORKER(waits_for_several_end_under_load)
{
        enum { N = 16, CROWD = 120 };
        struct json_object *offered, *document;
        struct raw_answer answer;
        char *path[2];
        int fds[CROWD];
        const char *source = region_make(w, N * SLICE, SEED);

        offered = batch(w, "", offers(source, N), NULL);
        path[0] = ids_path(offered, 0, N, "&wait_ms=55000");
        path[1] = ids_path(offered, N - 1, 1, "&wait_ms=999999999&wait_for=any");
        for (int i = 0; i < CROWD; i++)
                fds[i] = raw_ask(w, "GET", path[i % 2]);
        worker_await_metric(w, PARKED, CROWD);
        for (int i = 0; i < CROWD / 2; i++)
                (void)close(fds[i]);
        worker_await_metric(w, PARKED, CROWD / 2);
        for (size_t i = 0; i < N; i++) {
                const char *one =
                        text_format("/v1/operations/%s", json_text(json_object_array_get_idx(offered, i), "id"));

                (void)call_json(w, 204, "DELETE", one, NULL);
        }
        for (int i = CROWD / 2; i < CROWD; i++) {
                answer = raw_end(fds[i]);
                assert_int_equal(answer.status, 200);
                document = json_parse(answer.body);
                document = json_object_array_get_idx(json_member(document, "operations"), 0);
                assert_string_equal(json_text(json_member(document, "problem"), "code"), "gone");
        }
        worker_await_metric(w, PARKED, 0);
        region_drop(w, source);
        free(path[0]);
        free(path[1]);
}

/* Each of the crowd waits for one operation, and names hundreds that are not there. */
ON_WORKER(ids_that_name_nothing_cost_a_parked_request_little)
{
        enum { CROWD = 100, UNKNOWN = 400, KB_EACH = 100 };
        struct json_object *offered;
        const char *source = region_make(w, SLICE, SEED);
        char *path;
        uint64_t before_kb;
        struct text text;
        int fds[CROWD];

        offered = batch(w, "", offers(source, 1), NULL);
        FILE *file = text_open(&text);
        (void)fprintf(file, "/v1/operations?wait_ms=55000&ids=%s",
                      json_text(json_object_array_get_idx(offered, 0), "id"));
        for (unsigned i = 0; i < UNKNOWN; i++)
                (void)fprintf(file, ",op_%016x", i);
        path = text_close(&text);
        before_kb = worker_status_kb(w, "RssAnon");
        for (int i = 0; i < CROWD; i++)
                fds[i] = raw_ask(w, "GET", path);
        worker_await_metric(w, PARKED, CROWD);
        if (!SANITIZED)
                assert_in_range(worker_status_kb(w, "RssAnon"), 1, before_kb + CROWD * KB_EACH);
        for (int i = 0; i < CROWD; i++)
                (void)close(fds[i]);
        worker_await_metric(w, PARKED, 0);
        free(path);
}
