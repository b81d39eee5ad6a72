/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"

/* "remote_url": the worker fetches the metadata itself, from whom it may and with bounds. */

#define TARGET "/v1/operations/op_0123456789abcdef/metadata"

enum { SIZE = 5000, URL_SIZE = 128 };

/* POST of a read on b; the answer's document. */
static struct json_object *begin(struct pair *p, int status, const char *region, const char *url)
{
        return call_json(&p->b, status, "POST", "/v1/operations", read_body(region, url));
}

static void assert_fails(struct pair *p, const char *region, const char *url, int error)
{
        struct json_object *operation = begin(p, 201, region, url);

        operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, error);
}

ON_PAIR(hosts_that_are_not_admitted_are_refused)
{
        const char *local = region_make(&p->b, SIZE, 0);

        FOR_EACH_TEXT (host, "192.0.2.1", "[2001:db8::1]", "peer.invalid", "3221225985")
                assert_problem(&p->b, "POST", "/v1/operations", read_body(local, text_format("http://%s" TARGET, host)),
                               403, "forbidden", "/remote_url");
        region_drop(&p->b, local); /* nothing was made */
        pair_assert_serving(p);
}

ON_EACH_PAIR(what_the_peer_answers_decides)
{
        OPERATION passive, active;
        uint16_t port;
        int held = raw_hold(&port); /* nobody listens there */
        const char *offered = region_make(&p->a, SIZE, 1);
        const char *local = region_make(&p->b, SIZE, 0);

        pair_expect_failures(p);
        assert_fails(p, local, text_format("http://127.0.0.1:%d%s", port, TARGET), FERRY_E_PEER_UNREACHABLE);
        (void)close(held);
        assert_fails(p, local, metadata_url(&p->a, "op_0123456789abcdef"), FERRY_E_STALE_METADATA);
        offer_make(&p->a, FERRY_WRITABLE, offered, &passive);
        assert_fails(p, local, metadata_url(&p->a, passive.id), FERRY_E_KIND_MISMATCH);
        ferry_operation_clear(&passive);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        assert_fails(p, local, metadata_url(&p->a, passive.id), FERRY_E_STALE_METADATA); /* it is over: 410 */
        pair_assert_serving(p);
}

ON_PAIR(sizes_of_fetched_metadata_are_checked)
{
        OPERATION passive, now;

        pair_expect_failures(p);
        const char *offered = region_make(&p->a, SIZE, 1);
        const char *local = region_make(&p->b, SIZE - 1, 0);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        assert_fails(p, local, metadata_url(&p->a, passive.id), FERRY_E_SIZE_MISMATCH);
        assert_int_equal(ferry_get_operation(p->a.client, passive.id, 0, 0, &now), 0);
        assert_int_equal(now.status, FERRY_INITIALIZED);
        region_drop(&p->b, local);
        pair_assert_serving(p);
}

WITH_PAIR(a_server_that_is_no_worker_is_survived)
{
        static const struct {
                const char *answer;
                int error;
        } cases[] = {
                { "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello</html>", FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                  FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{", FERRY_E_PEER_LOST },
                { "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
                  FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", FERRY_E_PEER_REFUSED },
                { "SSH-2.0-OpenSSH_9.2\r\n", FERRY_E_TRANSFER_FAILED },
                { "", FERRY_E_PEER_LOST },
        };
        char url[URL_SIZE];
        int listener = listen_somewhere(url, sizeof(url), TARGET);

        pair_start(p, false);
        pair_expect_failures(p);
        const char *local = region_make(&p->b, SIZE, 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct json_object *operation = begin(p, 201, local, url);
                const char *request = serve_once(listener, cases[i].answer);

                assert_int_equal(strncmp(request, "GET " TARGET " HTTP/1.1\r\n", strlen("GET " TARGET " HTTP/1.1\r\n")),
                                 0);

                operation_assert_error(&p->b, json_text(operation, "id"), FERRY_ERRORED, cases[i].error);
        }
        region_drop(&p->b, local);
        pair_assert_serving(p);
        (void)close(listener);
}

/* The peer sends nothing; the connection must not last until the fetch times out. */
ON_WORKER(an_operation_that_ends_takes_its_fetch_along)
{
        enum { CANCELLED, DELETED, TIMED_OUT, N_ENDS };
        char url[URL_SIZE];
        int listener = listen_somewhere(url, sizeof(url), TARGET);
        const char *local = region_make(w, SIZE, 0);

        worker_expect(w, "operation ended");
        for (int end = 0; end < N_ENDS; end++) {
                const char *timeout = end == TIMED_OUT ? ",\"timeout_ms\":100" : "";
                struct json_object *operation =
                        call_json(w, 201, "POST", "/v1/operations",
                                  operation_body("read", local, text_format("%s,\"remote_url\":\"%s\"", timeout, url)));
                int fd = accept(listener, NULL, NULL);

                assert_true(fd >= 0);
                if (end == CANCELLED)
                        assert_int_equal(ferry_cancel_operation(w->client, json_text(operation, "id"), NULL), 0);
                else if (end == DELETED)
                        assert_int_equal(ferry_delete_operation(w->client, json_text(operation, "id")), 0);
                worker_await_metric(w, "ferry_peer_fetches_total{result=\"cancelled\"}", (uint64_t)end + 1);
                (void)close(fd);
        }
        (void)close(listener);
}

/* A worker that listens beyond loopback admits nobody unless told; metadata by value names hosts too. */
ON_PAIR(the_list_of_peers_can_be_set, "--allow-peer", "192.0.2.0/24")
{
        const char *more, *body;
        const char *local = region_make(&p->b, SIZE, 0);

        more = text_format(",\"remote_url\":\"%s/v1/operations/op_0123456789abcdef/metadata\"", p->a.url);
        body = operation_body("read", local, more);
        assert_problem(&p->b, "POST", "/v1/operations", body, 403, "forbidden", "/remote_url");
}
