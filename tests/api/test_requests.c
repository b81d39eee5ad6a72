/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

/* Paths, methods, content types, query parameters and request ids, on every route of the table. */

#define HOST "Host: localhost\r\n"

static const struct {
        const char *path, *allow; /* {region} and {operation} stand for ids that are there */
} resources[] = {
        { "/", "GET, HEAD" },
        { "/v1/worker", "GET, HEAD" },
        { "/v1/devices", "GET, HEAD" },
        { "/v1/limits", "GET, HEAD" },
        { "/v1/throughput", "GET, HEAD" },
        { "/v1/regions", "GET, HEAD, POST" },
        { "/v1/regions/{region}", "GET, HEAD, DELETE" },
        { "/v1/regions/{region}/content", "GET, HEAD, PUT" },
        { "/v1/operations", "GET, HEAD, POST" },
        { "/v1/operations/batch", "POST" },
        { "/v1/operations/{operation}", "GET, HEAD, DELETE" },
        { "/v1/operations/{operation}/cancel", "POST" },
        { "/v1/operations/{operation}/renew", "POST" },
        { "/v1/operations/{operation}/metadata", "GET, HEAD" },
        { "/livez", "GET, HEAD" },
        { "/readyz", "GET, HEAD" },
        { "/metrics", "GET, HEAD" },
        { "/openapi.yaml", "GET, HEAD" },
};
enum { N_RESOURCES = sizeof(resources) / sizeof(resources[0]) };

/* A worker with a region and an operation on it. */
struct scene {
        char operation[FERRY_ID_SIZE];
        const char *region;
};

static void scene_start(struct worker *w, struct scene *scene)
{
        OPERATION operation;

        worker_start(w, "w", NULL);
        scene->region = region_make(w, 100, 1);
        offer_make(w, FERRY_READABLE, scene->region, &operation);
        memcpy(scene->operation, operation.id, FERRY_ID_SIZE);
}

/* The scene is as it was: nothing that was refused has changed anything. */
static void scene_stop(struct worker *w, const struct scene *scene)
{
        OPERATION operation;

        region_assert_pattern(w, scene->region, 1, 0, 100);
        assert_int_equal(ferry_get_operation(w->client, scene->operation, 0, 0, &operation), 0);
        assert_int_equal(operation.status, FERRY_INITIALIZED);
        assert_int_equal(operation.revision, 1);
        worker_await_metric(w, "ferry_regions", 1);
        worker_assert_serving(w);
        worker_stop(w);
}

static const char *scene_path(const struct scene *scene, size_t i)
{
        const char *brace = strchr(resources[i].path, '{');

        if (!brace)
                return resources[i].path;
        return text_format("%.*s%s%s", (int)(brace - resources[i].path), resources[i].path,
                           brace[1] == 'r' ? scene->region : scene->operation, strchr(brace, '}') + 1);
}

/* Whether "GET" is in "GET, HEAD". */
static bool list_has(const char *list, const char *word)
{
        size_t n = strlen(word);

        for (const char *at = list; (at = strstr(at, word)); at += n)
                if ((at == list || at[-1] == ' ') && (at[n] == '\0' || at[n] == ','))
                        return true;
        return false;
}

/* ---- methods ---- */

WITH_WORKER(a_wrong_method_is_told_the_right_ones)
{
        static const char *const methods[] = { "GET",   "HEAD",    "POST", "PUT",      "DELETE",
                                               "PATCH", "OPTIONS", "BREW", "PROPFIND", "get" };
        struct scene scene;

        scene_start(w, &scene);
        for (size_t i = 0; i < N_RESOURCES; i++) {
                const char *path = scene_path(&scene, i);

                for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
                        if (list_has(resources[i].allow, methods[m]))
                                continue;
                        struct raw_answer answer =
                                wire_ask(w, "%s %s HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", methods[m], path);
                        if (answer.status != 405)
                                print_error("%s %s\n", methods[m], path);
                        answer_assert_header(&answer, "Allow", resources[i].allow);
                        if (strcmp(methods[m], "HEAD") != 0)
                                answer_assert_problem(&answer, 405, "method-not-allowed");
                        else
                                assert_int_equal(answer.status, 405);
                }
        }
        scene_stop(w, &scene);
}

/* The header lines of a head that do not differ between two requests for the same thing. */
static const char *stable_head(const char *head)
{
        static const char *const fleeting[] = { "Date:", "Request-Id:" };
        char *copy = strdup(head), *save = NULL;
        const char *kept = "";

        for (char *line = strtok_r(copy, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
                if (strncmp(line, fleeting[0], 5) == 0 || strncmp(line, fleeting[1], 11) == 0)
                        continue;
                kept = text_format("%s%s\n", kept, line);
        }
        free(copy);
        return kept;
}

/* HEAD and GET of one path over one connection each; asserts the same head and, for HEAD, nothing behind it. */
static void assert_head_like_get(struct worker *w, const char *path, const char *headers, bool same_length)
{
        const char *request, *head, *rest, *from_get, *from_head;
        int fd = raw_connect(w);
        struct raw_answer get = wire_ask(w, "GET %s HTTP/1.1\r\n" HOST "%sConnection: close\r\n\r\n", path, headers);

        request = text_format("HEAD %s HTTP/1.1\r\n" HOST "%sConnection: close\r\n\r\n", path, headers);
        raw_send(fd, request, strlen(request));
        head = raw_read_head(fd);
        rest = wire_read_rest(fd, NULL);
        (void)close(fd);
        assert_string_equal(rest, "");
        from_get = stable_head(get.head);
        from_head = stable_head(head);
        if (same_length)
                assert_string_equal(from_head, from_get);
        else
                assert_memory_equal(from_head, from_get, strlen("HTTP/1.1 200 OK"));
        assert_non_null(strstr(from_head, "Content-Length: "));
}

WITH_WORKER(head_is_get_without_the_body)
{
        struct scene scene;

        scene_start(w, &scene);
        for (size_t i = 0; i < N_RESOURCES; i++) {
                const char *path = scene_path(&scene, i);

                /* How long these are changes with time and with each request. */
                bool same_length = strcmp(path, "/v1/worker") != 0 && strcmp(path, "/metrics") != 0;

                if (list_has(resources[i].allow, "GET"))
                        assert_head_like_get(w, path, "", same_length);
        }
        assert_head_like_get(w, "/v1/regions/rgn_0000000000000001", "", true);
        assert_head_like_get(w, "/v1/operations/op_0000000000000001", "", true);
        assert_head_like_get(w, "/nowhere", "", true);
        assert_head_like_get(w, "/v1/regions?limit=0", "", true);
        assert_head_like_get(w, region_path(scene.region, "/content"), "Range: bytes=3-5\r\n", true);
        assert_head_like_get(w, region_path(scene.region, "/content"), "Range: bytes=100-\r\n", true);
        scene_stop(w, &scene);
}

/* ---- paths ---- */

ON_WORKER(an_unknown_path_is_not_found)
{
        static const char *const paths[] = {
                "/v1",
                "/v1/",
                "/v2/worker",
                "/v1/workers",
                "/v1/worker/",
                "//v1/worker",
                "/v1//worker",
                "/V1/worker",
                "/v1/regions/",
                "/v1/regions//content",
                "/v1/regions/x/y",
                "/v1/regions/rgn_0000000000000001/content/",
                "/v1/regions/rgn_0000000000000001/Content",
                "/v1/operations/",
                "/v1/operations/x/y",
                "/v1/operations/op_0000000000000001/cancel/now",
                "/livez/",
                "/livez.json",
                "/openapi.yml",
                "/metrics/x",
                "/index.html",
                "/favicon.ico",
                "/../etc/passwd",
                "/..%2f..%2fetc/passwd",
                "/%2e%2e/%2e%2e/etc/passwd",
                "/v1/../livez",
                "/.",
                "/%20",
                "/%ff",
                "*",
        };
        static const char *const methods[] = { "GET", "POST", "PUT", "DELETE", "BREW" };

        for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++)
                for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                        wire_refused(w, 404, "not-found", "%s %s HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
                                     methods[m], paths[i]);
}

/* At once, although the client was ready to wait: only what is there can change. */
ON_WORKER(an_unknown_id_is_not_waited_for)
{
        static const char *const targets[] = {
                "/v1/operations/op_0000000000000001?wait_ms=60000",
                "/v1/operations/op_0000000000000001?wait_ms=60000&revision=5",
                "/v1/operations/rgn_0000000000000001?wait_ms=60000",
                "/v1/operations/x?wait_ms=60000",
        };
        uint64_t start;

        start = now_ms();
        for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
                wire_refused(w, 404, "not-found", "GET %s HTTP/1.1\r\n" HOST "\r\n", targets[i]);
        wire_refused(w, 404, "not-found",
                     "GET /v1/operations/op_0000000000000001 HTTP/1.1\r\n" HOST "Prefer: wait=60\r\n\r\n");
        assert_true(now_ms() - start < 10000);
}

/* ---- query parameters ---- */

WITH_WORKER(an_unknown_parameter_is_refused_everywhere)
{
        static const char *const queries[] = { "?x=1", "?x", "?wait=5", "?limit=1&bogus=2", "?%00", "?a=%00" };
        struct scene scene;

        scene_start(w, &scene);
        for (size_t i = 0; i < N_RESOURCES; i++) {
                const char *path = scene_path(&scene, i);
                const char *method = list_has(resources[i].allow, "GET") ? "GET" : "POST";

                for (size_t q = 0; q < sizeof(queries) / sizeof(queries[0]); q++)
                        wire_refused(w, 400, "invalid-parameter",
                                     "%s %s%s HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", method, path, queries[q]);
        }
        /* One that another resource takes is as unknown here; none at all is no fault. */
        wire_refused(w, 400, "invalid-parameter", "GET /v1/worker?limit=5 HTTP/1.1\r\n" HOST "\r\n");
        wire_refused(w, 400, "invalid-parameter",
                     "POST /v1/regions?wait_ms=5 HTTP/1.1\r\n" HOST
                     "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
                     "{\"size\":1}");
        wire_expect(w, 200, "GET /v1/worker? HTTP/1.1\r\n" HOST "\r\n");
        scene_stop(w, &scene);
}

/* ---- content types ---- */

WITH_WORKER(a_body_must_say_that_it_is_json)
{
        static const struct {
                const char *header;
                int status;
        } rows[] = {
                { "Content-Type: application/json\r\n", 201 },
                { "Content-Type: application/json; charset=utf-8\r\n", 201 },
                { "Content-Type: application/json;charset=UTF-8\r\n", 201 },
                { "Content-Type: Application/JSON\r\n", 201 },
                { "content-type:application/json\r\n", 201 },
                { "", 415 },
                { "Content-Type:\r\n", 415 },
                { "Content-Type: text/plain\r\n", 415 },
                { "Content-Type: text/json\r\n", 415 },
                { "Content-Type: application/jsonp\r\n", 415 },
                { "Content-Type: application/json-patch+json\r\n", 415 },
                { "Content-Type: application\r\n", 415 },
                { "Content-Type: application/x-www-form-urlencoded\r\n", 415 }, /* what a form may send across sites */
                { "Content-Type: multipart/form-data; boundary=x\r\n", 415 },
                { "Content-Type: text/plain; application/json\r\n", 415 },
                { "Content-Type: application/octet-stream\r\n", 415 },
        };
        unsigned made = 0;

        worker_start(w, "w", NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (rows[i].status == 201) {
                        wire_expect(w, 201,
                                    "POST /v1/regions HTTP/1.1\r\n" HOST "%sContent-Length: 10\r\n\r\n{\"size\":1}",
                                    rows[i].header);
                        made++;
                        continue;
                }
                wire_refused(w, 415, "unsupported-media-type",
                             "POST /v1/regions HTTP/1.1\r\n" HOST "%sContent-Length: 10\r\n\r\n{\"size\":1}",
                             rows[i].header);
                wire_refused(w, 415, "unsupported-media-type",
                             "POST /v1/operations HTTP/1.1\r\n" HOST "%sTransfer-Encoding: chunked\r\n\r\n"
                             "2\r\n{}\r\n0\r\n\r\n",
                             rows[i].header);
        }
        worker_await_metric(w, "ferry_regions", made);
}

/* ---- Request-Id ---- */

ON_WORKER(a_request_id_comes_back_or_is_made)
{
        static const struct {
                const char *given;
                bool kept;
        } rows[] = {
                { "my-id_1.2", true },
                { "0123456789012345678901234567890123456789012345678901234567890123", true },
                { "01234567890123456789012345678901234567890123456789012345678901234", false },
                { "", false },
                { "two words", false },
                { "<script>", false },
                { "a\"b", false },
                { "caf\xc3\xa9", false },
        };
        struct raw_answer answer;
        char *first = NULL;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *id;

                answer = wire_ask(w, "GET /livez HTTP/1.1\r\n" HOST "Request-Id: %s\r\n\r\n", rows[i].given);
                assert_int_equal(answer.status, 200);
                id = raw_header(&answer, "Request-Id");
                assert_non_null(id);
                if (rows[i].kept) {
                        assert_string_equal(id, rows[i].given);
                } else {
                        assert_int_equal(strlen(id), 20);
                        assert_memory_equal(id, "req_", 4);
                        if (first)
                                assert_string_not_equal(id, first);
                        free(first);
                        first = strdup(id);
                }
        }
        free(first);

        /* Also on what is refused. */
        answer = wire_ask(w, "GET /nowhere HTTP/1.1\r\n" HOST "Request-Id: abc\r\n\r\n");
        answer_assert_header(&answer, "Request-Id", "abc");
        answer_assert_problem(&answer, 404, "not-found");
        answer = wire_ask(w, "GET /livez HTTP/1.1\r\nHost: evil.example\r\nRequest-Id: abc\r\n\r\n");
        answer_assert_header(&answer, "Request-Id", "abc");
        answer_assert_problem(&answer, 421, "host-refused");
}
