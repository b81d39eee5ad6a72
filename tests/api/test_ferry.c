/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "steps.h"

/* The ferry command: enough to script with, and exit statuses that tell what happened. */

enum { OK, PROBLEM, USAGE, UNREACHABLE, LATE };

struct run {
        int status;
        const char *output, *errors;
};

/* ferry with --url of the worker (NULL = without) and the arguments after it, up to NULL. */
static struct run ferry(const struct worker *w, const char *input, const char *const *arguments)
{
        const char *argv[24] = { getenv("FERRY") };
        struct run run = { 0 };
        size_t n = 1;

        assert_non_null(argv[0]);
        if (w) {
                argv[n++] = "--url";
                argv[n++] = w->url;
        }
        while (*arguments)
                argv[n++] = *arguments++;
        argv[n] = NULL;
        run.status = command_run(argv, input, &run.output, &run.errors);
        return run;
}

#define FERRY(w, ...) ferry(w, NULL, STRINGS(__VA_ARGS__))

/* Asserts the status and that the complaint (one line, "ferry: …") contains text. */
static void assert_complains(struct run run, int status, const char *text)
{
        if (run.status != status || !strstr(run.errors, text))
                print_error("status %d: %s%s\n", run.status, run.output, run.errors);
        assert_int_equal(run.status, status);
        assert_non_null(strstr(run.errors, text));
        assert_int_equal(strncmp(run.errors, "ferry: ", 7), 0);
        assert_ptr_equal(strchr(run.errors, '\n') + 1, run.errors + strlen(run.errors));
}

TEST(version_and_help_need_no_worker)
{
        static const char *const words[] = { "get",     "post",  "put",       "delete",       "wait",       "connect",
                                             "version", "--url", "FERRY_URL", "--token-file", "Exit status" };
        const char *wanted = text_format("ferry %s", ferry_version());
        struct run run = FERRY(NULL, "version");

        assert_int_equal(run.status, OK);
        assert_int_equal(strncmp(run.output, wanted, strlen(wanted)), 0);
        assert_string_equal(run.errors, "");
        run = FERRY(NULL, "--version");
        assert_int_equal(strncmp(run.output, wanted, strlen(wanted)), 0);
        run = FERRY(NULL, "--help");
        assert_int_equal(run.status, OK);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                assert_non_null(strstr(run.output, words[i]));
}

ON_WORKER(resources_are_made_read_and_deleted)
{
        static const char content[] = "what travels by ferry";
        char path[] = "/tmp/ferry-test-XXXXXX";
        const char *target;
        struct json_object *region;
        struct run run;
        int fd;

        run = FERRY(w, "get", "/v1/worker");
        assert_int_equal(run.status, OK);
        assert_non_null(strstr(run.output, "\"name\":\"w\""));
        assert_string_equal(run.errors, "");

        run = FERRY(w, "post", "v1/regions", "{\"size\":21,\"name\":\"box\"}"); /* a path needs no slash in front */
        assert_int_equal(run.status, OK);
        region = json_parse(run.output);
        assert_string_equal(json_text(region, "name"), "box");

        target = text_format("/v1/regions/%s/content", json_text(region, "id"));
        fd = mkstemp(path);
        assert_int_equal(write(fd, content, 21), 21);
        (void)close(fd);
        run = FERRY(w, "put", target, path);
        assert_int_equal(run.status, OK);
        run = FERRY(w, "get", target);
        assert_int_equal(run.status, OK);
        assert_string_equal(run.output, content); /* nothing added */
        run = ferry(w, "from standard input!!", STRINGS("put", target, "-"));
        assert_int_equal(run.status, OK);
        run = FERRY(w, "get", target);
        assert_string_equal(run.output, "from standard input!!");

        target = text_format("/v1/regions/%s", json_text(region, "id"));
        run = FERRY(w, "delete", target);
        assert_int_equal(run.status, OK);
        assert_string_equal(run.output, "");
        assert_complains(FERRY(w, "get", target), PROBLEM, "404");
        assert_int_equal(unlink(path), 0);
}

ON_WORKER(bodies_come_from_the_argument_a_file_or_standard_input)
{
        char path[] = "/tmp/ferry-test-XXXXXX";
        const char *at;
        struct run run;
        int fd;

        fd = mkstemp(path);
        assert_int_equal(dprintf(fd, "{\"size\":33}"), 11);
        (void)close(fd);
        at = text_format("@%s", path);
        run = FERRY(w, "post", "/v1/regions", at);
        assert_int_equal(run.status, OK);
        assert_non_null(strstr(run.output, "\"size\":33"));
        run = ferry(w, "{\"size\":44}", STRINGS("post", "/v1/regions", "-"));
        assert_int_equal(run.status, OK);
        assert_non_null(strstr(run.output, "\"size\":44"));
        assert_int_equal(unlink(path), 0);
        assert_complains(FERRY(w, "post", "/v1/regions", at), USAGE, path);
}

ON_WORKER(a_problem_is_told_and_is_status_one)
{
        assert_complains(FERRY(w, "get", "/v1/regions/rgn_0000000000000001"), PROBLEM, "not-found");
        assert_complains(FERRY(w, "get", "/nowhere"), PROBLEM, "not-found");
        assert_complains(FERRY(w, "post", "/v1/regions", "{\"size\":0}"), PROBLEM, "/size");
        assert_complains(FERRY(w, "post", "/v1/regions", "{"), PROBLEM, "invalid-json");
        assert_complains(FERRY(w, "delete", "/v1/worker"), PROBLEM, "method-not-allowed");
        assert_complains(FERRY(w, "wait", "op_0000000000000001"), PROBLEM, "not-found");
}

TEST(wrong_arguments_are_status_two)
{
        assert_complains(FERRY(NULL, "--url", "http://127.0.0.1:1"), USAGE, "no command");
        assert_complains(FERRY(NULL, "fly"), USAGE, "fly");
        assert_complains(FERRY(NULL, "get"), USAGE, "usage: ferry get PATH");
        assert_complains(FERRY(NULL, "get", "/a", "/b"), USAGE, "usage: ferry get PATH");
        assert_complains(FERRY(NULL, "--url", "gopher://x", "get", "/"), USAGE, "gopher://x");
        assert_complains(FERRY(NULL, "--token-file", "/nonexistent", "get", "/"), USAGE, "/nonexistent");
        assert_complains(FERRY(NULL, "put", "/x", "/nonexistent"), USAGE, "/nonexistent");
        assert_complains(FERRY(NULL, "wait", "op_1", "--timeout", "soon"), USAGE, "soon");
}

ON_WORKER(no_worker_is_status_three)
{
        char *url;

        url = strdup(w->url);
        worker_stop(w);
        assert_complains(FERRY(NULL, "--url", url, "get", "/v1/worker"), UNREACHABLE, "127.0.0.1");
        assert_complains(FERRY(NULL, "--url", "unix:/nonexistent.sock", "get", "/"), UNREACHABLE, "");
        free(url);
}

ON_WORKER(wait_tells_how_an_operation_ended)
{
        OPERATION offer;
        struct run run;
        const char *region = region_make(w, 4096, 0);

        offer_make(w, FERRY_READABLE, region, &offer);
        assert_complains(FERRY(w, "wait", offer.id, "--timeout", "50ms"), LATE, "not done yet");
        assert_int_equal(ferry_cancel_operation(w->client, offer.id, NULL), 0);
        run = FERRY(w, "wait", offer.id);
        assert_non_null(strstr(run.output, "\"status\":\"CANCELLED\""));
        assert_complains(run, PROBLEM, "cancelled");
}

ON_WORKER(several_are_waited_for_and_found_by_their_label)
{
        struct ferry_operation_results offers;
        struct run run;
        const char *region = region_make(w, 4096, 0);

        const struct ferry_descriptor all = { .region = region };
        struct ferry_operation_spec specs[2];
        specs[0] = specs[1] = (struct ferry_operation_spec){
                .kind = FERRY_READABLE, .descriptors = &all, .n_descriptors = 1, .uses = 2
        };
        specs[1].label = "a b&c";
        assert_int_equal(ferry_create_operations(w->client, specs, 2, &offers), 0);
        const char *first = offers.items[0].operation->id, *second = offers.items[1].operation->id;
        run = FERRY(w, "wait", first, second, "--timeout", "50ms");
        assert_int_equal(run.status, LATE);
        assert_non_null(strstr(run.errors, first));
        assert_non_null(strstr(run.errors, second));
        run = FERRY(w, "ls", "--running", "--label", "a b&c");
        assert_int_equal(run.status, 0);
        assert_null(strstr(run.output, first));
        assert_non_null(strstr(run.output, second));
        assert_int_equal(ferry_cancel_operation(w->client, second, NULL), 0);
        run = FERRY(w, "wait", "--any", first, second);
        assert_non_null(strstr(run.output, "\"status\":\"INITIALIZED\""));
        assert_non_null(strstr(run.output, "\"status\":\"CANCELLED\""));
        assert_complains(run, PROBLEM, "cancelled");
        ferry_operation_results_clear(&offers);
}

TEST(two_curls_and_a_wait_move_a_region)
{
        const char *body, *url;
        struct json_object *offer, *read;
        struct pair p = { 0 };
        struct run run;

        pair_start(&p, false);
        const char *source = region_make(&p.a, 100000, 8);
        const char *target = region_make(&p.b, 100000, 0);
        body = operation_body("readable", source, "");
        run = FERRY(&p.a, "post", "/v1/operations", body);
        offer = json_parse(run.output);
        url = metadata_url(&p.a, json_text(offer, "id"));
        body = read_body(target, url);
        run = FERRY(&p.b, "post", "/v1/operations", body);
        read = json_parse(run.output);
        run = FERRY(&p.b, "wait", json_text(read, "id"), "--timeout", "30s");
        assert_int_equal(run.status, OK);
        assert_non_null(strstr(run.output, "\"status\":\"COMPLETE\""));
        assert_string_equal(run.errors, "");
        region_assert_pattern(&p.b, target, 8, 0, 100000);
        pair_stop(&p);
}

WITH_WORKER(the_environment_names_worker_and_token)
{
        char path[] = "/tmp/ferry-test-XXXXXX";
        struct run run;
        int fd = mkstemp(path);

        assert_int_equal(dprintf(fd, "a-token-of-some-length\n"), 23);
        (void)close(fd);
        worker_start_plain(w, "w", STRINGS("--listen", "127.0.0.1:0", "--token-file", path));
        worker_connect(w, NULL, &(struct ferry_options){ .token = "a-token-of-some-length" });
        assert_complains(FERRY(w, "get", "/v1/worker"), PROBLEM, "unauthenticated");
        assert_int_equal(setenv("FERRY_URL", w->url, 1), 0);
        assert_int_equal(setenv("FERRY_TOKEN_FILE", path, 1), 0);
        run = FERRY(NULL, "get", "/v1/worker");
        assert_int_equal(run.status, OK);
        assert_non_null(strstr(run.output, "\"name\":\"w\""));
        (void)unsetenv("FERRY_URL");
        (void)unsetenv("FERRY_TOKEN_FILE");
        assert_int_equal(unlink(path), 0);
}
