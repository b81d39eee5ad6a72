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

TEST(it_tells_its_version_without_a_worker)
{
        run(0, "http://127.0.0.1:1", "", "version", NULL);
        assert_string_equal(r.out, "ferry " FERRY_VERSION "\n");
        run(0, NULL, "", "--version", NULL);
        assert_string_equal(r.out, "ferry " FERRY_VERSION "\n");
}

TEST(help_names_every_command)
{
        run(0, NULL, "", "--help", NULL);
        FOR_EACH_TEXT (part, "version", "get PATH", "post PATH", "put PATH", "delete PATH", "wait OPERATION",
                       "--token-file", "FERRY_URL")
                contains(r.out, part);
        run(0, NULL, "", "wait", "--help", NULL);
        contains(r.out, "--timeout");
        run(0, NULL, "", "accept", "--help", NULL);
        contains(r.out, "Usage: ferry [@WORKER] accept -o FILE --size SIZE [OPTION]...\n");
        run(0, NULL, "", "spread", "--help", NULL);
        for (const char *line = r.out, *end; strncmp(line, "Options:", strlen("Options:")) != 0; line = end + 1) {
                end = strchr(line, '\n');
                assert_non_null(end);
                assert_in_range(end - line, 0, 80);
        }
}

/* The table of commands is the one source: the manual has what it prints, word for word. */
TEST(the_manual_is_that_of_the_table)
{
        static char manual[OUTPUT_MAX];
        FILE *file = fopen(FERRY_MAN_PAGE, "re");
        assert_non_null(file);
        manual[fread(manual, 1, sizeof(manual) - 1, file)] = '\0';
        (void)fclose(file);
        run(0, NULL, "", "help", "--mdoc", NULL);
        contains(r.out, ".It Cm fetch Ar URL\n");
        contains(manual, r.out);
}

TEST(options_stand_anywhere)
{
        START(s, { JSON("{}") }, { JSON("{}") }, { JSON("{}") });
        run(0, NULL, "", "get", "/a", "--url", s->url, NULL);
        run(0, NULL, "", "get", "-u", s->url, "--", "/a", NULL);
        run(0, NULL, "", text_format("--url=%s", s->url), "get", "/a", NULL);
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
                { { "help", "fetc" }, "did you mean fetch?" },
        };
        for (size_t i = 0; i < UNIT_COUNT(slips); i++) {
                run(2, NULL, "", slips[i].arguments[0], slips[i].arguments[1], slips[i].arguments[2], NULL);
                contains(r.err, slips[i].meant);
        }
}

/* A directory with a file of workers, for XDG_CONFIG_HOME, and files of tokens. */
static char config[sizeof("/tmp/ferry-test-XXXXXX")];

static const char *config_write(const char *name, const char *text)
{
        const char *path = text_format("%s/%s", config, name);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
        return path;
}

static void config_remove(void *directory)
{
        unsetenv("XDG_CONFIG_HOME");
        (void)!system(text_format("rm -r %s", (const char *)directory));
}

static void config_make(void)
{
        strcpy(config, "/tmp/ferry-test-XXXXXX");
        assert_non_null(mkdtemp(config));
        test_keep(config, config_remove);
        assert_int_equal(mkdir(text_format("%s/ferry", config), 0700), 0);
        setenv("XDG_CONFIG_HOME", config, 1);
}

TEST(workers_have_names)
{
        START(s, { JSON("{}") }, { JSON("{}") }, { JSON("{}") }, { JSON("{}") });
        config_make();
        config_write("token", "s3cret\n");
        char *mine = strdup(config_write("mine", "m1ne\n"));
        test_keep(mine, free);
        config_write("ferry/workers",
                     text_format("# ours\nother http://127.0.0.1:1\nprefill  %s token-file=%s/token # near\n", s->url,
                                 config));
        run(0, NULL, "", "@prefill", "get", "/a", NULL);
        run(0, NULL, "", "get", "/a", "--url", "@prefill", NULL);
        run(2, NULL, "", "@decode", "get", "/a", NULL);
        contains(r.err, "no worker decode in ");
        /* The environment is for no worker in particular, an option for this one. */
        setenv("FERRY_TOKEN_FILE", mine, 1);
        run(0, NULL, "", "@prefill", "get", "/a", NULL);
        run(0, NULL, "", "@prefill", "get", "/a", "--token-file", mine, NULL);
        unsetenv("FERRY_TOKEN_FILE");
        for (size_t i = 0; i < 4; i++)
                contains(request_of(s, i),
                         i < 3 ? "Authorization: Bearer s3cret\r\n" : "Authorization: Bearer m1ne\r\n");
}

#define REGION(id) JSON("{\"id\":\"" id "\",\"size\":8,\"device\":\"host\"}")

/* The token that request i had, "" for none. */
static void has_token(const struct server *s, size_t i, const char *token)
{
        assert_true(i < s->served);
        if (*token)
                contains(s->requests[i], text_format("Authorization: Bearer %s\r\n", token));
        else
                assert_null(strstr(s->requests[i], "Authorization:"));
}

TEST(each_worker_gets_its_own_token)
{
        static const struct server_step steps[] = { { REGION("rgn_1") }, { REGION("rgn_1") }, { REGION("rgn_1") } };
        static const struct server_step refuses[] = { { NOT_FOUND }, { NOT_FOUND }, { NOT_FOUND } };
        struct server *a = start(steps, 3), *b = start(refuses, 3), *c = start(refuses, 3);
        config_make();
        config_write("a", "a-token\n");
        config_write("c", "c-token\n");
        char *peer = strdup(config_write("b", "b-token\n"));
        test_keep(peer, free);
        config_write("ferry/workers", text_format("a %s token-file=%s/a\nb %s\nc %s token-file=%s/c\n", a->url, config,
                                                  b->url, c->url, config));
        run(1, NULL, "", "@a", "copy", "@a/rgn_1", "@b/rgn_2", "--peer-token-file", peer, NULL);
        run(1, NULL, "", "@a", "copy", "@a/rgn_1", "@c/rgn_2", "--peer-token-file", peer, NULL);
        run(1, NULL, "", "@a", "copy", "rgn_1", "@b/rgn_2", "--peer-token-file", peer, "--token-file", peer, NULL);
        setenv("FERRY_PEER_TOKEN_FILE", peer, 1);
        run(1, NULL, "", "-u", b->url, "copy", "@c/rgn_1", "x", NULL);
        run(1, NULL, "", "-u", b->url, "copy", "rgn_1", "x", NULL); /* nobody's token is for b as our own worker */
        unsetenv("FERRY_PEER_TOKEN_FILE");
        run(1, NULL, "", "-u", c->url, "copy", "@c/rgn_1", "x", NULL);
        server_stop(a);
        server_stop(b);
        server_stop(c);
        has_token(a, 0, "a-token");
        has_token(a, 1, "a-token");
        has_token(a, 2, "b-token");
        has_token(b, 0, "b-token");
        has_token(b, 1, "b-token");
        has_token(b, 2, "");
        for (size_t i = 0; i < 3; i++)
                has_token(c, i, "c-token");
}

TEST(each_worker_gets_its_own_certificate)
{
        static const struct server_step steps[] = { { REGION("rgn_1") }, { REGION("rgn_1") }, { REGION("rgn_1") } };
        struct server *a = start(steps, 3);
        config_make();
        char *file = strdup(config_write("pem", ""));
        test_keep(file, free);
        config_write("ferry/workers",
                     text_format("a %s cert=%s key=/nonexistent/a\nb http://127.0.0.1:1 ca-file=/nonexistent/b\n"
                                 "c http://127.0.0.1:1 cert=%s\nd http://127.0.0.1:1 key=/nonexistent/d\n",
                                 a->url, file, file));
        /* A file that is missing tells whose setting it is: that of the line of another worker … */
        run(2, NULL, "", "-u", a->url, "copy", "rgn_1", "@b/rgn_2", "--ca-file", file, NULL);
        run(2, NULL, "", "-u", a->url, "copy", "rgn_1", "@d/rgn_2", "--cert", file, "--key", file, NULL);
        /* … and neither half of a pair of another source. */
        run(3, NULL, "", "@a", "copy", "rgn_1", "@c/rgn_2", "--cert", file, NULL);
        setenv("FERRY_KEY", "/nonexistent/key", 1);
        run(3, NULL, "", "-u", "@c", "copy", "rgn_1", "x", NULL);
        run(3, NULL, "", "-u", "http://127.0.0.1:1", "copy", "rgn_1", "x", "--cert", file, NULL);
        unsetenv("FERRY_KEY");
}

/* Each shell reads its own script, where it is installed. */
TEST(completions_are_scripts_of_their_shells)
{
        run(0, NULL, "", "completion", "zsh", NULL);
        contains(r.out, "#compdef ferry\n");
        run(0, NULL, "", "completion", "fish", NULL);
        contains(r.out,
                 "complete -c ferry -n __fish_use_subcommand -a fetch -d 'fetch what a peer offers into a file'");
        run(2, NULL, "", "completion", "csh", NULL);
        run(0, NULL, "", "completion", "bash", NULL);
        char script[sizeof(r.out) + 1024];
        snprintf(script, sizeof(script),
                 "%s\ncomplete_last() {\n"
                 "        COMP_LINE=$*; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))\n"
                 "        _ferry; echo \"${COMPREPLY[*]}\"\n"
                 "}\n"
                 "complete_last ferry fe\n"
                 "complete_last ferry fetch --ver\n"
                 "complete_last ferry ls --status I\n"
                 "complete_last ferry ls --status=I\n"
                 "complete_last ferry --url http://a ca\n"
                 "complete_last ferry help ca\n"
                 "XDG_CONFIG_HOME=$(mktemp -d); mkdir $XDG_CONFIG_HOME/ferry\n"
                 "printf '# no\\nprefill http://a # x\\n decode http://b' >$XDG_CONFIG_HOME/ferry/workers\n"
                 "complete_last ferry @\n"
                 "complete_last ferry copy @p\n"
                 "cd $XDG_CONFIG_HOME; echo \"it's\" '`touch${IFS}x` $(touch${IFS}x)' | tr ' ' '\\n' >ferry/workers\n"
                 "complete_last ferry @\n"
                 "ls; cd /\n"
                 "rm -r $XDG_CONFIG_HOME\n",
                 r.out);
        char name[] = "/tmp/ferry-test-XXXXXX";
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        close(fd);
        FILE *shell = popen(text_format("bash >%s", name), "we");
        assert_non_null(shell);
        fputs(script, shell);
        assert_int_equal(pclose(shell), 0);
        shell = fopen(name, "re");
        assert_non_null(shell);
        script[fread(script, 1, sizeof(script) - 1, shell)] = '\0';
        (void)fclose(shell);
        unlink(name);
        assert_string_equal(script, "fetch\n--version --verify\nINITIALIZED IN_PROGRESS\nINITIALIZED IN_PROGRESS\n"
                                    "cancel\ncancel\n@prefill @decode\n@prefill\n"
                                    "@it\\'s @\\`touch\\$\\{IFS\\}x\\` @\\$\\(touch\\$\\{IFS\\}x\\)\nferry\n");
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
        for (size_t i = 0; i < UNIT_COUNT(wrong); i++) {
                run(2, NULL, "", wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3], NULL);
                contains(r.err, "ferry: ");
                assert_string_equal(r.out, "");
        }
}

TEST(get_prints_what_comes)
{
        START(s, { JSON("{ \"a\" : 1 }") }, { JSON("x") });
        run(0, s->url, "", "get", "/v1/worker", NULL);
        assert_string_equal(r.out, "{ \"a\" : 1 }");
        assert_string_equal(r.err, "");
        run(0, "http://127.0.0.1:1", "", "--url", s->url, "get", "v1/limits", NULL);
        contains(request_of(s, 0), "GET /v1/worker HTTP/1.1\r\n");
        contains(request_of(s, 1), "GET /v1/limits HTTP/1.1\r\n");
}

TEST(a_problem_goes_to_standard_error)
{
        START(s, { NOT_FOUND });
        run(1, s->url, "", "get", "/v1/regions/rgn_1", NULL);
        assert_string_equal(r.out, "");
        assert_string_equal(r.err, "ferry: 404 not-found: no such region\n");
}

TEST(no_worker_is_told)
{
        START(s, { "HTTP/1.1 400 No\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>" });
        run(3, s->url, "", "get", "/", NULL);
        contains(r.err, "not the answer of a worker");
        server_stop(s);
        run(3, s->url, "", "get", "/", NULL);
        contains(r.err, "Connection refused");
}

TEST(post_takes_its_body_from_anywhere)
{
        START(s, { JSON("{}") }, { JSON("{}") }, { JSON("{}") }, { JSON("{}") });
        char name[] = "/tmp/ferry-test-XXXXXX";
        int fd = mkstemp(name);
        assert_int_equal(write(fd, "{\"c\":3}", 7), 7);
        close(fd);
        const char *at = text_format("@%s", name);
        run(0, s->url, "", "post", "/v1/regions", "{\"a\":1}", NULL);
        run(0, s->url, "{\"b\":2}", "post", "/v1/regions", "-", NULL);
        run(0, s->url, "", "post", "/v1/regions", at, NULL);
        run(0, s->url, "", "post", "/v1/operations/op_1/cancel", NULL);
        unlink(name);
        static const char *const bodies[] = { "\r\n\r\n{\"a\":1}", "\r\n\r\n{\"b\":2}", "\r\n\r\n{\"c\":3}" };
        for (size_t i = 0; i < 3; i++) {
                contains(request_of(s, i), bodies[i]);
                contains(request_of(s, i), "Content-Type: application/json\r\n");
        }
        contains(request_of(s, 3), "POST /v1/operations/op_1/cancel HTTP/1.1\r\n");
        assert_null(strcasestr(request_of(s, 3), "content-type"));
}

TEST(put_sends_a_file)
{
        START(s, { NO_CONTENT });
        run(0, s->url, "octets", "put", "/v1/regions/rgn_1/content?offset=4", "-", NULL);
        contains(request_of(s, 0), "PUT /v1/regions/rgn_1/content?offset=4 HTTP/1.1\r\n");
        contains(request_of(s, 0), "Content-Length: 6\r\n");
        contains(request_of(s, 0), "\r\n\r\noctets");
}

TEST(delete_is_silent)
{
        START(s, { NO_CONTENT });
        run(0, s->url, "", "delete", "/v1/regions/rgn_1", NULL);
        assert_string_equal(r.out, "");
        assert_string_equal(r.err, "");
}

TEST(the_token_comes_from_a_file)
{
        START(s, { JSON("{}") });
        char name[] = "/tmp/ferry-test-XXXXXX";
        int fd = mkstemp(name);
        assert_int_equal(write(fd, "s3cret\n", 7), 7);
        run(0, s->url, "", "--token-file", name, "get", "/", NULL);
        contains(request_of(s, 0), "Authorization: Bearer s3cret\r\n");
        assert_int_equal(ftruncate(fd, 0), 0);
        run(2, s->url, "", "--token-file", name, "get", "/", NULL);
        close(fd);
        unlink(name);
}

TEST(connect_prints_the_answer)
{
#define PEER                                                                                                           \
        "{\"worker\":\"w\",\"epoch\":\"00ff\",\"transport\":\"tcp\",\"connect_us\":1250,\"reused\":false,\"raw\":1}\n"
        START(s, { JSON(PEER) }, { NOT_FOUND });
        run(0, s->url, "", "connect", "http://peer:1", NULL);
        assert_string_equal(r.out, PEER);
        run(1, s->url, "", "connect", "http://peer:1", NULL);
        assert_string_equal(r.out, "");
        contains(request_of(s, 0), "POST /v1/peers HTTP/1.1\r\n");
        contains(request_of(s, 0), "\r\n\r\n{\"url\":\"http://peer:1\"}");
}

TEST(wait_prints_the_operation_when_it_is_done)
{
        START(s, { OPERATION("IN_PROGRESS", "false", "") }, { OPERATION("COMPLETE", "true", "") },
              { OPERATION("COMPLETE", "true", ",\"raw\":1") });
        run(0, s->url, "", "wait", "op_1", "--timeout", "20s", NULL);
        contains(r.out, "\"raw\":1}\n");
        assert_string_equal(r.err, ""); /* no progress: it is no terminal */
}

TEST(wait_tells_of_a_failed_operation)
{
#define ERRORED OPERATION("ERRORED", "true", ",\"error\":{\"code\":\"peer-lost\",\"detail\":\"it died\"}")
        START(s, { ERRORED }, { ERRORED });
        run(1, s->url, "", "wait", "op_1", NULL);
        contains(r.out, "\"status\":\"ERRORED\"");
        assert_string_equal(r.err,
                            "ferry: op_1 did not complete: peer-lost: it died (does the other worker still run?)\n");
}

TEST(wait_gives_up_in_time)
{
        START(s, { OPERATION("IN_PROGRESS", "false", "") });
        run(4, s->url, "", "wait", "--timeout", "0ms", "op_1", NULL);
        assert_string_equal(r.out, "");
        contains(r.err, "op_1 is not done yet");
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
        START(s, { PAGE(ONE("op_1", "COMPLETE") "," GONE_ONE) }, { PAGE(ONE("op_1", "COMPLETE") "," GONE_ONE) });
        run(1, s->url, "", "wait", "op_1", "op_2", NULL);
        contains(r.out, "\"id\":\"op_1\"");
        contains(r.out, "}\n{\"code\":\"gone\"");
        assert_string_equal(r.err, "ferry: op_2: deleted\n");
        contains(request_of(s, 0), "GET /v1/operations?ids=op_1,op_2&wait_ms=30000 HTTP/1.1\r\n");
        contains(request_of(s, 1), "GET /v1/operations?ids=op_1,op_2 HTTP/1.1\r\n");
}

TEST(ls_names_the_peer_or_its_epoch)
{
        START(s, { PAGE("{\"id\":\"op_1\",\"kind\":\"readable\",\"peer\":{\"worker\":\"reader-1\",\"epoch\":\"00ff\"}},"
                        "{\"id\":\"op_2\",\"kind\":\"readable\",\"peer\":{\"epoch\":\"00fe\"}},{\"id\":\"op_3\"}") });
        run(0, s->url, "", "ls", NULL);
        contains(r.out, "PEER");
        contains(r.out, "reader-1");
        contains(r.out, "00fe");
        assert_null(strstr(r.out, "00ff"));
}

TEST(ls_filters_at_the_worker)
{
        START(s, { PAGE() });
        run(0, s->url, "", "ls", "--label", "a b&c", "--running", "--newest", NULL);
        contains(request_of(s, 0),
                 "GET /v1/operations?limit=1000&label=a%20b%26c&done=false&order=newest HTTP/1.1\r\n");
}
