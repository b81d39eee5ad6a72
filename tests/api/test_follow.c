/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"

/*
 * "follow": a readable whose bytes a running read fills. Worker a is the source and stands still in the middle of what
 * b reads of it; c reads from b what has arrived there.
 */

#define STALL_LIMIT "5s" /* of c, over the network */
enum { SIZE = 32 * STEPS_MIB, SEED = 77, UNANSWERED_MS = 6500 };

struct scene {
        struct pair p;
        struct worker c;
        struct running running;
        struct ferry_operation follower;
        const char *target; /* on c */
        struct ferry_operation read;
};

static void follow(struct scene *s, const char *more, struct ferry_operation *ret_follower)
{
        const char *text = text_format(",\"follow\":\"%s\"%s", s->running.active, more);
        const char *body = operation_body("readable", s->running.local, text);
        struct json_object *made = call_json(&s->p.b, 201, "POST", "/v1/operations?include=metadata", body);

        assert_string_equal(json_text(made, "follow"), s->running.active);
        *ret_follower = (struct ferry_operation){ 0 };
        (void)snprintf(ret_follower->id, sizeof(ret_follower->id), "%s", json_text(made, "id"));
        ret_follower->metadata = strdup(json_object_to_json_string(json_member(made, "metadata")));
}

static void start(struct scene *s, bool network)
{
        static const char *const flags[] = { "--chunk-size", "262144", NULL };
        static const char *const apart[] = {
                "--local", "off",           "--data-listen", "127.0.0.1:0", "--transports", "tcp,self", "--chunk-size",
                "262144",  "--stall-limit", STALL_LIMIT,     NULL
        };

        pair_start_with(&s->p, network, STRINGS("--chunk-size", "262144"));
        worker_start(&s->c, "c", network ? apart : flags);
        running_start_at(&s->p, FERRY_READABLE, SIZE, SEED, &s->p.a, rows_begin(SIZE), &s->running);
}

/* c begins to read, and gets what has arrived. */
static void read_some(struct scene *s)
{
        s->target = region_make(&s->c, SIZE, 0);
        begin_verified(&s->c, FERRY_READ, s->target, s->follower.metadata, &s->read);
        assert_true(operation_await_middle(&s->c, s->read.id));
}

static void drop(struct scene *s)
{
        ferry_operation_clear(&s->follower);
        ferry_operation_clear(&s->read);
        region_drop(&s->c, s->target);
}

static void stop(struct scene *s)
{
        worker_stop(&s->c);
        pair_stop(&s->p);
}

/* Two readers of one follower, of which one comes late; and a follower of a part. */
#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(followers_get_what_arrives_and_then_the_rest)
{
        struct ferry_operation second, part;
        const char *other;

        for (int network = 0; network < 2; network++) {
                start(s, network);
                follow(s, ",\"uses\":2", &s->follower);
                read_some(s);
                worker_resume(&s->p.a);
                other = region_make(&s->c, SIZE, 0);
                begin_make(&s->c, FERRY_READ, other, s->follower.metadata, &second);
                operation_assert_end(&s->c, s->read.id, FERRY_COMPLETE, NULL);
                operation_assert_end(&s->c, second.id, FERRY_COMPLETE, NULL);
                operation_assert_end(&s->p.b, s->running.active, FERRY_COMPLETE, NULL);
                operation_assert_end(&s->p.b, s->follower.id, FERRY_COMPLETE, NULL);
                region_assert_pattern(&s->c, s->target, SEED, 0, SIZE);
                region_assert_pattern(&s->c, other, SEED, 0, SIZE);
                ferry_operation_clear(&second);
                follow(s, "", &part); /* what is complete */
                begin_make(&s->c, FERRY_READ, other, part.metadata, &second);
                operation_assert_end(&s->c, second.id, FERRY_COMPLETE, NULL);
                ferry_operation_clear(&second);
                ferry_operation_clear(&part);
                region_drop(&s->c, other);
                drop(s);
                running_drop(&s->p, &s->running);
                stop(s);
        }
}

/* c reads PART bytes of the follower from offset on; the read's id. */
enum { PART = 64 * STEPS_KIB };

static const char *read_part(struct scene *s, uint64_t offset)
{
        const char *more = text_format(",\"remote\":[{\"offset\":%llu,\"size\":%d}],\"remote_metadata\":%s",
                                       (unsigned long long)offset, PART, s->follower.metadata);
        const char *region = region_make(&s->c, PART, 0);

        return json_text(call_json(&s->c, 201, "POST", "/v1/operations", operation_body("read", region, more)), "id");
}

static void assert_part(struct scene *s, const char *id, uint64_t offset)
{
        static uint8_t wanted[PART], there[PART];
        OPERATION end;

        operation_assert_end(&s->c, id, FERRY_COMPLETE, &end);
        pattern_fill(SEED, offset, wanted, PART);
        assert_int_equal(ferry_get_region_content(s->c.client, end.descriptors[0].region, 0, there, PART, NULL), 0);
        assert_memory_equal(there, wanted, PART);
}

/* The first part is read from end to end while the source stands still. */
WITH_SCENE(a_part_that_has_arrived_is_read_and_another_awaited)
{
        struct json_object *now;
        const char *first, *last;

        start(s, false);
        follow(s, ",\"uses\":2", &s->follower);
        first = read_part(s, 0);
        last = read_part(s, SIZE - PART);
        assert_part(s, first, 0);
        assert_false(json_truth(operation_json(&s->p.b, s->running.active), "done"));
        assert_false(json_truth(operation_json(&s->c, last), "done"));
        worker_resume(&s->p.a);
        assert_part(s, last, SIZE - PART);
        WAIT_UNTIL(json_truth(now = operation_json(&s->p.b, s->follower.id), "done"));
        assert_string_equal(json_text(now, "status"), "COMPLETE");
        assert_int_equal(json_number(now, "bytes_done"), PART);
        ferry_operation_clear(&s->follower);
        running_drop(&s->p, &s->running);
        stop(s);
}

static void assert_names_source(struct scene *s, const char *id, int error)
{
        OPERATION end;

        operation_assert_end(&s->p.b, id, error == FERRY_E_CANCELLED ? FERRY_CANCELLED : FERRY_ERRORED, &end);
        assert_int_equal(end.error, error);
        assert_non_null(strstr(end.error_detail, s->running.active));
}

/* Nobody else has used it, although a reader may have begun. */
static void assert_content_gone(struct scene *s, const char *id, const char *key)
{
        call_json_with(&s->p.b, 410, "GET", text_format("/v1/operations/%s/content", id), NULL, STRINGS(key));
}

WITH_SCENE(the_end_of_a_source_is_that_of_its_followers)
{
        struct ferry_operation idle, cancelled;
        const char *key, *idle_key;

        for (int killed = 0; killed < 2; killed++) {
                int error = killed ? FERRY_E_PEER_LOST : FERRY_E_CANCELLED;

                start(s, false);
                pair_expect_failures(&s->p);
                worker_expect(&s->p.b, "peer-lost");
                worker_expect(&s->c, "peer-lost");
                follow(s, "", &s->follower);
                follow(s, "", &idle);
                key = operation_bearer(&s->p.b, s->follower.id);
                idle_key = operation_bearer(&s->p.b, idle.id);
                read_some(s);
                if (killed) {
                        worker_kill(&s->p.a);
                } else {
                        assert_int_equal(ferry_cancel_operation(s->p.b.client, s->running.active, &cancelled), 0);
                        ferry_operation_clear(&cancelled);
                }
                assert_names_source(s, s->follower.id, error);
                assert_names_source(s, idle.id, error);
                assert_content_gone(s, s->follower.id, key);
                assert_content_gone(s, idle.id, idle_key);
                operation_assert_error(&s->c, s->read.id, killed ? FERRY_ERRORED : FERRY_CANCELLED,
                                       killed ? FERRY_E_PEER_LOST : FERRY_E_CANCELLED_BY_PEER);
                operation_assert_error(&s->p.b, s->running.active, killed ? FERRY_ERRORED : FERRY_CANCELLED, error);
                ferry_operation_clear(&idle);
                drop(s);
                if (!killed)
                        worker_resume(&s->p.a);
                worker_stop(&s->c);
                worker_stop(&s->p.b);
                if (!killed)
                        worker_stop(&s->p.a);
        }
}

/* The reader's limit is shorter than the source stands still. Its other end lives, and says so once a second. */
WITH_SCENE(a_held_request_is_no_stall)
{
        OPERATION now;

        start(s, true);
        follow(s, "", &s->follower);
        read_some(s);
        pass_time(UNANSWERED_MS);
        assert_int_equal(ferry_get_operation(s->c.client, s->read.id, 0, 0, &now), 0);
        assert_false(now.done);
        worker_resume(&s->p.a);
        operation_assert_end(&s->c, s->read.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(&s->c, s->target, SEED, 0, SIZE);
        drop(s);
        stop(s);
}

WITH_SCENE(a_follower_that_ends_leaves_its_source_alone)
{
        OPERATION end;

        start(s, false);
        follow(s, "", &s->follower);
        read_some(s);
        assert_int_equal(ferry_cancel_operation(s->p.b.client, s->follower.id, &end), 0);
        operation_assert_error(&s->c, s->read.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        operation_assert_error(&s->p.b, s->follower.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
        ferry_operation_clear(&s->follower);
        ferry_operation_clear(&s->read);
        follow(s, "", &s->follower); /* and its reader's death costs that follower only */
        begin_verified(&s->c, FERRY_READ, s->target, s->follower.metadata, &s->read);
        assert_true(operation_await_middle(&s->c, s->read.id));
        worker_expect(&s->p.b, "peer-lost");
        worker_kill(&s->c);
        operation_assert_error(&s->p.b, s->follower.id, FERRY_ERRORED, FERRY_E_PEER_LOST);
        worker_resume(&s->p.a);
        operation_assert_end(&s->p.b, s->running.active, FERRY_COMPLETE, NULL);
        region_assert_pattern(&s->p.b, s->running.local, SEED, 0, SIZE);
        ferry_operation_clear(&s->follower);
        ferry_operation_clear(&s->read);
}

/* A range that is there is answered at once, another one when it is. No more may be there than the first piece. */
WITH_SCENE(content_of_a_follower_waits_for_its_range)
{
        uint8_t *pattern = malloc(SIZE);
        const char *path, *ask;
        struct raw_answer answer;
        int kept, fd;

        start(s, false);
        follow(s, ",\"uses\":2", &s->follower);
        read_some(s);
        path = text_format("/v1/operations/%s/content", s->follower.id);
        const char *key = operation_bearer(&s->p.b, s->follower.id);
        ask = text_format("GET %s HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-255\r\n"
                          "Ferry-Worker: 0123456789abcdef d\r\nFerry-Transfer: xfr_0123456789abcdef\r\n%s\r\n\r\n",
                          path, key);
        kept = raw_begin(&s->p.b, ask); /* stays open: a worker without a connection has left after 5 s */
        raw_receive(kept, false, &answer);
        assert_int_equal(answer.status, 206);
        pattern_fill(SEED, 0, pattern, SIZE);
        assert_memory_equal(answer.body, pattern, 256);
        ask = text_format("GET %s HTTP/1.1\r\nHost: localhost\r\nRange: bytes=256-\r\n"
                          "Ferry-Transfer: xfr_0123456789abcdef\r\n%s\r\n\r\n",
                          path, key);
        fd = raw_begin(&s->p.b, ask);
        worker_await_metric(&s->p.b, "ferry_http_waiters", 1);
        (void)shutdown(fd, SHUT_WR); /* it gives up; libmicrohttpd may see the end first, and close */
        answer = raw_end(fd);
        assert_true(answer.status == 0 || answer.status == 410);
        worker_await_metric(&s->p.b, "ferry_http_waiters", 0);
        fd = raw_begin(&s->p.b, ask);
        worker_await_metric(&s->p.b, "ferry_http_waiters", 1);
        worker_resume(&s->p.a);
        answer = raw_end(fd);
        assert_int_equal(answer.status, 206);
        assert_int_equal(answer.body_size, SIZE - 256);
        assert_memory_equal(answer.body, pattern + 256, SIZE - 256);
        call_json_with(&s->p.b, 200, "DELETE", path, NULL, STRINGS("Ferry-Transfer: xfr_0123456789abcdef", key));
        (void)close(kept);
        operation_assert_end(&s->c, s->read.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&s->p.b, s->follower.id, FERRY_COMPLETE, NULL);
        free(pattern);
        drop(s);
        stop(s);
}

/* The HTTP thread may be resumed before the engine has ended the transfer of the other reader, or after. */
WITH_SCENE(a_deleted_follower_is_gone_for_requests_that_wait)
{
        struct raw_answer answer;

        start(s, true);
        for (int i = 0; i < 20; i++) {
                follow(s, ",\"uses\":2", &s->follower);
                read_some(s);
                int fd = raw_begin(
                        &s->p.b, text_format("GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n",
                                             s->follower.id, operation_bearer(&s->p.b, s->follower.id)));
                worker_await_metric(&s->p.b, "ferry_http_waiters", 1);
                assert_int_equal(ferry_delete_operation(s->p.b.client, s->follower.id), 0);
                answer = raw_end(fd);
                assert_int_equal(answer.status, 410);
                operation_assert_error(&s->c, s->read.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
                drop(s);
        }
        worker_resume(&s->p.a);
        stop(s);
}

/* Workers that reach each other over HTTP alone. */
WITH_SCENE(a_chain_of_http_holds_too)
{
        static const char *const apart[] = { "--local", "off", NULL };
        static const char warning[] = "no transport but HTTP";

        pair_start_with(&s->p, false, apart);
        worker_start(&s->c, "c", apart);
        worker_expect(&s->p.a, warning);
        worker_expect(&s->p.b, warning);
        worker_expect(&s->c, warning);
        running_start(&s->p, FERRY_READABLE, SIZE, SEED, &s->p.a, &s->running);
        follow(s, "", &s->follower);
        s->target = region_make(&s->c, SIZE, 0);
        begin_verified(&s->c, FERRY_READ, s->target, s->follower.metadata, &s->read);
        WAIT_UNTIL(worker_metric(&s->p.b, "ferry_http_waiters") > 0);
        worker_resume(&s->p.a);
        operation_assert_end(&s->c, s->read.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&s->p.b, s->follower.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(&s->c, s->target, SEED, 0, SIZE);
        drop(s);
        stop(s);
}

WITH_SCENE(what_cannot_be_followed_is_refused)
{
        static const struct {
                const char *kind, *follow; /* NULL: the read */
                int status;
                const char *code;
        } rows[] = { { "readable", "\"op_0123456789abcdef\"", 404, "not-found" },
                     { "readable", "\"nothing\"", 404, "not-found" },
                     { "readable", "7", 400, "invalid-parameter" },
                     { "writable", NULL, 400, "invalid-parameter" } };
        const char *other;
        const char *body, *more;
        struct ferry_operation end;

        start(s, false);
        pair_expect_failures(&s->p);
        more = text_format(",\"follow\":\"%s\"", s->running.active);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                body = rows[i].follow ? text_format(",\"follow\":%s", rows[i].follow) : more;
                assert_problem(&s->p.b, "POST", "/v1/operations", operation_body(rows[i].kind, s->running.local, body),
                               rows[i].status, rows[i].code, "/follow");
        }
        other = region_make(&s->p.b, SIZE, 0);
        body = operation_body("readable", other, more);
        assert_problem(&s->p.b, "POST", "/v1/operations", body, 400, "out-of-bounds", "/descriptors");
        follow(s, "", &s->follower);
        body = text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}],\"follow\":\"%s\"}",
                           s->running.local, s->follower.id);
        assert_problem(&s->p.b, "POST", "/v1/operations", body, 409, "kind-mismatch", "/follow");
        assert_int_equal(ferry_cancel_operation(s->p.b.client, s->running.active, &end), 0);
        ferry_operation_clear(&end);
        operation_assert_error(&s->p.b, s->running.active, FERRY_CANCELLED, FERRY_E_CANCELLED);
        body = operation_body("readable", s->running.local, more);
        assert_problem(&s->p.b, "POST", "/v1/operations", body, 410, "gone", "/follow");
        ferry_operation_clear(&s->follower);
        worker_resume(&s->p.a);
        stop(s);
}
