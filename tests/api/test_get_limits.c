/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"
#include "wire.h"

WITH_WORKER(flags_are_what_is_shown)
{
        static const struct {
                const char *flag, *value, *field;
                uint64_t shown;
        } rows[] = {
                { "--memory-limit", "123M", "memory_limit", UINT64_C(123) << 20 },
                { "--max-regions", "77", "regions_max", 77 },
                { "--max-operations", "55", "operations_max", 55 },
                { "--max-waiters", "33", "waiters_max", 33 },
                { "--max-links", "44", "links_max", 44 },
                { "--max-connections", "100", "connections_max", 100 },
                { "--ttl", "90s", "ttl_ms_default", 90000 },
                { "--stall-limit", "4s", "stall_ms", 4000 },
                { "--retention", "2h", "retention_ms", 7200000 },
        };
        enum { N = sizeof(rows) / sizeof(rows[0]) };
        const char *flags[2 * N + 1] = { NULL };
        struct json_object *limits;

        for (size_t i = 0; i < N; i++) {
                flags[2 * i] = rows[i].flag;
                flags[2 * i + 1] = rows[i].value;
        }
        worker_start(w, "w", flags);
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(json_number(limits, rows[i].field), rows[i].shown);
}

/* The rest of what the kernel allows is for the worker's own regions and for what else the process maps. */
ON_WORKER(most_mappings_of_a_process_are_not_for_peers_memory)
{
        struct json_object *limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
        unsigned long count;

        assert_non_null(file);
        assert_int_equal(fscanf(file, "%lu", &count), 1);
        (void)fclose(file);
        assert_in_range(json_number(limits, "mappings_max"), 1, count / 3);
        worker_await_metric(w, "ferry_mapped_memories_max", json_number(limits, "mappings_max"));
}

/* "readers_max" is an older name of "uses_max". */
ON_WORKER(libferry_knows_every_limit, "--max-waiters", "33")
{
        struct ferry_limits limits;
        struct json_object *json;
        const uint64_t *fields = (const uint64_t *)(const void *)&limits;

        assert_int_equal(ferry_get_limits(w->client, &limits), 0);
        assert_int_equal(limits.waiters_max, 33);
        json = json_parse(limits.json);
        assert_int_equal(offsetof(struct ferry_limits, json) / sizeof(*fields), json_object_object_length(json) - 1);
        for (size_t i = 0; i < offsetof(struct ferry_limits, json) / sizeof(*fields); i++)
                assert_int_not_equal(fields[i], 0);
        ferry_limits_clear(&limits);
}

ON_WORKER(a_head_holds_no_more_than_the_limit_says, "--max-connections", "80")
{
        static const char start[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ";
        struct json_object *limits;

        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        assert_int_equal(json_number(limits, "address_connections_max"), 70);
        wire_refused(w, 431, "head-too-large", "%s%0*d\r\n\r\n", start,
                     (int)(json_number(limits, "head_max") - strlen(start)), 0);
        worker_await_metric(w, "ferry_http_problems_total{code=\"head-too-large\"}", 1);
        worker_await_metric(w, "ferry_http_connections_ended_total{reason=\"refused_head\"}", 1);
}

/* "[ELEMENT,ELEMENT,…]". */
static const char *list_of(size_t n, const char *element)
{
        size_t size;
        char *list;
        FILE *file = open_memstream(&list, &size);

        assert_non_null(file);
        for (size_t i = 0; i < n; i++)
                (void)fprintf(file, "%c%s", i ? ',' : '[', element);
        (void)fputc(']', file);
        (void)fclose(file);
        return text_keep(list);
}

/* n rows of 65,536 pieces each, in one request of some 100 bytes a row. */
static struct json_object *make_rows(struct worker *w, const char *region, size_t n)
{
        const char *row = text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"size\":1,"
                                      "\"count\":65536,\"stride\":2}]}",
                                      region);

        return operations_make(w, "", list_of(n, row), NULL);
}

ON_WORKER(short_rows_take_no_more_memory_than_the_limit_on_pieces)
{
        struct json_object *limits, *results, *last;
        size_t n;

        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        n = json_number(limits, "pieces_max") / 65536;
        const char *region = region_make(w, 2 * 65536, 0);
        make_rows(w, region, n);
        worker_await_metric(w, "ferry_operation_pieces", json_number(limits, "pieces_max"));
        results = make_rows(w, region, 200);
        for (size_t i = 0; i < 200; i++) {
                last = json_member(json_object_array_get_idx(results, i), "problem");
                assert_string_equal(json_text(last, "code"), "limit-reached");
                assert_non_null(strstr(json_text(last, "detail"), "pieces_max"));
        }
        if (!SANITIZED)
                assert_in_range(worker_status_kb(w, "RssAnon"), 1, 300 << 10);
}

enum { LONG_ONES = 6 };

/* Operations with as many descriptors as there may be: 4 MB of JSON each. */
static void make_long_ones(struct worker *w, char ids[LONG_ONES][FERRY_ID_SIZE])
{
        char *body;
        size_t size;
        FILE *file = open_memstream(&body, &size);
        const char *region = region_make(w, 4096, 0);

        assert_non_null(file);
        (void)fputs("{\"kind\":\"readable\",\"descriptors\":", file);
        for (int i = 0; i < 65536; i++)
                (void)fprintf(file, "%c{\"region\":\"%s\"}", i ? ',' : '[', region);
        (void)fputs("]}", file);
        (void)fclose(file);
        for (int i = 0; i < LONG_ONES; i++) {
                struct json_object *made = call_json(w, 201, "POST", "/v1/operations", body);

                (void)snprintf(ids[i], FERRY_ID_SIZE, "%s", json_text(made, "id"));
        }
        free(body);
}

ON_WORKER(a_list_is_no_longer_than_the_limit_and_pages_go_on)
{
        char ids[LONG_ONES][FERRY_ID_SIZE], path[64 + LONG_ONES * FERRY_ID_SIZE];
        struct json_object *page, *list;
        const char *order[] = { "asc", "desc" };
        size_t pages = 0;

        page = call_json(w, 200, "GET", "/v1/limits", NULL);
        assert_int_equal(json_number(page, "answer_max"), 16 << 20);
        make_long_ones(w, ids);
        for (int newest = 0; newest < 2; newest++) {
                size_t n = 0;

                (void)snprintf(path, sizeof(path), "/v1/operations?limit=1000&order=%s", order[newest]);
                for (bool more = true; more; pages++) {
                        page = call_json(w, 200, "GET", path, NULL);
                        list = json_member(page, "operations");
                        for (size_t i = 0; i < json_object_array_length(list); i++, n++)
                                assert_string_equal(json_text(json_object_array_get_idx(list, i), "id"),
                                                    ids[newest ? LONG_ONES - 1 - n : n]);
                        more = json_object_object_get_ex(page, "next", NULL);
                        if (more)
                                (void)snprintf(path, sizeof(path), "/v1/operations?limit=1000&order=%s&after=%s",
                                               order[newest], json_text(page, "next"));
                }
                assert_int_equal(n, LONG_ONES);
        }
        assert_int_equal(pages, 4); /* 16 MiB and the element that passes them, the rest */
        (void)snprintf(path, sizeof(path), "/v1/operations?ids=");
        for (int i = 0; i < LONG_ONES; i++)
                (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s", i ? "," : "", ids[i]);
        page = call_json(w, 200, "GET", path, NULL);
        list = json_member(page, "operations");
        assert_string_equal(json_text(json_object_array_get_idx(list, 0), "status"), "INITIALIZED");
        list = json_object_array_get_idx(list, LONG_ONES - 1);
        assert_string_equal(json_text(json_member(list, "problem"), "code"), "too-large");
        assert_string_equal(json_text(list, "id"), ids[LONG_ONES - 1]);
}

static uint64_t bytes_moved(struct worker *w, const char *id)
{
        uint64_t bytes = json_number(operation_json(w, id), "bytes_done");

        return bytes;
}

/* A peer that is stopped holds its claim, which the worker counts. */
ON_PAIR(a_claim_is_counted_until_its_transfer_ends)
{
        const char *offered = region_make(&p->a, 256 << 20, 0);
        const char *local = region_make(&p->b, 256 << 20, 0);
        bool counted = false;

        while (!counted) { /* unless it was complete before its peer stopped */
                OPERATION passive, active;

                offer_make(&p->a, FERRY_READABLE, offered, &passive);
                begin_verified(&p->b, FERRY_READ, local, passive.metadata, &active);
                WAIT_UNTIL(bytes_moved(&p->b, active.id) > 0);
                worker_pause(&p->b);
                WAIT_UNTIL((counted = worker_metric(&p->a, "ferry_claims") == 1) ||
                           json_object_get_boolean(json_member(operation_json(&p->a, passive.id), "done")));
                worker_resume(&p->b);
                operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
                worker_await_metric(&p->a, "ferry_claims", 0);
        }
}

/* Reads of a worker whose name is to be asked of the registry. */
static const char *reads_by_name(const char *region, size_t n)
{
        return list_of(n, text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],"
                                      "\"remote_url\":\"ferry://somebody/op_0123456789abcdef\"}",
                                      region));
}

WITH_WORKER(a_silent_registry_is_asked_so_many_questions_at_once)
{
        enum { MORE = 7 };
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct json_object *results;
        size_t most;

        assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
        assert_int_equal(listen(fd, SOMAXCONN), 0); /* and never accepts */
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        worker_start(w, "w",
                     STRINGS("--registry", text_format("http://127.0.0.1:%u", ntohs(address.sin_port)),
                             "--registry-ttl", "9s")); /* each question may take 3 s */
        worker_expect(w, "registry");
        worker_expect(w, "operation ended");
        most = json_number(call_json(w, 200, "GET", "/v1/limits", NULL), "lookups_max");
        const char *region = region_make(w, 1, 0);
        results = operations_make(w, "", reads_by_name(region, most + MORE), NULL);
        worker_await_metric(w, "ferry_registry_lookups", most);
        for (size_t i = 0; i < most + MORE; i++) {
                struct json_object *result = json_object_array_get_idx(results, i);

                if (i < most)
                        assert_string_equal(json_text(result, "status"), "INITIALIZED");
                else
                        assert_string_equal(json_text(json_member(result, "problem"), "code"), "limit-reached");
        }
        assert_problem(w, "GET", "/v1/peers?registry=1", NULL, 429, "limit-reached", NULL);
        worker_stop(w); /* cancels them */
        (void)close(fd);
}

WITH_WORKER(streams_of_events_are_counted_and_no_more_than_the_limit)
{
        static const char request[] = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
        struct rlimit files;
        struct json_object *limits;
        size_t most;
        int *fds;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = files.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        worker_start(w, "w", (const char *const[]){ "--max-connections", "5000", NULL });
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        most = json_number(limits, "event_readers_max");
        if (files.rlim_max < most + 100 || json_number(limits, "connections_max") < most + 2)
                skip();
        fds = calloc(most, sizeof(*fds));
        assert_non_null(fds);
        for (size_t i = 0; i < most; i++) {
                fds[i] = raw_begin(w, request);
        }
        worker_await_metric(w, "ferry_event_readers", most);
        wire_refused(w, 429, "limit-reached", request);
        for (size_t i = 0; i < most; i++)
                (void)close(fds[i]);
        worker_await_metric(w, "ferry_event_readers", 0);
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        free(fds);
}

/* The last test: the hard limit does not rise again. */
WITH_WORKER(open_files_are_taken_to_the_hard_limit_and_no_further)
{
        const struct rlimit files = { .rlim_cur = 300, .rlim_max = 2000 };
        const char *const flags[] = { "--max-connections", "5000", NULL };
        const char *log;

        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        worker_start(w, "w", flags);
        assert_in_range(json_number(call_json(w, 200, "GET", "/v1/limits", NULL), "connections_max"), 1500, 1999);
        log = worker_log(w);
        assert_non_null(strstr(log, "ulimit -n"));
        assert_non_null(strstr(log, "wanted=5000"));
}
