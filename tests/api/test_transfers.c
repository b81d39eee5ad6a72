/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

/* Every size, both ways, both sides of the data plane, byte for byte. */

enum { MIB = 1 << 20 };

static void move(struct pair *p, enum ferry_kind passive_kind, uint64_t size)
{
        char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE];
        bool readable = passive_kind == FERRY_READABLE;
        const char *transport = p->network ? "tcp" : "shm";
        struct ferry_operation passive, active, end;

        region_make(&p->a, size, readable ? size : 0, offered);
        region_make(&p->b, size, readable ? 0 : size, local);
        offer_make(&p->a, passive_kind, offered, &passive);
        begin_make(&p->b, kind_of_peer(passive_kind), local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, &end);
        assert_string_equal(end.transport, transport);
        assert_int_equal(end.bytes_done, size);
        ferry_operation_clear(&end);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, &end);
        assert_string_equal(end.transport, transport);
        ferry_operation_clear(&end);
        region_assert_pattern(readable ? &p->b : &p->a, readable ? local : offered, size, 0, size);
        region_assert_pattern(readable ? &p->a : &p->b, readable ? offered : local, size, 0, size);
        ferry_operation_clear(&passive);
        ferry_operation_clear(&active);
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

ON_PAIR(a_gibibyte_arrives_byte_for_byte)
{
        move(p, FERRY_READABLE, UINT64_C(1) << 30);
}
