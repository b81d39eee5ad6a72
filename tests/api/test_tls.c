/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

/* TLS: who is served, and by which certificates. */

static void start_tls_alone(struct worker *w, const char *name, const char *const *more)
{
        const char *flags[32] = { "--listen",   "127.0.0.1:0",
                                  "--tls-cert", tls_path("server.pem"),
                                  "--tls-key",  tls_path("server-key.pem") };

        for (size_t i = 6; more && *more; i++)
                flags[i] = *more++;
        worker_start_plain(w, name, flags);
}

/* A worker with TLS whose client trusts its CA. */
static void start_tls(struct worker *w, const char *name, const char *const *more)
{
        start_tls_alone(w, name, more);
        worker_connect(w, NULL, &(struct ferry_options){ .ca_file = tls_path("ca.pem") });
}

WITH_PAIR(https_is_served_to_those_who_trust_the_certificate)
{
        struct ferry *client;
        const char *const authorities[] = { NULL, tls_path("other-ca.pem") };

        start_tls(&p->a, "a", NULL);
        assert_int_equal(strncmp(p->a.url, "https://127.0.0.1:", 18), 0);
        const char *region = region_make(&p->a, 3 << 20, 9);
        region_assert_pattern(&p->a, region, 9, 0, 3 << 20);
        for (size_t i = 0; i < 2; i++) {
                struct ferry_options options = { .ca_file = authorities[i], .retries = -1 };

                assert_int_equal(ferry_new(p->a.url, &options, &client), 0);
                assert_int_equal(ferry_get_livez(client), -EACCES);
                client = ferry_free(client);
        }
        /* Nobody is served in the clear on that port. */
        assert_int_equal(wire_ask(&p->a, "GET /v1/worker HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 0);
        assert_int_equal(ferry_get_livez(p->a.client), 0);
}

WITH_PAIR(a_metadata_url_by_https_needs_the_peer_ca)
{
        const char *const with[] = { "--peer-ca", tls_path("ca.pem"), NULL };
        const char *const wrong[] = { "--peer-ca", tls_path("other-ca.pem"), NULL };
        const char *target, *id;
        struct ferry_operation offer;

        start_tls(&p->a, "a", NULL);
        const char *region = region_make(&p->a, 4096, 3);
        for (int i = 0; i < 2; i++) {
                offer_make(&p->a, FERRY_READABLE, region, &offer);
                worker_start(&p->b, "b", i ? with : wrong);
                target = region_make(&p->b, 4096, 0);
                if (i == 0)
                        worker_expect(&p->b, "error=peer-unreachable");
                id = json_text(read_by_url(&p->b, target, metadata_url(&p->a, offer.id)), "id");
                if (i == 0)
                        operation_assert_error(&p->b, id, FERRY_ERRORED, FERRY_E_PEER_UNREACHABLE);
                else
                        operation_assert_end(&p->b, id, FERRY_COMPLETE, NULL);
                region_assert_pattern(&p->b, target, i ? 3 : 0, 0, 4096);
                ferry_operation_clear(&offer);
                worker_stop(&p->b);
        }
}

WITH_PAIR(certificates_that_cannot_be_used_are_refused)
{
        const char *const cases[][2] = {
                { tls_path("server.pem"), tls_path("server.pem") }, /* no key in it */
                { "/nonexistent.pem", "/nonexistent.pem" },
        };
        const char *errors;

        for (size_t i = 0; i < 2; i++) {
                assert_int_not_equal(ferryd_run(STRINGS("--listen", "127.0.0.1:0", "--tls-cert", cases[i][0],
                                                        "--tls-key", cases[i][1]),
                                                NULL, &errors),
                                     0);
                assert_non_null(strstr(errors, "--tls-"));
        }
}

/* The first byte of what comes back for a ClientHello of TLS 1.<minor>: 22 = the handshake goes on. */
static int offer_tls(const struct worker *w, unsigned char minor)
{
        /* No session; ECDHE-ECDSA with AES-256 and -128; no compression; P-256, uncompressed; renegotiation info. */
        static const unsigned char tail[] = { 0, 0, 4, 0xc0, 0x0a, 0xc0, 0x09, 1, 0, 0, 19,   0, 10, 0, 4,
                                              0, 2, 0, 23,   0,    11,   0,    2, 1, 0, 0xff, 1, 0,  1, 0 };
        unsigned char hello[5 + 4 + 2 + 32 + sizeof(tail)] = {
                22, 3, 1, 0, sizeof(hello) - 5, 1, 0, 0, sizeof(hello) - 9, 3, minor + 1
        };
        unsigned char answer = 0;
        int fd = raw_connect(w);

        memcpy(hello + 43, tail, sizeof(tail));
        raw_send(fd, hello, sizeof(hello));
        assert_true(recv(fd, &answer, 1, 0) >= 0);
        (void)close(fd);
        return answer;
}

WITH_PAIR(tls_older_than_1_2_is_refused)
{
        enum { HANDSHAKE = 22 };

        start_tls(&p->a, "a", NULL);
        assert_int_equal(offer_tls(&p->a, 2), HANDSHAKE);
        assert_int_not_equal(offer_tls(&p->a, 1), HANDSHAKE);
        assert_int_not_equal(offer_tls(&p->a, 0), HANDSHAKE);
}

/* 0, or the error of a request on a connection of its own, with or without the certificate. */
static int reach(const struct worker *w, bool certificate)
{
        struct ferry_options options = { .ca_file = tls_path("ca.pem"), .retries = -1 };
        struct ferry *client;
        int r;

        if (certificate) {
                options.cert_file = tls_path("server.pem"); /* it is good for clients, too */
                options.key_file = tls_path("server-key.pem");
        }
        assert_int_equal(ferry_new(w->url, &options, &client), 0);
        r = ferry_get_livez(client);
        client = ferry_free(client);
        return r;
}

WITH_PAIR(clients_need_a_certificate_where_the_worker_asks_for_one)
{
        start_tls_alone(&p->a, "a", STRINGS("--tls-client-ca", tls_path("ca.pem")));
        assert_int_equal(reach(&p->a, true), 0);
        assert_int_not_equal(reach(&p->a, false), 0);
        assert_int_equal(reach(&p->a, true), 0);
        worker_stop(&p->a);
        start_tls_alone(&p->a, "a", STRINGS("--tls-client-ca", tls_path("other-ca.pem")));
        assert_int_not_equal(reach(&p->a, true), 0);
}

WITH_PAIR(certificates_are_read_anew_and_connections_live_on)
{
        const char *good = file_read(tls_path("ca.pem")), *other = file_read(tls_path("other-ca.pem"));
        const char *authority = file_make(good);

        start_tls_alone(&p->a, "a", STRINGS("--tls-client-ca", authority, "--http-threads", "1"));
        worker_connect(&p->a, NULL,
                       &(struct ferry_options){ .ca_file = tls_path("ca.pem"),
                                                .cert_file = tls_path("server.pem"),
                                                .key_file = tls_path("server-key.pem"),
                                                .retries = -1 });
        file_write(authority, other);
        worker_hang_up(&p->a, "tokens and certificates reloaded", 1);
        assert_int_not_equal(reach(&p->a, true), 0);
        assert_int_equal(ferry_get_livez(p->a.client), 0);
        worker_expect(&p->a, "reloading tokens and certificates failed");
        file_write(authority, "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
        worker_hang_up(&p->a, "reloading tokens and certificates failed", 1);
        assert_int_equal(ferry_get_livez(p->a.client), 0);
        file_write(authority, good);
        worker_hang_up(&p->a, "tokens and certificates reloaded", 2);
        assert_int_equal(reach(&p->a, true), 0);
        assert_int_equal(ferry_get_livez(p->a.client), 0);
}
