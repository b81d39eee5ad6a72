/* SPDX-License-Identifier: Apache-2.0 */
#include "tombstone.h"

#include "engine_internal.h"

/* Transfers are named at random, so a place for each remainder will do: one that comes to a taken place takes it. */
static size_t place_of(uint64_t transfer)
{
        return transfer % ENGINE_TOMBSTONES;
}

void tombstone_add(struct engine *engine, uint64_t transfer, int wire_error)
{
        engine->tombstones[place_of(transfer)] = (struct tombstone){ .transfer = transfer, .wire_error = wire_error };
}

const struct tombstone *tombstone_find(const struct engine *engine, uint64_t transfer)
{
        const struct tombstone *tombstone = &engine->tombstones[place_of(transfer)];

        return tombstone->transfer == transfer ? tombstone : NULL;
}
