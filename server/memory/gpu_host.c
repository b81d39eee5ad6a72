/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "gpu_internal.h"

/*
 * Pinned host memory.
 *
 * The driver copies between a GPU and host memory that is not pinned through a buffer of its own: the processor copies
 * each byte once more, at 5 to 12 GB/s where the bus moves 25 to 55, and the call blocks. A pipeline of our own buffers
 * would need five or more threads to reach 0.9 of the bus. So memory that is copied repeatedly is pinned in place.
 *
 * Pinning takes about 0.25 ns a byte, once, and saves about 0.1 ns on each byte copied later. A range is pinned once as
 * many bytes have been copied as the range is long. So pinning takes at most a few times as long as the copies before
 * it, and memory that is used once is never pinned.
 */

enum { PIN_MIN = 64 << 10 }; /* bytes; smaller copies take as long either way */

enum { ALIGNMENT = 4096 };

enum { PIN_NONE, PIN_UNDER_WAY, PIN_DONE, PIN_REFUSED };

/* false: the memory cannot be pinned, or the program has pinned it already. */
static bool pin(unsigned gpu, const void *address, size_t size, bool read_only)
{
        const struct gpu_device *device = gpu_device(gpu);
        const unsigned flags = CUDA_HOST_PORTABLE | (read_only ? CUDA_HOST_READ_ONLY : 0);
        cuda_result result;

        if (!device || !gpu_enter(device))
                return false;
        result = gpu_driver()->host_register((void *)(uintptr_t)address, size, flags);
        gpu_leave();
        return result == CUDA_SUCCESS;
}

/* Fails, as it may, if the memory is not pinned, or the pin was lost with the context. */
static void unpin(unsigned gpu, const void *address)
{
        const struct gpu_device *device = gpu_device(gpu);

        if (!device || !gpu_enter(device))
                return;
        (void)gpu_driver()->host_unregister((void *)(uintptr_t)address);
        gpu_leave();
}

/* Not the driver's own memory, which a reset of the device unmaps under those that use it. */
void *gpu_host_new(unsigned gpu, size_t size)
{
        void *address = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);

        if (address)
                (void)pin(gpu, address, size, false);
        return address;
}

void gpu_host_free(unsigned gpu, void *address)
{
        if (address)
                unpin(gpu, address);
        free(address);
}

void gpu_pin_use(struct gpu_pin *p, unsigned gpu, uint64_t bytes)
{
        int none = PIN_NONE;

        if (p->size < PIN_MIN || atomic_load(&p->state) != PIN_NONE || atomic_fetch_add(&p->copied, bytes) < p->size)
                return;
        if (!atomic_compare_exchange_strong(&p->state, &none, PIN_UNDER_WAY))
                return;
        p->gpu = gpu;
        atomic_store(&p->state, pin(gpu, p->address, p->size, p->read_only) ? PIN_DONE : PIN_REFUSED);
}

bool gpu_is_pinned(const struct gpu_pin *p)
{
        return atomic_load(&p->state) == PIN_DONE;
}

void gpu_pin_move(struct gpu_pin *to, struct gpu_pin *from)
{
        to->address = from->address;
        to->size = from->size;
        to->read_only = from->read_only;
        to->gpu = from->gpu;
        atomic_init(&to->state, atomic_exchange(&from->state, PIN_NONE));
        atomic_init(&to->copied, 0);
}

void gpu_pin_end(struct gpu_pin *p)
{
        if (!gpu_is_pinned(p))
                return;
        unpin(p->gpu, p->address);
        atomic_store(&p->state, PIN_NONE);
}
