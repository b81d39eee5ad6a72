/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "steps.h"

/* Every size, both ways, both sides of the data plane, byte for byte. */

enum { MIB = 1 << 20 };

static void move(struct pair *p, enum ferry_kind passive_kind, uint64_t size)
{
        bool readable = passive_kind == FERRY_READABLE;
        const char *transport = p->network ? "tcp" : "shm";
        OPERATION passive, active, end;
        const char *offered = region_make(&p->a, size, readable ? size : 0);
        const char *local = region_make(&p->b, size, readable ? 0 : size);

        offer_make(&p->a, passive_kind, offered, &passive);
        begin_make(&p->b, kind_of_peer(passive_kind), local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, &end);
        assert_string_equal(end.transport, transport);
        assert_int_equal(end.bytes_done, size);
        ferry_operation_clear(&end);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, &end);
        assert_string_equal(end.transport, transport);
        region_assert_pattern(readable ? &p->b : &p->a, readable ? local : offered, size, 0, size);
        region_assert_pattern(readable ? &p->a : &p->b, readable ? offered : local, size, 0, size);
        region_drop(&p->a, offered);
        region_drop(&p->b, local);
}

ON_EACH_PAIR(every_size_arrives_byte_for_byte)
{
        static const uint64_t sizes[] = { 1, 4095, 4096, 4097, 77777, MIB - 1, MIB, MIB + 1, 64 * MIB };

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                move(p, FERRY_READABLE, sizes[i]);
                move(p, FERRY_WRITABLE, sizes[i]);
        }
}

static void assert_peer(struct worker *w, const char *id, const struct worker *peer)
{
        struct json_object *now = operation_json(w, id);
        const char *line;

        assert_string_equal(json_text(json_member(now, "peer"), "worker"), peer->name);
        assert_string_equal(json_text(json_member(now, "peer"), "epoch"), peer->epoch);
        /* The line follows the end that clients see. */
        WAIT_UNTIL((line = strstr(worker_log(w), text_format("operation=%s", id))) && strchr(line, '\n'));
        assert_non_null(strstr(line, text_format("peer=%s peer_epoch=%s", peer->name, peer->epoch)));
}

/* Both ends of the first transfer over a link, short and long. */
WITH_PAIR(the_operation_and_the_log_name_the_worker_at_the_other_end)
{
        static const enum ferry_kind kinds[] = { FERRY_READABLE, FERRY_WRITABLE };
        static const uint64_t sizes[] = { 64, MIB };
        const char *offered, *local;
        struct ferry_operation passive, active;

        for (int i = 0; i < 8; i++) {
                enum ferry_kind kind = kinds[i / 2 % 2];

                pair_start(p, i / 4);
                offered = region_make(&p->a, sizes[i % 2], 0);
                local = region_make(&p->b, sizes[i % 2], 0);
                offer_make(&p->a, kind, offered, &passive);
                begin_make(&p->b, kind_of_peer(kind), local, passive.metadata, &active);
                operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
                operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
                assert_peer(&p->a, passive.id, &p->b);
                assert_peer(&p->b, active.id, &p->a);
                ferry_operation_clear(&passive);
                ferry_operation_clear(&active);
                pair_stop(p);
        }
}

ON_PAIR(a_gibibyte_arrives_byte_for_byte)
{
        move(p, FERRY_READABLE, UINT64_C(1) << 30);
}
