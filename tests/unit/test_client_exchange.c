/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <ferry/clock.h>

#include "client_fixture.h"
#include "raw.h"

/* ---- good answers ---- */

TEST(an_answer_comes_with_its_headers)
{
        START(x, { OK("ETag: \"r1\"\r\nLocation:  /v1/x \r\nRequest-Id: req-1\r\nContent-Length: 2\r\n\r\n{}") });
        const struct ferry_answer *answer = ask(x, "GET", "/v1/worker?a=b", 0);
        assert_int_equal(answer->http_status, 200);
        assert_string_equal(answer->content_type, "application/json");
        assert_string_equal(answer->etag, "\"r1\"");
        assert_string_equal(answer->location, "/v1/x");
        assert_string_equal(answer->body, "{}");
        assert_int_equal(answer->body_size, 2);
        assert_string_equal(ferry_last_problem(x->ferry)->request_id, "req-1");
        assert_string_equal(ferry_last_message(x->ferry), "");
        sent(x, 0, "GET /v1/worker?a=b", "");
        assert_string_equal(header_of(request_of(x, 0), "User-Agent"), "libferry/" FERRY_VERSION);
        assert_string_equal(header_of(request_of(x, 0), "Content-Type"), "");
}

#define X60 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

TEST(a_header_that_is_too_long_is_cut)
{
        START(x, { OK("Request-Id: req-1\r\nLocation: " X60 X60 X60 X60 X60 "\r\nContent-Length: 2\r\n\r\n{}") });
        const struct ferry_answer *answer = ask(x, "GET", "/v1/worker", 0);
        assert_int_equal(strlen(answer->location), 255);
        assert_string_equal(ferry_last_problem(x->ferry)->request_id, "req-1");
}

TEST(a_forked_child_may_not_use_the_connections_of_its_parent)
{
        START(x, { OK_EMPTY, SERVER_KEEP }, { OK_EMPTY, SERVER_KEEP });
        int status;
        ask(x, "GET", "/", 0);
        pid_t child = fork();
        if (child == 0) {
                struct ferry *own = NULL;
                bool refused = ferry_get_livez(x->ferry) == -ECHILD && *ferry_last_message(x->ferry);
                ferry_free(x->ferry);
                _exit(!refused || ferry_new(x->server.url, NULL, &own) != 0 || ferry_free(own));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        ask(x, "GET", "/", 0);
        server_stop(&x->server);
        assert_int_equal(x->server.connections, 1);
}

TEST(interim_answers_do_not_count)
{
        START(x, { "HTTP/1.1 103 Early\r\nETag: \"early\"\r\n\r\n" OK_EMPTY });
        const struct ferry_answer *answer = ask(x, "GET", "/", 0);
        assert_int_equal(answer->http_status, 200);
        assert_string_equal(answer->etag, "");
}

TEST(the_token_is_sent_and_checked)
{
        START_WITH(x, &(struct ferry_options){ .token = "s3cret" }, { NO_CONTENT });
        assert_int_equal(ferry_get_livez(x->ferry), 0);
        assert_string_equal(header_of(request_of(x, 0), "Authorization"), "Bearer s3cret");
        struct ferry *f = NULL;
        assert_int_equal(ferry_new("http://h", &(struct ferry_options){ .token = "a\r\nX: y" }, &f), -EKEYREJECTED);
        assert_int_equal(ferry_new("http://h", &(struct ferry_options){ .token = "" }, &f), -EKEYREJECTED);
        assert_int_equal(ferry_new("http://h", &(struct ferry_options){ .ca_file = "/nonexistent" }, &f), -ENOENT);
        assert_null(f);
}

/* ferry_abort in a forked child, as in a handler of a signal that it inherits, wakes its parent as well. */
TEST(a_child_that_aborts_does_not_keep_its_parent_busy)
{
        START_WITH(x, (&(struct ferry_options){ .timeout_ms = 500, .retries = -1 }), { OK_EMPTY, SERVER_KEEP },
                   { NULL, SERVER_HANG });
        struct timespec before, after;
        ask(x, "GET", "/", 0);
        pid_t child = fork();
        if (child == 0) {
                ferry_abort(x->ferry);
                _exit(0);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        ask(x, "GET", "/", -ETIMEDOUT);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        assert_in_range((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000, 0, 50);
}

TEST(proxies_of_the_environment_are_not_used)
{
        START(x, { NO_CONTENT });
        setenv("http_proxy", "http://127.0.0.1:1", 1);
        assert_int_equal(ferry_get_livez(x->ferry), 0);
        unsetenv("http_proxy");
}

TEST(a_unix_socket_serves_as_well)
{
        static const struct server_step steps[] = { { NO_CONTENT } };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct fixture *x = test_keep(unit_alloc(sizeof(*x)), fixture_release);
        char directory[] = "/tmp/ferry-test-XXXXXX";
        assert_non_null(mkdtemp(directory));
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory);
        server_start_at(&x->server, steps, 1, (struct sockaddr *)&address, sizeof(address));
        assert_int_equal(ferry_new(text_format("unix:%s/s", directory), NULL, &x->ferry), 0);
        assert_int_equal(ferry_get_livez(x->ferry), 0);
        assert_string_equal(header_of(request_of(x, 0), "Host"), "localhost");
        unlink(address.sun_path);
        rmdir(directory);
}

/* ---- connections ---- */

TEST(nobody_there_is_refused)
{
        START_WITH(x, NULL, { NULL });
        struct ferry *f;
        struct ferry_region region;
        server_stop(&x->server); /* its port is free now */
        assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), -ECONNREFUSED);
        assert_int_equal(ferry_last_problem(x->ferry)->http_status, 0);
        assert_int_equal(strncmp(ferry_last_message(x->ferry), "Connection refused", 18), 0);
        assert_int_equal(ferry_new("unix:/nonexistent/ferry.sock", &(struct ferry_options){ .retries = -1 }, &f), 0);
        assert_int_equal(ferry_get_livez(f), -ECONNREFUSED);
        ferry_free(f);
}

TEST(a_lack_of_descriptors_is_named)
{
        START(x, { NO_CONTENT });
        struct rlimit before, none;
        int lowest = dup(STDERR_FILENO);
        assert_int_equal(close(lowest), 0);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        int r = ferry_get_livez(x->ferry);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, -EMFILE);
        assert_string_equal(ferry_last_message(x->ferry),
                            "Too many open files: no descriptor is left for a connection");
        assert_int_equal(ferry_get_livez(x->ferry), 0);
}

/* Where there is no route to such addresses the kernel tells one with a zone from one without. */
TEST(the_zone_of_an_address_is_kept)
{
        struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
        struct ferry_options options = { .retries = -1 };
        struct ferry *f;
        inet_pton(AF_INET6, "fe80::1", &address.sin6_addr);
        address.sin6_scope_id = if_nametoindex("lo");
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        bool told = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == ENETUNREACH;
        if (fd >= 0)
                close(fd);
        if (!told)
                skip();
        assert_int_equal(ferry_new("http://[fe80::1%25lo]:9", &options, &f), 0);
        assert_int_equal(ferry_get_livez(f), -EHOSTUNREACH);
        ferry_free(f);
}

/* What one method sets must be gone for the next. */
TEST(methods_do_not_leave_anything_behind)
{
        START(x, { NO_CONTENT, SERVER_KEEP }, { OK_EMPTY, SERVER_KEEP },
              { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", SERVER_KEEP }, { OK_EMPTY, SERVER_KEEP },
              { NO_CONTENT });
        struct ferry_answer answer;
        struct ferry_exchange post = { .method = "POST",
                                       .path = "/a",
                                       .body = "{}",
                                       .size = 2,
                                       .content_type = "text/x",
                                       .idempotency_key = "k" };
        assert_int_equal(ferry_exchange_perform(x->ferry, &post, &answer), 0);
        ferry_answer_clear(&answer);
        assert_string_equal(ask(x, "GET", "/b", 0)->body, "{}");
        assert_null(ask(x, "HEAD", "/c", 0)->body);
        assert_string_equal(ask(x, "GET", "/d", 0)->body, "{}");
        ask(x, "DELETE", "/e", 0);
        server_stop(&x->server);
        assert_int_equal(x->server.connections, 1);
        static const char *const lines[] = { "POST /a", "GET /b", "HEAD /c", "GET /d", "DELETE /e" };
        for (size_t i = 0; i < 5; i++) {
                sent(x, i, lines[i], NULL);
                assert_string_equal(header_of(request_of(x, i), "Content-Type"), i ? "" : "text/x");
                assert_string_equal(header_of(request_of(x, i), "Idempotency-Key"), i ? "" : "k");
                assert_string_equal(header_of(request_of(x, i), "Content-Length"), i ? "" : "2");
        }
}

TEST(a_wait_in_the_path_takes_its_time)
{
        START_WITH(x, &(struct ferry_options){ .timeout_ms = 1 }, { NULL, SERVER_HANG });
        uint64_t start = ferry_clock_ms();
        ask(x, "GET", "/v1/events?after=1&wait_ms=100", -ETIMEDOUT);
        assert_true(ferry_clock_ms() - start >= 100);
}

/* Some bytes, then none. */
static ssize_t count_and_give(void *context, void *buffer, size_t size)
{
        int *calls = context;
        memset(buffer, 'x', size);
        return ++*calls == 1 ? 10 : 0;
}

TEST(a_source_is_not_touched_before_the_worker_wants_it)
{
        START(x, { PROBLEM("503", "draining", "Retry-After: 0\r\n"), .head_only = true }, { NO_CONTENT });
        int calls = 0;
        assert_int_equal(
                ferry_put_region_content_from(x->ferry, "rgn_1", 0, count_and_give, &calls, FERRY_SIZE_UNKNOWN), 0);
        assert_int_equal(calls, 2);
        assert_int_equal(served(x), 2);
        has_header(x, 0, "Expect: 100-continue");
}

/* Gives the last bytes of a request whose answer is there already. */
static ssize_t answer_and_give(void *context, void *buffer, size_t size)
{
        int *fds = context;
        fds[1] = accept(fds[0], NULL, NULL);
        assert_true(fds[1] >= 0);
        assert_int_equal(write(fds[1], NO_CONTENT, strlen(NO_CONTENT)), strlen(NO_CONTENT));
        memset(buffer, 'x', size);
        return (ssize_t)size;
}

TEST(a_connection_is_kept_when_the_answer_comes_with_the_last_byte)
{
        struct ferry *f = NULL;
        char request[4096];
        uint16_t port;
        int fds[] = { raw_listen(&port), -1 };
        assert_int_equal(ferry_new(text_format("http://127.0.0.1:%u", port), NULL, &f), 0);
        assert_int_equal(ferry_put_region_content_from(f, "rgn_1", 0, answer_and_give, fds, 10), 0);
        assert_true(recv(fds[1], request, sizeof(request), 0) > 0);
        assert_int_equal(recv(fds[1], request, sizeof(request), MSG_DONTWAIT), -1); /* 0: it was closed */
        ferry_free(f);
        close(fds[1]);
        close(fds[0]);
}

TEST(the_size_of_a_body_is_told_once)
{
        START(x, { OK_EMPTY });
        static const char *const headers[] = { "X: 1", "content-length: 9", "Transfer-Encoding: chunked", NULL };
        struct ferry_exchange exchange = { .method = "PUT", .path = "/", .body = "abc", .size = 3, .headers = headers };
        struct ferry_answer answer;
        assert_int_equal(ferry_exchange_perform(x->ferry, &exchange, &answer), 0);
        ferry_answer_clear(&answer);
        has_header(x, 0, "X: 1");
        has_header(x, 0, "Content-Length: 3");
        assert_null(strstr(request_of(x, 0), "content-length"));
        assert_null(strstr(request_of(x, 0), "Transfer-Encoding"));
}

/* ---- what is refused before it is sent ---- */

TEST(requests_that_would_smuggle_are_not_sent)
{
        struct ferry *f;
        assert_int_equal(ferry_new("http://127.0.0.1:1", NULL, &f), 0);
        static const char *const split[] = { "X: a\r\nY: b", NULL };
        static const char *const nameless[] = { "no colon", NULL };
        const struct ferry_exchange wrong[] = {
                { .method = "GET", .path = "/a b" },
                { .method = "GET", .path = "v1" },
                { .method = "GET", .path = "/\r\nHost: x" },
                { .method = "GET", .path = "/#x" },
                { .method = "GET" },
                { .path = "/" },
                { .method = "", .path = "/" },
                { .method = "GET / HTTP/1.1\r\n", .path = "/" },
                { .method = "GET", .path = "/", .headers = split },
                { .method = "GET", .path = "/", .headers = nameless },
                { .method = "GET", .path = "/", .content_type = "a\nb" },
                { .method = "POST", .path = "/", .idempotency_key = "a\rb" },
        };
        struct ferry_answer answer;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                assert_int_equal(ferry_exchange_perform(f, &wrong[i], &answer), -EINVAL);
                assert_true(*ferry_last_message(f));
        }
        struct ferry_region region;
        assert_int_equal(ferry_get_region(f, "", &region), -EINVAL);
        assert_int_equal(ferry_get_region(f, NULL, &region), -EINVAL);
        assert_int_equal(ferry_delete_operation(f, ""), -EINVAL);
        ferry_free(f);
}

TEST(handles_are_independent)
{
        assert_null(ferry_free(NULL));
        struct ferry *f = NULL;
        assert_int_equal(ferry_new("nonsense", NULL, &f), -EINVAL);
        assert_int_equal(ferry_new(NULL, NULL, &f), -EINVAL);
        assert_int_equal(ferry_new("http://127.0.0.1:99999", NULL, &f), -EINVAL);
        assert_null(f);
        assert_string_equal(ferry_version(), FERRY_VERSION);
}

static void *use_a_handle(void *handle)
{
        for (int i = 0; i < 4; i++)
                if (ferry_get_livez(handle) != 0)
                        return handle;
        return NULL;
}

TEST(threads_have_their_own_handles)
{
        static const struct server_step steps[] = {
                { NO_CONTENT, SERVER_KEEP }, { NO_CONTENT, SERVER_KEEP }, { NO_CONTENT }, { NO_CONTENT }
        };
        pthread_t threads[4];
        void *failed;
        for (int i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, use_a_handle, start(steps, 4, NULL)->ferry), 0);
        for (int i = 0; i < 4; i++) {
                pthread_join(threads[i], &failed);
                assert_null(failed);
        }
}
