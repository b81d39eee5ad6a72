/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_internal.h"

/*
 * Tombstones: how the last ended transfers of peers have ended, for messages that come late or again. 128 lists of 8
 * take the place of a hash table with an age: they never grow, and a transfer is forgotten by those that came after it.
 * Thread: the holder of the progress lock.
 */

/*
 * Transfers are named at random, so a short list for each remainder will do, in which the newest takes the place of the
 * oldest. With a single place each, one in a thousand would be gone at once.
 */
static struct tombstones *list_of(struct engine *engine, uint64_t transfer)
{
        return &engine->tombstones[transfer % ENGINE_TOMBSTONE_LISTS];
}

void tombstone_add(struct engine *engine, uint64_t transfer, int wire_error)
{
        struct tombstones *list = list_of(engine, transfer);

        list->newest = (list->newest + 1) % ENGINE_TOMBSTONE_LIST;
        list->all[list->newest] = (struct tombstone){ .transfer = transfer, .wire_error = wire_error };
}

const struct tombstone *tombstone_find(struct engine *engine, uint64_t transfer)
{
        const struct tombstones *list = list_of(engine, transfer);

        for (unsigned i = 0; i < ENGINE_TOMBSTONE_LIST; i++) {
                const struct tombstone *tombstone =
                        &list->all[(list->newest + ENGINE_TOMBSTONE_LIST - i) % ENGINE_TOMBSTONE_LIST];

                if (tombstone->transfer == transfer)
                        return tombstone; /* the newest of that name */
        }
        return NULL;
}
