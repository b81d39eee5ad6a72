/* SPDX-License-Identifier: Apache-2.0 */
#include "nats.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 5000, ARGUMENTS = 16 };

struct nats nats;

static const char *server_path(void)
{
        static const char *const paths[] = { "/usr/sbin/nats-server", "/usr/bin/nats-server",
                                             "/usr/local/bin/nats-server" };

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (access(paths[i], X_OK) == 0)
                        return paths[i];
        return NULL;
}

/* out: gets its standard output; -1: nobody does. */
static pid_t program_start(const char *const *argv, int out)
{
        pid_t parent = getpid(), pid = fork();

        if (pid == 0) {
                int nowhere = open("/dev/null", O_WRONLY);

                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(127);
                (void)dup2(out < 0 ? nowhere : out, STDOUT_FILENO);
                (void)dup2(nowhere, STDERR_FILENO);
                execv(argv[0], (char *const *)argv);
                _exit(127);
        }
        assert_true(pid > 0);
        return pid;
}

/* ---- the server, and a client that speaks its protocol as it likes ---- */

static bool nats_listens(void)
{
        int fd = raw_try(nats.port);

        if (fd >= 0)
                (void)close(fd);
        return fd >= 0;
}

static void nats_start(const char *const *more)
{
        char port[16];
        const char *argv[ARGUMENTS] = { server_path(), "-a", "127.0.0.1", "-p", port };
        size_t n = 5;

        for (; more && *more; more++)
                argv[n++] = *more;
        (void)snprintf(port, sizeof(port), "%d", nats.port);
        nats.pid = program_start(argv, -1);
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

void nats_restart(const char *const *more)
{
        nats_kill();
        nats_start(more);
}

void nats_read(int fd, char line[NATS_LINE_SIZE])
{
        size_t n = 0;

        do {
                struct pollfd p = { .fd = fd, .events = POLLIN };

                assert_int_equal(poll(&p, 1, WAIT_MS), 1);
                assert_int_equal(read(fd, line + n, 1), 1);
                assert_true(n + 1 < NATS_LINE_SIZE || line[n] == '\n');
                n += n + 1 < NATS_LINE_SIZE;
        } while (line[n - 1] != '\n');
        line[n - 1] = '\0';
        if (n > 1 && line[n - 2] == '\r')
                line[n - 2] = '\0';
}

/* The server asks after two seconds whether a client lives. */
static void read_message(int fd, char line[NATS_LINE_SIZE])
{
        do
                nats_read(fd, line);
        while (strcmp(line, "PING") == 0);
}

int nats_subscribe(const char *subject)
{
        char line[4096];
        const char *text = text_format("CONNECT {\"verbose\":false}\r\nSUB %s 1\r\nPING\r\n", subject);
        int fd = raw_dial(nats.port);
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

void nats_ask(const char *subject, const char *payload, char answer[NATS_LINE_SIZE])
{
        char line[NATS_LINE_SIZE];
        const char *text = text_format("PUB %s _INBOX.test %zu\r\n%s\r\n", subject, strlen(payload), payload);
        int fd = nats_subscribe("_INBOX.test");

        raw_send(fd, text, strlen(text));
        read_message(fd, line); /* MSG _INBOX.test 1 SIZE */
        assert_non_null(strstr(line, "MSG _INBOX.test"));
        nats_read(fd, answer);
        (void)close(fd);
}

void nats_answer(int fd, const char *text)
{
        char line[NATS_LINE_SIZE], id[NATS_LINE_SIZE], reply[NATS_LINE_SIZE];
        const char *message;

        read_message(fd, line); /* MSG SUBJECT SID REPLY SIZE */
        assert_int_equal(sscanf(line, "MSG %*s %*s %511s %*s", reply), 1);
        nats_read(fd, id);
        message = text_format("PUB %s %zu\r\n%s\r\n", reply, strlen(text), text);
        raw_send(fd, message, strlen(message));
}

/* ---- the bridge ---- */

struct bridge nats_bridge(const struct worker *w, const char *const *more)
{
        const char *argv[ARGUMENTS] = { getenv("FERRY_NATS_PROGRAM"), "bridge", "--nats", nats.url, "--url", w->url };
        struct bridge bridge;
        int out[2];
        char line[NATS_LINE_SIZE];
        size_t n = 6;

        for (; more && *more; more++)
                argv[n++] = *more;
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        bridge = (struct bridge){ .pid = program_start(argv, out[1]), .out = out[0] };
        (void)close(out[1]);
        nats_read(bridge.out, line);
        const char *expected = text_format(
                "{\"event\":\"ready\",\"subject\":\"ferry.v1.%s.metadata\",\"worker\":\"%s\"}", w->name, w->name);
        assert_string_equal(line, expected);
        return bridge;
}

void nats_bridge_end(struct bridge *bridge)
{
        int status;

        assert_int_equal(kill(bridge->pid, SIGTERM), 0);
        assert_int_equal(waitpid(bridge->pid, &status, 0), bridge->pid);
        (void)close(bridge->out);
        if (status != 0)
                fail_msg("the bridge ended with status %#x", (unsigned)status);
}

void nats_assert_asks(const char *url, int status, const char *errors)
{
        const char *output, *text;
        int r = command_run(STRINGS(getenv("FERRY_NATS_PROGRAM"), "metadata", url), NULL, &output, &text);

        if (r != status || !strstr(text, errors))
                fail_msg("%s: %d, %s", url, r, text);
        assert_true(status == 0 || !*output);
}

const char *nats_url(const char *server, const struct worker *w, const char *id)
{
        return text_format("%s/%s/%s", server, w->name, id);
}

void nats_assert_fetched(struct shared_scene *s, const char *server)
{
        struct pair *p = &s->pair;
        const char *output, *errors, *url;
        const char *file = text_format("%s/out", s->path);
        OPERATION passive;
        unsigned char expected[SIZE], found[SIZE + 1];
        int fd;
        const char *offered = region_make(&p->a, SIZE, 1);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        url = nats_url(server, &p->a, passive.id);
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

int nats_setup(void **state)
{
        (void)state;
        if (!server_path()) {
                print_message("Skipped: no nats-server here (scripts/setup --all installs it)\n");
                return 0;
        }
        nats.held = raw_hold(&nats.port); /* the same after a restart */
        (void)snprintf(nats.url, sizeof(nats.url), "nats://127.0.0.1:%d", nats.port);
        nats_start(NULL);
        return 0;
}

int nats_teardown(void **state)
{
        (void)state;
        nats_kill();
        if (nats.port)
                (void)close(nats.held);
        return 0;
}
