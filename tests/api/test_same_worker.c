/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* A worker reads from and writes to itself: what a newcomer with one worker tries first. */

enum { MIB = 1 << 20 };

WITH_WORKER(a_worker_reads_from_and_writes_to_itself)
{
        static const uint64_t sizes[] = { 1, 4096, 7937, 77777, 16 * MIB + 1 };

        for (int network = 0; network < 2; network++) {
                worker_start(w, "w", network ? tcp_flags : NULL);
                for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                        for (int way = 0; way < 4; way++)
                                bytes_move(w, w, way & 1 ? FERRY_READABLE : FERRY_WRITABLE, sizes[i], way >> 1,
                                           network ? NULL : "shm"); /* else what UCX has for one process */
                worker_stop(w);
        }
}

ON_WORKER(both_ends_may_be_the_same_bytes)
{
        struct ferry_operation passive, active;
        const char *region = region_make(w, MIB, 5);

        for (int readable = 0; readable < 2; readable++) {
                enum ferry_kind kind = readable ? FERRY_READABLE : FERRY_WRITABLE;

                offer_make(w, kind, region, &passive);
                begin_make(w, kind_of_peer(kind), region, passive.metadata, &active);
                operation_assert_end(w, active.id, FERRY_COMPLETE, NULL);
                operation_assert_end(w, passive.id, FERRY_COMPLETE, NULL);
                region_assert_pattern(w, region, 5, 0, MIB);
                ferry_operation_clear(&passive);
                ferry_operation_clear(&active);
        }
}

ON_WORKER(its_own_url_will_do)
{
        struct json_object *read;
        OPERATION passive;
        const char *offered = region_make(w, MIB, 5);
        const char *local = region_make(w, MIB, 0);

        offer_make(w, FERRY_READABLE, offered, &passive);
        read = read_by_url(w, local, metadata_url(w, passive.id));
        operation_assert_end(w, json_text(read, "id"), FERRY_COMPLETE, NULL);
        operation_assert_end(w, passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(w, local, 5, 0, MIB);
}

/* A cancel finds both ends on one thread. */
ON_WORKER(a_cancel_ends_both_ends, "--chunk-size", "64KiB", "--window", "1")
{
        worker_expect(w, "msg=\"operation ended\"");
        const char *offered = region_make(w, 64 * MIB, 0);
        const char *local = region_make(w, 64 * MIB, 0);
        for (int i = 0; i < 8; i++) {
                enum ferry_kind kind = i & 1 ? FERRY_READABLE : FERRY_WRITABLE;
                struct ferry_operation passive, active, end[2];

                offer_make(w, kind, offered, &passive);
                begin_make(w, kind_of_peer(kind), local, passive.metadata, &active);
                (void)operation_await_middle(w, passive.id); /* it is claimed */
                assert_int_equal(ferry_cancel_operation(w->client, i & 2 ? passive.id : active.id, &end[0]), 0);
                ferry_operation_clear(&end[0]);
                assert_int_equal(ferry_wait_operation(w->client, passive.id, WAIT_MS, &end[0]), 0);
                assert_int_equal(ferry_wait_operation(w->client, active.id, WAIT_MS, &end[1]), 0);
                assert_true(end[0].done && end[1].done);
                assert_int_equal(end[0].status == FERRY_COMPLETE, end[1].status == FERRY_COMPLETE);
                ferry_operation_clear(&end[0]);
                ferry_operation_clear(&end[1]);
                ferry_operation_clear(&passive);
                ferry_operation_clear(&active);
        }
}
