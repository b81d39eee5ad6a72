/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "wire.h"

/* Uploads of a client that is no worker; transfers between workers are in test_operation_content.c. */

ON_WORKER(an_upload_that_is_not_what_its_digest_says_fails)
{
        static const struct {
                const char *last, *digest;
                int status;
        } rows[] = {
                { "c", ABC_DIGEST, 204 },
                { "d", ABC_DIGEST, 409 },
                { "d", "sha-512=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:", 204 },
        };
        const char *offer;
        struct raw_answer answer;

        worker_expect(w, "checksum-mismatch");
        const char *region = region_make(w, 6, 0);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                offer = offer_abc(w, "writable", region);
                const char *key = operation_bearer(w, offer);
                /* Of a part, nothing can be said yet. */
                wire_expect(w, 204,
                            "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                            "%s\r\nRepr-Digest: %s\r\n\r\nab",
                            offer, key, rows[i].digest);
                answer = wire_ask(
                        w,
                        "PUT /v1/operations/%s/content?offset=2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                        "%s\r\nRepr-Digest: %s\r\n\r\n%s",
                        offer, key, rows[i].digest, rows[i].last);
                assert_int_equal(answer.status, rows[i].status);
                if (rows[i].status == 204)
                        operation_assert_end(w, offer, FERRY_COMPLETE, NULL);
                else
                        operation_assert_error(w, offer, FERRY_ERRORED, FERRY_E_CHECKSUM_MISMATCH);
        }
}

/* Else the client would take for checked, or for whole, what is not. */
ON_WORKER(an_upload_that_says_what_cannot_be_is_refused_before_its_claim)
{
        const char *region = region_make(w, 6, 0);
        const char *offer = offer_abc(w, "writable", region);
        const char *key = operation_bearer(w, offer);

        FOR_EACH_TEXT (header, "Repr-Digest: sha-256=:YWJj:", "Repr-Digest: sha-512=:YWJj:, sha-256=:!:",
                       "Repr-Digest: sha-256=ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                       "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA:",
                       "Content-Digest: xxh3=:YWJj:", "Content-Digest: xxh3=YWJj", "Content-Range: bytes 0-2/4") {
                wire_expect(w, 400,
                            "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                            "%s\r\n%s\r\n\r\nabc",
                            offer, key, header);
        }
        assert_string_equal(json_text(operation_json(w, offer), "status"), "INITIALIZED");
        wire_expect(w, 204,
                    "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                    "%s\r\nContent-Range: bytes 0-2/3\r\nRepr-Digest: " ABC_DIGEST "\r\n\r\nabc",
                    offer, key);
        operation_assert_end(w, offer, FERRY_COMPLETE, NULL);
}

/* A client whose upload broke off asks where to go on; of what lies beyond a gap nothing is said. */
ON_WORKER(head_of_a_writable_says_where_to_resume)
{
        static const struct {
                const char *part, *query, *stored;
        } rows[] = { { NULL, NULL, "0" }, { "bc", "?offset=1", "0" }, { "a", "", "3" } };
        const char *region = region_make(w, 6, 0);
        const char *offer = offer_abc(w, "writable", region);
        const char *key = operation_bearer(w, offer);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer;

                if (rows[i].part)
                        wire_expect(w, 204,
                                    "PUT /v1/operations/%s/content%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                                    "Ferry-Transfer: xfr_00000000000000aa\r\nContent-Length: %zu\r\n\r\n%s",
                                    offer, rows[i].query, key, strlen(rows[i].part), rows[i].part);
                answer = wire_ask(w,
                                  "HEAD /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                                  "Ferry-Transfer: xfr_00000000000000aa\r\n\r\n",
                                  offer, key);
                assert_int_equal(answer.status, 200);
                answer_assert_header(&answer, "Upload-Offset", rows[i].stored);
                answer_assert_header(&answer, "Upload-Length", "3");
        }
        wire_expect(w, 200,
                    "DELETE /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                    "Ferry-Transfer: xfr_00000000000000aa\r\n\r\n",
                    offer, key);
        operation_assert_end(w, offer, FERRY_COMPLETE, NULL);
}

/* Nothing tells before the end of the body; the same bytes, sent properly, are taken after it. */
ON_WORKER(a_body_that_is_not_as_long_as_it_says_is_refused)
{
        static const struct {
                const char *range, *body;
                int status;
                const char *code;
        } rows[] = {
                { "", "4\r\nabcd\r\n0\r\n\r\n", 413, "too-large" },
                { "Content-Range: bytes 0-1/3\r\n", "3\r\nabc\r\n0\r\n\r\n", 413, "too-large" },
                { "Content-Range: bytes 0-2/3\r\n", "2\r\nab\r\n0\r\n\r\n", 400, "invalid-parameter" },
        };
        const char *region = region_make(w, 6, 0);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *offer = offer_abc(w, "writable", region);
                const char *key = operation_bearer(w, offer);

                wire_refused(w, rows[i].status, rows[i].code,
                             "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                             "Transfer-Encoding: chunked\r\n%s\r\n%s",
                             offer, key, rows[i].range, rows[i].body);
                assert_string_equal(json_text(operation_json(w, offer), "status"), "IN_PROGRESS");
                wire_expect(w, 204,
                            "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                            "Transfer-Encoding: chunked\r\nContent-Range: bytes 0-2/*\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                            offer, key);
                operation_assert_end(w, offer, FERRY_COMPLETE, NULL);
        }
}

ON_WORKER(a_part_that_is_not_what_its_digest_says_fails)
{
        const char *offer = offer_abc(w, "writable", region_make(w, 6, 0));

        worker_expect(w, "checksum-mismatch");
        wire_refused(w, 409, "checksum-mismatch",
                     "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                     "Content-Length: 3\r\nContent-Digest: xxh3=:AAAAAAAAAAA=:\r\n\r\nabc",
                     offer, operation_bearer(w, offer));
        operation_assert_error(w, offer, FERRY_ERRORED, FERRY_E_CHECKSUM_MISMATCH);
}

ON_WORKER(an_upload_to_two_places_is_refused)
{
        const char *region = region_make(w, 6, 0);
        const char *offer = offer_abc(w, "writable", region);

        wire_expect(w, 400,
                    "PUT /v1/operations/%s/content?offset=1 HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                    "Content-Range: bytes 0-0/3\r\nContent-Length: 1\r\n\r\na",
                    offer, operation_bearer(w, offer));
}

ON_WORKER(a_range_that_ends_with_the_numbers_is_beyond_the_operation)
{
        const char *region = region_make(w, 6, 0);
        const char *offer = offer_abc(w, "writable", region);

        wire_refused(w, 400, "invalid-parameter",
                     "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
                     "Content-Range: bytes 0-18446744073709551614/*\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "3\r\nabc\r\n0\r\n\r\n",
                     offer, operation_bearer(w, offer));
}
