/* SPDX-License-Identifier: Apache-2.0 */
#include "leases.h"

#include <string.h>
#include <sys/mman.h>

#include "base/space.h"
#include "mapping.h"

/*
 * The leases of one link and its bounce buffers: see leases.h. The lease word is in memory that the peer maps
 * read-only, so ending a lease is one store of this worker, which the peer finds when it looks again after a piece
 * (move/message/lease.h). Slots and buffers are shared fairly among their owners: none may have more than it leaves
 * free. Thread: the progress thread.
 */

void leases_clear(struct leases *leases, struct pool_user *tasks)
{
        if (leases->bounce)
                unmap_range(&leases->pin, tasks);
        leases->bounce = NULL;
}

int leases_make_bounce(struct leases *leases, struct memfd **ret_memfd)
{
        void *bounce;
        int r = memfd_new("ferry-bounce", (size_t)BOUNCE_BUFFERS * BOUNCE_SIZE, &bounce, ret_memfd);

        if (r < 0)
                return r;
        leases->bounce = bounce;
        leases->pin = (struct gpu_pin){ .address = bounce, .size = (size_t)BOUNCE_BUFFERS * BOUNCE_SIZE };
        return 0;
}

uint64_t leases_owner(const struct stream *stream, uint64_t offset)
{
        const struct space *space = stream_next_space(stream, offset);

        return space ? 1 + space->device : (uintptr_t)stream;
}

int leases_find_bounce(const struct leases *leases, uint64_t owner)
{
        int n_own = 0, n_free = 0, first = -1;

        for (int i = BOUNCE_BUFFERS - 1; i >= 0; i--) {
                n_own += owner && leases->bounce_owner[i] == owner;
                n_free += !leases->bounce_owner[i];
                if (!leases->bounce_owner[i])
                        first = i;
        }
        return n_own < n_free ? first : -1;
}

bool leases_may_grant(const struct leases *leases, uint64_t owner)
{
        size_t n_own = 0;

        if (leases->n_used < FRAME_LEASES / 2)
                return true; /* no owner can have as many */
        for (size_t i = 0; i < FRAME_LEASES; i++)
                n_own += leases->slots[i].number && leases->slots[i].owner == owner;
        return n_own < FRAME_LEASES - leases->n_used;
}

uint64_t leases_oldest(const struct leases *leases)
{
        uint64_t oldest = UINT64_MAX;

        for (size_t i = 0; i < FRAME_LEASES; i++)
                if (leases->slots[i].number && leases->slots[i].number < oldest)
                        oldest = leases->slots[i].number;
        return oldest;
}

uint32_t leases_grant(struct leases *leases, uint64_t number, struct message *message, int buffer)
{
        uint64_t owner = leases_owner(message->stream, message->offset);
        uint32_t slot = 0;

        while (leases->slots[slot].number)
                slot++;
        leases->n_used++;
        leases->slots[slot] = (struct lease){ .message = message, .number = number, .buffer = buffer, .owner = owner };
        if (buffer >= 0)
                leases->bounce_owner[buffer] = owner;
        lease_grant(&leases->words[slot], number);
        return slot;
}

struct message *leases_end(struct leases *leases, uint32_t slot)
{
        struct message *message = leases->slots[slot].message;

        leases->slots[slot].message = NULL;
        lease_end(&leases->words[slot]);
        return message;
}

bool leases_release(struct leases *leases, uint32_t slot, uint64_t number, struct message **ret_message)
{
        struct lease *lease = &leases->slots[slot];

        if (number == 0 || lease->number != number)
                return false;
        *ret_message = leases_end(leases, slot);
        if (lease->buffer >= 0)
                leases->bounce_owner[lease->buffer] = 0;
        lease->number = 0;
        leases->n_used--;
        return true;
}
