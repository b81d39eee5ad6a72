/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nats.h"

/* Metadata over NATS: what is fetched, and what is refused. */

enum { LOOK_MS = 20 };

WITH_SHARED(a_file_is_fetched_by_metadata_that_came_over_nats)
{
        struct bridge bridge;

        NEEDS_NATS();
        pair_start(&s->pair, false);
        bridge = nats_bridge(&s->pair.a, NULL);
        nats_assert_fetched(s, nats.url);
        nats_bridge_end(&bridge);
}

TEST(a_request_with_nobody_there_fails_at_once)
{
        const char *url = text_format("%s/nobody/op_0123456789abcdef", nats.url);
        const uint64_t began = now_ms();

        NEEDS_NATS();
        nats_assert_asks(url, 1, "nobody answers for worker nobody");
        assert_true(now_ms() - began < 4500 * SLOWNESS); /* a request may take five seconds */
}

WITH_WORKER(what_the_worker_refuses_is_told)
{
        struct bridge bridge;
        char answer[NATS_LINE_SIZE];
        const char *url;

        NEEDS_NATS();
        worker_start(w, "a", NULL);
        bridge = nats_bridge(w, NULL);
        url = nats_url(nats.url, w, "op_0123456789abcdef");
        nats_assert_asks(url, 1, "not-found");
        nats_ask("ferry.v1.a.metadata", "op_0123456789ABCDEF", answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        nats_ask("ferry.v1.a.metadata", "op_x/../../worker??", answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        nats_ask("ferry.v1.a.metadata", "", answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        worker_stop(w);
        nats_assert_asks(url, 1, "peer-unreachable");
        nats_bridge_end(&bridge);
}

WITH_WORKER(metadata_that_are_too_much_for_the_bus_are_told)
{
        struct bridge bridge;
        OPERATION offer;

        NEEDS_NATS();
        nats_restart(STRINGS("-c", file_make("max_payload: 256\n")));
        worker_start(w, "a", NULL);
        bridge = nats_bridge(w, NULL);
        offer_make(w, FERRY_READABLE, region_make(w, 8, 0), &offer);
        nats_assert_asks(nats_url(nats.url, w, offer.id), 1, "too-large");
        nats_bridge_end(&bridge);
        nats_restart(NULL);
}

WITH_SHARED(the_peer_token_is_enough_for_the_bridge)
{
        const char *full = text_format("%s/token", s->path), *peer = text_format("%s/peer-token", s->path), *url;
        struct worker *w = &s->pair.a;
        struct bridge bridge;

        NEEDS_NATS();
        file_write(full, "the-full-token-of-a\n");
        file_write(peer, "the-peer-token-of-a\n");
        worker_start_plain(
                w, "a",
                STRINGS("--listen", "127.0.0.1:0", "--name", "a", "--token-file", full, "--peer-token-file", peer));
        bridge = nats_bridge(w, STRINGS("--token-file", peer));
        url = nats_url(nats.url, w, "op_0123456789abcdef");
        nats_assert_asks(url, 1, "not-found");
        nats_bridge_end(&bridge);
}

TEST(an_answer_that_is_not_metadata_is_refused)
{
        static const struct {
                const char *text;
                int status;
                const char *errors;
        } cases[] = {
                { "", 3, "is not metadata" },
                { "{\"descriptors\":[]}", 3, "is not metadata" },
                { "{\"code\":5}", 3, "is not metadata" },
                { "{\"code\":\"\\u001b[2J\"}", 3, "is not metadata" },
                { "{\"code\":\"gone\"}", 1, "gone" },
                { "{\"descriptors\":[],\"nixl_metadata\":\"\x1b[2J\",\"notification_key\":\"\",\"operation_kind\":1}",
                  3, "is not metadata" },
        };
        const char *url = text_format("%s/liar/op_0123456789abcdef", nats.url);

        NEEDS_NATS();
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int fd = nats_subscribe("ferry.v1.liar.metadata"), status;
                pid_t pid = fork();

                if (pid == 0) {
                        nats_answer(fd, cases[i].text);
                        _exit(0);
                }
                nats_assert_asks(url, cases[i].status, cases[i].errors);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                (void)close(fd);
        }
}

/* Asks once more; whether the server has said something by LOOK_MS. */
static bool asked_and_told(int fd)
{
        static const char request[] = "PUB ferry.v1.a.metadata _INBOX.test 1\r\nx\r\n";
        struct pollfd p = { .fd = fd, .events = POLLIN };

        raw_send(fd, request, strlen(request));
        return poll(&p, 1, LOOK_MS) == 1;
}

WITH_WORKER(a_bridge_outlives_its_server)
{
        struct bridge bridge;
        char answer[NATS_LINE_SIZE];
        int fd;

        NEEDS_NATS();
        worker_start(w, "a", NULL);
        bridge = nats_bridge(w, NULL);
        nats_restart(NULL);
        fd = nats_subscribe("_INBOX.test");
        /* Nobody is there until it has connected anew. An answer may take longer than the next question. */
        do {
                WAIT_UNTIL(asked_and_told(fd));
                nats_read(fd, answer);
        } while (strcmp(answer, "PING") == 0);
        nats_read(fd, answer);
        (void)close(fd);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        nats_bridge_end(&bridge);
}

TEST(a_bus_beyond_this_machine_takes_tls)
{
        nats_assert_asks("nats://192.0.2.1:4222/a/op_0123456789abcdef", 2, "without TLS");
        nats_assert_asks("nats://127.0.0.1.invalid:4222/a/op_0123456789abcdef", 2, "without TLS");
        nats_assert_asks("http://127.0.0.1:4222/a/op_0123456789abcdef", 2, "not a NATS server's URL");
        nats_assert_asks("nats://127.0.0.1:4222/a/b/op_0123456789abcdef", 2, "is not nats://HOST:PORT/WORKER/op_ID");
        nats_assert_asks("nats://127.0.0.1:4222/a/op_1", 2, "is not nats://HOST:PORT/WORKER/op_ID");
        nats_assert_asks("nats://127.0.0.1:4222/a..b/op_0123456789abcdef", 2, "cannot be the name of a worker on NATS");
        nats_assert_asks("nats://127.0.0.1:1/a/op_0123456789abcdef", 3, "cannot use the NATS server");
        /* This machine, by an address that does not say so. */
        nats_assert_asks("tls://0.0.0.0:1/a/op_0123456789abcdef", 3, "cannot use the NATS server");
        assert_int_equal(setenv("FERRY_NATS_CA", text_format("%s/ca.pem", getenv("FERRY_TEST_TLS")), 1), 0);
        nats_assert_asks("nats://0.0.0.0:1/a/op_0123456789abcdef", 3, "cannot use the NATS server");
        assert_int_equal(unsetenv("FERRY_NATS_CA"), 0);
}

TEST(the_command_line_is_understood_or_told_what_is_wrong_with_it)
{
#define URL "nats://127.0.0.1:1/a/op_0123456789abcdef"
        static const struct {
                const char *arguments[5];
                int status;
                const char *says; /* on standard output where status is 0, else on standard error */
        } cases[] = {
                { { "--help" }, 0, "  --nats-ca FILE" },
                { { "bridge", "--version" }, 0, "ferry-nats " },
                { { NULL }, 2, "usage: ferry-nats bridge, or ferry-nats metadata URL" },
                { { "metadata" }, 2, "usage: ferry-nats bridge, or ferry-nats metadata URL" },
                { { "metadata", URL, "more" }, 2, "too many arguments" },
                { { "bridge", "--nat=nats://a:secret@h" },
                  2,
                  "no option --nat: did you mean --nats? (see ferry-nats --help)" },
                { { "bridge", "--insecure=1" }, 2, "--insecure takes no value" },
                { { "bridge", "--nats" }, 2, "--nats needs a value" },
                { { "bridge", "--url", "http://a:secret@127.0.0.1" }, 2, "nats: --url, or a file for it, is" },
                { { "metadata", "nats://me:secret@127.0.0.1/a/op_0123456789abcdef" }, 2, "has no user or password" },
                { { "metadata", URL, "--nats-cert=x" }, 2, "--nats-cert and --nats-key need each other" },
                { { "metadata", URL, "--nats-user-file=/" }, 2, "/: Is a directory" },
                { { "metadata", URL, "--nats-ca=/dev/null" }, 2, "or a file for it is not usable" },
        };
        const char *const program = getenv("FERRY_NATS_PROGRAM");

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *const *a = cases[i].arguments, *output, *errors;

                (void)test_row(cases[i].says);
                assert_int_equal(command_run(STRINGS(program, a[0], a[1], a[2], a[3]), NULL, &output, &errors),
                                 cases[i].status);
                assert_non_null(strstr(cases[i].status ? errors : output, cases[i].says));
                assert_string_equal(cases[i].status ? output : errors, "");
                assert_null(strstr(errors, "secret"));
        }
}

TEST(insecure_in_the_environment_is_a_truth_value)
{
        static const struct {
                const char *value, *errors;
        } cases[] = { { "0", "without TLS" },
                      { "false", "without TLS" },
                      { "no", "FERRY_NATS_INSECURE: \"no\" is not one of" } };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(setenv("FERRY_NATS_INSECURE", cases[i].value, 1), 0);
                nats_assert_asks("nats://192.0.2.1:4222/a/op_0123456789abcdef", 2, cases[i].errors);
        }
        assert_int_equal(unsetenv("FERRY_NATS_INSECURE"), 0);
}

WITH_SHARED(metadata_go_over_tls)
{
        const char *tls = getenv("FERRY_TEST_TLS");
        const char *cert = text_format("%s/server.pem", tls), *key = text_format("%s/server-key.pem", tls);
        const char *ca = text_format("%s/ca.pem", tls), *server;
        struct bridge bridge;

        NEEDS_NATS();
        nats_restart(STRINGS("--tls", "--tlscert", cert, "--tlskey", key));
        pair_start(&s->pair, false);
        server = text_format("tls://127.0.0.1:%d", nats.port);
        const char *url = nats_url(server, &s->pair.a, "op_0123456789abcdef");
        nats_assert_asks(url, 3, "cannot use the NATS server"); /* whose certificate nobody vouches for */
        assert_int_equal(setenv("FERRY_NATS_CA", ca, 1), 0);
        bridge = nats_bridge(&s->pair.a, NULL);
        nats_assert_fetched(s, server);
        nats_bridge_end(&bridge);
        assert_int_equal(unsetenv("FERRY_NATS_CA"), 0);
        pair_stop(&s->pair);
        nats_restart(NULL);
}

TEST_GROUP(nats_setup, nats_teardown)
