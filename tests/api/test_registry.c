/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etcd.h"
#include "steps.h"

/* Workers that have names in a real etcd. tests/unit/test_registry*.c have what befalls the registry. */

enum { SIZE = 5000 };

static struct etcd etcd;

#define NEEDS_ETCD()                                                                                                   \
        do {                                                                                                           \
                if (!etcd.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

static void start(struct worker *w, const char *name)
{
        worker_start(w, name, STRINGS("--registry", etcd.url, "--registry-ttl", "10s"));
        worker_expect(w, "name taken in the registry"); /* a busy machine may be late to free it */
}

/* With a lease that runs out soon: a busy machine may be too slow for it, and a worker says so. */
static void start_leased(struct worker *w, const char *name, unsigned ttl_s)
{
        worker_start(w, name, STRINGS("--registry", etcd.url, "--registry-ttl", text_format("%us", ttl_s)));
        worker_expect(w, "registry lease lost");
        worker_expect(w, "registry unreachable");
        worker_expect(w, "name taken in the registry"); /* by itself, until the lease of the one before has expired */
}

static void start_brief(struct worker *w, const char *name)
{
        start_leased(w, name, 2);
}

static void pair_register(struct pair *p)
{
        start(&p->a, "a");
        start(&p->b, "b");
}

WITH_PAIR(a_read_names_the_worker_that_offers)
{
        NEEDS_ETCD();
        pair_register(p);
        for (size_t i = 0; i < 2; i++) {
                OPERATION passive;
                struct json_object *operation;
                const char *offered = region_make(&p->a, SIZE, 1 + i);
                const char *local = region_make(&p->b, SIZE, 0);

                offer_make(&p->a, FERRY_READABLE, offered, &passive);
                const char *url = text_format(i ? "ferry://a/v1/operations/%s/metadata" : "ferry://a/%s", passive.id);
                operation = read_by_url(&p->b, local, url);
                operation_assert_end(&p->b, json_text(operation, "id"), FERRY_COMPLETE, NULL);
                region_assert_pattern(&p->b, local, 1 + i, 0, SIZE);
        }
}

WITH_PAIR(a_worker_is_connected_to_by_name)
{
        struct json_object *answer, *peers, *peer;

        NEEDS_ETCD();
        pair_register(p);
        answer = call_json(&p->b, 201, "POST", "/v1/peers", "{\"url\":\"ferry://a\"}");
        assert_string_equal(json_text(answer, "worker"), "a");
        assert_string_equal(json_text(answer, "url"), "ferry://a");
        answer = call_json(&p->b, 200, "GET", "/v1/peers", NULL);
        peers = json_member(answer, "peers");
        assert_int_equal(json_object_array_length(peers), 1);
        peer = json_member(json_member(json_object_array_get_idx(peers, 0), "addresses"), "http");
        assert_string_equal(json_object_get_string(json_object_array_get_idx(peer, 0)), p->a.url);
}

WITH_PAIR(a_name_that_nobody_has_is_told)
{
        struct json_object *operation;
        OPERATION ended;

        NEEDS_ETCD();
        pair_register(p);
        worker_expect(&p->b, "operation ended");
        const char *local = region_make(&p->b, SIZE, 0);
        operation = read_by_url(&p->b, local, "ferry://nobody/op_0123456789abcdef");
        operation_assert_end(&p->b, json_text(operation, "id"), FERRY_ERRORED, &ended);
        assert_int_equal(ended.error, FERRY_E_PEER_UNREACHABLE);
        assert_string_equal(ended.error_detail, "the registry has no worker named nobody");
        /* The worker is there, the operation is not. */
        operation = read_by_url(&p->b, local, "ferry://a/op_0123456789abcdef");
        operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, FERRY_E_STALE_METADATA);
        assert_problem(&p->b, "POST", "/v1/peers", "{\"url\":\"ferry://nobody\"}", 502, "peer-unreachable", NULL);
}

WITH_PAIR(without_a_registry_names_are_refused)
{
        worker_start(&p->b, "b", NULL);
        const char *local = region_make(&p->b, SIZE, 0);
        assert_problem(&p->b, "POST", "/v1/operations",
                       operation_body("read", local, ",\"remote_url\":\"ferry://a/op_0123456789abcdef\""), 400,
                       "invalid-parameter", "/remote_url");
        assert_problem(&p->b, "POST", "/v1/peers", "{\"url\":\"ferry://a\"}", 400, "invalid-parameter", "/url");
}

WITH_PAIR(the_registry_cannot_widen_allow_peer)
{
        struct json_object *operation;

        NEEDS_ETCD();
        start(&p->a, "a");
        worker_start(&p->b, "b", STRINGS("--registry", etcd.url, "--registry-ttl", "10s", "--allow-peer", "192.0.2.1"));
        worker_expect(&p->b, "operation ended");
        const char *local = region_make(&p->b, SIZE, 0);
        operation = read_by_url(&p->b, local, "ferry://a/op_0123456789abcdef");
        operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, FERRY_E_FORBIDDEN);
}

WITH_WORKER(the_worker_says_how_its_name_stands)
{
        struct json_object *registry;

        NEEDS_ETCD();
        start(w, "a");
        registry = json_member(call_json(w, 200, "GET", "/v1/worker", NULL), "registry");
        assert_string_equal(json_text(registry, "status"), "registered");
        assert_string_equal(json_text(registry, "key"), "/ferry/workers/a");
        assert_int_equal(json_number(registry, "ttl_ms"), 10000);
        worker_await_metric(w, "ferry_registry_registered", 1);
}

WITH_WORKER(a_second_living_worker_of_a_name_does_not_start)
{
        const char *output, *errors;
        int status;

        NEEDS_ETCD();
        start_brief(w, "a");
        status = ferryd_run(
                STRINGS("--listen", "127.0.0.1:0", "--name", "a", "--registry", etcd.url, "--registry-ttl", "2s"),
                &output, &errors);
        assert_int_equal(status, 1);
        assert_string_equal(output, "");
        assert_non_null(strstr(errors, "ferryd: the name a is taken in the registry"));
        assert_non_null(strstr(errors, w->url));
        assert_null(strstr(errors, "level=error"));
}

/* false: the name was free again, or the registry away, when the slow next start asked for it. */
static bool restart_waits(struct worker *w, unsigned ttl_s)
{
        uint64_t began;

        start_leased(w, "a", ttl_s);
        worker_kill(w);
        worker_clean(w);
        began = now_ms();
        start_leased(w, "a", ttl_s);
        assert_true(now_ms() - began < (ttl_s + 8) * 1000 * SLOWNESS); /* on a busy machine */
        return strstr(worker_log(w), "name taken in the registry");
}

WITH_WORKER(a_worker_that_was_killed_gets_its_name_back)
{
        unsigned ttl_s = 2;

        NEEDS_ETCD();
        for (; !restart_waits(w, ttl_s); ttl_s *= 2) {
                assert_true(ttl_s < 8);
                worker_stop(w);
        }
        worker_await_metric(w, "ferry_registry_registered", 1);
}

/* Whether a has its name. */
static bool is_registered(void)
{
        return strstr(etcd_ask(&etcd, "/v3/kv/range", "{\"key\":\"L2ZlcnJ5L3dvcmtlcnMvYQ==\"}"), "\"kvs\"");
}

WITH_WORKER(a_worker_that_stood_still_longer_than_its_lease_registers_again)
{
        NEEDS_ETCD();
        start_brief(w, "a");
        WAIT_UNTIL(is_registered());
        assert_int_equal(kill(w->pid, SIGSTOP), 0);
        WAIT_UNTIL(!is_registered());
        assert_int_equal(kill(w->pid, SIGCONT), 0);
        WAIT_UNTIL(is_registered());
        worker_await_metric(w, "ferry_registry_registered", 1);
}

WITH_WORKER(a_worker_ends_although_its_registry_says_nothing)
{
        uint64_t began;

        NEEDS_ETCD();
        start_brief(w, "a");
        etcd_pause(&etcd);
        began = now_ms();
        worker_stop(w);
        etcd_resume(&etcd);
        assert_true(now_ms() - began < 5000 * SLOWNESS);
        WAIT_UNTIL(!is_registered()); /* its lease has run out */
}

WITH_WORKER(a_worker_that_drains_is_not_found_any_more)
{
        NEEDS_ETCD();
        start(w, "a");
        worker_stop(w);
        assert_false(is_registered());
}

WITH_PAIR(without_its_registry_a_worker_serves)
{
        NEEDS_ETCD();
        start_brief(&p->a, "a");
        start_brief(&p->b, "b");
        etcd_kill(&etcd);
        worker_await_metric(&p->a, "ferry_registry_registered", 0);
        pair_assert_serving(p);
        etcd_start_again(&etcd, false);
        worker_await_metric(&p->a, "ferry_registry_registered", 1);
}

static void start_secure(struct worker *w, const char *name, const char *authority, bool with_certificate)
{
        worker_start(w, name,
                     STRINGS("--registry", etcd.secure_url, "--registry-ttl", "10s", "--registry-ca",
                             tls_path(authority), with_certificate ? "--peer-cert" : NULL, tls_path("server.pem"),
                             "--peer-key", tls_path("server-key.pem")));
}

WITH_PAIR(names_are_kept_over_tls)
{
        struct json_object *operation;

        NEEDS_ETCD();
        start_secure(&p->a, "a", "ca.pem", true);
        start_secure(&p->b, "b", "ca.pem", true);
        worker_await_metric(&p->a, "ferry_registry_registered", 1);
        const char *local = region_make(&p->b, SIZE, 0);
        worker_expect(&p->b, "operation ended");
        operation =
                read_by_url(&p->b, local, "ferry://a/op_0123456789abcdef"); /* which a does not know: it was asked */
        operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, FERRY_E_STALE_METADATA);
}

WITH_WORKER(a_registry_that_nobody_vouches_for_or_that_refuses_us_is_away)
{
        NEEDS_ETCD();
        for (size_t i = 0; i < 2; i++) {
                start_secure(w, "a", i ? "ca.pem" : "other-ca.pem", !i);
                worker_expect(w, "registry unreachable");
                worker_await_metric(w, "ferry_registry_registered", 0);
                assert_problem(w, "GET", "/v1/peers?registry=1", NULL, 502, "peer-unreachable", NULL);
                worker_stop(w);
        }
}

/* ---- the list ---- */

WITH_PAIR(the_registered_workers_are_listed)
{
        struct json_object *answer, *peers, *peer;

        NEEDS_ETCD();
        pair_register(p);
        answer = call_json(&p->b, 200, "GET", "/v1/peers?registry=1", NULL);
        peers = json_member(answer, "peers");
        assert_int_equal(json_object_array_length(peers), 2);
        assert_true(json_number(answer, "revision") > 0);
        peer = json_object_array_get_idx(peers, 0); /* in the order of registration */
        assert_string_equal(json_names(peer), "worker epoch addresses status version started_at");
        assert_string_equal(json_text(peer, "worker"), "a");
        assert_string_equal(json_text(peer, "epoch"), p->a.epoch);
        assert_string_equal(json_text(peer, "status"), "registered");
        assert_string_equal(json_text(json_object_array_get_idx(peers, 1), "worker"), "b");
        /* Two pages. */
        answer = call_json(&p->b, 200, "GET", "/v1/peers?registry=1&limit=1", NULL);
        const char *path = text_format("/v1/peers?registry=1&limit=1&after=%s", json_text(answer, "next"));
        answer = call_json(&p->b, 200, "GET", path, NULL);
        peers = json_member(answer, "peers");
        assert_int_equal(json_object_array_length(peers), 1);
        assert_string_equal(json_text(json_object_array_get_idx(peers, 0), "worker"), "b");
}

WITH_PAIR(a_wait_for_the_list_ends_with_a_change)
{
        struct json_object *answer;
        struct raw_answer raw;
        const char *path;
        int fd;

        NEEDS_ETCD();
        start(&p->a, "a");
        answer = call_json(&p->a, 200, "GET", "/v1/peers?registry=1", NULL);
        path = text_format("/v1/peers?registry=1&wait_ms=50000&revision=%llu",
                           (unsigned long long)json_number(answer, "revision"));
        fd = raw_ask(&p->a, "GET", path);
        start(&p->b, "b");
        raw_receive(fd, false, &raw); /* WAIT_MS is less than the wait */
        assert_int_equal(raw.status, 200);
        assert_non_null(strstr(raw.body, "\"worker\":\"b\""));
        (void)close(fd);
        /* Nothing happens any more. */
        answer = call_json(&p->a, 200, "GET", "/v1/peers?registry=1", NULL);
        path = text_format("/v1/peers?registry=1&wait_ms=50&revision=%llu",
                           (unsigned long long)json_number(answer, "revision"));
        call_json(&p->a, 200, "GET", path, NULL);
        /* A worker that ends does not wait for one. */
        fd = raw_ask(&p->a, "GET", "/v1/peers?registry=1&wait_ms=50000&revision=9007199254740991");
        worker_stop(&p->b);
        worker_stop(&p->a);
        raw = raw_end(fd);
        assert_true(raw.status == 503 || raw.status == 0);
}

WITH_WORKER(the_list_says_when_there_is_no_registry)
{
        worker_start(w, "a", NULL);
        assert_problem(w, "GET", "/v1/peers?registry=1", NULL, 400, "invalid-parameter", NULL);
        assert_problem(w, "GET", "/v1/peers?wait_ms=1", NULL, 400, "invalid-parameter", NULL);
        assert_problem(w, "GET", "/v1/peers?registry=maybe", NULL, 400, "invalid-parameter", NULL);
        worker_stop(w);
        if (!etcd.pid)
                return;
        start_brief(w, "a");
        etcd_kill(&etcd);
        assert_problem(w, "GET", "/v1/peers?registry=1", NULL, 502, "peer-unreachable", NULL);
        etcd_start_again(&etcd, false);
}

/* ---- the ferry command ---- */

WITH_SHARED(ferry_lists_workers_and_fetches_by_name)
{
        struct pair *p = &s->pair;
        const char *ferry = getenv("FERRY");
        const char *output, *errors, *url, *file = text_format("%s/out", s->path);
        OPERATION passive;

        if (!etcd.pid) {
                skip();
        }
        pair_register(p);
        assert_int_equal(command_run(STRINGS(ferry, "--url", p->b.url, "workers"), NULL, &output, &errors), 0);
        assert_non_null(strstr(output, "NAME"));
        assert_non_null(strstr(output, p->a.url));
        assert_non_null(strstr(output, p->b.url));
        const char *offered = region_make(&p->a, SIZE, 1);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        url = text_format("ferry://a/%s", passive.id);
        assert_int_equal(
                command_run(STRINGS(ferry, "--url", p->b.url, "fetch", url, "-o", file), NULL, &output, &errors), 0);
        assert_int_equal(command_run(STRINGS(ferry, "--url", p->b.url, "fetch", "ferry://nobody/op_0123456789abcdef",
                                             "-o", file),
                                     NULL, &output, &errors),
                         1);
        assert_non_null(strstr(errors, "no worker nobody is in the registry"));
}

/* Of another program that writes under the prefix, or of a version that is not known here. */
WITH_WORKER(ferry_tells_of_values_that_are_no_workers)
{
        const char *ferry = getenv("FERRY"), *output, *errors;
        /* {"key":"/ferry/workers/x","value":"y"} and the key alone */
        static const char put[] = "{\"key\":\"L2ZlcnJ5L3dvcmtlcnMveA==\",\"value\":\"eQ==\"}";
        static const char drop[] = "{\"key\":\"L2ZlcnJ5L3dvcmtlcnMveA==\"}";
        struct json_object *page;

        NEEDS_ETCD();
        start(w, "a");
        page = call_json(w, 200, "GET", "/v1/peers?registry=1", NULL);
        assert_false(json_object_object_get_ex(page, "skipped", NULL));
        (void)etcd_ask(&etcd, "/v3/kv/put", put);
        page = call_json(w, 200, "GET", "/v1/peers?registry=1", NULL);
        assert_int_equal(json_number(page, "skipped"), 1);
        for (int json = 0; json < 2; json++) {
                const char *flag = json ? "--json" : NULL;

                assert_int_equal(command_run(STRINGS(ferry, "--url", w->url, "workers", flag), NULL, &output, &errors),
                                 0);
                assert_non_null(strstr(output, w->url));
                assert_string_equal(errors,
                                    json ? "{\"error\":{\"message\":\"the registry has 1 value under its prefix "
                                           "that is no worker's\"}}\n"
                                         : "ferry: the registry has 1 value under its prefix that is no worker's\n");
        }
        (void)etcd_ask(&etcd, "/v3/kv/deleterange", drop);
}

/* Runs until a signal ends it; *ret_output is read from. */
static pid_t ferry_watch(const struct worker *w, int *ret_output)
{
        int out[2];
        pid_t parent = getpid(), pid;

        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(127);
                (void)dup2(out[1], STDOUT_FILENO);
                execl(getenv("FERRY"), "ferry", "--url", w->url, "workers", "--watch", "--json", (char *)NULL);
                _exit(127);
        }
        assert_true(pid > 0);
        (void)close(out[1]);
        *ret_output = out[0];
        return pid;
}

/* Reads lines until one has both texts. */
static void await_line(FILE *lines, const char *event, const char *name)
{
        char line[1024];

        do
                assert_non_null(fgets(line, sizeof(line), lines));
        while (!strstr(line, event) || !strstr(line, name));
}

WITH_PAIR(ferry_watches_workers_come_and_go)
{
        int output, status;
        FILE *lines;
        pid_t pid;

        NEEDS_ETCD();
        start(&p->a, "a");
        pid = ferry_watch(&p->a, &output);
        lines = fdopen(output, "r");
        assert_non_null(lines);
        await_line(lines, "\"event\":\"joined\"", "\"worker\":\"a\"");
        start_brief(&p->b, "b");
        await_line(lines, "\"event\":\"joined\"", "\"worker\":\"b\"");
        worker_kill(&p->b);
        worker_clean(&p->b);
        await_line(lines, "\"event\":\"left\"", "\"worker\":\"b\""); /* its lease has run out */
        assert_int_equal(kill(pid, SIGINT), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        (void)fclose(lines);
}

static int setup(void **state)
{
        (void)state;
        if (etcd_is_here())
                etcd_start(&etcd, getenv("FERRY_TEST_TLS"));
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        etcd_clean(&etcd);
        return 0;
}

TEST_GROUP(setup, teardown)
