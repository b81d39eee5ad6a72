/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* A worker reads from and writes to itself: what a newcomer with one worker tries first. */

enum { MIB = 1 << 20 };

static const char *const network_flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off",
                                             "--transports",  "tcp,self",    NULL };

static void assert_moved(struct worker *w, const struct ferry_operation *passive, const struct ferry_operation *active,
                         bool network)
{
        const char *const ids[] = { active->id, passive->id };
        struct ferry_operation end;

        for (size_t i = 0; i < 2; i++) {
                operation_assert_end(w, ids[i], FERRY_COMPLETE, &end);
                if (network) /* tcp, or what UCX has for a process that talks to itself */
                        assert_true(end.transport[0] != '\0' && strcmp(end.transport, "shm") != 0);
                else
                        assert_string_equal(end.transport, "shm");
                ferry_operation_clear(&end);
        }
}

static void move(struct worker *w, enum ferry_kind passive_kind, uint64_t size, bool verify, bool network)
{
        bool readable = passive_kind == FERRY_READABLE;
        OPERATION passive, active;
        const char *offered = region_make(w, size, readable ? size : 0);
        const char *local = region_make(w, size, readable ? 0 : size);

        offer_make(w, passive_kind, offered, &passive);
        if (verify)
                begin_verified(w, kind_of_peer(passive_kind), local, passive.metadata, &active);
        else
                begin_make(w, kind_of_peer(passive_kind), local, passive.metadata, &active);
        assert_moved(w, &passive, &active, network);
        region_assert_pattern(w, offered, size, 0, size);
        region_assert_pattern(w, local, size, 0, size);
        region_drop(w, offered);
        region_drop(w, local);
}

WITH_WORKER(a_worker_reads_from_and_writes_to_itself)
{
        static const uint64_t sizes[] = { 1, 4096, 7937, 77777, 16 * MIB + 1 };

        for (int network = 0; network < 2; network++) {
                worker_start(w, "w", network ? network_flags : NULL);
                for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                        for (int way = 0; way < 4; way++)
                                move(w, way & 1 ? FERRY_READABLE : FERRY_WRITABLE, sizes[i], way >> 1, network);
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
                assert_moved(w, &passive, &active, false);
                region_assert_pattern(w, region, 5, 0, MIB);
                ferry_operation_clear(&passive);
                ferry_operation_clear(&active);
        }
}

ON_WORKER(its_own_url_will_do)
{
        const char *url;
        struct json_object *read;
        OPERATION passive;
        const char *offered = region_make(w, MIB, 5);
        const char *local = region_make(w, MIB, 0);

        offer_make(w, FERRY_READABLE, offered, &passive);
        url = metadata_url(w, passive.id);
        read = read_by_url(w, local, url);
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
