/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "steps.h"

/* Every size, both ways, both sides of the data plane, byte for byte. */

enum { MIB = 1 << 20 };

ON_EACH_PAIR(every_size_arrives_byte_for_byte)
{
        static const uint64_t sizes[] = { 1, 4095, 4096, 4097, 77777, MIB - 1, MIB, MIB + 1, 64 * MIB };

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                bytes_move(&p->a, &p->b, FERRY_READABLE, sizes[i], false, p->network ? "tcp" : "shm");
                bytes_move(&p->a, &p->b, FERRY_WRITABLE, sizes[i], false, p->network ? "tcp" : "shm");
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
ON_EACH_PAIR(the_operation_and_the_log_name_the_worker_at_the_other_end)
{
        static const enum ferry_kind kinds[] = { FERRY_READABLE, FERRY_WRITABLE };
        static const uint64_t sizes[] = { 64, MIB };

        for (int i = 0; i < 4; i++) {
                OPERATION passive, active;

                offer_make(&p->a, kinds[i / 2], region_make(&p->a, sizes[i % 2], 0), &passive);
                begin_make(&p->b, kind_of_peer(kinds[i / 2]), region_make(&p->b, sizes[i % 2], 0), passive.metadata,
                           &active);
                operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
                operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
                assert_peer(&p->a, passive.id, &p->b);
                assert_peer(&p->b, active.id, &p->a);
        }
}

ON_PAIR(a_gibibyte_arrives_byte_for_byte)
{
        bytes_move(&p->a, &p->b, FERRY_READABLE, UINT64_C(1) << 30, false, "shm");
}
