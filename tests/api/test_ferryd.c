/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "steps.h"

/* The daemon's command line: flags, environment, listeners, the ready line, logs. */

/* ---- without a worker ---- */

/* What --help names, test_options.c says. */
TEST(help_and_version_are_printed)
{
        const char *output, *errors, *wanted = text_format("ferryd %s", ferry_version());

        assert_int_equal(ferryd_run(STRINGS("--help"), &output, &errors), 0);
        assert_string_equal(errors, "");
        assert_non_null(strstr(output, "FERRY_<FLAG>"));
        assert_int_equal(ferryd_run(STRINGS("--version"), &output, &errors), 0);
        assert_int_equal(strncmp(output, wanted, strlen(wanted)), 0);
        assert_ptr_equal(strchr(output, '\n') + 1, output + strlen(output));
        assert_string_equal(errors, "");
}

/* Exit status, nothing on standard output, and one line for people that says text. */
static void refused(const char *const *flags, int status, const char *text)
{
        char *complaint, *end;
        const char *output, *errors;

        if (ferryd_run(flags, &output, &errors) != status)
                fail_msg("%s %s: not status %d but: %s", flags[0], flags[1] ?: "", status, errors);
        assert_string_equal(output, "");
        complaint = strstr(errors, "ferryd: ");
        assert_non_null(complaint);
        end = strchr(complaint, '\n');
        if (!strstr(complaint, text) || !end || end[1] != '\0')
                print_error("not one line with \"%s\" but: %s", text, errors);
        assert_non_null(strstr(complaint, text));
        assert_non_null(end);
        assert_int_equal(end[1], '\0');
}

TEST(what_is_no_flag_or_no_value_is_refused_in_one_line)
{
        static const struct {
                const char *flags[5], *text;
        } cases[] = {
                { { "--nonsense" }, "--nonsense" },
                { { "--window", "65" }, "--window" },
                { { "--advertise", "http://x/path" }, "--advertise" },
                { { "--advertise", "ftp://x" }, "--advertise" },
                { { "--allow-host", "x:80" }, "--allow-host" },
                { { "--listen", "127.0.0.1:0", "--allow-peer", "10.0.0.0/99" }, "--allow-peer" },
                { { "--listen", "127.0.0.1:0", "--tls-cert", "/dev/null" }, "--tls-key" },
                { { "--listen", "127.0.0.1:0", "--peer-cert", "/dev/null" }, "--peer-key" },
                { { "--listen", "127.0.0.1:0", "--peer-ca", "/dev/null" }, "PEM" },
                { { "--listen", "[::]:0" }, "--no-auth" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                refused(cases[i].flags, 2, cases[i].text);
        refused(STRINGS("--listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0", "--transports", "carrier-pigeon"), 2,
                "--transports");
        refused(STRINGS("--token-file", "/nonexistent/token"), 1, "/nonexistent/token");
}

/* No server of names is asked for one with an empty label: it might be silent. */
TEST(the_log_says_what_is_wrong_with_a_data_address)
{
        static const struct {
                const char *address, *text;
        } rows[] = { { "no..name:0", "cannot be resolved" }, { "[fe80::1]:0", "link-local" } };
        const char *output, *errors;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                test_row(rows[i].address);
                assert_int_equal(ferryd_run(STRINGS("--data-listen", rows[i].address), &output, &errors), 1);
                assert_non_null(strstr(errors, rows[i].text));
        }
}

WITH_WORKER(a_network_without_a_device_is_a_warning)
{
        worker_start(w, "w", STRINGS("--data-listen", "127.0.0.1:0", "--interfaces", "nosuch0:1"));
        worker_expect(w, "cannot move bytes");
        assert_non_null(strstr(worker_log(w), "level=warn msg=\"the network transport cannot move bytes"));
}

/* ---- with one ---- */

/* The log says what to do about an address where ferryd cannot listen. */
static void assert_advised(const char *address, const char *advice)
{
        const char *output, *errors;

        assert_int_equal(ferryd_run(STRINGS("--listen", address, "--no-auth"), &output, &errors), 1);
        if (!strstr(errors, advice))
                print_error("no \"%s\" in: %s", advice, errors);
        assert_non_null(strstr(errors, advice));
}

ON_WORKER(a_taken_port_is_refused, "--data-listen", "127.0.0.1:0")
{
        const char *http, *data;

        http = w->url + strlen("http://");
        data = w->data;
        refused(STRINGS("--listen", http), 1, "in use");
        assert_advised(http, "give --listen another address");
        assert_advised("203.0.113.77:0", "no interface of this machine has the address");
        refused(STRINGS("--listen", "127.0.0.1:0", "--data-listen", data), 1, "in use");
}

WITH_WORKER(a_misspelt_variable_is_warned_of)
{
        assert_int_equal(setenv("FERRY_MAX_REGION", "1", 1), 0);
        worker_start(w, "w", NULL);
        (void)unsetenv("FERRY_MAX_REGION");
        worker_expect(w, "unknown variable in the environment");
        assert_non_null(strstr(worker_log(w), "variable=FERRY_MAX_REGION did_you_mean=FERRY_MAX_REGIONS"));
}

WITH_WORKER(the_environment_sets_flags_and_the_command_line_wins)
{
        struct json_object *limits;

        assert_int_equal(setenv("FERRY_MEMORY_LIMIT", "1MiB", 1), 0);
        assert_int_equal(setenv("FERRY_STALL_LIMIT", "7s", 1), 0);
        assert_int_equal(setenv("FERRY_NAME", "from-environment", 1), 0);
        assert_int_equal(setenv("FERRY_LISTEN", "127.0.0.1:0,127.0.0.1:0", 1), 0);
        worker_start_plain(w, "from-flag", NULL); /* which gives --name */
        (void)unsetenv("FERRY_MEMORY_LIMIT");
        (void)unsetenv("FERRY_STALL_LIMIT");
        (void)unsetenv("FERRY_NAME");
        (void)unsetenv("FERRY_LISTEN");
        worker_connect(w, NULL, NULL);
        assert_non_null(strstr(w->ready, "\"worker\":\"from-flag\""));
        assert_int_equal(json_object_array_length(json_member(json_parse(w->ready), "http")), 2);
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        assert_int_equal(json_number(limits, "memory_limit"), 1 << 20);
        assert_int_equal(json_number(limits, "stall_ms"), 7000);
        assert_problem(w, "POST", "/v1/regions", "{\"size\":1048577}", 507, "limit-reached", NULL);
}

WITH_WORKER(the_ready_line_has_these_keys_and_no_other)
{
        struct json_object *ready;
        const char *names;

        worker_start(w, "w", NULL);
        ready = json_parse(w->ready);
        names = json_names(ready);
        assert_string_equal(names, "event http worker pid");
        assert_string_equal(json_text(ready, "event"), "ready");
        assert_string_equal(json_text(ready, "worker"), "w");
        assert_int_equal(json_number(ready, "pid"), w->pid);
        assert_int_equal(w->ready[strlen(w->ready) - 1], '\n');
        worker_stop(w); /* which looks whether anything else came */

        worker_start(w, "w", STRINGS("--data-listen", "127.0.0.1:0"));
        ready = json_parse(w->ready);
        names = json_names(ready);
        assert_string_equal(names, "event http data worker pid");
        assert_int_equal(strncmp(json_text(ready, "data"), "127.0.0.1:", 10), 0);
}

WITH_SHARED(it_listens_wherever_it_is_told)
{
        const char *path = text_format("%s/worker.sock", s->path), *flag = text_format("unix:%s", path);
        struct worker *w = &s->pair.a;
        struct json_object *http;
        struct stat status;

        worker_start_plain(w, "w", STRINGS("--listen", "127.0.0.1:0", "--listen", "localhost:0", "--listen", flag));
        http = json_member(json_parse(w->ready), "http");
        assert_int_equal(json_object_array_length(http), 3);
        for (size_t i = 0; i < 3; i++) {
                worker_connect(w, json_object_get_string(json_object_array_get_idx(http, i)), NULL);
                assert_int_equal(ferry_get_readyz(w->client), 0);
        }
        assert_string_equal(json_object_get_string(json_object_array_get_idx(http, 2)), flag);
        assert_int_equal(stat(path, &status), 0);
        assert_true(S_ISSOCK(status.st_mode));
        assert_int_equal(status.st_mode & 0777, 0600);
        /* Another worker does not take a socket that is in use. */
        refused(STRINGS("--listen", flag), 1, "in use");
        assert_int_equal(ferry_get_readyz(w->client), 0);
        worker_stop(w);
        refused(STRINGS("--listen", text_format("unix:%s/%0100d", s->path, 0)), 1, "too long");
        assert_int_equal(stat(path, &status), -1);
}

WITH_SHARED(a_socket_that_a_dead_worker_left_is_taken_over_but_no_other_file)
{
        const char *path = text_format("%s/worker.sock", s->path);
        const char *listen[] = { "--listen", text_format("unix:%s", path), NULL };
        struct worker *w = &s->pair.a;

        worker_start_plain(w, "w", listen);
        worker_connect(w, NULL, NULL);
        worker_kill(w);
        worker_clean(w);
        assert_int_equal(access(path, F_OK), 0);
        worker_start_plain(w, "w", listen);
        worker_connect(w, NULL, NULL);
        worker_stop(w);

        file_write(path, "precious");
        refused(listen, 1, "File exists");
        assert_string_equal(file_read(path), "precious");
}

WITH_SHARED(a_file_that_has_the_place_of_its_socket_is_left)
{
        const char *path = text_format("%s/worker.sock", s->path);
        struct worker *w = &s->pair.a;

        worker_start_plain(w, "w", STRINGS("--listen", text_format("unix:%s", path)));
        assert_int_equal(rename(path, text_format("%s/aside.sock", s->path)), 0);
        file_write(path, "");
        worker_stop(w);
        assert_int_equal(access(path, F_OK), 0);
}

/* ---- logs ---- */

WITH_WORKER(logs_are_logfmt_or_json)
{
        struct ferry_worker_info info;
        char *log, *save = NULL, epoch[64];

        worker_start(w, "w", NULL);
        assert_int_equal(ferry_get_worker(w->client, &info), 0);
        (void)snprintf(epoch, sizeof(epoch), " epoch=%s ", info.epoch);
        ferry_worker_info_clear(&info);
        log = strdup(worker_log(w));
        assert_non_null(strstr(log, " level=info msg=\"worker ready\" worker=w "));
        assert_non_null(strstr(log, epoch));
        for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                assert_int_equal(strncmp(line, "ts=20", 5), 0);
        free(log);
        worker_stop(w);

        worker_start(w, "w", STRINGS("--log-format", "json", "--log-level", "debug"));
        assert_problem(w, "GET", "/v1/regions/rgn_0000000000000001", NULL, 404, "not-found", NULL);
        log = strdup(worker_log(w));
        assert_non_null(strstr(log, "\"msg\":\"worker ready\""));
        for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                struct json_object *event = json_parse(line);

                assert_true(json_object_is_type(event, json_type_object));
                assert_int_equal(strncmp(json_text(event, "ts"), "20", 2), 0);
                assert_non_null(json_text(event, "level"));
                assert_non_null(json_text(event, "msg"));
        }
        free(log);
        worker_stop(w);

        worker_start(w, "w", STRINGS("--log-level", "error"));
        assert_string_equal(worker_log(w), "");
}

/* ---- what flags do ---- */

WITH_WORKER(the_advertised_name_stands_in_metadata)
{
        OPERATION offer;
        struct worker other;
        const char *url;

        worker_start(w, "w", STRINGS("--advertise", "localhost", "--data-listen", "127.0.0.1:0"));
        /* A worker with only the network transport finds the other by what the metadata says. */
        worker_start(&other, "other",
                     STRINGS("--data-listen", "127.0.0.1:0", "--local", "off", "--allow-peer", "localhost"));
        const char *region = region_make(w, 5000, 5);
        offer_make(w, FERRY_READABLE, region, &offer);
        url = text_format("http://localhost%s/v1/operations/%s/metadata", strrchr(w->url, ':'), offer.id);
        region = region_make(&other, 5000, 0);
        operation_assert_end(&other, json_text(read_by_url(&other, region, url), "id"), FERRY_COMPLETE, NULL);
        region_assert_pattern(&other, region, 5, 0, 5000);
        worker_stop(&other);
}

/* The default of --name tells workers apart. */
TEST(a_worker_without_a_name_takes_the_hosts_and_its_process_id)
{
        struct json_object *ready;
        const char *end;
        const char *output;

        assert_int_equal(setenv("FERRY_LISTEN", "127.0.0.1:0", 1), 0);
        assert_int_equal(command_run((const char *const[]){ "/bin/bash", "-c",
                                                            "coproc { exec \"$FERRYD\" 2>/dev/null; }\n"
                                                            "read -r line <&${COPROC[0]}\n"
                                                            "pid=$COPROC_PID; kill $pid; wait $pid; status=$?\n"
                                                            "echo \"$line\"; exit $status",
                                                            NULL },
                                     NULL, &output, NULL),
                         0);
        ready = json_parse(output);
        (void)unsetenv("FERRY_LISTEN");
        end = strrchr(json_text(ready, "worker"), '-');
        assert_non_null(end);
        assert_int_equal(strtoull(end + 1, NULL, 10), json_number(ready, "pid"));
}

WITH_WORKER(http_threads_are_as_many_as_asked_for)
{
        uint64_t two;

        worker_start(w, "w", STRINGS("--http-threads", "2"));
        two = worker_status_kb(w, "Threads");
        worker_stop(w);
        worker_start(w, "w", STRINGS("--http-threads", "8"));
        assert_int_equal(worker_status_kb(w, "Threads"), two + 6);
}

/* The names of a transport's settings are others from 1.17 on; one that UCX does not know has no effect. */
ON_WORKER(ucx_knows_every_setting, "--data-listen", "127.0.0.1:0", "--log-level", "debug")
{
        const char *log;

        log = worker_log(w);
        assert_null(strstr(log, "UCX setting unknown"));
        assert_null(strstr(log, "invalid configurations")); /* UCX's own words about those of transports */
}

/* Over the network, where TCP carries the bytes of a chunk in messages of up to 60 KiB. */
WITH_WORKER(a_transfer_moves_in_chunks_of_the_size_asked_for)
{
        enum { SIZE = 64 << 20, CHUNK = 64 << 10, MESSAGE = 60 << 10, TRIES = 20 };
        static const char *const flags[] = { "--chunk-size", "64KiB", "--window", "1", NULL };
        struct pair p = { 0 };
        const char *source, *target;
        bool odd = false;

        pair_start_with(&p, true, flags);
        source = region_make(&p.a, SIZE, 1);
        target = region_make(&p.b, SIZE, 0);
        for (int i = 0; !odd; i++) {
                OPERATION passive, active;

                assert_true(i < TRIES);
                offer_make(&p.a, FERRY_READABLE, source, &passive);
                begin_make(&p.b, FERRY_READ, target, passive.metadata, &active);
                for (bool done = false; !done;) {
                        OPERATION now;

                        assert_int_equal(ferry_get_operation(p.b.client, active.id, 0, 0, &now), 0);
                        assert_true(now.bytes_done % CHUNK == 0 || now.bytes_done % CHUNK == MESSAGE);
                        odd |= now.bytes_done % (2 * CHUNK) == CHUNK; /* so the chunks are no larger */
                        done = now.done;
                }
                operation_assert_end(&p.b, active.id, FERRY_COMPLETE, NULL);
                operation_assert_end(&p.a, passive.id, FERRY_COMPLETE, NULL);
        }
        pair_stop(&p);
}

TEST(too_few_open_files_are_said_at_once)
{
        const char *const argv[] = { "sh", "-c", "ulimit -n 31; exec \"$FERRYD\" --listen 127.0.0.1:0", NULL };
        const char *output, *errors;

        assert_int_equal(command_run(argv, NULL, &output, &errors), 1);
        assert_string_equal(output, "");
        assert_non_null(strstr(errors, "open files"));
}

WITH_SHARED(a_unix_socket_asks_for_no_host)
{
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: what.ever\r\nConnection: close\r\n\r\n";
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct worker *w = &s->pair.a;

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/worker.sock", s->path);
        worker_start_plain(w, "w", STRINGS("--listen", text_format("unix:%s", address.sun_path)));
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        raw_send(fd, request, strlen(request));
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 200);
}
