/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

/* Tokens: who may do what, and that secrets stay where they are. */

#define FULL "full-token-0123456789abcdef"
#define PEER "peer-token-0123456789abcdef"
#define OTHER "some-token-0123456789abcdef"

struct scene {
        struct worker a, b;
        const char *full, *peer; /* paths of token files */
};

/* A worker with both tokens, and more flags; its client has the full one. */
static void start(struct scene *s, struct worker *w, const char *name, const char *const *more)
{
        const char *flags[32] = { "--listen", "127.0.0.1:0", "--token-file", s->full, "--peer-token-file", s->peer };

        for (size_t i = 6; more && *more; i++)
                flags[i] = *more++;
        worker_start_plain(w, name, flags);
        worker_connect(w, NULL, &(struct ferry_options){ .token = FULL });
}

/* The status of a request with an Authorization header (NULL = without one). */
static int ask(const struct worker *w, const char *method, const char *target, const char *authorization,
               struct raw_answer *ret_answer)
{
        int status;

        struct raw_answer answer =
                wire_ask(w, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n", method, target,
                         authorization ? "Authorization: " : "", authorization ?: "", authorization ? "\r\n" : "");
        status = answer.status;
        if (ret_answer)
                *ret_answer = answer;
        return status;
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, (s->full = file_make(FULL "\n"), s->peer = file_make(PEER "\n")))

/* Which operation takes which token, tests/openapi/check_parameters.py says. */
WITH_SCENE(what_is_no_token_is_told)
{
        static const char *const wrong[] = { NULL,
                                             "Bearer",
                                             "Bearer " OTHER,
                                             "Bearer " FULL "x",
                                             "Bearer full-token-0123456789abcde",
                                             "Basic " FULL,
                                             "Bearer ",
                                             FULL,
                                             "Bearer " FULL " " FULL };
        struct raw_answer answer;

        start(s, &s->a, "a", NULL);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_int_equal(ask(&s->a, "GET", "/v1/worker", wrong[i], NULL), 401);
        /* No token and a wrong one are told apart. */
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " OTHER, &answer), 401);
        assert_non_null(strstr(answer.body, "The token is not one of this worker's"));
        answer_assert_header(&answer, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", NULL, &answer), 401);
        assert_non_null(strstr(answer.body, "Send the worker's token as Authorization: Bearer"));
        answer_assert_header(&answer, "WWW-Authenticate", "Bearer"); /* nothing but the scheme */
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " FULL, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "bearer " FULL, NULL), 200); /* the scheme has no case */
}

/* A token in the URL would stand in every log on the way. */
WITH_SCENE(a_token_in_the_query_is_no_token)
{
        start(s, &s->a, "a", NULL);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker?token=" FULL, NULL, NULL), 401);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker?access_token=" FULL, NULL, NULL), 401);
}

/* At the limit, idle connections without a token go first; what looks like a key is none. */
WITH_SCENE(a_made_up_key_holds_no_connection)
{
        enum { CLIENTS = 8 };
        static const char request[] = "GET /v1/operations/op_0000000000000001/content HTTP/1.1\r\nHost: localhost\r\n"
                                      "Authorization: Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n\r\n";
        struct raw_answer answer;
        int strangers[CLIENTS];

        start(s, &s->a, "a", STRINGS("--max-connections", "4", "--http-threads", "1"));
        for (int i = 0; i < CLIENTS; i++) {
                strangers[i] = raw_begin(&s->a, request);
                raw_receive(strangers[i], false, &answer);
                assert_int_equal(answer.status, 404);
        }
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " FULL, NULL), 200);
        for (int i = 0; i < CLIENTS; i++)
                (void)close(strangers[i]);
}

WITH_SCENE(a_token_for_less_is_told_so)
{
        struct raw_answer answer;
        const char *errors, *path = file_make(OTHER "\n");

        start(s, &s->a, "a", STRINGS("--metrics-token-file", path));
        assert_int_equal(ask(&s->a, "GET", "/v1/limits", "Bearer " PEER, &answer), 403);
        answer_assert_header(&answer, "WWW-Authenticate", "Bearer error=\"insufficient_scope\"");
        assert_int_equal(ask(&s->a, "GET", "/metrics", "Bearer " OTHER, NULL), 200);
        worker_stop(&s->a);
        assert_int_equal(ferryd_run(STRINGS("--listen", "127.0.0.1:0", "--metrics-token-file", path), NULL, &errors),
                         2);
        assert_non_null(strstr(errors, "needs --token-file"));
}

WITH_SCENE(workers_with_the_peer_token_fetch_from_each_other)
{
        OPERATION offer, read;
        struct ferry_peer peer;

        start(s, &s->a, "a", NULL);
        start(s, &s->b, "b", NULL);
        assert_int_equal(ferry_connect_peer(s->b.client, s->a.url, &peer), 0);
        ferry_peer_clear(&peer);
        const char *region = region_make(&s->a, 77777, 3);
        const char *target = region_make(&s->b, 77777, 0);
        offer_make(&s->a, FERRY_READABLE, region, &offer);
        const struct ferry_operation_spec spec = { .kind = FERRY_READ,
                                                   .descriptors = &(struct ferry_descriptor){ .region = target },
                                                   .n_descriptors = 1,
                                                   .remote_url = metadata_url(&s->a, offer.id) };
        assert_int_equal(ferry_create_operation(s->b.client, &spec, &read), 0);
        operation_assert_end(&s->b, read.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(&s->b, target, 3, 0, 77777);
        ferry_operation_clear(&offer);
        worker_stop(&s->b);

        /* One without it is told so. */
        offer_make(&s->a, FERRY_READABLE, region, &offer);
        worker_start(&s->b, "b", NULL);
        worker_expect(&s->b, "msg=\"operation ended\"");
        assert_int_equal(ferry_connect_peer(s->b.client, s->a.url, &peer), FERRY_E_PEER_REFUSED);
        target = region_make(&s->b, 77777, 0);
        const char *id = json_text(read_by_url(&s->b, target, metadata_url(&s->a, offer.id)), "id");
        operation_assert_error(&s->b, id, FERRY_ERRORED, FERRY_E_PEER_REFUSED);
        region_assert_pattern(&s->b, target, 0, 0, 77777);
}

WITH_SCENE(no_secret_stands_in_a_log)
{
        const char *id, *key, *log;
        OPERATION offer;

        start(s, &s->a, "a", STRINGS("--log-level", "debug"));
        start(s, &s->b, "b", STRINGS("--log-level", "debug"));
        const char *region = region_make(&s->a, 4096, 3);
        const char *target = region_make(&s->b, 4096, 0);
        offer_make(&s->a, FERRY_READABLE, region, &offer);
        key = json_text(json_parse(offer.metadata), "notification_key");
        (void)ask(&s->a, "GET", "/v1/worker", "Bearer " OTHER, NULL);
        id = json_text(read_by_url(&s->b, target, metadata_url(&s->a, offer.id)), "id");
        operation_assert_end(&s->b, id, FERRY_COMPLETE, NULL);
        for (int i = 0; i < 2; i++) {
                const char *secrets[] = { FULL, PEER, OTHER, key };

                log = worker_log(i ? &s->b : &s->a);
                assert_true(strlen(log) > 0);
                for (size_t k = 0; k < 4; k++)
                        assert_null(strstr(log, secrets[k]));
        }
}

WITH_SCENE(token_files_are_looked_at_closely)
{
        const char *errors;

        /* The same token for both would make every peer an owner. */
        assert_int_equal(
                ferryd_run(STRINGS("--listen", "127.0.0.1:0", "--token-file", s->full, "--peer-token-file", s->full),
                           NULL, &errors),
                2);
        assert_non_null(strstr(errors, "the same token"));
        /* Others who can read it are worth a warning. */
        assert_int_equal(chmod(s->full, 0644), 0);
        start(s, &s->a, "a", NULL);
        worker_expect(&s->a, "token file readable by other users");
        errors = worker_log(&s->a);
        assert_non_null(strstr(errors, "token file readable by other users"));
}

WITH_SCENE(a_token_that_can_be_guessed_is_refused)
{
        const char *errors;

        file_write(s->peer, "0123456789abcde\n");
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(ferryd_run(STRINGS("--listen", "127.0.0.1:0", i ? "--token-file" : "--peer-token-file",
                                                    s->peer),
                                            NULL, &errors),
                                 2);
                assert_non_null(strstr(errors, "at least 16 characters"));
                assert_non_null(strstr(errors, "--no-auth"));
        }
        file_write(s->peer, "0123456789abcdef\n");
        start(s, &s->a, "a", NULL);
        /* Nor does a running worker take one. */
        worker_expect(&s->a, "reloading tokens and certificates failed");
        file_write(s->full, "0123456789abcde\n");
        worker_hang_up(&s->a, "reloading tokens and certificates failed", 1);
        assert_int_equal(ask(&s->a, "GET", "/v1/regions", "Bearer " FULL, NULL), 200);
}

/* Whoever listens to everybody must say who may come; 0.0.0.0 is not opened here. */
TEST(beyond_loopback_a_token_is_demanded)
{
        static const char *const everywhere[] = { "0.0.0.0:0", "[::]:0", "192.0.2.1:0" };
        const char *errors;

        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(ferryd_run(STRINGS("--listen", everywhere[i]), NULL, &errors), 2);
                assert_non_null(strstr(errors, "--token-file"));
                assert_non_null(strstr(errors, "--no-auth"));
        }
        /* One loopback listener does not excuse the other one. */
        assert_int_equal(ferryd_run(STRINGS("--listen", "127.0.0.1:0", "--listen", "0.0.0.0:0"), NULL, &errors), 2);
}

WITH_SCENE(tokens_are_read_anew_at_a_hangup)
{
        start(s, &s->a, "a", NULL);
        file_write(s->full, OTHER "\n");
        assert_int_equal(ask(&s->a, "GET", "/v1/regions", "Bearer " FULL, NULL), 200);
        worker_hang_up(&s->a, "tokens and certificates reloaded", 1);
        assert_int_equal(ask(&s->a, "GET", "/v1/regions", "Bearer " FULL, NULL), 401);
        assert_int_equal(ask(&s->a, "GET", "/v1/regions", "Bearer " OTHER, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " PEER, NULL), 200);
        /* Nothing changes with a file that is no good. */
        worker_expect(&s->a, "reloading tokens and certificates failed");
        file_write(s->full, PEER "\n");
        worker_hang_up(&s->a, "reloading tokens and certificates failed", 1);
        file_write(s->full, "");
        worker_hang_up(&s->a, "reloading tokens and certificates failed", 2);
        assert_int_equal(ask(&s->a, "GET", "/v1/regions", "Bearer " OTHER, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", "/v1/regions", "Bearer " PEER, NULL), 403);
}
