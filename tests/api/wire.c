/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

static struct raw_answer ask(const struct worker *w, const char *format, va_list arguments)
{
        char *request;

        assert_true(vasprintf(&request, format, arguments) >= 0);
        return raw_exchange(w, text_keep(request));
}

struct raw_answer wire_ask(const struct worker *w, const char *format, ...)
{
        struct raw_answer answer;
        va_list arguments;

        va_start(arguments, format);
        answer = ask(w, format, arguments);
        va_end(arguments);
        return answer;
}

void wire_expect(const struct worker *w, int status, const char *format, ...)
{
        struct raw_answer answer;
        va_list arguments;

        va_start(arguments, format);
        answer = ask(w, format, arguments);
        va_end(arguments);
        if (answer.status != status)
                print_error("%.300s\n→ %s%s\n", format, answer.head, answer.body);
        assert_int_equal(answer.status, status);
}

void wire_refused(const struct worker *w, int status, const char *code, const char *format, ...)
{
        struct raw_answer answer;
        va_list arguments;

        va_start(arguments, format);
        answer = ask(w, format, arguments);
        va_end(arguments);
        if (answer.status != status)
                print_error("%.300s\n", format);
        answer_assert_problem(&answer, status, code);
}

void answer_assert_header(const struct raw_answer *answer, const char *name, const char *value)
{
        const char *given = raw_header(answer, name);

        if (value && given) {
                assert_string_equal(given, value);
        } else if (value || given) {
                print_error("%s is %s in:\n%s", name, given ? "there" : "not there", answer->head);
                fail();
        }
}

/* lasting: nothing can make the same request succeed, whatever the table of errors says. */
static void assert_document(const struct raw_answer *answer, int status, const char *code, bool lasting)
{
        int number = ferry_error_from_code(code, status);
        struct json_object *problem;
        const char *type, *id;

        if (answer->status != status || !strstr(answer->body, code))
                print_error("%s\n%s\n", answer->head, answer->body);
        assert_int_equal(answer->status, status);
        answer_assert_header(answer, "Content-Type", "application/problem+json");
        answer_assert_header(answer, "X-Content-Type-Options", "nosniff");
        id = raw_header(answer, "Request-Id");
        assert_non_null(id);
        problem = json_parse(answer->body);
        type = text_format("/docs#error-%s", code);
        assert_string_equal(json_text(problem, "type"), type);
        assert_string_equal(json_text(problem, "code"), code);
        assert_int_equal(json_number(problem, "status"), status);
        assert_string_equal(json_text(problem, "title"), ferry_error_title(number));
        assert_true(*json_text(problem, "detail"));
        bool retryable = json_truth(problem, "retryable");
        assert_false(lasting && retryable);
        assert_true(lasting || retryable || !ferry_error_retryable(number));
        if (!retryable)
                answer_assert_header(answer, "Retry-After", NULL);
}

void answer_assert_problem(const struct raw_answer *answer, int status, const char *code)
{
        assert_document(answer, status, code, false);
}

void answer_assert_lasting(const struct raw_answer *answer, int status, const char *code)
{
        assert_document(answer, status, code, true);
}

/* Waits for something to read; false at WAIT_MS. */
static bool readable(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return poll(&p, 1, WAIT_MS) == 1;
}

const char *wire_read_rest(int fd, size_t *ret_size)
{
        size_t n = 0, room = 1 << 16;
        char *text = malloc(room);
        ssize_t r;

        for (;;) {
                if (!readable(fd))
                        fail_msg("the worker does not close within %d ms", WAIT_MS);
                r = read(fd, text + n, room - n - 1);
                if (r <= 0)
                        break;
                n += (size_t)r;
                if (room - n < 4096)
                        text = realloc(text, room *= 2);
        }
        text[n] = '\0';
        if (ret_size)
                *ret_size = n;
        return text_keep(text);
}

const char *wire_talk(const struct worker *w, const void *bytes, size_t size)
{
        int fd = raw_connect(w);
        const char *said;

        raw_send(fd, bytes, size);
        (void)shutdown(fd, SHUT_WR);
        said = wire_read_rest(fd, NULL);
        (void)close(fd);
        return said;
}

size_t text_count(const char *text, const char *part)
{
        size_t n = 0;

        for (; (text = strstr(text, part)); text += strlen(part))
                n++;
        return n;
}

void wire_abort(int fd)
{
        struct linger linger = { .l_onoff = 1, .l_linger = 0 };

        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        (void)close(fd);
}

int wire_stalled_reader(const struct worker *w, const char *target)
{
        const char *request = text_format("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);
        int fd = raw_connect(w), room = 256 << 10;

        /* Otherwise the system may take dozens of megabytes on behalf of the reader. */
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
        raw_send(fd, request, strlen(request));
        assert_memory_equal(raw_read_head(fd), "HTTP/1.1 200 ", 13);
        return fd;
}

const char *region_await_room(struct worker *w, uint64_t size)
{
        const char *body = text_format("{\"size\":%llu}", (unsigned long long)size);
        const struct ferry_exchange create = { .method = "POST",
                                               .path = "/v1/regions",
                                               .content_type = "application/json",
                                               .body = body,
                                               .size = strlen(body),
                                               .no_status_retry = true };
        uint64_t deadline = now_ms() + WAIT_MS;
        const char *id = NULL;
        int status;

        do {
                struct ferry_answer answer;

                (void)ferry_exchange_perform(w->client, &create, &answer);
                status = answer.http_status;
                if (status == 201)
                        id = json_text(json_parse(answer.body), "id");
                ferry_answer_clear(&answer);
                if (now_ms() > deadline)
                        fail_msg("worker %s has no room for %llu bytes", w->name, (unsigned long long)size);
        } while (status == 507);
        assert_int_equal(status, 201);
        return id;
}

void worker_await_sockets(struct worker *w, size_t most)
{
        size_t n;

        /* The library keeps several connections; a new handle has one. */
        w->client = ferry_free(w->client);
        assert_int_equal(ferry_new(w->url, NULL, &w->client), 0);
        WAIT_UNTIL_OR(ferry_get_livez(w->client) == 0 && (n = worker_sockets(w)) <= most,
                      "worker %s has %zu sockets, not %zu", w->name, n, most);
}

void worker_assert_serving(struct worker *w)
{
        enum { SIZE = 10000 };
        const char *id = region_make(w, SIZE, 99);

        region_assert_pattern(w, id, 99, 0, SIZE);
        region_drop(w, id);
}

const char *region_path(const char *id, const char *rest)
{
        static char paths[4][256];
        static unsigned next;
        char *path = paths[next++ % 4];

        (void)snprintf(path, sizeof(paths[0]), "/v1/regions/%s%s", id, rest);
        return path;
}

const char *digits_make(struct worker *w)
{
        const char *id = region_make(w, 10, 0);

        assert_int_equal(ferry_put_region_content(w->client, id, 0, "..........", 10), 0);
        return id;
}

void digits_assert(struct worker *w, const char *id, const char *wanted)
{
        char digits[11] = "";
        size_t n;

        assert_int_equal(ferry_get_region_content(w->client, id, 0, digits, 10, &n), 0);
        assert_int_equal(n, 10);
        assert_string_equal(digits, wanted);
}

void worker_hang_up(struct worker *w, const char *text, size_t times)
{
        assert_int_equal(kill(w->pid, SIGHUP), 0);
        WAIT_UNTIL(text_count(worker_log(w), text) >= times);
}
