/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

/* "transports" of an operation: nothing else carries its bytes. */

enum { SIZE = 3 << 20 };

static const char *const both[] = { "--data-listen", "127.0.0.1:0", "--transports", "tcp,self", NULL };

/* Reads the offer with that list; transport NULL = no peer is reached so. */
static void read_by(struct pair *p, const char *transports, const char *transport)
{
        OPERATION offer;
        struct ferry_operation end;
        struct json_object *read;
        const char *offered = region_make(&p->a, SIZE, 7);
        const char *local = region_make(&p->b, SIZE, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &offer);
        read = call_json(&p->b, 201, "POST", "/v1/operations",
                         text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"transports\":%s,"
                                     "\"remote_metadata\":%s}",
                                     local, transports, offer.metadata));
        assert_string_equal(json_object_to_json_string_ext(json_member(read, "transports"), JSON_C_TO_STRING_PLAIN),
                            transports);
        const char *id = text_format("%s", json_text(read, "id"));
        if (transport) {
                operation_assert_end(&p->b, id, FERRY_COMPLETE, &end);
                assert_string_equal(end.transport, transport);
                ferry_operation_clear(&end);
                region_assert_pattern(&p->b, local, 7, 0, SIZE);
        } else {
                worker_expect(&p->b, "error=peer-unreachable");
                operation_assert_error(&p->b, id, FERRY_ERRORED, FERRY_E_PEER_UNREACHABLE);
                /* Nobody has come for the offer. */
                assert_int_equal(ferry_get_operation(p->a.client, offer.id, 0, 0, &end), 0);
                assert_int_equal(end.status, FERRY_INITIALIZED);
                ferry_operation_clear(&end);
                assert_int_equal(ferry_delete_operation(p->a.client, offer.id), 0);
        }
        region_drop(&p->a, offered);
        region_drop(&p->b, local);
}

WITH_PAIR(nothing_else_carries_the_bytes)
{
        worker_start(&p->a, "a", both);
        worker_start(&p->b, "b", both);
        for (int warm = 0; warm < 2; warm++) {
                read_by(p, "[\"tcp\"]", "tcp");
                read_by(p, "[\"shm\"]", "shm");
                read_by(p, "[\"tcp\",\"rdma\"]", "tcp");
                read_by(p, "[\"shm\",\"tcp\",\"rdma\"]", "shm");
                read_by(p, "[\"rdma\"]", NULL);
        }
}

WITH_PAIR(what_a_worker_does_not_have_is_not_replaced)
{
        worker_start(&p->a, "a", NULL);
        worker_start(&p->b, "b", NULL);
        read_by(p, "[\"tcp\"]", NULL);
        read_by(p, "[\"shm\"]", "shm");
}

/* On loopback every local user reaches UCX's listener. */
WITH_PAIR(a_worker_says_at_its_start_that_its_listener_can_be_aborted)
{
        worker_start(&p->a, "a", both);
        worker_start(&p->b, "b", NULL);
        const char *with = worker_log(&p->a), *without = worker_log(&p->b);
        assert_int_equal(text_count(with, "level=info msg=\"UCX's listener has no protection: every user"), 1);
        assert_int_equal(text_count(with, "has no protection"), 1);
        assert_int_equal(text_count(without, "has no protection"), 0);
}
