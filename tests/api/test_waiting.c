/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"
#include "wire.h"

/* Waiting: parked requests, woken by the end, a change, a deletion or the time limit. */

enum { CROWD = 500 };

#define PARKED "ferry_http_waiters"

struct fixture {
        struct pair p;
        const char *region;
        struct ferry_operation operation;
        int fds[CROWD];
};

TEST_KEEPS(operation, struct ferry_operation, ferry_operation_clear)

static void fixture_start(struct fixture *f, const char *const *flags)
{
        worker_start(&f->p.a, "a", flags);
        f->region = region_make(&f->p.a, 100, 0);
        offer_make(&f->p.a, FERRY_READABLE, f->region, &f->operation);
        (void)keep_operation(&f->operation);
}

/* A request for the operation that is on its way; its answer is read later. */
static int ask(struct fixture *f, const char *query)
{
        int fd = raw_ask(&f->p.a, "GET", text_format("/v1/operations/%s%s", f->operation.id, query));

        return fd;
}

static struct json_object *answer_of(int fd, int status)
{
        struct raw_answer answer = raw_end(fd);
        if (answer.status != status)
                print_error("%s%s\n", answer.head, answer.body);
        assert_int_equal(answer.status, status);
        return json_parse(answer.body);
}

static void assert_silent(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        assert_int_equal(poll(&p, 1, 0), 0);
}

#define CASE(name, ...) SCENE(struct fixture, f, name, fixture_start(f, STRINGS(__VA_ARGS__)))

CASE(a_wait_ends_with_the_operation)
{
        struct json_object *object;
        int fd;

        fd = ask(f, "?wait_ms=30000");
        worker_await_metric(&f->p.a, PARKED, 1);
        assert_silent(fd);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        object = answer_of(fd, 200);
        assert_true(json_truth(object, "done"));
        worker_await_metric(&f->p.a, PARKED, 0);
        /* It was over before the wait: answered at once, whatever the revision. */
        object = answer_of(ask(f, "?wait_ms=60000"), 200);
        assert_true(json_truth(object, "done"));
        object = answer_of(ask(f, "?wait_ms=60000&revision=99999"), 200);
        assert_true(json_truth(object, "done"));
}

CASE(a_wait_ends_with_a_change_past_the_revision)
{
        struct json_object *object;
        int done, change, later;

        done = ask(f, "?wait_ms=30000");
        change = ask(f, "?wait_ms=30000&revision=1");
        later = ask(f, "?wait_ms=30000&revision=2");
        worker_await_metric(&f->p.a, PARKED, 3);
        assert_int_equal(ferry_renew_operation(f->p.a.client, f->operation.id, 60000, NULL), 0);
        object = answer_of(change, 200);
        assert_int_equal(json_number(object, "revision"), 2);
        assert_false(json_truth(object, "done"));
        worker_await_metric(&f->p.a, PARKED, 2);
        assert_silent(done);
        assert_silent(later);
        /* It has passed that revision already. */
        object = answer_of(ask(f, "?wait_ms=30000&revision=1"), 200);
        assert_int_equal(json_number(object, "revision"), 2);
        object = answer_of(ask(f, "?wait_ms=30000&revision=0"), 200);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        answer_of(done, 200);
        answer_of(later, 200);
}

CASE(the_time_limit_answers_that_it_is_not_done)
{
        struct json_object *object;
        uint64_t start, took;

        start = now_ms();
        object = answer_of(ask(f, "?wait_ms=50"), 200);
        took = now_ms() - start;
        assert_in_range(took, 50, 5000);
        assert_false(json_truth(object, "done"));
        answer_of(ask(f, "?wait_ms=0"), 200);
}

/* More than the cap is no error: the answer says that it is not done, and one asks again. */
CASE(a_wait_beyond_the_cap_is_taken)
{
        int fd;

        fd = ask(f, "?wait_ms=9007199254740991");
        worker_await_metric(&f->p.a, PARKED, 1);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        answer_of(fd, 200);
}

CASE(prefer_wait_is_the_same)
{
        int fd;

        fd = raw_begin(&f->p.a,
                       text_format("GET /v1/operations/%s HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=20\r\n\r\n",
                                   f->operation.id));
        worker_await_metric(&f->p.a, PARKED, 1);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, "\"done\":true"));
        assert_string_equal(raw_header(&answer, "Preference-Applied"), "wait=20");
}

/* POST of a read whose metadata does not come: the answer waits for its end, which another client brings. */
CASE(a_post_waits_too)
{
        struct worker *b = &f->p.b;
        struct ferry_operation_list list;
        struct json_object *object;
        int fd;

        worker_start(b, "b", NULL);
        const char *local = region_make(b, 100, 0);
        worker_pause(&f->p.a);
        fd = raw_begin(b, json_request("/v1/operations", "Prefer: wait=20\r\n",
                                       read_body(local, metadata_url(&f->p.a, f->operation.id))));
        worker_await_metric(b, PARKED, 1);
        assert_silent(fd);
        assert_int_equal(ferry_list_operations(b->client, NULL, &list), 0);
        assert_int_equal(list.n, 1);
        assert_int_equal(ferry_cancel_operation(b->client, list.items[0].id, NULL), 0);
        object = answer_of(fd, 201);
        assert_string_equal(json_text(object, "status"), "CANCELLED");
        worker_resume(&f->p.a);
        ferry_operation_list_clear(&list);
}

CASE(an_unchanged_operation_is_not_sent_again)
{
        const char *request;

        request = text_format("GET /v1/operations/%s?wait_ms=30 HTTP/1.1\r\nHost: localhost\r\n"
                              "If-None-Match: \"r1\"\r\n\r\n",
                              f->operation.id);
        struct raw_answer answer = raw_exchange(&f->p.a, request);
        assert_int_equal(answer.status, 304);
        assert_int_equal(ferry_renew_operation(f->p.a.client, f->operation.id, 60000, NULL), 0);
        answer = raw_exchange(&f->p.a, request);
        assert_int_equal(answer.status, 200);
}

static void crowd_gather(struct fixture *f)
{
        for (int i = 0; i < CROWD; i++)
                f->fds[i] = ask(f, i % 3 ? "?wait_ms=60000" : "?wait_ms=60000&revision=1");
        worker_await_metric(&f->p.a, PARKED, CROWD);
}

CASE(five_hundred_waiters_hold_no_thread_and_all_wake)
{
        uint64_t threads;

        threads = worker_status_kb(&f->p.a, "Threads");
        assert_true(threads > 0);
        crowd_gather(f);
        assert_int_equal(worker_status_kb(&f->p.a, "Threads"), threads);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        for (int i = 0; i < CROWD; i++) {
                struct json_object *object = answer_of(f->fds[i], 200);

                assert_string_equal(json_text(object, "status"), "CANCELLED");
        }
        worker_await_metric(&f->p.a, PARKED, 0);
}

CASE(waiters_on_a_deleted_operation_hear_that_it_is_gone)
{
        crowd_gather(f);
        assert_int_equal(ferry_delete_operation(f->p.a.client, f->operation.id), 0);
        for (int i = 0; i < CROWD; i++) {
                struct json_object *object = answer_of(f->fds[i], 410);

                assert_string_equal(json_text(object, "code"), "gone");
        }
}

CASE(waiters_that_went_away_are_noticed)
{
        size_t before;

        before = worker_sockets(&f->p.a);
        crowd_gather(f);
        assert_true(worker_sockets(&f->p.a) >= before + CROWD);
        for (int i = 0; i < CROWD; i++)
                (void)close(f->fds[i]);
        worker_await_metric(&f->p.a, PARKED, 0);
        worker_await_sockets(&f->p.a, before + 4); /* our own client's may have come */
        /* The operation is still there for the next. */
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
}

CASE(waiters_are_bounded, "--max-waiters", "3")
{
        for (int i = 0; i < 3; i++)
                f->fds[i] = ask(f, "?wait_ms=60000");
        worker_await_metric(&f->p.a, PARKED, 3);
        assert_problem(&f->p.a, "GET", text_format("/v1/operations/%s?wait_ms=60000", f->operation.id), NULL, 429,
                       "limit-reached", NULL);
        operation_json(&f->p.a, f->operation.id); /* without a wait it is answered */
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        for (int i = 0; i < 3; i++)
                answer_of(f->fds[i], 200);
}

CASE(a_stopping_worker_lets_its_waiters_go)
{
        int fd;

        fd = ask(f, "?wait_ms=60000");
        worker_await_metric(&f->p.a, PARKED, 1);
        worker_stop(&f->p.a); /* asserts that it ended well, without the minute */
        (void)close(fd);
}

/* What else the command does with waits, test_client_cli.c says. */
CASE(the_ferry_command_names_those_of_several_that_are_not_done)
{
        const char *url = f->p.a.url, *first = f->operation.id, *output, *errors;
        OPERATION second;

        offer_make(&f->p.a, FERRY_READABLE, f->region, &second);
        assert_int_equal(
                command_run(STRINGS(getenv("FERRY"), "--url", url, "wait", first, second.id, "--timeout", "50ms"), NULL,
                            NULL, &errors),
                4);
        assert_non_null(strstr(errors, first));
        assert_non_null(strstr(errors, second.id));
        assert_int_equal(ferry_cancel_operation(f->p.a.client, second.id, NULL), 0);
        assert_int_equal(command_run(STRINGS(getenv("FERRY"), "--url", url, "wait", "--any", first, second.id), NULL,
                                     &output, &errors),
                         1);
        assert_non_null(strstr(output, "\"status\":\"INITIALIZED\""));
        assert_non_null(strstr(errors, "cancelled"));
}

/* ---- a proxy, which the test plays ---- */

struct waiting {
        struct ferry *client;
        const char *id;
        int result;
        struct ferry_operation operation;
};

static void *await_operation(void *context)
{
        struct waiting *w = context;

        w->result = ferry_wait_operation(w->client, w->id, FERRY_FOREVER, &w->operation);
        return NULL;
}

/* Passes the next request on to the worker, where it waits. Returns the connection of the client. */
static int pass_on(struct fixture *f, int listener, int *ret_to_worker)
{
        const char *request;
        int fd = accept_request(listener, &request);

        *ret_to_worker = raw_connect(&f->p.a);
        raw_send(*ret_to_worker, request, strlen(request));
        worker_await_metric(&f->p.a, PARKED, 1);
        return fd;
}

CASE(a_wait_goes_on_when_a_proxy_resets_its_connection)
{
        /* What goes on is the wait, not its request. */
        static const struct ferry_options options = { .retries = -1 };
        struct waiting waiting = { 0 };
        pthread_t thread;
        char url[64];
        int listener = listen_somewhere(url, sizeof(url), ""), fd, to_worker;

        waiting.id = f->operation.id;
        assert_int_equal(ferry_new(url, &options, &waiting.client), 0);
        assert_int_equal(pthread_create(&thread, NULL, await_operation, &waiting), 0);
        fd = pass_on(f, listener, &to_worker);
        wire_abort(fd);
        (void)close(to_worker);
        worker_await_metric(&f->p.a, PARKED, 0);
        fd = pass_on(f, listener, &to_worker);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, f->operation.id, NULL), 0);
        struct raw_answer answer = raw_end(to_worker);
        assert_int_equal(answer.status, 200);
        answer.body = text_format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                  answer.body_size, answer.body);
        raw_send(fd, answer.body, strlen(answer.body));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(waiting.result, 0);
        assert_int_equal(waiting.operation.status, FERRY_CANCELLED);
        ferry_operation_clear(&waiting.operation);
        ferry_free(waiting.client);
        (void)close(fd);
        (void)close(listener);
}

/* ---- progress ---- */

/* Revisions of a transfer that moves: each wake shows more, and the last one the end. */
ON_PAIR(progress_can_be_followed)
{
        uint64_t revision = 1, bytes = 0; /* with 0, a wait would be for the end */
        struct running r;
        bool done = false;

        running_start(p, FERRY_READABLE, 64 * STEPS_MIB, 0, &p->a, &r);
        worker_resume(&p->a);
        while (!done) {
                OPERATION now;

                assert_int_equal(ferry_get_operation(p->b.client, r.active, WAIT_MS, revision, &now), 0);
                assert_true(now.revision > revision);
                assert_true(now.bytes_done >= bytes);
                revision = now.revision;
                bytes = now.bytes_done;
                done = now.done;
        }
        assert_int_equal(bytes, 64 * STEPS_MIB);
        operation_assert_end(&p->a, r.passive, FERRY_COMPLETE, NULL);
        running_drop(p, &r);
}
