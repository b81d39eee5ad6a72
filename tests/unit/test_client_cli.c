/* SPDX-License-Identifier: Apache-2.0 */
/* The ferry command against the scripted server. Its path comes as the first argument. */
#include <ferry/options.h>

#include "cli_fixture.h"

#define NO_CONTENT "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
#define OPERATION(status, done, extra)                                                                                 \
        JSON("{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"" status "\",\"done\":" done                             \
             ",\"revision\":2,\"bytes_total\":8,\"bytes_done\":4" extra "}")

TEST(it_tells_its_version_without_a_worker)
{
        run(0, "http://127.0.0.1:1", "", "version", NULL);
        assert_int_equal(strncmp(r.out, "ferry " FERRY_VERSION, strlen("ferry " FERRY_VERSION)), 0);
        run(0, NULL, "", "--version", NULL);
        assert_int_equal(strncmp(r.out, "ferry " FERRY_VERSION, strlen("ferry " FERRY_VERSION)), 0);
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

/* Every name of a variable that the manual has. */
static void assert_in_table(const char *path)
{
        char line[256], name[64];
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                const char *at = strstr(line, "Ev FERRY_");
                bool found = !at || sscanf(at, "Ev FERRY_%63[A-Z_]", name) != 1;
                for (size_t i = 0; !found && i < ferry_variables_count; i++)
                        found = ferry_variables[i] && strcmp(ferry_variables[i] + strlen("FERRY_"), name) == 0;
                if (!found)
                        fail_msg("FERRY_%s is missing", name);
        }
        fclose(file);
}

TEST(a_misspelt_variable_is_warned_of)
{
        static const char page[] = FERRY_MAN_PAGE;
        char other[sizeof(page) + 32];

        assert_in_table(page);
        snprintf(other, sizeof(other), "%.*s/nats/ferry-nats.1", (int)(strstr(page, "/cli/") - page), page);
        assert_in_table(other);
        setenv("FERRY_TOKEN", "/nonexistent", 1);
        run(0, NULL, "", "version", NULL);
        unsetenv("FERRY_TOKEN");
        assert_string_equal(r.err, "ferry: the variable FERRY_TOKEN is unknown: did you mean FERRY_TOKEN_FILE?\n");
        assert_int_equal(strncmp(r.out, "ferry " FERRY_VERSION, strlen("ferry " FERRY_VERSION)), 0);
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
                { { "" }, "see ferry --help" },
        };
        for (size_t i = 0; i < UNIT_COUNT(slips); i++) {
                run(2, NULL, "", slips[i].arguments[0], slips[i].arguments[1], slips[i].arguments[2], NULL);
                contains(r.err, slips[i].meant);
        }
}

/* Each shell reads its own script, where it is installed. */
TEST(completions_are_scripts_of_their_shells)
{
        run(0, NULL, "", "completion", "zsh", NULL);
        contains(r.out, "#compdef ferry\n");
        run(0, NULL, "", "completion", "fish", NULL);
        contains(r.out, "command >/dev/null' -a fetch -d 'fetch an offer into a file'");
        run(2, NULL, "", "completion", "csh", NULL);
        run(0, NULL, "", "completion", "bash", NULL);
        char script[sizeof(r.out) + 2048], directory[512];
        snprintf(directory, sizeof(directory), "%s", getenv("FERRY"));
        *strrchr(directory, '/') = '\0';
        snprintf(script, sizeof(script),
                 "%s\nPATH=%s:$PATH\ncomplete_last() {\n"
                 "        COMP_LINE=$*; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))\n"
                 "        _ferry ferry \"${*: -1}\"; echo \"${COMPREPLY[*]}\"\n"
                 "}\n"
                 "complete_last ferry fe\n"
                 "complete_last ferry fetch --ver\n"
                 "complete_last ferry ls --status I\n"
                 "complete_last ferry ls --status=I\n"
                 "complete_last ferry --url http://a ca\n"
                 "complete_last ferry help ca\n"
                 "export XDG_CONFIG_HOME=$(mktemp -d); mkdir $XDG_CONFIG_HOME/ferry\n"
                 "printf '# no\\nprefill http://a # x\\n decode http://b' >$XDG_CONFIG_HOME/ferry/workers\n"
                 "complete_last ferry @\n"
                 "complete_last ferry copy @p\n"
                 "cd $XDG_CONFIG_HOME; echo \"it's\" '`touch${IFS}x` $(touch${IFS}x)' | tr ' ' '\\n' >ferry/workers\n"
                 "complete_last ferry @\n"
                 "ls; cd /\n"
                 "rm -r $XDG_CONFIG_HOME\n",
                 r.out, directory);
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

TEST(errors_are_json_where_that_is_asked_for)
{
        static const char *const wrong[][4] = {
                { "-j", "ls", "--bogus" }, { "ls", "--bogus", "--json" }, { "frobnicate", "-j" }, { "wait", "-qj" }
        };
        START(s, { NOT_FOUND });
        run(1, s->url, "", "get", "-j", "/v1/regions/rgn_1", NULL);
        assert_string_equal(r.out, "");
        assert_string_equal(r.err,
                            "{\"error\":{\"code\":\"not-found\",\"message\":\"404 not-found: no such region\"}}\n");
        for (size_t i = 0; i < UNIT_COUNT(wrong); i++) {
                run(2, NULL, "", wrong[i][0], wrong[i][1], wrong[i][2], NULL);
                assert_int_equal(strncmp(r.err, "{\"error\":{\"message\":\"", 21), 0);
                assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1);
        }
}

TEST(an_answer_becomes_a_document_where_that_is_asked_for)
{
        START(s, { JSON("{\"a\":[1,{\"b/c\":\"d\"}]}") }, { JSON("x") });
        run(0, s->url, "", "get", "/", "--json", NULL);
        assert_string_equal(r.out, "{\n  \"a\": [\n    1,\n    {\n      \"b/c\": \"d\"\n    }\n  ]\n}\n");
        run(0, s->url, "", "get", "/", "--json", NULL);
        assert_string_equal(r.out, "x\n");
}

TEST(help_of_a_command_ends_with_examples)
{
        run(0, NULL, "", "fetch", "--help", NULL);
        contains(r.out, "\n\nExamples:\n  ferry @b fetch @a/op_0123456789abcdef -o weights.bin\n");
        assert_string_equal(r.out + strlen(r.out) - strlen("| tar x\n"), "| tar x\n");
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

TEST(connect_prints_the_answer)
{
#define PEER                                                                                                           \
        "{\"worker\":\"w\",\"epoch\":\"00ff\",\"transport\":\"tcp\",\"connect_us\":1250,\"reused\":false,\"raw\":1}\n"
        START(s, { JSON(PEER) }, { NOT_FOUND });
        run(0, s->url, "", "connect", "http://peer:1", NULL);
        contains(r.out, "{\n  \"worker\": \"w\",\n  \"epoch\": \"00ff\",\n");
        contains(r.out, "  \"raw\": 1\n}\n");
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
#define GONE_ONE "{\"id\":\"op_2\",\"problem\":{\"code\":\"gone\",\"status\":410,\"detail\":\"deleted\"}}"
        START(s, { PAGE(ONE("op_1", "COMPLETE") "," GONE_ONE) }, { PAGE(ONE("op_1", "COMPLETE") "," GONE_ONE) });
        run(1, s->url, "", "wait", "op_1", "op_2", NULL);
        contains(r.out, "\"id\":\"op_1\"");
        contains(r.out, "}\n{\"id\":\"op_2\",\"problem\":{\"code\":\"gone\"");
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

#define NO_LIST                                                                                                        \
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"                               \
        "{\"operations\":5,\"regions\":{},\"peers\":null}"

TEST(what_is_no_list_is_told)
{
        START(s, { NO_LIST }, { NO_LIST }, { NO_LIST });
        FOR_EACH_TEXT (command, "ls", "regions", "peers") {
                run(3, s->url, "", command, NULL);
                contains(r.err, "is not what a worker answers");
        }
}

TEST(ls_filters_at_the_worker)
{
        START(s, { PAGE() });
        run(0, s->url, "", "ls", "--label", "a b&c", "--running", "--newest", NULL);
        contains(request_of(s, 0),
                 "GET /v1/operations?limit=1000&label=a%20b%26c&done=false&order=newest HTTP/1.1\r\n");
}
