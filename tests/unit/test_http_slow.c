/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "base/metrics.h"
#include "moved_clock.h"

/* Limits of time on heads, bodies and readers, on a clock that the test moves. */

enum { SECOND_US = 1000000 };

/* One thread, which a request on another connection has look at its clock. */
static int setup(void **state)
{
        struct http_fixture *h;

        if (http_setup(state))
                return -1;
        h = *state;
        http_stop(h);
        h->config.threads = 1;
        h->config.limits.bodies_max = 2 * h->config.limits.body_max;
        http_start(h);
        return 0;
}

/* Returns when the server has read what was sent before, and has looked at its clock since. */
static void catch_up(struct http_fixture *h)
{
        for (int i = 0; i < 3; i++)
                expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
}

static void pass(struct http_fixture *h, unsigned seconds)
{
        later_us += (uint64_t)seconds * SECOND_US;
        catch_up(h);
}

static bool is_open(int fd)
{
        char byte;
        ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

        return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Waits for the end. */
static void expect_end(int fd)
{
        char bytes[256];

        while (recv(fd, bytes, sizeof(bytes), 0) > 0)
                ;
        close(fd);
}

static int say(struct http_fixture *h, const char *text)
{
        int fd = raw_dial(h->port);

        raw_send(fd, text, strlen(text));
        catch_up(h);
        return fd;
}

#define CASE(name) TEST_OF(struct http_fixture *h, name, setup, http_teardown)

CASE(a_first_head_has_ten_seconds)
{
        int fd = say(h, "GET /livez HTTP/1.1\r\n");

        pass(h, 9);
        assert_true(is_open(fd));
        raw_send(fd, "X", 1);
        catch_up(h);
        pass(h, 2);
        expect_end(fd);
}

CASE(a_later_head_has_them_from_its_first_byte)
{
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        char answer[1024];
        int fd = say(h, request);

        assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
        pass(h, 30); /* idle, which is nobody's fault */
        assert_true(is_open(fd));
        raw_send(fd, "GET /li", 7);
        catch_up(h);
        pass(h, 2); /* the kernel's clock is not moved: to it, they have come just now */
        assert_true(is_open(fd));
        pass(h, 11);
        expect_end(fd);
}

CASE(half_a_later_head_has_them_too)
{
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nHost: ";
        char answer[1024];
        int fd = say(h, request);

        assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
        pass(h, 9);
        assert_true(is_open(fd));
        pass(h, 2);
        expect_end(fd);
}

CASE(a_body_must_move)
{
        char bytes[1000];
        int fd = say(h, "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: 60000\r\n\r\n");

        memset(bytes, ' ', sizeof(bytes));
        pass(h, 19);
        assert_true(is_open(fd));
        for (int i = 0; i < 10; i++) /* good for 20 s */
                raw_send(fd, bytes, sizeof(bytes));
        catch_up(h);
        pass(h, 11);
        assert_true(is_open(fd));
        pass(h, 20);
        expect_end(fd);
}

/* A connection that has asked for more than the kernel takes, and has got the begin of it. */
static int ask_for_much(struct http_fixture *h, const struct region *region)
{
        char id[FERRY_ID_TEXT_SIZE], text[256];
        int fd = raw_dial(h->port);

        ferry_id_format("rgn_", region->id, id);
        snprintf(text, sizeof(text), "GET /v1/regions/%s/content HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
        raw_send(fd, text, strlen(text));
        assert_int_equal(recv(fd, text, 1, MSG_PEEK), 1);
        return fd;
}

CASE(a_reader_must_read)
{
        enum { SIZE = 64 << 20 }; /* more than the kernel keeps for two sockets */
        const struct region_spec spec = { .size = SIZE, .device = "cpu", .held = true };
        char *memory = test_keep(calloc(1, SIZE), free); /* a static one may begin in a page of the program's file */
        char detail[REGION_DETAIL_SIZE];
        struct region *region;
        int fd;

        assert_int_equal(region_adopt(h->f->regions, memory, &spec, &region, detail), 0);
        fd = ask_for_much(h, region);
        catch_up(h);
        pass(h, 4);
        pass(h, 55);
        assert_true(is_open(fd));
        assert_int_equal(metric_value(h->server->ended[HTTP_END_SLOW_READER]), 0);
        /* What the kernel takes for the client counts as read; at 500 bytes a second it is good for some hours. */
        for (int i = 0; i < 100 && metric_value(h->server->ended[HTTP_END_SLOW_READER]) == 0; i++)
                pass(h, 3600);
        assert_int_equal(metric_value(h->server->ended[HTTP_END_SLOW_READER]), 1);
        expect_end(fd);
        region_unref(region);
}

CASE(a_parked_request_is_not_slow)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        int fd;

        fd = http_begin(h, "GET", operation_path(operation, "?wait_ms=60000"), "", NULL);
        await_parked(h, 1);
        for (int i = 0; i < 5; i++)
                pass(h, 11);
        assert_true(is_open(fd));
        operation_cancel(h->f->store, operation);
        expect_status(raw_receive_last(fd), 200);
}

/* The limit has room for two. */
CASE(bodies_that_are_still_arriving_share_one_limit)
{
        static const char head[] = "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                   "Content-Length: 60000\r\n\r\n";
        enum { ARRIVED = 50000 };
        char *part = unit_alloc(ARRIVED);
        struct raw_answer answer;
        int fds[3];

        memset(part, ' ', ARRIVED);
        for (size_t i = 0; i < UNIT_COUNT(fds); i++) {
                fds[i] = say(h, head);
                raw_send(fds[i], part, ARRIVED);
                catch_up(h);
        }
        raw_send(fds[2], part, 60000 - ARRIVED);
        free(part);
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(recv(fds[i], &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT), -1); /* no answer yet */
        raw_receive(fds[2], false, &answer);
        expect_problem(answer, 429, "limit-reached");
        for (size_t i = 0; i < UNIT_COUNT(fds); i++)
                close(fds[i]);
}
