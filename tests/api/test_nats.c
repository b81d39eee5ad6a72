/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/* ferry-nats and ferry fetch nats://…, with a real nats-server. */

enum { SIZE = 5000, LINE_SIZE = 512, ARGUMENTS = 16, LOOK_MS = 20 };

static struct nats {
        pid_t pid; /* 0 = not running */
        int port;
        char url[48];
} nats;

/* A program of the test, which reads its first line. */
struct program {
        pid_t pid;
        int out;
};

static const char *server_path(void)
{
        static const char *const paths[] = { "/usr/sbin/nats-server", "/usr/bin/nats-server",
                                             "/usr/local/bin/nats-server" };

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (access(paths[i], X_OK) == 0)
                        return paths[i];
        return NULL;
}

#define NEEDS_NATS()                                                                                                   \
        do {                                                                                                           \
                if (!nats.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

/* output false: to nowhere. */
static struct program program_start(const char *const *argv, bool output)
{
        struct program program = { .out = -1 };
        pid_t parent = getpid();
        int out[2];

        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        program.pid = fork();
        if (program.pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(127);
                if (output)
                        (void)dup2(out[1], STDOUT_FILENO);
                else
                        (void)dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
                (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
                execv(argv[0], (char *const *)argv);
                _exit(127);
        }
        assert_true(program.pid > 0);
        (void)close(out[1]);
        program.out = out[0];
        return program;
}

/* Ends by the signal; returns the wait status. */
static int program_end(struct program *program, int number)
{
        int status;

        assert_int_equal(kill(program->pid, number), 0);
        assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
        (void)close(program->out);
        return status;
}

/* ---- the server, and a client that speaks its protocol as it likes ---- */

static bool nats_listens(void)
{
        int fd = raw_try((uint16_t)nats.port);

        if (fd >= 0)
                (void)close(fd);
        return fd >= 0;
}

/* more: further arguments, ended by NULL; NULL = none. */
static void nats_start(const char *const *more)
{
        char port[16];
        const char *argv[ARGUMENTS] = { server_path(), "-a", "127.0.0.1", "-p", port };
        size_t n = 5;

        for (; more && *more; more++)
                argv[n++] = *more;
        (void)snprintf(port, sizeof(port), "%d", nats.port);
        struct program program = program_start(argv, false);
        nats.pid = program.pid;
        (void)close(program.out);
        WAIT_UNTIL(nats_listens());
}

static void nats_kill(void)
{
        if (nats.pid <= 0)
                return;
        (void)kill(nats.pid, SIGKILL);
        (void)waitpid(nats.pid, NULL, 0);
        nats.pid = 0;
}

/* Reads a line; the NUL is in place of its line break. */
static void read_text(int fd, char line[LINE_SIZE])
{
        size_t n = 0;

        do {
                struct pollfd p = { .fd = fd, .events = POLLIN };

                assert_int_equal(poll(&p, 1, WAIT_MS), 1);
                assert_int_equal(read(fd, line + n, 1), 1);
                assert_true(n + 1 < LINE_SIZE || line[n] == '\n');
                n += n + 1 < LINE_SIZE;
        } while (line[n - 1] != '\n');
        line[n - 1] = '\0';
        if (n > 1 && line[n - 2] == '\r')
                line[n - 2] = '\0';
}

/* A client that has subscribed to a subject; the server has heard of it. */
static int nats_subscribe(const char *subject)
{
        char line[4096];
        const char *text = text_format("CONNECT {\"verbose\":false}\r\nSUB %s 1\r\nPING\r\n", subject);
        int fd = raw_dial((uint16_t)nats.port);
        size_t n = 0;

        assert_true(fd >= 0);
        raw_send(fd, text, strlen(text));
        /* INFO is longer than a line of ours. */
        do {
                assert_true(n < sizeof(line) - 1);
                assert_int_equal(read(fd, line + n, 1), 1);
                line[++n] = '\0';
        } while (!strstr(line, "PONG\r\n"));
        return fd;
}

/* One request as no client of ours makes it; the answer's first line. */
static void nats_ask(const char *subject, const char *payload, char answer[LINE_SIZE])
{
        char line[LINE_SIZE];
        const char *text = text_format("PUB %s _INBOX.test %zu\r\n%s\r\n", subject, strlen(payload), payload);
        int fd = nats_subscribe("_INBOX.test");

        raw_send(fd, text, strlen(text));
        read_text(fd, line); /* MSG _INBOX.test 1 SIZE */
        assert_non_null(strstr(line, "MSG _INBOX.test"));
        read_text(fd, answer);
        (void)close(fd);
}

/* Answers the next request with text. */
static void nats_answer(int fd, const char *text)
{
        char line[LINE_SIZE], id[LINE_SIZE], reply[LINE_SIZE];
        const char *message;

        read_text(fd, line); /* MSG SUBJECT SID REPLY SIZE */
        assert_int_equal(sscanf(line, "MSG %*s %*s %511s %*s", reply), 1);
        read_text(fd, id);
        message = text_format("PUB %s %zu\r\n%s\r\n", reply, strlen(text), text);
        raw_send(fd, message, strlen(message));
}

/* ---- the bridge ---- */

static struct program bridge_start(const struct worker *w, const char *const *more)
{
        const char *argv[ARGUMENTS] = { getenv("FERRY_NATS_PROGRAM"), "bridge", "--nats", nats.url, "--url", w->url };
        struct program bridge;
        char line[LINE_SIZE];
        size_t n = 6;

        for (; more && *more; more++)
                argv[n++] = *more;
        bridge = program_start(argv, true);
        read_text(bridge.out, line);
        const char *expected = text_format(
                "{\"event\":\"ready\",\"subject\":\"ferry.v1.%s.metadata\",\"worker\":\"%s\"}", w->name, w->name);
        assert_string_equal(line, expected);
        return bridge;
}

/* Runs ferry-nats metadata; the exit status, and what must stand in its errors. */
static void assert_asks(const char *url, int status, const char *errors)
{
        const char *output, *text;
        int r = command_run(STRINGS(getenv("FERRY_NATS_PROGRAM"), "metadata", url), NULL, &output, &text);

        if (r != status || !strstr(text, errors))
                fail_msg("%s: %d, %s", url, r, text);
        assert_true(status == 0 || !*output);
}

static const char *offer_url(const char *server, const struct worker *w, const char *id)
{
        return text_format("%s/%s/%s", server, w->name, id);
}

/* b fetches a's offer, named by NATS, into a file of the scene, with further environment. */
static void assert_fetched(struct shared_scene *s, const char *server)
{
        struct pair *p = &s->pair;
        const char *output, *errors, *url;
        const char *file = text_format("%s/out", s->path);
        OPERATION passive;
        unsigned char expected[SIZE], found[SIZE + 1];
        int fd;
        const char *offered = region_make(&p->a, SIZE, 1);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        url = offer_url(server, &p->a, passive.id);
        if (command_run(STRINGS(getenv("FERRY"), "--url", p->b.url, "fetch", url, "-o", file), NULL, &output,
                        &errors) != 0)
                fail_msg("%s", errors);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        pattern_fill(1, 0, expected, SIZE);
        fd = open(file, O_RDONLY | O_CLOEXEC);
        assert_int_equal(read(fd, found, sizeof(found)), SIZE);
        assert_memory_equal(found, expected, SIZE);
        (void)close(fd);
        (void)unlink(file);
}

WITH_SHARED(a_file_is_fetched_by_metadata_that_came_over_nats)
{
        struct program bridge;
        int status;

        NEEDS_NATS();
        pair_start(&s->pair, false);
        bridge = bridge_start(&s->pair.a, NULL);
        assert_fetched(s, nats.url);
        status = program_end(&bridge, SIGTERM);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_request_with_nobody_there_fails_at_once)
{
        const char *url = text_format("%s/nobody/op_0123456789abcdef", nats.url);
        const uint64_t began = now_ms();

        if (!nats.pid) {
                skip();
        }
        assert_asks(url, 1, "nobody answers for worker nobody");
        assert_true(now_ms() - began < 4500 * SLOWNESS); /* a request may take five seconds */
}

WITH_WORKER(what_the_worker_refuses_is_told)
{
        struct program bridge;
        char answer[LINE_SIZE];
        const char *url;

        NEEDS_NATS();
        worker_start(w, "a", NULL);
        bridge = bridge_start(w, NULL);
        url = offer_url(nats.url, w, "op_0123456789abcdef");
        assert_asks(url, 1, "not-found");
        nats_ask("ferry.v1.a.metadata", "op_0123456789ABCDEF", answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        nats_ask("ferry.v1.a.metadata", "op_x/../../worker??", answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        nats_ask("ferry.v1.a.metadata", "", answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        worker_stop(w);
        assert_asks(url, 1, "peer-unreachable");
        (void)program_end(&bridge, SIGTERM);
}

static void write_token(const char *path, const char *text)
{
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        (void)close(fd);
}

WITH_SHARED(the_peer_token_is_enough_for_the_bridge)
{
        const char *full = text_format("%s/token", s->path), *peer = text_format("%s/peer-token", s->path), *url;
        struct worker *w = &s->pair.a;
        struct program bridge;

        if (nats.pid) {
                write_token(full, "full\n");
                write_token(peer, "peer\n");
                worker_start_plain(w, "a",
                                   STRINGS("--listen", "127.0.0.1:0", "--name", "a", "--token-file", full,
                                           "--peer-token-file", peer));
                bridge = bridge_start(w, STRINGS("--token-file", peer));
                url = offer_url(nats.url, w, "op_0123456789abcdef");
                assert_asks(url, 1, "not-found");
                (void)program_end(&bridge, SIGTERM);
                worker_stop(w);
        }
        NEEDS_NATS();
}

TEST(an_answer_that_is_not_metadata_is_refused)
{
        static const struct {
                const char *text;
                int status;
                const char *errors;
        } cases[] = {
                { "", 3, "is not metadata" },
                { "hello", 3, "is not metadata" },
                { "[]", 3, "is not metadata" },
                { "null", 3, "is not metadata" },
                { "{\"descriptors\":[]}", 3, "is not metadata" },
                { "{\"code\":5}", 3, "is not metadata" },
                { "{\"code\":\"\\u001b[2J\"}", 3, "is not metadata" },
                { "{\"code\":\"gone\"}", 1, "gone" },
                { "{\"descriptors\":[],\"nixl_metadata\":\"\x1b[2J\",\"notification_key\":\"\",\"operation_kind\":1}",
                  3, "is not metadata" },
        };
        const char *url = text_format("%s/liar/op_0123456789abcdef", nats.url);

        if (!nats.pid) {
                skip();
        }
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int fd = nats_subscribe("ferry.v1.liar.metadata"), status;
                pid_t pid = fork();

                if (pid == 0) {
                        nats_answer(fd, cases[i].text);
                        _exit(0);
                }
                assert_asks(url, cases[i].status, cases[i].errors);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                (void)close(fd);
        }
}

WITH_WORKER(a_bridge_outlives_its_server)
{
        struct program bridge;
        char answer[LINE_SIZE];
        struct pollfd p;

        NEEDS_NATS();
        worker_start(w, "a", NULL);
        bridge = bridge_start(w, NULL);
        nats_kill();
        nats_start(NULL);
        /* Nobody is there until it has connected anew. */
        do {
                const char *text = text_format("PUB ferry.v1.a.metadata _INBOX.test 1\r\nx\r\n");
                int fd = nats_subscribe("_INBOX.test");

                raw_send(fd, text, strlen(text));
                p = (struct pollfd){ .fd = fd, .events = POLLIN };
                answer[0] = '\0';
                if (poll(&p, 1, LOOK_MS) == 1) {
                        read_text(fd, answer);
                        read_text(fd, answer);
                }
                (void)close(fd);
        } while (!*answer);
        assert_string_equal(answer, "{\"code\":\"invalid-parameter\"}");
        (void)program_end(&bridge, SIGTERM);
}

TEST(a_bus_beyond_this_machine_takes_tls)
{
        assert_asks("nats://192.0.2.1:4222/a/op_0123456789abcdef", 2, "without TLS");
        assert_asks("http://127.0.0.1:4222/a/op_0123456789abcdef", 2, "not a NATS server's URL");
        assert_asks("nats://127.0.0.1:4222/a/b/op_0123456789abcdef", 2, "is not nats://HOST:PORT/WORKER/op_ID");
        assert_asks("nats://127.0.0.1:4222/a/op_1", 2, "is not nats://HOST:PORT/WORKER/op_ID");
        assert_asks("nats://127.0.0.1:4222/a..b/op_0123456789abcdef", 2, "cannot be the name of a worker on NATS");
        assert_asks("nats://127.0.0.1:1/a/op_0123456789abcdef", 3, "no NATS server takes us");
}

WITH_SHARED(metadata_go_over_tls)
{
        const char *tls = getenv("FERRY_TEST_TLS");
        const char *cert = text_format("%s/server.pem", tls), *key = text_format("%s/server-key.pem", tls);
        const char *ca = text_format("%s/ca.pem", tls), *server;
        struct program bridge;

        if (!nats.pid) {
                skip();
        }
        nats_kill();
        nats_start(STRINGS("--tls", "--tlscert", cert, "--tlskey", key));
        pair_start(&s->pair, false);
        server = text_format("tls://127.0.0.1:%d", nats.port);
        const char *url = offer_url(server, &s->pair.a, "op_0123456789abcdef");
        assert_asks(url, 3, "no NATS server takes us"); /* whose certificate nobody vouches for */
        assert_int_equal(setenv("FERRY_NATS_CA", ca, 1), 0);
        bridge = bridge_start(&s->pair.a, NULL);
        assert_fetched(s, server);
        (void)program_end(&bridge, SIGTERM);
        assert_int_equal(unsetenv("FERRY_NATS_CA"), 0);
        pair_stop(&s->pair);
        nats_kill();
        nats_start(NULL);
}

/* ---- users ---- */

/* What a user of the bus adds to the environment; "" = unset. */
static void environment_set(const char *name, const char *value)
{
        assert_int_equal(*value ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* The configuration in SECURITY.md, with this server's address and certificate, as a file. */
static void manual_write(const char *path)
{
        char text[32768], *start, *end;
        const char *conf;
        int fd = open(getenv("FERRY_SECURITY"), O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        static const char address[] = "listen: 10.0.0.1:4222\ntls { cert_file: a.pem, key_file: a-key.pem }\n";

        assert_true(n > 0 && n < (ssize_t)sizeof(text) - 1);
        (void)close(fd);
        text[n] = '\0';
        start = strstr(text, "```conf\n") + strlen("```conf\n");
        end = strstr(start, "```\n");
        assert_true(end && strncmp(start, address, strlen(address)) == 0);
        conf = text_format("tls { cert_file: \"%s/server.pem\", key_file: \"%s/server-key.pem\" }\n%.*s",
                           getenv("FERRY_TEST_TLS"), getenv("FERRY_TEST_TLS"),
                           (int)(end - start - (ssize_t)strlen(address)), start + strlen(address));
        write_token(path, conf);
}

WITH_SHARED(the_users_of_security_md_do_what_they_may_and_nothing_else)
{
        struct worker *w = &s->pair.a;
        const char *conf = text_format("%s/nats.conf", s->path), *a = text_format("%s/a-user", s->path),
                   *b = text_format("%s/b-user", s->path), *ca = text_format("%s/ca.pem", getenv("FERRY_TEST_TLS")),
                   *server = text_format("tls://127.0.0.1:%d", nats.port);
        struct program bridge;

        if (nats.pid) {
                nats_kill();
                manual_write(conf);
                write_token(a, "a:of-a\n");
                write_token(b, "b:of-b\n");
                environment_set("NATS_A", "of-a");
                environment_set("NATS_B", "of-b");
                nats_start(STRINGS("-c", conf));
                environment_set("FERRY_NATS_CA", ca);
                worker_start(&s->pair.b, "b", NULL);
                worker_start(w, "a", NULL);
                const char *url = offer_url(server, w, "op_0123456789abcdef");
                bridge = bridge_start(w, STRINGS("--nats", server, "--nats-user-file", a));
                environment_set("FERRY_NATS_INBOX", "b");
                assert_asks(url, 3, "no NATS server takes us"); /* without a user */
                environment_set("FERRY_NATS_USER_FILE", b);
                assert_asks(url, 1, "not-found"); /* by the worker: it was asked */
                assert_fetched(s, server);
                environment_set("FERRY_NATS_INBOX", "c"); /* of another peer */
                assert_asks(url, 3, "");
                environment_set("FERRY_NATS_INBOX", "b");
                environment_set("FERRY_NATS_USER_FILE", a); /* a bridge may not ask */
                assert_asks(url, 3, "");
                environment_set("FERRY_NATS_USER_FILE", conf); /* whatever that is */
                assert_asks(url, 3, "no NATS server takes us");
                (void)program_end(&bridge, SIGTERM);
                for (size_t i = 0; i < 3; i++)
                        environment_set(
                                (const char *const[]){ "FERRY_NATS_CA", "FERRY_NATS_INBOX", "FERRY_NATS_USER_FILE" }[i],
                                "");
                pair_stop(&s->pair);
                nats_kill();
                nats_start(NULL);
        }
        NEEDS_NATS();
}

WITH_SHARED(accounts_are_apart_and_a_token_is_enough)
{
        const char *folder = getenv("FERRY_NATS_CREDENTIALS");
        const char *conf = text_format("%s/accounts.conf", folder), *a = text_format("%s/bridge.creds", folder),
                   *b = text_format("%s/peer.creds", folder), *c = text_format("%s/stranger.creds", folder),
                   *token = text_format("%s/nats-token", s->path);
        struct worker *w = &s->pair.a;
        struct program bridge;

        if (nats.pid) {
                nats_kill();
                nats_start(STRINGS("-c", conf));
                worker_start(&s->pair.b, "b", NULL);
                worker_start(w, "a", NULL);
                const char *url = offer_url(nats.url, w, "op_0123456789abcdef");
                bridge = bridge_start(w, STRINGS("--nats-creds", a));
                assert_asks(url, 3, "no NATS server takes us");
                environment_set("FERRY_NATS_CREDS", b);
                assert_fetched(s, nats.url);
                environment_set("FERRY_NATS_CREDS", c); /* of another account */
                assert_asks(url, 1, "nobody answers for worker a");
                environment_set("FERRY_NATS_CREDS", token);
                assert_asks(url, 2, "No such file");
                environment_set("FERRY_NATS_CREDS", "");
                (void)program_end(&bridge, SIGTERM);
                nats_kill();
                nats_start(STRINGS("--auth", "of-all"));
                write_token(token, "of-all\n");
                assert_asks(url, 3, "no NATS server takes us");
                environment_set("FERRY_NATS_USER_FILE", token);
                assert_asks(url, 1, "nobody answers");
                environment_set("FERRY_NATS_USER_FILE", "");
                pair_stop(&s->pair);
                nats_kill();
                nats_start(NULL);
        }
        NEEDS_NATS();
}

TEST(a_password_in_a_url_is_refused_and_not_repeated)
{
        const char *output, *errors;

        assert_int_equal(command_run(STRINGS(getenv("FERRY_NATS_PROGRAM"), "metadata",
                                             "nats://me:hidden@127.0.0.1:1/a/op_0123456789abcdef"),
                                     NULL, &output, &errors),
                         2);
        assert_non_null(strstr(errors, "--nats-user-file"));
        assert_null(strstr(errors, "hidden"));
}

static int setup(void **state)
{
        char url[64];

        (void)state;
        if (!server_path()) {
                print_message("Skipped: no nats-server here (scripts/setup --all installs it)\n");
                return 0;
        }
        (void)close(listen_somewhere(url, sizeof(url), ""));
        nats.port = atoi(strrchr(url, ':') + 1);
        (void)snprintf(nats.url, sizeof(nats.url), "nats://127.0.0.1:%d", nats.port);
        nats_start(NULL);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        nats_kill();
        return 0;
}

TEST_GROUP(setup, teardown)
