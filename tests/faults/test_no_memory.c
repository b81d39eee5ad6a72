/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ferryd_start.h"
#include "wire.h"

/* Each allocation fails once, in its turn: the worker says so in a line and ends, or serves. It never dies of it. */

enum { SIZE = 100000, IN_A_ROW = 3 };

static const char *const quiet[] = { "--listen", "127.0.0.1:0", "--name", "w", NULL };

WITH_WORKER(a_start_without_memory_fails_in_a_line)
{
        struct failing *failing;
        size_t n_failed = 0, n_named = 0, at = 1;

        if (SANITIZED) /* whose allocator has allocations of its own */
                skip();
        failing = failing_share(true);
        for (;; at += at < 20 ? 1 : sweep_step(29)) {
                struct ferryd_start start;

                failing->memory_failed = 0;
                failing->memory_at = (long)at;
                ferryd_start(quiet, NULL, NULL, false, &start);
                failing->memory_at = 0;
                n_failed += !start.ready;
                if (strstr(start.errors, "started: Cannot allocate memory")) {
                        assert_non_null(strstr(start.errors, "ulimit -v")); /* the limits that may be the cause */
                        n_named++;
                }
                bool came = failing->memory_failed > 0;
                ferryd_start_clear(&start);
                if (!came) /* the whole life of a worker has fewer */
                        break;
        }
        print_message("%zu allocations, %zu starts refused\n", at, n_failed);
        assert_in_range(n_failed, 5, at);
        assert_true(n_named > 0);
        (void)failing_share(false);
}

/* ---- a worker that lives through it ---- */

/* All that comes back, at most size - 1 bytes; "" when the worker had no memory for so much as a connection. */
static void exchange(struct worker *w, const char *request, char *ret_answer, size_t size)
{
        int fd = raw_connect(w);
        size_t n = 0;
        ssize_t r = send(fd, request, strlen(request), MSG_NOSIGNAL);

        while (r > 0 && (r = recv(fd, ret_answer + n, size - 1 - n, 0)) > 0)
                n += (size_t)r;
        ret_answer[n] = '\0';
        (void)close(fd);
}

/*
 * One request, and the text of the answer; NULL when there is no memory for an answer, or it is a refusal, which must
 * then say so.
 */
static char *ask(struct worker *w, const char *method, const char *path, const char *body)
{
        static char answer[1 << 20];
        const char *request = text_format("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                          "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                                          method, path, strlen(body), body);

        exchange(w, request, answer, sizeof(answer));
        if (strstr(answer, "HTTP/1.1 2") == answer)
                return strdup(answer);
        if (*answer && strncmp(answer, "HTTP/1.1 507 ", 13) != 0 && strncmp(answer, "HTTP/1.1 503 ", 13) != 0)
                fail_msg("%s %s → %s", method, path, answer);
        return NULL;
}

/* The value of the first "name":"…" of a text. false: no text, or it is not there. */
static bool pick(const char *text, const char *name, char *ret_value, size_t size)
{
        const char *wanted = text_format("\"%s\":\"", name);
        const char *start = text ? strstr(text, wanted) : NULL;

        if (start)
                (void)snprintf(ret_value, size, "%.*s", (int)strcspn(start + strlen(wanted), "\""),
                               start + strlen(wanted));
        return start != NULL;
}

static bool make_region(struct worker *w, char id[FERRY_ID_SIZE])
{
        const char *body = text_format("{\"size\":%d}", SIZE);
        char *answer = ask(w, "POST", "/v1/regions", body);
        bool made = pick(answer, "id", id, FERRY_ID_SIZE);

        free(answer);
        return made;
}

/* Two regions, an offer, a read of it by the worker itself, lists and metrics: as far as it gets. */
static void run_cycle(struct worker *w)
{
        char source[FERRY_ID_SIZE], target[FERRY_ID_SIZE], offer[FERRY_ID_SIZE], read[FERRY_ID_SIZE];
        const char *body, *path;

        if (!make_region(w, source) || !make_region(w, target))
                return;
        path = text_format("/v1/regions/%s/content", source);
        free(ask(w, "PUT", path, ""));
        body = operation_body("readable", source, "");
        char *answer = ask(w, "POST", "/v1/operations?include=metadata", body);
        char *metadata = answer ? strstr(answer, "\"metadata\":") : NULL;
        if (metadata && pick(answer, "id", offer, sizeof(offer))) {
                const char *members =
                        text_format(",\"remote_%.*s", (int)(strrchr(metadata, '}') - metadata - 1), metadata + 1);
                body = operation_body("read", target, members);
                char *begun = ask(w, "POST", "/v1/operations", body);

                if (pick(begun, "id", read, sizeof(read))) {
                        path = text_format("/v1/operations/%s?wait_ms=10000", read);
                        free(ask(w, "GET", path, ""));
                }
                free(begun);
        }
        free(answer);
        path = text_format("/v1/regions/%s/content", target);
        free(ask(w, "GET", path, ""));
        free(ask(w, "GET", "/v1/operations", ""));
        free(ask(w, "GET", "/v1/peers", ""));
        free(ask(w, "GET", "/metrics", ""));
}

/* An operation that was deleted while it ran has its regions until it is quiet. */
static bool region_goes(struct worker *w, const char *region)
{
        int error = ferry_delete_region(w->client, region);

        assert_true(error == 0 || error == FERRY_E_REGION_IN_USE);
        return error == 0;
}

/* Deletes what the cycle has left; with memory again, all of that works, and every operation ends. */
static void sweep_up(struct worker *w)
{
        static const char *const lists[][2] = { { "/v1/operations", "operations" }, { "/v1/regions", "regions" } };

        for (int i = 0; i < 2; i++) {
                struct json_object *answer = call_json(w, 200, "GET", lists[i][0], NULL);
                struct json_object *list = json_member(answer, lists[i][1]);

                for (size_t j = 0; j < json_object_array_length(list); j++) {
                        const char *id = json_text(json_object_array_get_idx(list, j), "id");

                        if (i == 0)
                                assert_int_equal(ferry_delete_operation(w->client, id), 0);
                        else
                                WAIT_UNTIL(region_goes(w, id));
                }
        }
        worker_await_metric(w, "ferry_regions", 0);
}

WITH_WORKER(a_worker_without_memory_lives_on)
{
        struct failing *failing;
        size_t at = 1, descriptors;
        bool came = true;

        if (SANITIZED)
                skip();
        failing = failing_share(true);
        worker_start(w, "w", NULL);
        worker_expect(w, "level=warn");
        worker_expect(w, "level=error");
        run_cycle(w);
        sweep_up(w);
        descriptors = worker_descriptors(w);
        for (; came; at += at < 10 ? 1 : sweep_step(13)) {
                failing->memory_failed = 0;
                failing->memory_fails = at % 2 ? 1 : IN_A_ROW;
                failing->memory_at = (long)at;
                run_cycle(w);
                came = failing->memory_failed > 0;
                failing->memory_at = 0;
                sweep_up(w);
        }
        print_message("%zu allocations\n", at);
        worker_assert_serving(w);
        WAIT_UNTIL(worker_descriptors(w) <= descriptors + 8); /* it closes what clients have closed */
        worker_stop(w);
        (void)failing_share(false);
}
