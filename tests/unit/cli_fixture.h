/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FIXTURE_H
#define CLI_FIXTURE_H

/* Runs of the ferry command, whose path is in $FERRY, and answers of the scripted server for them. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test_client_server.h"
#include "unit.h"

#define JSON(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body
#define NOT_FOUND                                                                                                      \
        "HTTP/1.1 404 No\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n"                       \
        "{\"code\":\"not-found\",\"title\":\"T\",\"detail\":\"no such region\"}"

enum { OUTPUT_MAX = 65536, ARGUMENTS_MAX = 12 };

/* What the latest run of the command wrote. */
static struct {
        char out[OUTPUT_MAX], err[OUTPUT_MAX];
} r;

static int file_of(const char *text)
{
        int fd = memfd_create("stream", MFD_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        lseek(fd, 0, SEEK_SET);
        return fd;
}

static void take(int fd, char *text)
{
        ssize_t n = pread(fd, text, OUTPUT_MAX - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
}

/* Expects that exit status. url NULL = none is given; input is standard input; the arguments end with NULL. */
static void run(int expected, const char *url, const char *input, ...)
{
        char *arguments[ARGUMENTS_MAX] = { getenv("FERRY") };
        size_t n = 1;
        va_list list;
        va_start(list, input);
        for (char *a = va_arg(list, char *); a && n < ARGUMENTS_MAX - 1; a = va_arg(list, char *))
                arguments[n++] = a;
        va_end(list);
        int in = file_of(input), out = file_of(""), err = file_of(""), status = 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (url)
                        setenv("FERRY_URL", url, 1);
                dup2(in, 0);
                dup2(out, 1);
                dup2(err, 2);
                execv(arguments[0], arguments);
                _exit(127);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        close(in);
        take(out, r.out);
        take(err, r.err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
                fail_msg("%s %s: wait status %#x, not exit status %d: %s", arguments[0], arguments[1], status, expected,
                         r.err);
}

static void contains(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("no \"%s\" in \"%s\"", part, text);
}

static void server_release(void *server)
{
        server_clear(server);
        free(server);
}

static struct server *start(const struct server_step *steps, size_t n)
{
        struct server *s = test_keep(unit_alloc(sizeof(*s)), server_release);
        server_start(s, steps, n);
        return s;
}

#define START(s, ...)                                                                                                  \
        static const struct server_step steps[] = { __VA_ARGS__ };                                                     \
        struct server *s = start(steps, UNIT_COUNT(steps))

/* The text of request i, which has come. Stops the server. */
static const char *request_of(struct server *s, size_t i)
{
        server_stop(s);
        assert_true(i < s->served);
        return s->requests[i];
}

#endif
