/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

/* Clients that leave at every point of a request. The worker gives back what they held and serves the others. */

enum { MIB = 1 << 20, SIZE = 32 * MIB };

#define HOST "Host: localhost\r\n"

/* The sockets of a fresh worker with one client. */
static size_t first_sockets(struct worker *w)
{
        assert_int_equal(ferry_get_livez(w->client), 0);
        return worker_sockets(w);
}

/* Sends a part of a request and leaves, politely or not. */
static void send_and_leave(const struct worker *w, const char *part, bool politely)
{
        int fd = raw_begin(w, part);
        if (politely)
                (void)close(fd);
        else
                wire_abort(fd);
}

/*
 * libmicrohttpd sees the polite end of a connection behind an unfinished request line only by its idle time-out: for
 * the first parts, clients leave with a reset.
 */
ON_WORKER(half_a_request_holds_nothing)
{
        enum { UNFINISHED_LINES = 3 };
        static const char *const parts[] = {
                "",
                "G",
                "GET /livez",
                "GET /livez HTTP/1.1\r\n",
                "GET /livez HTTP/1.1\r\n" HOST,
                "GET /livez HTTP/1.1\r\n" HOST "X: y",
                "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n",
                "POST /v1/regions HTTP/1.1\r\n" HOST
                "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"si",
                "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 11\r\n\r\n"
                "{\"size\":1}",
                "POST /v1/regions HTTP/1.1\r\n" HOST
                "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                "a\r\n{\"size\":1}\r\n",
                "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 10\r\n"
                "Expect: 100-continue\r\n\r\n",
                "POST /nowhere HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nabc",
        };
        size_t sockets;

        sockets = first_sockets(w);
        for (int politely = 0; politely < 2; politely++)
                for (size_t i = politely ? UNFINISHED_LINES : 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                        send_and_leave(w, parts[i], politely);
        worker_await_sockets(w, sockets);
        worker_await_metric(w, "ferry_regions", 0);
        worker_assert_serving(w);
}

/* The request is whole, but nobody is there for the answer: what it made is there all the same. */
ON_WORKER(a_whole_request_counts_although_its_client_has_left)
{
        send_and_leave(w,
                       "POST /v1/regions HTTP/1.1\r\n" HOST
                       "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
                       "{\"size\":1}",
                       true);
        worker_await_metric(w, "ferry_regions", 1);
}

ON_WORKER(broken_uploads_leave_the_region_as_good_as_before, "--memory-limit", "2M")
{
        enum { CLIENTS = 20, LARGE = MIB };
        char *bytes = calloc(1, LARGE);
        size_t sockets;

        sockets = first_sockets(w);
        const char *id = region_make(w, 2 * MIB, 4);
        for (int i = 0; i < CLIENTS; i++) {
                int fd = raw_begin(w, text_format("PUT %s HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
                                                  region_path(id, "/content"), 2 * MIB));
                raw_send(fd, bytes, (size_t)(i % 4) * (LARGE / 4));
                if (i % 2)
                        wire_abort(fd);
                else
                        (void)close(fd);
        }
        worker_await_sockets(w, sockets);
        /* The bytes that came are there, those that did not are as before; the region can be deleted at once. */
        region_assert_pattern(w, id, 4, MIB, MIB);
        assert_int_equal(ferry_put_region_content(w->client, id, 0, bytes, LARGE), 0);
        region_assert_pattern(w, id, 0, 0, LARGE);
        region_drop(w, id);
        id = region_await_room(w, 2 * MIB);
        free(bytes);
}

ON_WORKER(broken_downloads_give_their_connection_back, "--memory-limit", "33M")
{
        enum { CLIENTS = 20 };
        int readers[CLIENTS];
        size_t sockets;

        sockets = first_sockets(w);
        const char *id = region_make(w, SIZE, 5);
        for (int i = 0; i < CLIENTS; i++)
                readers[i] = wire_stalled_reader(w, region_path(id, "/content"));
        worker_assert_serving(w);
        for (int i = 0; i < CLIENTS; i++) {
                if (i % 2)
                        wire_abort(readers[i]);
                else
                        (void)close(readers[i]);
        }
        worker_await_sockets(w, sockets);
        region_assert_pattern(w, id, 5, 0, SIZE);
        region_drop(w, id);
        id = region_await_room(w, SIZE);
}

/* A client that has closed its sending side still gets its answers: the end of the requests is not the end of it. */
ON_WORKER(half_closed_is_not_gone)
{
        static const char request[] = "GET /livez HTTP/1.1\r\n" HOST "\r\n";
        struct raw_answer answer;
        const char *rest;
        int fd;

        fd = raw_begin(w, request);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        raw_receive(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        rest = wire_read_rest(fd, NULL); /* and the worker closes its side, although it was not asked to */
        assert_string_equal(rest, "");
        (void)close(fd);
}

ON_WORKER(hundreds_of_abandoned_connections_are_given_back)
{
        enum { CLIENTS = 200 };
        static const char *const parts[] = { "", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\n" HOST "\r\n",
                                             "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Length: 99\r\n\r\n" };
        int clients[CLIENTS];
        size_t sockets;

        sockets = first_sockets(w);
        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < CLIENTS; i++) {
                        clients[i] = raw_connect(w);
                        raw_send(clients[i], parts[i % 4], strlen(parts[i % 4]));
                }
                worker_assert_serving(w); /* beside all of them */
                for (int i = 0; i < CLIENTS; i++) {
                        if (i % 2)
                                wire_abort(clients[i]);
                        else
                                (void)close(clients[i]);
                }
                worker_await_sockets(w, sockets);
        }
        worker_assert_serving(w);
}

/* At the limit, new clients wait or are turned away; those that are there are served, and so is who comes after. */
ON_WORKER(the_limit_of_connections_is_not_the_end, "--max-connections", "16", "--http-threads", "2")
{
        enum { CLIENTS = 64 }; /* four times the limit */
        static const char request[] = "GET /livez HTTP/1.1\r\n" HOST "\r\n";
        int clients[CLIENTS];
        size_t sockets;

        sockets = first_sockets(w);
        for (int i = 0; i < CLIENTS; i++)
                clients[i] = raw_connect(w);
        assert_int_equal(ferry_get_livez(w->client), 0); /* over the connection it had before */
        for (int i = 0; i < CLIENTS; i++)
                (void)close(clients[i]);
        worker_await_sockets(w, sockets);
        struct raw_answer answer = raw_exchange(w, request);
        assert_int_equal(answer.status, 200);
}
