/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

int gone_init(struct gone *gone, size_t size)
{
        *gone = (struct gone){ .size = size };
        if (!size)
                return 0;
        gone->ring = calloc(size, sizeof(gone->ring[0]));
        return gone->ring ? 0 : -ENOMEM;
}

void gone_clear(struct gone *gone)
{
        HASH_CLEAR(hh, gone->by_id);
        free(gone->ring);
        *gone = (struct gone){ 0 };
}

void gone_add(struct gone *gone, uint64_t id)
{
        struct gone_id *entry;

        if (!gone->size)
                return;
        entry = &gone->ring[gone->next];
        gone->next = (gone->next + 1) % gone->size;
        if (entry->hh.tbl)
                HASH_DELETE(hh, gone->by_id, entry);
        entry->id = id;
        /* Short of memory, the id is forgotten at once: 404 instead of 410. */
        entry->hh.tbl = NULL;
        HASH_ADD(hh, gone->by_id, id, sizeof(entry->id), entry);
}

bool gone_has(const struct gone *gone, uint64_t id)
{
        const struct gone_id *entry;

        HASH_FIND(hh, gone->by_id, &id, sizeof(id), entry);
        return entry;
}
