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
        char full[32], peer[32]; /* paths of token files */
};

static void remove_file(void *path)
{
        (void)unlink(path);
}

/* A file with a token, which goes with the test. */
static void token_file(char *path, const char *token)
{
        (void)strcpy(path, "/tmp/ferry-test-XXXXXX");
        (void)close(mkstemp(path));
        file_write(path, text_format("%s\n", token));
        test_keep((char *)text_format("%s", path), remove_file);
}

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

static const char *const guarded[][2] = {
        { "GET", "/v1/devices" },
        { "GET", "/v1/limits" },
        { "GET", "/v1/throughput" },
        { "GET", "/v1/regions" },
        { "POST", "/v1/regions" },
        { "GET", "/v1/regions/rgn_0000000000000001" },
        { "DELETE", "/v1/regions/rgn_0000000000000001" },
        { "GET", "/v1/regions/rgn_0000000000000001/content" },
        { "PUT", "/v1/regions/rgn_0000000000000001/content" },
        { "GET", "/v1/operations" },
        { "POST", "/v1/operations" },
        { "GET", "/v1/operations/op_0000000000000001" },
        { "DELETE", "/v1/operations/op_0000000000000001" },
        { "POST", "/v1/operations/op_0000000000000001/cancel" },
        { "POST", "/v1/operations/op_0000000000000001/renew" },
        { "POST", "/v1/peers" },
        { "GET", "/v1/events" },
        { "GET", "/metrics" },
};
enum { GUARDED = sizeof(guarded) / sizeof(guarded[0]) };

#define WITH_SCENE(name) SCENE(struct scene, s, name, (token_file(s->full, FULL), token_file(s->peer, PEER)))

WITH_SCENE(without_the_token_nothing_but_the_open_pages_is_served)
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
        static const char *const open[] = { "/", "/livez", "/readyz", "/openapi.yaml" };
        struct raw_answer answer;

        start(s, &s->a, "a", NULL);
        for (size_t i = 0; i < GUARDED; i++) {
                assert_int_equal(ask(&s->a, guarded[i][0], guarded[i][1], NULL, &answer), 401);
                answer_assert_header(&answer, "WWW-Authenticate", "Bearer"); /* no token: nothing but the scheme */
                answer_assert_problem(&answer, 401, "unauthenticated");
        }
        assert_int_equal(ask(&s->a, "GET", "/v1/operations/op_0000000000000001/metadata", NULL, NULL), 401);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", NULL, NULL), 401);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_int_equal(ask(&s->a, "GET", "/v1/worker", wrong[i], NULL), 401);
        /* No token and a wrong one are told apart. */
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " OTHER, &answer), 401);
        assert_non_null(strstr(answer.body, "The token is not one of this worker's"));
        answer_assert_header(&answer, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", NULL, &answer), 401);
        assert_non_null(strstr(answer.body, "Send the worker's token as Authorization: Bearer"));
        for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
                assert_int_equal(ask(&s->a, "GET", open[i], NULL, NULL), 200);
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
                strangers[i] = raw_connect(&s->a);
                raw_send(strangers[i], request, strlen(request));
                raw_receive(strangers[i], false, &answer);
                assert_int_equal(answer.status, 404);
        }
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " FULL, NULL), 200);
        for (int i = 0; i < CLIENTS; i++)
                (void)close(strangers[i]);
}

WITH_SCENE(the_peer_token_fetches_metadata_and_the_worker_and_nothing_else)
{
        const char *path;
        OPERATION offer;
        struct raw_answer answer;

        start(s, &s->a, "a", NULL);
        const char *region = region_make(&s->a, 4096, 1);
        offer_make(&s->a, FERRY_READABLE, region, &offer);
        path = text_format("/v1/operations/%s/metadata", offer.id);
        assert_int_equal(ask(&s->a, "GET", path, "Bearer " PEER, &answer), 200);
        assert_non_null(strstr(answer.body, "notification_key"));
        assert_int_equal(ask(&s->a, "GET", path, "Bearer " FULL, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", path, "Bearer " OTHER, NULL), 401);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " PEER, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " OTHER, NULL), 401);
        for (size_t i = 0; i < GUARDED; i++) {
                (void)ask(&s->a, guarded[i][0], guarded[i][1], "Bearer " PEER, &answer);
                answer_assert_problem(&answer, 403, "forbidden");
                answer_assert_header(&answer, "WWW-Authenticate", "Bearer error=\"insufficient_scope\"");
        }
}

WITH_SCENE(the_metrics_token_fetches_metrics_and_nothing_else)
{
        struct raw_answer answer;
        char path[32];
        const char *errors;

        token_file(path, OTHER);
        start(s, &s->a, "a", STRINGS("--metrics-token-file", path));
        assert_int_equal(ask(&s->a, "GET", "/metrics", "Bearer " OTHER, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", "/metrics", "Bearer " FULL, NULL), 200);
        assert_int_equal(ask(&s->a, "GET", "/metrics", "Bearer " PEER, NULL), 403);
        assert_int_equal(ask(&s->a, "GET", "/metrics", NULL, NULL), 401);
        assert_int_equal(ask(&s->a, "GET", "/v1/worker", "Bearer " OTHER, NULL), 403);
        for (size_t i = 0; i < GUARDED; i++) {
                if (strcmp(guarded[i][1], "/metrics") == 0)
                        continue;
                (void)ask(&s->a, guarded[i][0], guarded[i][1], "Bearer " OTHER, &answer);
                answer_assert_problem(&answer, 403, "forbidden");
        }
        worker_stop(&s->a);
        assert_int_equal(ferryd_run(STRINGS("--listen", "127.0.0.1:0", "--metrics-token-file", path), NULL, &errors),
                         2);
        assert_non_null(strstr(errors, "needs --token-file"));
        (void)unlink(path);
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
        struct json_object *metadata;
        OPERATION offer;

        start(s, &s->a, "a", STRINGS("--log-level", "debug"));
        start(s, &s->b, "b", STRINGS("--log-level", "debug"));
        const char *region = region_make(&s->a, 4096, 3);
        const char *target = region_make(&s->b, 4096, 0);
        offer_make(&s->a, FERRY_READABLE, region, &offer);
        metadata = json_parse(offer.metadata);
        key = json_text(metadata, "notification_key");
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

WITH_SCENE(peers_that_are_not_allowed_are_not_asked)
{
        OPERATION offer;

        worker_start(&s->a, "a", NULL);
        worker_start(&s->b, "b", STRINGS("--allow-peer", "192.0.2.0/24"));
        const char *region = region_make(&s->a, 4096, 3);
        const char *target = region_make(&s->b, 4096, 0);
        offer_make(&s->a, FERRY_READABLE, region, &offer);
        assert_problem(&s->b, "POST", "/v1/operations", read_body(target, metadata_url(&s->a, offer.id)), 403,
                       "forbidden", NULL);
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
