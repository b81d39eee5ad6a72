/* SPDX-License-Identifier: Apache-2.0 */
#include "tombstone.h"

#include "engine_internal.h"

void tombstone_add(struct engine *engine, uint64_t transfer, int wire_error)
{
        engine->tombstones[engine->tombstone_next++ % ENGINE_TOMBSTONES] =
                (struct tombstone){ .transfer = transfer, .wire_error = wire_error };
}

const struct tombstone *tombstone_find(const struct engine *engine, uint64_t transfer)
{
        for (size_t i = 0; i < ENGINE_TOMBSTONES; i++)
                if (engine->tombstones[i].transfer == transfer)
                        return &engine->tombstones[i];
        return NULL;
}
