/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

/* Transfers over HTTP: between workers that have nothing else in common, and with a client that is no worker. */

enum { SIZE = 40 << 20, SMALL = 300000 };

#define TOKEN "an-only-slightly-secret-token-of-the-worker"

static void start_with_token(struct worker *w)
{
        worker_start_plain(w, "a", STRINGS("--listen", "127.0.0.1:0", "--token-file", file_make(TOKEN)));
        worker_connect(w, NULL, &(struct ferry_options){ .token = TOKEN });
}

static const char *bearer(const char *metadata)
{
        return text_format("Authorization: Bearer %s", metadata_key(metadata));
}

/* An offer of worker a, and its key as a header. */
static const char *offer_small(struct worker *w, enum ferry_kind kind, const char *region,
                               struct ferry_operation *ret_claim)
{
        offer_make(w, kind, region, ret_claim);
        return bearer(ret_claim->metadata);
}

WITH_PAIR(workers_without_another_way_use_it)
{
        pair_start_apart(p);
        for (int way = 0; way < 4; way++)
                bytes_move(&p->a, &p->b, way & 1 ? FERRY_READABLE : FERRY_WRITABLE, SIZE, way >> 1, "http");
}

WITH_PAIR(a_transfer_over_http_ends_on_both_sides)
{
        struct running running;

        pair_expect_failures(p);
        enum { CANCELLED, DELETED, KILLED, ENDS };
        for (int how = CANCELLED; how < ENDS; how++) {
                struct ferry_operation end;

                pair_start_apart(p);
                worker_expect(&p->a, "peer-lost");
                worker_expect(&p->b, "peer-lost");
                running_start(p, FERRY_READABLE, SIZE, 3, &p->b, &running);
                if (how == KILLED) {
                        worker_kill(&p->b);
                        operation_assert_error(&p->a, running.passive, FERRY_ERRORED, FERRY_E_PEER_LOST);
                } else if (how == DELETED) {
                        assert_int_equal(ferry_delete_operation(p->a.client, running.passive), 0);
                        worker_resume(&p->b);
                        operation_assert_error(&p->b, running.active, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
                        worker_stop(&p->b);
                } else {
                        assert_int_equal(ferry_cancel_operation(p->a.client, running.passive, &end), 0);
                        ferry_operation_clear(&end);
                        /* Although the peer stands still. */
                        operation_assert_error(&p->a, running.passive, FERRY_CANCELLED, FERRY_E_CANCELLED);
                        worker_resume(&p->b);
                        operation_assert_error(&p->b, running.active, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
                        worker_stop(&p->b);
                }
                worker_stop(&p->a);
        }
}

WITH_PAIR(the_key_opens_its_own_operation_alone)
{
        const char *key, *other_key, *path;
        OPERATION offer, other;

        start_with_token(&p->a);
        key = offer_small(&p->a, FERRY_READABLE, region_make(&p->a, SMALL, 9), &offer);
        other_key = offer_small(&p->a, FERRY_READABLE, region_make(&p->a, SMALL, 9), &other);
        path = text_format("/v1/operations/%s/content", offer.id);
        const struct {
                const char *header;
                int status;
        } rows[] = { { NULL, 401 }, { "Authorization: Bearer nothing", 401 }, { other_key, 403 }, { key, 200 } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer = wire_ask(&p->a, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", path,
                                                    rows[i].header ?: "", rows[i].header ? "\r\n" : "");

                assert_int_equal(answer.status, rows[i].status);
                if (answer.status == 200)
                        assert_int_equal(answer.body_size, SMALL);
        }
        operation_assert_end(&p->a, offer.id, FERRY_COMPLETE, NULL);
        /* So does the full token. */
        wire_expect(&p->a, 200,
                    "GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n"
                    "Authorization: Bearer " TOKEN "\r\n\r\n",
                    other.id);
        operation_assert_end(&p->a, other.id, FERRY_COMPLETE, NULL);
}

/* A worker without a token is open to everybody but for this: who claims an operation shows that it is meant. */
ON_WORKER(without_a_token_the_content_takes_the_key_as_well)
{
        static const char *const headers[] = { "", "Authorization: Basic eDp5\r\n", "Authorization: Bearer token\r\n" };
        OPERATION offer;
        const char *key = offer_small(w, FERRY_READABLE, region_make(w, SMALL, 9), &offer);

        FOR_EACH_TEXT (method, "GET", "HEAD", "PUT", "DELETE") {
                for (size_t k = 0; k < sizeof(headers) / sizeof(headers[0]); k++) {
                        const char *ask = text_format("%s /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s"
                                                      "Content-Length: 0\r\nConnection: close\r\n\r\n",
                                                      method, offer.id, headers[k]);
                        const char *said = wire_talk(w, ask, strlen(ask));

                        assert_memory_equal(said, "HTTP/1.1 401", 12);
                        assert_non_null(strstr(said, strstr(headers[k], "Bearer ")
                                                             ? "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n"
                                                             : "WWW-Authenticate: Bearer\r\n"));
                }
        }
        assert_string_equal(json_text(operation_json(w, offer.id), "status"), "INITIALIZED");
        wire_expect(w, 200, "GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", offer.id, key);
        operation_assert_end(w, offer.id, FERRY_COMPLETE, NULL);
}

/* Neither its size nor its revision, which a stranger who has read an id in a log could ask for. */
ON_WORKER(with_a_wrong_key_nothing_is_learnt_of_the_operation)
{
        static const struct {
                const char *method, *query, *header;
        } rows[] = {
                { "GET", "", "Range: bytes=999999999-" },    { "GET", "", "If-Match: \"x\"" },
                { "HEAD", "", "If-Match: \"x\"" },           { "PUT", "?offset=999999999", "X: y" },
                { "PUT", "", "Content-Range: bytes 1-9/9" }, { "DELETE", "", "If-None-Match: *" },
        };
        OPERATION other, readable, writable;
        const struct ferry_operation *const offers[] = { &readable, &writable };
        const char *key = offer_small(w, FERRY_READABLE, region_make(w, SMALL, 9), &other);

        (void)offer_small(w, FERRY_READABLE, region_make(w, SMALL, 9), &readable);
        (void)offer_small(w, FERRY_WRITABLE, region_make(w, SMALL, 9), &writable);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (size_t k = 0; k < 2; k++)
                        wire_expect(w, 403,
                                    "%s /v1/operations/%s/content%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s\r\n"
                                    "Content-Length: 1\r\n\r\nx",
                                    rows[i].method, offers[k]->id, rows[i].query, key, rows[i].header);
}

/* A program that has the metadata alone, by libferry: both kinds, in two pieces. */
WITH_PAIR(a_program_without_a_worker_reads_and_writes)
{
        static char bytes[SMALL], wanted[SMALL];
        enum { FIRST = 100000 };
        OPERATION readable, writable, end;
        struct ferry *peer;
        size_t size = 0;

        start_with_token(&p->a);
        const char *region = region_make(&p->a, SMALL, 9), *target = region_make(&p->a, SMALL, 0);
        const char *key = strrchr(offer_small(&p->a, FERRY_READABLE, region, &readable), ' ') + 1;
        const char *into = strrchr(offer_small(&p->a, FERRY_WRITABLE, target, &writable), ' ') + 1;
        assert_int_equal(ferry_new(p->a.url, NULL, &peer), 0);

        assert_int_equal(ferry_get_operation_content(peer, readable.id, NULL, 0, bytes, FIRST, NULL),
                         FERRY_E_UNAUTHENTICATED);
        assert_int_equal(ferry_get_operation_content(peer, readable.id, into, 0, bytes, FIRST, NULL),
                         FERRY_E_FORBIDDEN);
        assert_int_equal(ferry_get_operation_content(peer, readable.id, key, 0, bytes, FIRST, &size), 0);
        assert_int_equal(size, FIRST);
        assert_int_equal(ferry_get_operation_content(peer, readable.id, key, FIRST, bytes + FIRST, SMALL, &size), 0);
        assert_int_equal(size, SMALL - FIRST);
        pattern_fill(9, 0, wanted, SMALL);
        assert_memory_equal(bytes, wanted, SMALL);
        operation_assert_end(&p->a, readable.id, FERRY_COMPLETE, &end);
        ferry_operation_clear(&end);

        assert_int_equal(ferry_put_operation_content(peer, writable.id, into, 0, bytes, FIRST), 0);
        assert_int_equal(ferry_put_operation_content(peer, writable.id, into, FIRST, bytes + FIRST, SMALL - FIRST), 0);
        operation_assert_end(&p->a, writable.id, FERRY_COMPLETE, &end);
        region_assert_pattern(&p->a, target, 9, 0, SMALL);
        ferry_free(peer);
}

/* It stands in lists, logs and events. */
ON_WORKER(who_asks_is_known_by_a_name_if_it_is_one)
{
        static const struct {
                const char *header, *name;
        } rows[] = {
                { "0123456789abcdef worker-1.b_2", "worker-1.b_2" },
                { "0123456789abcdef a b", NULL },
                { "0123456789abcdef <b>w</b>", NULL },
                { "0123456789abcdef w\xff\xfe", NULL },
                { "0123456789abcdef aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },
        };
        const char *region = region_make(w, 6, 0);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *offer = offer_abc(w, "readable", region);
                struct json_object *now, *peer;
                struct raw_answer answer = wire_ask(
                        w,
                        "GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\nFerry-Worker: %s\r\n\r\n",
                        offer, operation_bearer(w, offer), rows[i].header);

                assert_int_equal(answer.status, 200);
                operation_assert_end(w, offer, FERRY_COMPLETE, NULL);
                now = operation_json(w, offer);
                if (rows[i].name)
                        assert_string_equal(json_text(json_member(now, "peer"), "worker"), rows[i].name);
                else
                        assert_false(json_object_object_get_ex(now, "peer", &peer));
        }
}

/* The log blames the peer, not this worker's caller, who has set no timeout. */
ON_WORKER(a_timeout_of_the_client_is_its_own)
{
        const char *offer = offer_abc(w, "readable", region_make(w, 6, 0)), *bearer = operation_bearer(w, offer);

        worker_expect(w, "error=timeout fault=peer");
        FOR_EACH_TEXT (method, "GET", "DELETE") {
                struct raw_answer answer =
                        wire_ask(w,
                                 "%s /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                                 "Ferry-Transfer: xfr_0123456789abcdef\r\nFerry-Error: timeout\r\n\r\n",
                                 method, offer, bearer);
                assert_int_equal(answer.status, 200);
        }
        operation_assert_error(w, offer, FERRY_ERRORED, FERRY_E_TIMEOUT);
}

ON_WORKER(the_digest_of_the_whole_comes_with_any_part)
{
        static const struct {
                const char *headers, *digest;
                int status;
        } rows[] = {
                { "Want-Repr-Digest: sha-256=10\r\nRange: bytes=1-1\r\n", ABC_DIGEST, 206 },
                { "Want-Repr-Digest: sha-256=0\r\nRange: bytes=1-1\r\n", NULL, 206 },
                { "Want-Repr-Digest: sha-512=3\r\nRange: bytes=1-1\r\n", NULL, 206 },
                { "Want-Repr-Digest: xsha-256=3\r\nRange: bytes=1-1\r\n", NULL, 206 },
                { "Range: bytes=1-1\r\n", NULL, 206 },
                { "Want-Repr-Digest: sha-512=3, sha-256=1\r\n", ABC_DIGEST, 200 },
        };
        const char *offer;
        struct raw_answer answer;
        int fd;

        const char *region = region_make(w, 6, 0);
        assert_int_equal(ferry_put_region_content(w->client, region, 0, "-a--bc", 6), 0);
        offer = offer_abc(w, "readable", region);
        const char *key = operation_bearer(w, offer);
        fd = raw_connect(w); /* on one connection, a range is over when the next one is asked for */
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *request =
                        text_format("GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s\r\n", offer,
                                    key, rows[i].headers);

                raw_send(fd, request, strlen(request));
                raw_receive(fd, false, &answer);
                assert_int_equal(answer.status, rows[i].status);
                answer_assert_header(&answer, "Repr-Digest", rows[i].digest);
        }
        (void)close(fd);
        operation_assert_end(w, offer, FERRY_COMPLETE, NULL);
}

/* Whether another request was answered, and says so, while clients waited for digests. */
static bool answers_during_digests(struct worker *w, const char *id, const char *key)
{
        enum { CLIENTS = 4 };
        int fds[CLIENTS];
        bool waited;

        for (int i = 0; i < CLIENTS; i++) {
                fds[i] = raw_begin(w, text_format("GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                                                  "Range: bytes=%d-%d\r\nWant-Repr-Digest: sha-256=1\r\n\r\n",
                                                  id, key, i, i));
        }
        do
                waited = worker_metric(w, "ferry_http_waiters") > 0;
        while (!waited && poll(&(struct pollfd){ .fd = fds[CLIENTS - 1], .events = POLLIN }, 1, 0) == 0);
        for (int i = 0; i < CLIENTS; i++) {
                struct raw_answer answer = raw_end(fds[i]);
                assert_int_equal(answer.status, 206);
                assert_non_null(raw_header(&answer, "Repr-Digest"));
        }
        return waited;
}

/* A digest of many bytes takes as long as hundreds of other requests; a test that has to wait may come too late. */
ON_WORKER(a_long_digest_holds_up_no_other_request, "--http-threads", "1")
{
        OPERATION offer;
        const char *key = offer_small(w, FERRY_READABLE, region_make(w, 64 << 20, 0), &offer);

        WAIT_UNTIL(answers_during_digests(w, offer.id, key));
        assert_int_equal(ferry_delete_operation(w->client, offer.id), 0);
}

/* Before a byte of it is stored: whoever asks properly later finds the operation as it was. */
ON_WORKER(content_that_an_operation_cannot_take_or_give_is_refused)
{
        static const struct {
                const char *method, *kind, *query, *headers, *body;
                int status;
                const char *code;
        } rows[] = {
                { "PUT", "readable", "", "Content-Length: 3\r\n", "abc", 409, "kind-mismatch" },
                { "GET", "writable", "", "", "", 409, "kind-mismatch" },
                { "PUT", "writable", "", "Content-Length: 0\r\n", "", 400, "invalid-parameter" },
                { "PUT", "writable", "", "Content-Length: 4\r\n", "abcd", 413, "too-large" },
                { "PUT", "writable", "?offset=3", "Content-Length: 1\r\n", "a", 413, "too-large" },
                { "PUT", "writable", "", "Content-Length: 2\r\nContent-Range: bytes 2-3/*\r\n", "ab", 400,
                  "invalid-parameter" },
        };
        const char *region = region_make(w, 6, 0);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *offer = offer_abc(w, rows[i].kind, region);

                wire_refused(w, rows[i].status, rows[i].code,
                             "%s /v1/operations/%s/content%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s\r\n%s",
                             rows[i].method, offer, rows[i].query, operation_bearer(w, offer), rows[i].headers,
                             rows[i].body);
                assert_string_equal(json_text(operation_json(w, offer), "status"), "INITIALIZED");
        }
}

/* A client that skips about costs memory: so far and no further, and then it is told. */
ON_WORKER(ranges_apart_from_each_other_are_counted)
{
        OPERATION offer, end;
        struct json_object *limits;
        uint64_t max, digest_max;

        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        max = json_number(limits, "content_ranges_max");
        digest_max = json_number(limits, "digest_max");
        const char *region = region_make(w, digest_max + 1, 0);
        offer_make(w, FERRY_READABLE, region, &offer);
        for (uint64_t i = 0; i <= max; i++) {
                struct raw_answer answer = wire_ask(
                        w,
                        "GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\nRange: bytes=%" PRIu64
                        "-%" PRIu64 "\r\nWant-Repr-Digest: sha-256=1\r\n\r\n",
                        offer.id, bearer(offer.metadata), 2 * i, 2 * i);
                answer_assert_header(&answer, "Repr-Digest", NULL); /* of so much, none is told */
                if (i < max) {
                        assert_int_equal(answer.status, 206);
                } else {
                        answer_assert_problem(&answer, 429, "limit-reached");
                }
        }
        worker_await_metric(w, "ferry_http_problems_total{code=\"limit-reached\"}", 1);
        assert_int_equal(ferry_cancel_operation(w->client, offer.id, &end), 0);
        worker_expect(w, "level=warn");
}

/* The offer's worker asks for a token; the peer has none, but the metadata, and trusts the certificate or does not. */
WITH_PAIR(an_untrusted_network_is_crossed_by_https)
{
        const char *target;
        const char *const authorities[] = { "other-ca.pem", "ca.pem" };
        struct ferry_operation offer;
        struct json_object *read;

        worker_start_plain(&p->a, "a",
                           STRINGS("--listen", "127.0.0.1:0", "--token-file", file_make(TOKEN), "--local", "off",
                                   "--tls-cert", tls_path("server.pem"), "--tls-key", tls_path("server-key.pem")));
        worker_expect(&p->a, "no transport but HTTP");
        worker_connect(&p->a, NULL, &(struct ferry_options){ .token = TOKEN, .ca_file = tls_path("ca.pem") });
        const char *region = region_make(&p->a, SIZE, 6);
        for (int i = 0; i < 2; i++) {
                worker_start(&p->b, "b", STRINGS("--peer-ca", tls_path(authorities[i])));
                target = region_make(&p->b, SIZE, 0);
                offer_make(&p->a, FERRY_READABLE, region, &offer);
                read = call_json(&p->b, 201, "POST", "/v1/operations",
                                 text_format("{\"kind\":\"read\",\"verify\":true,\"transports\":[\"https\"],"
                                             "\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s}",
                                             target, offer.metadata));
                const char *id = text_format("%s", json_text(read, "id"));
                if (i == 0) {
                        worker_expect(&p->b, "error=peer-unreachable");
                        operation_assert_error(&p->b, id, FERRY_ERRORED, FERRY_E_PEER_UNREACHABLE);
                } else {
                        OPERATION end;

                        operation_assert_end(&p->b, id, FERRY_COMPLETE, &end);
                        assert_string_equal(end.transport, "https");
                }
                region_assert_pattern(&p->b, target, i ? 6 : 0, 0, SIZE);
                ferry_operation_clear(&offer);
                worker_stop(&p->b);
        }
}
