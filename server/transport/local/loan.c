/* SPDX-License-Identifier: Apache-2.0 */
#include "loan.h"

#include <string.h>
#include <sys/mman.h>

#include "range.h"

enum { PAGE_SIZE_BYTES = FRAME_LEASES * sizeof(struct lease_slot) };

int loans_new(struct loans *loans)
{
        void *page;
        int r = memfd_new("ferry-leases", PAGE_SIZE_BYTES, &page, &loans->memfd);

        if (r < 0)
                return r;
        loans->page = page;
        for (size_t i = 0; i < FRAME_LEASES; i++)
                loans->free[i] = (uint16_t)(FRAME_LEASES - 1 - i);
        loans->n_free = FRAME_LEASES;
        return 0;
}

void loans_clear(struct loans *loans, struct copier *copier)
{
        if (loans->page)
                (void)munmap(loans->page, PAGE_SIZE_BYTES);
        if (loans->ring)
                range_unmap(&loans->pin, copier);
        loans->memfd = memfd_drop(loans->memfd);
        loans->page = NULL;
        loans->ring = NULL;
}

int loans_make_ring(struct loans *loans, struct memfd **ret_memfd)
{
        void *ring;
        int r = memfd_new("ferry-ring", (size_t)LOAN_BUFFERS * LOAN_BUFFER_SIZE, &ring, ret_memfd);

        if (r < 0)
                return r;
        loans->ring = ring;
        loans->pin = (struct gpu_pin){ .address = ring, .size = (size_t)LOAN_BUFFERS * LOAN_BUFFER_SIZE };
        return 0;
}

int loans_find_buffer(const struct loans *loans)
{
        for (int i = 0; i < LOAN_BUFFERS; i++)
                if (!loans->buffer_used[i])
                        return i;
        return -1;
}

uint32_t loan_grant(struct loans *loans, uint64_t number, struct message *message, int buffer)
{
        uint32_t slot = loans->free[--loans->n_free];

        loans->loans[slot] = (struct loan){ .message = message, .number = number, .buffer = buffer };
        if (buffer >= 0)
                loans->buffer_used[buffer] = true;
        lease_grant(&loans->page[slot], number);
        return slot;
}

struct message *loan_end(struct loans *loans, uint32_t slot)
{
        struct message *message = loans->loans[slot].message;

        loans->loans[slot].message = NULL;
        lease_end(&loans->page[slot]);
        return message;
}

bool loan_release(struct loans *loans, uint32_t slot, uint64_t number, struct message **ret_message)
{
        struct loan *loan = &loans->loans[slot];

        if (number == 0 || loan->number != number)
                return false;
        *ret_message = loan_end(loans, slot);
        if (loan->buffer >= 0)
                loans->buffer_used[loan->buffer] = false;
        loan->number = 0;
        loans->free[loans->n_free++] = (uint16_t)slot;
        return true;
}
