/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdatomic.h>

#include <ferry/buffer.h>
#include <ferry/clock.h>

#include "client_fixture.h"

/* Servers that lie, flood, stall and break off: no call hangs, grows without bound, or takes half an answer for whole.
 */

#define CHUNKED OK("Transfer-Encoding: chunked\r\n\r\n")

/* A worker with one answer, of which libferry asks once. */
static struct fixture *start_with_answer(const char *answer, size_t filler, enum server_end end)
{
        return start_with((struct server_step){ .answer = answer, .filler = filler, .end = end },
                          &(struct ferry_options){ .timeout_ms = 2000, .retries = -1, .answer_max = 100000 });
}

/* What stands between the start and the end of an answer, so often. */
static const char *repeated(const char *start, const char *middle, size_t n, const char *end)
{
        struct ferry_buffer text = { 0 };
        assert_int_equal(ferry_buffer_append(&text, start, strlen(start), SIZE_MAX), 0);
        while (n--)
                assert_int_equal(ferry_buffer_append(&text, middle, strlen(middle), SIZE_MAX), 0);
        assert_int_equal(ferry_buffer_append(&text, end, strlen(end), SIZE_MAX), 0);
        return text_keep(ferry_buffer_take(&text));
}

TEST(half_an_answer_is_none)
{
        FOR_EACH_TEXT (text, "HTTP/1.1 200 OK\r\n", "HTTP/1.1 103 Early\r\n\r\n", OK(""),
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", OK("Content-Length: 3\r\n\r\n{}"),
                       CHUNKED, CHUNKED "2\r\n{", CHUNKED "2\r\n{}\r\n", CHUNKED "2\r\n{}\r\n0\r\n",
                       OK("Content-Length: 9223372036854775807\r\n\r\n{}")) {
                FOR_EACH (int, end, SERVER_CLOSE, SERVER_RESET) {
                        struct fixture *x = start_with_answer(text, 0, end);
                        assert_null(ask(x, "GET", "/", -ECONNRESET)->body);
                }
        }
}

TEST(an_answer_that_stalls_times_out)
{
        FOR_EACH_TEXT (text, "", "HTTP/1.1 2", OK(""), OK("Content-Length: 3\r\n\r\n{}"), CHUNKED "2\r\n{",
                       OK("\r\n{}"), "HTTP/1.1 100 Continue\r\n\r\n") {
                struct fixture *x = start_with((struct server_step){ .answer = text, .end = SERVER_HANG },
                                               &(struct ferry_options){ .timeout_ms = 50, .retries = -1 });
                uint64_t start = ferry_clock_ms();
                ask(x, "GET", "/", -ETIMEDOUT);
                assert_in_range(ferry_clock_ms() - start, 50, 1500);
                assert_int_equal(
                        strncmp(ferry_last_message(x->ferry), "Connection timed out: no answer came for 0.", 43), 0);
        }
}

TEST(what_is_no_http_is_refused)
{
        FOR_EACH_TEXT (text, "SSH-2.0-OpenSSH_9.2\r\n", "<html>no</html>", "HTTP/1.1 abc\r\n\r\n", "220 mail\r\n",
                       OK("Content-Length: -5\r\n\r\nhello"), OK("Content-Length: x\r\n\r\nhello")) {
                struct fixture *x = start_with_answer(text, 0, SERVER_CLOSE);
                assert_int_equal(ferry_get_livez(x->ferry), -EPROTO);
        }
}

TEST(chunks_that_are_none_are_no_answer)
{
        FOR_EACH_TEXT (text, CHUNKED "x\r\n{}\r\n0\r\n\r\n", CHUNKED "-2\r\n{}\r\n0\r\n\r\n",
                       CHUNKED "2\r\n{}!\r\n0\r\n\r\n", CHUNKED "10000000000000002\r\n{}\r\n0\r\n\r\n") {
                struct fixture *x = start_with_answer(text, 0, SERVER_CLOSE);
                assert_null(ask(x, "GET", "/", -ECONNRESET)->body);
        }
}

TEST(heads_have_an_end)
{
        const char *const texts[] = {
                repeated("HTTP/1.1 200 OK\r\n", "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", 20000, "\r\n"),
                repeated("", "HTTP/1.1 103 Early\r\nA: b\r\n\r\n", 20000, OK_EMPTY),
                repeated(CHUNKED "2\r\n{}\r\n0\r\n", "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", 20000, "\r\n"),
        };
        for (size_t i = 0; i < UNIT_COUNT(texts); i++) {
                test_row(text_format("%zu", i));
                struct fixture *x = start_with_answer(texts[i], 0, SERVER_CLOSE);
                assert_null(ask(x, "GET", "/", -EPROTO)->body);
        }
        struct fixture *x = start_with_answer(OK("A: "), 100 << 20, SERVER_CLOSE);
        assert_true(ferry_get_livez(x->ferry) < 0);
}

TEST(a_flood_is_cut_off)
{
        FOR_EACH_TEXT (text, OK("\r\n"), OK("Content-Length: 100000000000\r\n\r\n"), CHUNKED "fffffffff\r\n",
                       "HTTP/1.1 500 No\r\nContent-Length: 100000000\r\n\r\n") {
                struct fixture *x = start_with_answer(text, 100 << 20, SERVER_CLOSE);
                assert_null(ask(x, "GET", "/", -EMSGSIZE)->body);
        }
}

TEST(trailers_do_not_change_an_answer)
{
        struct fixture *x = start_with_answer(
                CHUNKED "2\r\n{}\r\n0\r\nContent-Type: text/html\r\nETag: \"late\"\r\n\r\n", 0, SERVER_CLOSE);
        const struct ferry_answer *answer = ask(x, "GET", "/", 0);
        assert_string_equal(answer->content_type, "application/json");
        assert_string_equal(answer->etag, "");
        assert_string_equal(answer->body, "{}");
}

/* ---- answers before the body was sent ---- */

enum { BODY_SIZE = 64 << 20 };

static ssize_t give_letters(void *context, void *buffer, size_t size)
{
        (void)context;
        memset(buffer, 'x', size);
        return (ssize_t)size;
}

static int upload(struct fixture *x, bool by_source)
{
        char *data = by_source ? NULL : calloc(1, BODY_SIZE);
        int r = by_source ? ferry_put_region_content_from(x->ferry, "rgn_1", 0, give_letters, NULL, BODY_SIZE)
                          : ferry_put_region_content(x->ferry, "rgn_1", 0, data, BODY_SIZE);
        free(data);
        return r;
}

TEST(a_refusal_ends_the_body)
{
        START(x, { PROBLEM("413", "too-large", ""), .head_only = true },
              { "HTTP/1.1 401 No\r\nContent-Type: application/problem+json\r\nContent-Length: 26\r\n\r\n"
                "{\"code\":\"unauthenticated\"}",
                SERVER_HANG, .head_only = true });
        assert_int_equal(upload(x, false), FERRY_E_TOO_LARGE);
        assert_int_equal(upload(x, false), FERRY_E_UNAUTHENTICATED);
}

/*
 * A long body waits for "100 Continue". A success in its place ends the request of libcurl 7.88; 8.x sends the body,
 * but where the answer says that the connection ends with it.
 */
TEST(an_early_success_needs_the_whole_body)
{
        FOR_EACH (int, by_source, false, true)
                FOR_EACH_TEXT (answer, NO_CONTENT, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") {
                        struct fixture *x = start_with(
                                (struct server_step){ .answer = answer, .end = SERVER_HANG, .head_only = true },
                                &(struct ferry_options){ .timeout_ms = 20000, .retries = -1 });
                        int r = upload(x, by_source);
                        const char *message = text_format("%s", ferry_last_message(x->ferry));
                        server_stop(&x->server);
                        assert_int_equal(r, x->server.drained >= BODY_SIZE ? 0 : -ECONNRESET);
                        if (r != 0)
                                assert_string_equal(message, "Connection reset by peer: a success came before the "
                                                             "whole body was sent");
                }
}

/* ---- ending a call ---- */

static struct ferry *to_abort;

static void on_signal(int number)
{
        (void)number;
        ferry_abort(to_abort);
}

static void *signal_when_asked(void *context)
{
        struct fixture *x = context;
        while (atomic_load(&x->server.served) == 0)
                poll(NULL, 0, 1);
        assert_int_equal(kill(getpid(), SIGUSR1), 0);
        return NULL;
}

TEST(a_signal_handler_ends_a_call_that_waits_and_all_later_ones)
{
        START_WITH(x, &(struct ferry_options){ .timeout_ms = 3600000 }, { NULL, SERVER_HANG });
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, before;
        struct ferry_operation o;
        pthread_t thread;
        to_abort = x->ferry;
        assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
        assert_int_equal(pthread_create(&thread, NULL, signal_when_asked, x), 0);
        ask(x, "GET", "/", -ECANCELED);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", FERRY_FOREVER, &o), -ECANCELED);
        assert_int_equal(served(x), 1); /* nothing more was sent */
        ferry_resume(x->ferry);
        ask(x, "GET", "/", -ECONNREFUSED);
}

static int abort_at_once(void *context, const void *data, size_t size)
{
        (void)data;
        (void)size;
        ferry_abort(context);
        return 0;
}

TEST(a_flood_does_not_keep_a_call_from_its_end)
{
        START_WITH(x, &(struct ferry_options){ .timeout_ms = 3600000 },
                   { "HTTP/1.1 200 OK\r\n\r\n", .filler = (size_t)1 << 40 });
        uint64_t size = 0;
        assert_int_equal(ferry_get_region_content_to(x->ferry, "rgn_1", 0, 0, abort_at_once, x->ferry, &size),
                         -ECANCELED);
}

/* ---- gateways ---- */

#define TIMEOUT                                                                                                        \
        {                                                                                                              \
                HTML("504"), SERVER_KEEP                                                                               \
        }
#define EVENTS                                                                                                         \
        {                                                                                                              \
                OK_EMPTY, SERVER_KEEP                                                                                  \
        }

/* As "ferry events --follow" and "ferry top" ask. */
TEST(every_wait_is_halved_behind_a_gateway_and_stays_so)
{
        START(x, TIMEOUT, TIMEOUT, EVENTS, EVENTS, TIMEOUT, EVENTS);
        static const char *const asked[] = { "/v1/events?after=1&wait_ms=30000&x=y",
                                             "/v1/events?after=1&wait_ms=15000&x=y",
                                             "/v1/events?after=1&wait_ms=7500&x=y",
                                             "/v1/events?wait_ms=7500",
                                             "/v1/events?wait_ms=1500",
                                             "/v1/events?wait_ms=1000" };
        ask(x, "GET", asked[0], 0);
        ask(x, "GET", "/v1/events?wait_ms=20000", 0);
        ask(x, "GET", asked[4], 0);
        for (size_t i = 0; i < UNIT_COUNT(asked); i++)
                sent(x, i, text_format("GET %s", asked[i]), "");
}

/* A worker knows a POST by its query as well. */
TEST(a_post_is_repeated_as_it_was)
{
        START(x, TIMEOUT, EVENTS);
        struct ferry_exchange post = { .method = "POST", .path = "/v1/x?wait_ms=5000", .idempotency_key = "k" };
        struct ferry_answer answer;
        assert_int_equal(ferry_exchange_perform(x->ferry, &post, &answer), 0);
        ferry_answer_clear(&answer);
        sent(x, 1, "POST /v1/x?wait_ms=5000", "");
}
