/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "operations_internal.h"

/* The connections over which a transfer goes. */

#define TRANSFER "Ferry-Transfer: xfr_0123456789abcdef\r\n"
#define WORKER "Ferry-Worker: 00000000000000ab peer\r\n"

enum { ABSENCE_MS = 30 };

/* A server whose clients may stay away for ABSENCE_MS. */
static void be_impatient(struct http_fixture *h)
{
        struct operation_limits limits = default_limits;

        limits.absence_ms = ABSENCE_MS;
        http_stop(h);
        fixture_limits(h->f, &limits);
        h->config.operations = h->f->store;
        http_start(h);
}

/* An offer, with a reference; *ret_key: its key as a header. */
static struct operation *offer(struct http_fixture *h, char path[64], const char **ret_key)
{
        const char *body = text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}", h->region);
        struct raw_answer answer = expect_status(http_call(h, "POST", "/v1/operations", "", body), 201);
        const char *id = reply_field(&answer, "id");
        struct operation *operation = NULL;
        uint64_t number;

        assert_true(ferry_id_parse("op_", id, &number));
        assert_int_equal(operation_find(h->f->store, number, &operation), OPERATION_FOUND);
        (void)snprintf(path, 64, "/v1/operations/%s/metadata", id);
        answer = expect_status(http_call(h, "GET", path, "", NULL), 200);
        *ret_key = text_format("Authorization: Bearer %s\r\n", reply_field(&answer, "notification_key"));
        (void)snprintf(path, 64, "/v1/operations/%s/content", id);
        return operation;
}

/* Asks on a connection that stays open. */
static void ask(int fd, const char *path, const char *headers, int status)
{
        const char *text = text_format("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers);
        struct raw_answer answer;

        raw_send(fd, text, strlen(text));
        raw_receive(fd, false, &answer);
        assert_int_equal(answer.status, status);
        assert_false(answer.closed);
}

static struct operation_view view_of(struct http_fixture *h, struct operation *operation)
{
        struct operation_view view;

        operation_get_view(h->f->store, operation, &view);
        return view;
}

WITH_HTTP(an_open_connection_is_the_presence_of_a_worker_alone)
{
        be_impatient(h);
        for (int worker = 0; worker < 2; worker++) {
                char path[64];
                const char *key;
                struct operation *operation = offer(h, path, &key);
                int fd = raw_dial(h->port);

                ask(fd, path, text_format("%s" TRANSFER "%sRange: bytes=0-9\r\n", key, worker ? WORKER : ""), 206);
                if (worker) {
                        await_loop(h->f, clock_now_us() + 4 * ABSENCE_MS * 1000);
                        assert_int_equal(view_of(h, operation).status, FERRY_IN_PROGRESS);
                        (void)close(fd);
                }
                WAIT_UNTIL(view_of(h, operation).status == FERRY_ERRORED);
                assert_int_equal(view_of(h, operation).error, FERRY_E_PEER_LOST);
                if (!worker)
                        (void)close(fd);
                (void)operation_unref(operation);
        }
}

WITH_HTTP(a_connection_keeps_no_transfer_that_is_over)
{
        char path[64];
        const char *key;
        struct operation *operation = offer(h, path, &key);
        int fd = raw_dial(h->port);

        ask(fd, path, text_format("%s" TRANSFER WORKER "Range: bytes=0-9\r\n", key), 206);
        expect_status(http_call(h, "DELETE", path, text_format("%s" TRANSFER, key), NULL), 200);
        ask(fd, "/livez", "", 200);
        WAIT_UNTIL(atomic_load(&operation->refs) == 2); /* the store's and ours */
        (void)close(fd);
        (void)operation_unref(operation);
}

/* The server has sent every byte. */
WITH_HTTP(a_client_that_gives_up_says_why)
{
        static const struct {
                const char *header, *status;
                int error;
        } rows[] = { { "", "COMPLETE", 0 },
                     { "Ferry-Error: checksum-mismatch\r\n", "CANCELLED", FERRY_E_CHECKSUM_MISMATCH },
                     { "Ferry-Error: cancelled\r\n", "CANCELLED", FERRY_E_CANCELLED_BY_PEER },
                     { "Ferry-Error: of its own\r\n", "CANCELLED", FERRY_E_TRANSFER_FAILED } };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                char path[64];
                const char *key;
                struct operation *operation = offer(h, path, &key);
                struct raw_answer answer;

                expect_status(http_call(h, "GET", path, text_format("%s" TRANSFER, key), NULL), 200);
                answer = http_call(h, "DELETE", path, text_format("%s" TRANSFER "%s", key, rows[i].header), NULL);
                assert_string_equal(reply_field(&answer, "status"), rows[i].status);
                assert_int_equal(view_of(h, operation).error, rows[i].error);
                (void)operation_unref(operation);
        }
}
