/* SPDX-License-Identifier: Apache-2.0 */
/* The ferry command against the scripted server. Its path comes as the first argument. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test_client_server.h"
#include "unit.h"

#define JSON(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body
#define NO_CONTENT "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
#define OPERATION(status, done, extra)                                                                                 \
        JSON("{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"" status "\",\"done\":" done                             \
             ",\"revision\":2,\"bytes_total\":8,\"bytes_done\":4" extra "}")
#define NOT_FOUND                                                                                                      \
        "HTTP/1.1 404 No\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n"                       \
        "{\"code\":\"not-found\",\"title\":\"T\",\"detail\":\"no such region\"}"

enum { OUTPUT_MAX = 65536, ARGUMENTS_MAX = 12 };

/* One run of the command. */
struct run {
        int status; /* exit status; -1 = a signal */
        char out[OUTPUT_MAX], err[OUTPUT_MAX];
};

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

/* url NULL = none is given; input is standard input; the arguments end with NULL. */
static void run(struct run *r, const char *url, const char *input, ...)
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
        r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        close(in);
        take(out, r->out);
        take(err, r->err);
}

static void contains(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("no \"%s\" in \"%s\"", part, text);
}

#define START(s, ...)                                                                                                  \
        static const struct server_step steps[] = { __VA_ARGS__ };                                                     \
        struct server s;                                                                                               \
        struct run r;                                                                                                  \
        server_start(&s, steps, sizeof(steps) / sizeof(steps[0]))

TEST(it_tells_its_version_without_a_worker)
{
        struct run r;
        run(&r, "http://127.0.0.1:1", "", "version", NULL);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.out, "ferry " FERRY_VERSION "\n");
        run(&r, NULL, "", "--version", NULL);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.out, "ferry " FERRY_VERSION "\n");
}

TEST(help_names_every_command)
{
        static const char *const parts[] = { "version",     "get PATH",       "post PATH",    "put PATH",
                                             "delete PATH", "wait OPERATION", "--token-file", "FERRY_URL" };
        struct run r;
        run(&r, NULL, "", "--help", NULL);
        assert_int_equal(r.status, 0);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                contains(r.out, parts[i]);
        run(&r, NULL, "", "wait", "--help", NULL);
        assert_int_equal(r.status, 0);
        contains(r.out, "--timeout");
}

/* The table of commands is the one source: the manual has what it prints, word for word. */
TEST(the_manual_is_that_of_the_table)
{
        static char manual[OUTPUT_MAX];
        struct run r;
        FILE *file = fopen(FERRY_MAN_PAGE, "re");
        assert_non_null(file);
        manual[fread(manual, 1, sizeof(manual) - 1, file)] = '\0';
        (void)fclose(file);
        run(&r, NULL, "", "help", "--mdoc", NULL);
        assert_int_equal(r.status, 0);
        contains(r.out, ".It Cm fetch Ar URL\n");
        contains(manual, r.out);
}

TEST(options_stand_anywhere)
{
        START(s, { JSON("{}"), .end = SERVER_CLOSE }, { JSON("{}"), .end = SERVER_CLOSE },
              { JSON("{}"), .end = SERVER_CLOSE });
        run(&r, NULL, "", "get", "/a", "--url", s.url, NULL);
        assert_int_equal(r.status, 0);
        run(&r, NULL, "", "get", "-u", s.url, "--", "/a", NULL);
        assert_int_equal(r.status, 0);
        char joined[128];
        snprintf(joined, sizeof(joined), "--url=%s", s.url);
        run(&r, NULL, "", joined, "get", "/a", NULL);
        assert_int_equal(r.status, 0);
        server_clear(&s);
}

TEST(a_slip_of_the_pen_is_understood)
{
        static const struct {
                const char *arguments[3], *meant;
        } slips[] = {
                { { "fetc" }, "did you mean fetch?" },
                { { "ofer", "x" }, "did you mean offer?" },
                { { "ls", "--jsn" }, "did you mean --json?" },
                { { "ls", "--output", "x" }, "ferry ls has no option --output" },
                { { "zzzzzz" }, "see ferry --help" },
        };
        struct run r;
        for (size_t i = 0; i < sizeof(slips) / sizeof(slips[0]); i++) {
                run(&r, NULL, "", slips[i].arguments[0], slips[i].arguments[1], slips[i].arguments[2], NULL);
                assert_int_equal(r.status, 2);
                contains(r.err, slips[i].meant);
        }
}

TEST(workers_have_names)
{
        START(s, { JSON("{}"), .end = SERVER_CLOSE }, { JSON("{}"), .end = SERVER_CLOSE });
        char directory[] = "/tmp/ferry-test-XXXXXX", path[64], token[64];
        assert_non_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/ferry", directory);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(token, sizeof(token), "%s/token", directory);
        FILE *file = fopen(token, "we");
        assert_non_null(file);
        fputs("s3cret\n", file);
        (void)fclose(file);
        snprintf(path, sizeof(path), "%s/ferry/workers", directory);
        file = fopen(path, "we");
        assert_non_null(file);
        fprintf(file, "# ours\nother http://127.0.0.1:1\nprefill  %s token-file=%s # near\n", s.url, token);
        (void)fclose(file);
        setenv("XDG_CONFIG_HOME", directory, 1);
        run(&r, NULL, "", "@prefill", "get", "/a", NULL);
        assert_int_equal(r.status, 0);
        run(&r, NULL, "", "get", "/a", "--url", "@prefill", NULL);
        assert_int_equal(r.status, 0);
        run(&r, NULL, "", "@decode", "get", "/a", NULL);
        assert_int_equal(r.status, 2);
        contains(r.err, "no worker decode in ");
        unsetenv("XDG_CONFIG_HOME");
        server_stop(&s);
        contains(s.requests[0], "Authorization: Bearer s3cret\r\n");
        server_clear(&s);
        unlink(path);
        unlink(token);
        snprintf(path, sizeof(path), "%s/ferry", directory);
        rmdir(path);
        rmdir(directory);
}

/* Each shell reads its own script, where it is installed. */
TEST(completions_are_scripts_of_their_shells)
{
        struct run r;
        run(&r, NULL, "", "completion", "zsh", NULL);
        assert_int_equal(r.status, 0);
        contains(r.out, "#compdef ferry\n");
        run(&r, NULL, "", "completion", "fish", NULL);
        assert_int_equal(r.status, 0);
        contains(r.out,
                 "complete -c ferry -n __fish_use_subcommand -a fetch -d 'fetch what a peer offers into a file'");
        run(&r, NULL, "", "completion", "csh", NULL);
        assert_int_equal(r.status, 2);
        run(&r, NULL, "", "completion", "bash", NULL);
        assert_int_equal(r.status, 0);
        char script[sizeof(r.out) + 256];
        snprintf(script, sizeof(script),
                 "%s\nCOMP_WORDS=(ferry fe); COMP_CWORD=1; _ferry; echo \"${COMPREPLY[*]}\"\n"
                 "COMP_WORDS=(ferry fetch --ver); COMP_CWORD=2; _ferry; echo \"${COMPREPLY[*]}\"\n",
                 r.out);
        char name[] = "/tmp/ferry-test-XXXXXX", command[64];
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        close(fd);
        snprintf(command, sizeof(command), "bash >%s", name);
        FILE *shell = popen(command, "we");
        assert_non_null(shell);
        fputs(script, shell);
        assert_int_equal(pclose(shell), 0);
        shell = fopen(name, "re");
        assert_non_null(shell);
        script[fread(script, 1, sizeof(script) - 1, shell)] = '\0';
        (void)fclose(shell);
        unlink(name);
        assert_string_equal(script, "fetch\n--version --verify\n");
}

TEST(wrong_usage_is_told)
{
        static const char *const wrong[][4] = {
                { NULL },
                { "frobnicate" },
                { "get" },
                { "get", "a", "b" },
                { "put", "/x", "/nonexistent/file" },
                { "post", "/x", "@/nonexistent/file" },
                { "--nonsense", "version" },
                { "--url", "ftp://h", "get", "/" },
                { "--token-file", "/nonexistent", "get", "/" },
                { "wait", "op_1", "--timeout", "soon" },
                { "wait", "op_1", "--timeout", "-1s" },
                { "wait" },
                { "ls", "--done", "--running" },
                { "get", "/a b" },
        };
        struct run r;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                run(&r, NULL, "", wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3], NULL);
                assert_int_equal(r.status, 2);
                contains(r.err, "ferry: ");
                assert_string_equal(r.out, "");
        }
}

TEST(get_prints_what_comes)
{
        START(s, { JSON("{ \"a\" : 1 }"), .end = SERVER_CLOSE }, { JSON("x"), .end = SERVER_CLOSE });
        run(&r, s.url, "", "get", "/v1/worker", NULL);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.out, "{ \"a\" : 1 }");
        assert_string_equal(r.err, "");
        run(&r, "http://127.0.0.1:1", "", "--url", s.url, "get", "v1/limits", NULL);
        assert_int_equal(r.status, 0);
        server_stop(&s);
        contains(s.requests[0], "GET /v1/worker HTTP/1.1\r\n");
        contains(s.requests[1], "GET /v1/limits HTTP/1.1\r\n");
        server_clear(&s);
}

TEST(a_problem_goes_to_standard_error)
{
        START(s, { NOT_FOUND, .end = SERVER_CLOSE });
        run(&r, s.url, "", "get", "/v1/regions/rgn_1", NULL);
        assert_int_equal(r.status, 1);
        assert_string_equal(r.out, "");
        assert_string_equal(r.err, "ferry: 404 not-found: no such region\n");
        server_clear(&s);
}

TEST(no_worker_is_told)
{
        START(s,
              { "HTTP/1.1 400 No\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>", .end = SERVER_CLOSE });
        run(&r, s.url, "", "get", "/", NULL);
        assert_int_equal(r.status, 3);
        contains(r.err, "not the answer of a worker");
        server_stop(&s);
        run(&r, s.url, "", "get", "/", NULL);
        assert_int_equal(r.status, 3);
        contains(r.err, "Connection refused");
        server_clear(&s);
}

TEST(post_takes_its_body_from_anywhere)
{
        START(s, { JSON("{}"), .end = SERVER_CLOSE }, { JSON("{}"), .end = SERVER_CLOSE },
              { JSON("{}"), .end = SERVER_CLOSE }, { JSON("{}"), .end = SERVER_CLOSE });
        char name[] = "/tmp/ferry-test-XXXXXX", at[40];
        int fd = mkstemp(name);
        assert_int_equal(write(fd, "{\"c\":3}", 7), 7);
        close(fd);
        snprintf(at, sizeof(at), "@%s", name);
        run(&r, s.url, "", "post", "/v1/regions", "{\"a\":1}", NULL);
        assert_int_equal(r.status, 0);
        run(&r, s.url, "{\"b\":2}", "post", "/v1/regions", "-", NULL);
        assert_int_equal(r.status, 0);
        run(&r, s.url, "", "post", "/v1/regions", at, NULL);
        assert_int_equal(r.status, 0);
        run(&r, s.url, "", "post", "/v1/operations/op_1/cancel", NULL);
        assert_int_equal(r.status, 0);
        unlink(name);
        server_stop(&s);
        static const char *const bodies[] = { "\r\n\r\n{\"a\":1}", "\r\n\r\n{\"b\":2}", "\r\n\r\n{\"c\":3}" };
        for (size_t i = 0; i < 3; i++) {
                contains(s.requests[i], bodies[i]);
                contains(s.requests[i], "Content-Type: application/json\r\n");
        }
        contains(s.requests[3], "POST /v1/operations/op_1/cancel HTTP/1.1\r\n");
        assert_null(strcasestr(s.requests[3], "content-type"));
        server_clear(&s);
}

TEST(put_sends_a_file)
{
        START(s, { NO_CONTENT, .end = SERVER_CLOSE });
        run(&r, s.url, "octets", "put", "/v1/regions/rgn_1/content?offset=4", "-", NULL);
        assert_int_equal(r.status, 0);
        server_stop(&s);
        contains(s.requests[0], "PUT /v1/regions/rgn_1/content?offset=4 HTTP/1.1\r\n");
        contains(s.requests[0], "Content-Length: 6\r\n");
        contains(s.requests[0], "\r\n\r\noctets");
        server_clear(&s);
}

TEST(delete_is_silent)
{
        START(s, { NO_CONTENT, .end = SERVER_CLOSE });
        run(&r, s.url, "", "delete", "/v1/regions/rgn_1", NULL);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.out, "");
        assert_string_equal(r.err, "");
        server_clear(&s);
}

TEST(the_token_comes_from_a_file)
{
        START(s, { JSON("{}"), .end = SERVER_CLOSE });
        char name[] = "/tmp/ferry-test-XXXXXX";
        int fd = mkstemp(name);
        assert_int_equal(write(fd, "s3cret\n", 7), 7);
        run(&r, s.url, "", "--token-file", name, "get", "/", NULL);
        assert_int_equal(r.status, 0);
        server_stop(&s);
        contains(s.requests[0], "Authorization: Bearer s3cret\r\n");
        assert_int_equal(ftruncate(fd, 0), 0);
        run(&r, s.url, "", "--token-file", name, "get", "/", NULL);
        assert_int_equal(r.status, 2);
        close(fd);
        unlink(name);
        server_clear(&s);
}

TEST(connect_prints_the_answer)
{
#define PEER                                                                                                           \
        "{\"worker\":\"w\",\"epoch\":\"00ff\",\"transport\":\"tcp\",\"connect_us\":1250,\"reused\":false,\"raw\":1}\n"
        START(s, { JSON(PEER), .end = SERVER_CLOSE }, { NOT_FOUND, .end = SERVER_CLOSE });
        run(&r, s.url, "", "connect", "http://peer:1", NULL);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.out, PEER);
        run(&r, s.url, "", "connect", "http://peer:1", NULL);
        assert_int_equal(r.status, 1);
        assert_string_equal(r.out, "");
        server_stop(&s);
        contains(s.requests[0], "POST /v1/peers HTTP/1.1\r\n");
        contains(s.requests[0], "\r\n\r\n{\"url\":\"http://peer:1\"}");
        server_clear(&s);
}

TEST(wait_prints_the_operation_when_it_is_done)
{
        START(s, { OPERATION("IN_PROGRESS", "false", ""), .end = SERVER_CLOSE },
              { OPERATION("COMPLETE", "true", ""), .end = SERVER_CLOSE },
              { OPERATION("COMPLETE", "true", ",\"raw\":1"), .end = SERVER_CLOSE });
        run(&r, s.url, "", "wait", "op_1", "--timeout", "20s", NULL);
        assert_int_equal(r.status, 0);
        contains(r.out, "\"raw\":1}\n");
        assert_string_equal(r.err, ""); /* no progress: it is no terminal */
        server_clear(&s);
}

TEST(wait_tells_of_a_failed_operation)
{
#define ERRORED OPERATION("ERRORED", "true", ",\"error\":{\"code\":\"peer-lost\",\"detail\":\"it died\"}")
        START(s, { ERRORED, .end = SERVER_CLOSE }, { ERRORED, .end = SERVER_CLOSE });
        run(&r, s.url, "", "wait", "op_1", NULL);
        assert_int_equal(r.status, 1);
        contains(r.out, "\"status\":\"ERRORED\"");
        assert_string_equal(r.err,
                            "ferry: op_1 did not complete: peer-lost: it died (does the other worker still run?)\n");
        server_clear(&s);
}

TEST(wait_gives_up_in_time)
{
        START(s, { OPERATION("IN_PROGRESS", "false", ""), .end = SERVER_CLOSE });
        run(&r, s.url, "", "wait", "--timeout", "0ms", "op_1", NULL);
        assert_int_equal(r.status, 4);
        assert_string_equal(r.out, "");
        contains(r.err, "op_1 is not done yet");
        server_clear(&s);
}

TEST(several_are_waited_for_by_one_request)
{
#define PAGE(...)                                                                                                      \
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"operations\":[" __VA_ARGS__  \
        "]}"
#define ONE(id, status)                                                                                                \
        "{\"id\":\"" id "\",\"kind\":\"read\",\"status\":\"" status "\",\"done\":true,\"revision\":2,"                 \
        "\"bytes_total\":8,\"bytes_done\":8}"
#define GONE_ONE "{\"code\":\"gone\",\"status\":410,\"detail\":\"deleted\"}"
        START(s, { PAGE(ONE("op_1", "COMPLETE") "," GONE_ONE), .end = SERVER_CLOSE },
              { PAGE(ONE("op_1", "COMPLETE") "," GONE_ONE), .end = SERVER_CLOSE });
        run(&r, s.url, "", "wait", "op_1", "op_2", NULL);
        assert_int_equal(r.status, 1);
        contains(r.out, "\"id\":\"op_1\"");
        contains(r.out, "}\n{\"code\":\"gone\"");
        assert_string_equal(r.err, "ferry: op_2: deleted\n");
        server_stop(&s);
        contains(s.requests[0], "GET /v1/operations?ids=op_1,op_2&wait_ms=30000 HTTP/1.1\r\n");
        contains(s.requests[1], "GET /v1/operations?ids=op_1,op_2 HTTP/1.1\r\n");
        server_clear(&s);
}

TEST(ls_filters_at_the_worker)
{
        START(s, { PAGE(), .end = SERVER_CLOSE });
        run(&r, s.url, "", "ls", "--label", "a b&c", "--running", "--newest", NULL);
        assert_int_equal(r.status, 0);
        server_stop(&s);
        contains(s.requests[0], "GET /v1/operations?limit=1000&label=a%20b%26c&done=false&order=newest HTTP/1.1\r\n");
        server_clear(&s);
}
