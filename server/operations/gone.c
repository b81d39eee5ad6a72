/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

/*
 * A hash table of fixed size, chained through the ring. In a growing table the buckets would double from time to time
 * for as long as ids come and go, because any new id may make the longest chain so far.
 */

int gone_init(struct gone *gone, size_t size)
{
        size_t n_heads = 1;

        *gone = (struct gone){ .size = size };
        if (!size)
                return 0;
        while (n_heads < size)
                n_heads *= 2;
        gone->n_heads = n_heads;
        gone->ring = calloc(size, sizeof(gone->ring[0]));
        gone->heads = calloc(n_heads, sizeof(gone->heads[0]));
        return gone->ring && gone->heads ? 0 : -ENOMEM;
}

void gone_clear(struct gone *gone)
{
        free(gone->heads);
        free(gone->ring);
        *gone = (struct gone){ 0 };
}

/* The ids are random: their low bits are the best hash. */
static uint32_t *head_of(const struct gone *gone, uint64_t id)
{
        return &gone->heads[id & (gone->n_heads - 1)];
}

static void unlink_oldest(struct gone *gone)
{
        const struct gone_id *oldest = &gone->ring[gone->next];
        uint32_t *link = head_of(gone, oldest->id);

        if (!oldest->id)
                return;
        while (*link != gone->next + 1)
                link = &gone->ring[*link - 1].chain;
        *link = oldest->chain;
}

void gone_add(struct gone *gone, uint64_t id)
{
        uint32_t *head;

        if (!gone->size)
                return;
        unlink_oldest(gone);
        head = head_of(gone, id);
        gone->ring[gone->next] = (struct gone_id){ .id = id, .chain = *head };
        *head = (uint32_t)gone->next + 1;
        gone->next = (gone->next + 1) % gone->size;
}

bool gone_has(const struct gone *gone, uint64_t id)
{
        if (!gone->size || !id)
                return false;
        for (uint32_t at = *head_of(gone, id); at; at = gone->ring[at - 1].chain)
                if (gone->ring[at - 1].id == id)
                        return true;
        return false;
}
