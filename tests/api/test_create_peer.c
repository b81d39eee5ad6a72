/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/protocol.h>

#include "steps.h"

/* POST /v1/peers: b connects to a, so that its first transfer need not. */

enum { SIZE = 5000, URL_SIZE = 128 };

static struct json_object *connect_to(struct worker *w, int status, const char *url)
{
        return call_json(w, status, "POST", "/v1/peers", text_format("{\"url\":\"%s\"}", url));
}

static void assert_refused(struct worker *w, const char *url, int status, const char *code, const char *pointer)
{
        assert_problem(w, "POST", "/v1/peers", text_format("{\"url\":\"%s\"}", url), status, code, pointer);
}

/* How many links b has by the pair's transport. */
static void await_links(struct pair *p, uint64_t n)
{
        worker_await_metric(&p->b, p->network ? "ferry_links{transport=\"ucx\"}" : "ferry_links{transport=\"local\"}",
                            n);
}

/* One read on b of what a offers; the active operation's connect_us, 0 = it has none. */
static uint64_t move(struct pair *p, const char *offered, const char *local)
{
        OPERATION passive, active, end;
        struct json_object *object, *value;
        uint64_t connect_us;

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, &end);
        connect_us = end.connect_us;
        object = operation_json(&p->b, active.id);
        assert_true(json_object_object_get_ex(object, "connect_us", &value) == (connect_us != 0));
        ferry_operation_clear(&end);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, &end);
        assert_int_equal(end.connect_us, 0); /* the passive side connects to nobody */
        return connect_us;
}

ON_EACH_PAIR(the_first_call_connects_and_what_follows_finds_it)
{
        struct json_object *answer;
        struct ferry_peer peer;
        const char *offered = region_make(&p->a, SIZE, 1);
        const char *local = region_make(&p->b, SIZE, 0);

        await_links(p, 0);
        answer = connect_to(&p->b, 201, p->a.url);
        assert_string_equal(json_text(answer, "url"), p->a.url);
        assert_string_equal(json_text(answer, "worker"), "a");
        assert_string_equal(json_text(answer, "epoch"), p->a.epoch);
        assert_string_equal(json_text(answer, "transport"), p->network ? "tcp" : "shm");
        assert_in_range(json_number(answer, "connect_us"), 1, WAIT_MS * 1000);
        assert_false(json_truth(answer, "reused"));
        await_links(p, 1);

        answer = connect_to(&p->b, 200, p->a.url);
        assert_int_equal(json_number(answer, "connect_us"), 0);
        assert_true(json_truth(answer, "reused"));
        assert_string_equal(json_text(answer, "transport"), p->network ? "tcp" : "shm");

        assert_int_equal(move(p, offered, local), 0);
        region_assert_pattern(&p->b, local, 1, 0, SIZE);
        assert_int_equal(ferry_connect_peer(p->b.client, p->a.url, &peer), 0);
        assert_true(peer.reused);
        ferry_peer_clear(&peer);
        await_links(p, 1); /* the one of the first call */
}

ON_EACH_PAIR(a_transfer_that_has_to_connect_tells_what_that_took)
{
        struct json_object *answer;
        const char *offered = region_make(&p->a, SIZE, 1);
        const char *local = region_make(&p->b, SIZE, 0);

        assert_in_range(move(p, offered, local), 1, WAIT_MS * 1000);
        assert_int_equal(move(p, offered, local), 0);
        answer = connect_to(&p->b, 200, p->a.url);
        assert_true(json_truth(answer, "reused"));
}

ON_PAIR(hosts_that_are_not_admitted_are_refused)
{
        FOR_EACH_TEXT (url, "http://192.0.2.1", "http://peer.invalid:9300", "http://3221225985")
                assert_refused(&p->b, url, 403, "forbidden", "/url");
        assert_refused(&p->b, p->b.url, 400, "invalid-parameter", "/url"); /* itself */
        await_links(p, 0);
}

ON_PAIR(the_list_of_peers_decides, "--allow-peer", "192.0.2.0/24")
{
        assert_refused(&p->b, p->a.url, 403, "forbidden", "/url");
        await_links(p, 0);
}

/* A request on its way, whose answer is read later. */
static int ask(const struct worker *w, const char *url)
{
        return raw_begin(w, json_request("/v1/peers", "", text_format("{\"url\":\"%s\"}", url)));
}

/* Sends the request, has text served to the worker, and asserts the answer's status and what it says. */
static void ask_served(struct worker *w, int listener, const char *url, const char *text, int status, const char *said)
{
        int fd = ask(w, url);

        assert_non_null(strstr(serve_once(listener, text), "GET /v1/worker HTTP/1.1\r\n"));
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, status);
        assert_non_null(strstr(answer.body, said));
}

WITH_PAIR(a_server_that_is_no_worker_is_survived)
{
        static const struct {
                const char *answer, *code;
        } cases[] = {
                { "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello</html>", "peer-unreachable" },
                { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "peer-unreachable" },
                { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "peer-unreachable" },
                { "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{", "peer-unreachable" },
                { "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
                  "peer-unreachable" },
                { "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "peer-refused" },
                { "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "peer-refused" },
                { "SSH-2.0-OpenSSH_9.2\r\n", "peer-unreachable" },
                { "", "peer-unreachable" },
        };
        char url[URL_SIZE];
        int listener = listen_somewhere(url, sizeof(url), "");

        pair_start(p, false);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                ask_served(&p->b, listener, url, cases[i].answer, 502, cases[i].code);
        (void)close(listener);
        assert_refused(&p->b, url, 502, "peer-unreachable", NULL); /* nobody listens there any more */
        await_links(p, 0);
        pair_assert_serving(p);
}

/* What it says of itself may be old or a lie: another worker is at the address, a dead one, or something silent. */
WITH_PAIR(a_description_that_leads_nowhere_is_unreachable)
{
        static const char form[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
                                   "{\"name\":\"a\",\"epoch\":\"0123456789abcdef\",\"protocol\":%d,"
                                   "\"addresses\":{\"data\":\"%s\"}}";
        char url[URL_SIZE], silent[URL_SIZE];
        const char *text;
        int listener = listen_somewhere(url, sizeof(url), ""), mute = listen_somewhere(silent, sizeof(silent), "");
        uint64_t start_ms;

        pair_start(p, true);
        text = text_format(form, FERRY_PROTOCOL, p->a.data);
        ask_served(&p->b, listener, url, text, 502, "peer-unreachable");
        text = text_format(form, FERRY_PROTOCOL, "192.0.2.1:1"); /* not admitted */
        ask_served(&p->b, listener, url, text, 502, "peer-unreachable");
        text = text_format(form, FERRY_PROTOCOL, silent + strlen("http://"));
        start_ms = now_ms();
        ask_served(&p->b, listener, url, text, 502, "peer-unreachable");
        assert_in_range(now_ms() - start_ms, 0, 10000); /* the connect time is 5 s */
        pair_assert_serving(p);
        pair_stop(p);
        (void)close(listener);
        (void)close(mute);
}

/* Before its addresses are used: they lead to a worker that could be reached. */
WITH_PAIR(a_worker_of_another_protocol_is_named_as_such)
{
        static const struct {
                const char *protocol, *detail;
        } rows[] = {
                { "\"protocol\":5,", "the peer speaks protocol 5, this worker protocol 8: upgrade the peer" },
                { "\"protocol\":9,", "the peer speaks protocol 9, this worker protocol 8: upgrade this worker" },
                { "", "the peer speaks no numbered protocol, this worker protocol 8: upgrade the peer" },
        };
        char url[URL_SIZE];
        int listener = listen_somewhere(url, sizeof(url), "");

        pair_start(p, false);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *text = text_format("HTTP/1.1 200 OK\r\n\r\n{\"name\":\"a\",\"epoch\":\"%s\",%s"
                                               "\"addresses\":{\"http\":[]}}",
                                               p->a.epoch, rows[i].protocol);

                test_row(rows[i].detail);
                ask_served(&p->b, listener, url, text, 409, rows[i].detail);
        }
        (void)close(listener);
        await_links(p, 0);
        pair_assert_serving(p);
}

/* A description of a as it was. */
static const char *description_of(const struct worker *w)
{
        return text_format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
                           "{\"name\":\"a\",\"epoch\":\"%s\",\"protocol\":%d,"
                           "\"addresses\":{\"http\":[]%s%s%s}}",
                           w->epoch, FERRY_PROTOCOL, *w->data ? ",\"data\":\"" : "", w->data, *w->data ? "\"" : "");
}

/* Over the data plane alone: the HTTP side of a is played. */
ON_EACH_PAIR(a_peer_that_stands_still_is_unreachable_until_it_goes_on)
{
        char url[URL_SIZE];
        const char *text;
        int listener = listen_somewhere(url, sizeof(url), "");

        text = description_of(&p->a);
        worker_pause(&p->a);
        ask_served(&p->b, listener, url, text, 502, "peer-unreachable");
        worker_resume(&p->a);
        connect_to(&p->b, 201, p->a.url);
        pair_assert_serving(p);
        worker_pause(&p->a); /* known by now, and silent again */
        ask_served(&p->b, listener, url, text, 502, "peer-unreachable");
        worker_resume(&p->a);
        pair_assert_serving(p);
        (void)close(listener);
}

WITH_PAIR(a_peer_that_died_is_not_reused)
{
        char url[URL_SIZE];
        const char *text;
        int listener = listen_somewhere(url, sizeof(url), "");

        for (int network = 0; network < 2; network++) {
                char *flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off", "--transports", "tcp,self", NULL };
                struct worker next = { 0 };

                pair_start(p, network);
                connect_to(&p->b, 201, p->a.url);
                worker_kill(&p->a);
                assert_refused(&p->b, p->a.url, 502, "peer-unreachable", NULL);
                text = description_of(&p->a);
                ask_served(&p->b, listener, url, text, 502, "peer-unreachable");
                worker_start(&next, "next", network ? (const char *const *)flags : NULL);
                connect_to(&p->b, 201, next.url);
                connect_to(&p->b, 200, next.url);
                worker_stop(&next);
                worker_stop(&p->b);
                worker_clean(&p->a);
        }
        (void)close(listener);
}

/* It is not kept waiting, and not told of a time that has not gone by. libmicrohttpd may see the end first, and close.
 */
ON_PAIR(a_client_that_closes_its_end_is_let_go_at_once)
{
        char url[URL_SIZE];
        int listener = listen_somewhere(url, sizeof(url), ""), fd = ask(&p->b, url), asked;

        asked = accept(listener, NULL, NULL); /* the worker waits for it: the request is whole */
        assert_true(asked >= 0);
        (void)shutdown(fd, SHUT_WR);
        struct raw_answer answer = raw_end(fd);
        assert_true(answer.status == 410 || answer.status == 0);
        assert_true(answer.status == 0 ||
                    strstr(answer.body, "The client closed its end of the connection before the peer answered"));
        (void)close(asked);
        (void)close(listener);
}

/* The request waits for a server that says nothing; the end of the worker answers it. */
ON_PAIR(the_end_of_the_worker_answers_who_waits)
{
        char url[URL_SIZE];
        int listener = listen_somewhere(url, sizeof(url), ""), fd = ask(&p->b, url);
        struct pollfd asked = { .fd = listener, .events = POLLIN };

        assert_int_equal(poll(&asked, 1, WAIT_MS), 1);
        pair_stop(p);
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 503);
        assert_non_null(strstr(answer.body, "\"code\":\"draining\""));
        (void)close(listener);
}
