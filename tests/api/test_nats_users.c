/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nats.h"

/* Users of a bus: what each may do. */

/* What a user of the bus adds to the environment; "" = unset. */
static void environment_set(const char *name, const char *value)
{
        assert_int_equal(*value ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* The configuration in SECURITY.md, with this server's address and certificate, as a file. */
static void manual_write(const char *path)
{
        static const char address[] = "listen: 10.0.0.1:4222\ntls { cert_file: a.pem, key_file: a-key.pem }\n";
        const char *tls = getenv("FERRY_TEST_TLS");
        const char *start = strstr(file_read(getenv("FERRY_SECURITY")), "```conf\n") + strlen("```conf\n");
        const char *end = strstr(start, "```\n");

        assert_true(end && strncmp(start, address, strlen(address)) == 0);
        start += strlen(address);
        file_write(path, text_format("tls { cert_file: \"%s/server.pem\", key_file: \"%s/server-key.pem\" }\n%.*s", tls,
                                     tls, (int)(end - start), start));
}

WITH_SHARED(the_users_of_security_md_do_what_they_may_and_nothing_else)
{
        struct worker *w = &s->pair.a;
        const char *conf = text_format("%s/nats.conf", s->path), *a = text_format("%s/a-user", s->path),
                   *b = text_format("%s/b-user", s->path), *ca = text_format("%s/ca.pem", getenv("FERRY_TEST_TLS")),
                   *server = text_format("tls://127.0.0.1:%d", nats.port);
        struct bridge bridge;

        NEEDS_NATS();
        manual_write(conf);
        file_write(a, "a:of-a\n");
        file_write(b, "b:of-b\n");
        environment_set("NATS_A", "of-a");
        environment_set("NATS_B", "of-b");
        nats_restart(STRINGS("-c", conf));
        environment_set("FERRY_NATS_CA", ca);
        worker_start(&s->pair.b, "b", NULL);
        worker_start(w, "a", NULL);
        const char *url = nats_url(server, w, "op_0123456789abcdef");
        bridge = nats_bridge(w, STRINGS("--nats", server, "--nats-user-file", a));
        environment_set("FERRY_NATS_INBOX", "b");
        nats_assert_asks(url, 3, "cannot use the NATS server"); /* without a user */
        environment_set("FERRY_NATS_USER_FILE", b);
        nats_assert_asks(url, 1, "not-found"); /* by the worker: it was asked */
        nats_assert_fetched(s, server);
        environment_set("FERRY_NATS_INBOX", "c"); /* of another peer */
        nats_assert_asks(url, 3, "");
        environment_set("FERRY_NATS_INBOX", "b");
        environment_set("FERRY_NATS_USER_FILE", a); /* a bridge may not ask */
        nats_assert_asks(url, 3, "");
        environment_set("FERRY_NATS_USER_FILE", conf); /* whatever that is */
        nats_assert_asks(url, 3, "cannot use the NATS server");
        nats_bridge_end(&bridge);
        for (size_t i = 0; i < 3; i++)
                environment_set((const char *const[]){ "FERRY_NATS_CA", "FERRY_NATS_INBOX", "FERRY_NATS_USER_FILE" }[i],
                                "");
        pair_stop(&s->pair);
        nats_restart(NULL);
}

WITH_SHARED(accounts_are_apart_and_a_token_is_enough)
{
        const char *folder = getenv("FERRY_NATS_CREDENTIALS");
        const char *conf = text_format("%s/accounts.conf", folder), *a = text_format("%s/bridge.creds", folder),
                   *b = text_format("%s/peer.creds", folder), *c = text_format("%s/stranger.creds", folder),
                   *token = text_format("%s/nats-token", s->path);
        struct worker *w = &s->pair.a;
        struct bridge bridge;

        NEEDS_NATS();
        nats_restart(STRINGS("-c", conf));
        worker_start(&s->pair.b, "b", NULL);
        worker_start(w, "a", NULL);
        const char *url = nats_url(nats.url, w, "op_0123456789abcdef");
        bridge = nats_bridge(w, STRINGS("--nats-creds", a));
        nats_assert_asks(url, 3, "cannot use the NATS server");
        environment_set("FERRY_NATS_CREDS", b);
        nats_assert_fetched(s, nats.url);
        environment_set("FERRY_NATS_CREDS", c); /* of another account */
        nats_assert_asks(url, 1, "nobody answers for worker a");
        environment_set("FERRY_NATS_CREDS", token);
        nats_assert_asks(url, 2, "No such file");
        environment_set("FERRY_NATS_CREDS", "");
        nats_bridge_end(&bridge);
        nats_restart(STRINGS("--auth", "of-all"));
        file_write(token, "of-all\n");
        nats_assert_asks(url, 3, "cannot use the NATS server");
        environment_set("FERRY_NATS_USER_FILE", token);
        nats_assert_asks(url, 1, "nobody answers");
        environment_set("FERRY_NATS_USER_FILE", "");
        pair_stop(&s->pair);
        nats_restart(NULL);
}

/* A server that refuses everybody, until its socket is shut down. */
struct refusing {
        int listener;
        unsigned n;
};

static void *refuse(void *argument)
{
        static const char info[] = "INFO {\"server_id\":\"x\",\"version\":\"2.9.10\",\"proto\":1,\"max_payload\":1024,"
                                   "\"auth_required\":true,\"nonce\":\"AAAAAAAAAAAAAAA\"}\r\n",
                          refusal[] = "-ERR 'Authorization Violation'\r\n";
        struct refusing *server = argument;
        int fd;

        while ((fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                char connect[4096];

                raw_send(fd, info, strlen(info));
                if (recv(fd, connect, sizeof(connect), 0) > 0)
                        raw_send(fd, refusal, strlen(refusal));
                server->n++;
                (void)close(fd);
        }
        return NULL;
}

static void assert_refused_times(unsigned n)
{
        struct refusing server = { 0 };
        uint16_t port;
        pthread_t thread;

        server.listener = raw_listen(&port);
        assert_int_equal(pthread_create(&thread, NULL, refuse, &server), 0);
        nats_assert_asks(text_format("nats://127.0.0.1:%u/a/op_0123456789abcdef", (unsigned)port), 3,
                         "cannot use the NATS server");
        assert_int_equal(shutdown(server.listener, SHUT_RDWR), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)close(server.listener);
        assert_int_equal(server.n, n);
}

/* Libnats leaves one signature in 256 out. */
WITH_SHARED(a_refused_signature_is_tried_with_another_nonce)
{
        const char *user = text_format("%s/user", s->path);

        file_write(user, "me:secret\n");
        environment_set("FERRY_NATS_CREDS", text_format("%s/peer.creds", getenv("FERRY_NATS_CREDENTIALS")));
        assert_refused_times(3);
        environment_set("FERRY_NATS_CREDS", "");
        environment_set("FERRY_NATS_USER_FILE", user);
        assert_refused_times(1);
        environment_set("FERRY_NATS_USER_FILE", "");
}

WITH_WORKER(a_password_in_a_url_is_refused_and_not_repeated)
{
        static const char *const commands[][3] = { { "metadata", "nats://me:hidden@127.0.0.1:1/a/op_0123456789abcdef" },
                                                   { "bridge", "--nats", "nats://me:hidden@127.0.0.1:1" } };

        worker_start(w, "a", NULL);
        for (size_t i = 0; i < 2; i++) {
                const char *const *a = commands[i], *output, *errors;

                assert_int_equal(command_run(STRINGS(getenv("FERRY_NATS_PROGRAM"), "--url", w->url, a[0], a[1], a[2]),
                                             NULL, &output, &errors),
                                 2);
                assert_non_null(strstr(errors, "--nats-user-file"));
                assert_null(strstr(errors, "hidden"));
        }
}

TEST_GROUP(nats_setup, nats_teardown)
