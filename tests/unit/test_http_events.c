/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

#include "move/engine.h"

/* Streams of events: beats while nothing happens, slow readers, the end of the server, and pages that wait. */

#define STREAM "Accept: text/event-stream\r\n"

enum { KEPT = 8, LONG = 400 };

static void happen(struct http_fixture *h, unsigned n)
{
        struct engine_peer_view peer = { .epoch = 1, .state = ENGINE_PEER_CONNECTED };

        memset(peer.url, 'u', LONG);
        while (n--)
                event_log_peer(h->events, &peer);
}

struct received {
        char text[1 << 20];
        size_t size;
};

/* Reads until the text has come. */
static void await_text(int fd, struct received *received, const char *text)
{
        while (!strstr(received->text, text)) {
                ssize_t n = recv(fd, received->text + received->size, sizeof(received->text) - received->size - 1, 0);

                if (n <= 0)
                        fail_msg("no \"%s\" in %s", text, received->text);
                received->size += (size_t)n;
                received->text[received->size] = '\0';
        }
}

static void restart(struct http_fixture *h, uint32_t beat_ms)
{
        http_stop(h);
        event_log_free(h->events);
        assert_int_equal(event_log_new(&(struct event_log_config){ .epoch = EPOCH, .kept = KEPT }, &h->events), 0);
        h->config.events = h->events;
        h->config.event_beat_ms = beat_ms;
        http_start(h);
}

WITH_HTTP(an_idle_stream_hears_how_far_the_log_has_come)
{
        static struct received received;

        restart(h, 20);
        memset(&received, 0, sizeof(received));
        int fd = http_begin(h, "GET", "/v1/events?type=operation", STREAM, NULL);
        await_text(fd, &received, "\nid: 0000000000001111-0\n\n");
        /* More than the log keeps, and nothing that passes the filter. */
        happen(h, KEPT + 1);
        await_text(fd, &received, "\nid: 0000000000001111-9\n\n");
        close(fd);
        /* So a client that comes back has missed nothing. */
        memset(&received, 0, sizeof(received));
        fd = http_begin(h, "GET", "/v1/events?type=operation", STREAM "Last-Event-ID: 0000000000001111-9\r\n", NULL);
        happen(h, 1);
        await_text(fd, &received, "\nid: 0000000000001111-10\n\n");
        assert_null(strstr(received.text, "event: missed\n"));
        /* And what happens then. */
        event_log_operation(h->events, h->f->store, make(h->f, FERRY_READABLE), OPERATION_MADE);
        await_text(fd, &received, "event: operation.created\n");
        close(fd);
}

WITH_HTTP(a_slow_reader_is_told_what_it_missed)
{
        enum { FIRST = 20000 };
        static struct received received;
        int small = 4096;

        restart(h, 0);
        memset(&received, 0, sizeof(received));
        int fd = raw_dial(h->port);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
        static const char request[] = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n" STREAM "\r\n";
        raw_send(fd, request, strlen(request));
        await_text(fd, &received, "event: hello\n");
        /* More than the kernel keeps for a client that does not read. */
        happen(h, FIRST);
        await_text(fd, &received, "event: missed\n");
        await_text(fd, &received, "\"type\":\"missed\",");
        await_text(fd, &received, text_format("id: 0000000000001111-%d\n", FIRST));
        assert_non_null(strstr(received.text, "\"count\":"));
        close(fd);
}

WITH_HTTP(a_page_after_events_that_are_gone_says_how_many)
{
        enum { GONE = 7 };

        happen(h, EVENTS_KEPT + GONE);
        struct raw_answer reply = http_call(h, "GET", "/v1/events?after=0&limit=1", "", NULL);
        assert_string_equal(reply_field(&reply, "missed"), text_format("%d", GONE));
        assert_string_equal(reply_field(&reply, "next"), text_format("0000000000001111-%d", GONE + 1));
        reply = http_call(h, "GET", text_format("/v1/events?after=%d&limit=1", GONE), "", NULL);
        assert_null(strstr(reply.body, "missed"));
}

WITH_HTTP(a_page_waits_for_what_passes_its_filter)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        int fd = http_begin(h, "GET", "/v1/events?wait_ms=50000&type=operation&after=0", "", NULL);

        await_parked(h, 1);
        happen(h, 3);
        event_log_operation(h->events, h->f->store, operation, OPERATION_MADE);
        struct raw_answer reply = raw_receive_last(fd);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply_field(&reply, "next"), "0000000000001111-4");
        assert_non_null(strstr(reply.body, "\"id\":\"0000000000001111-4\""));
        assert_null(strstr(reply.body, "peer.connected"));
        /* Nothing more comes: the time is over. */
        reply = http_call(h, "GET", "/v1/events?wait_ms=1&after=4", "", NULL);
        assert_string_equal(reply_field(&reply, "events"), "[ ]");
        assert_string_equal(reply_field(&reply, "next"), "0000000000001111-4");
}

WITH_HTTP(a_page_that_waits_counts_as_a_waiter)
{
        int fds[4];

        for (int i = 0; i < 4; i++)
                fds[i] = http_begin(h, "GET", "/v1/events?wait_ms=50000&type=peer", "", NULL);
        await_parked(h, 4);
        expect_problem(http_call(h, "GET", "/v1/events?wait_ms=50000&type=peer", "", NULL), 429, "limit-reached");
        happen(h, 1);
        for (int i = 0; i < 4; i++)
                expect_status(raw_receive_last(fds[i]), 200);
}

WITH_HTTP(a_page_is_as_long_as_was_asked_for)
{
        happen(h, 3);
        struct raw_answer reply = http_call(h, "GET", "/v1/events?limit=2", "", NULL);
        assert_string_equal(reply_field(&reply, "next"), "0000000000001111-2");
        expect_problem(http_call(h, "GET", "/v1/events", STREAM "Last-Event-ID: x\r\n", NULL), 400,
                       "invalid-parameter");
        reply = http_call(h, "HEAD", "/v1/events", STREAM, NULL);
        assert_string_equal(raw_header(&reply, "Content-Type"), "text/event-stream");
        assert_int_equal(reply.body_size, 0);
}
