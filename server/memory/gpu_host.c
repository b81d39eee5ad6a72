/* SPDX-License-Identifier: Apache-2.0 */
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

enum { PIN_NONE, PIN_UNDER_WAY, PIN_DONE, PIN_REFUSED };

void *gpu_host_new(unsigned gpu, size_t size)
{
        const struct gpu_device *device = gpu_device_in_use(gpu);
        void *address = NULL;

        if (!device || !gpu_enter(device))
                return NULL;
        if (gpu_driver()->host_alloc(&address, size, CUDA_HOST_PORTABLE) != CUDA_SUCCESS)
                address = NULL;
        gpu_leave();
        return address;
}

void gpu_host_free(unsigned gpu, void *address)
{
        const struct gpu_device *device = address ? gpu_device_in_use(gpu) : NULL;

        if (!device || !gpu_enter(device))
                return; /* freed with the context */
        (void)gpu_driver()->host_free(address);
        gpu_leave();
}

/* false: the memory cannot be pinned, or the program has pinned it already. */
static bool pin(const struct gpu_pin *p)
{
        const struct gpu_device *device = gpu_device_in_use(p->gpu);
        const unsigned flags = CUDA_HOST_PORTABLE | (p->read_only ? CUDA_HOST_READ_ONLY : 0);
        cuda_result result;

        if (!device || !gpu_enter(device))
                return false;
        result = gpu_driver()->host_register((void *)(uintptr_t)p->address, p->size, flags);
        gpu_leave();
        return result == CUDA_SUCCESS;
}

void gpu_pin_use(struct gpu_pin *p, unsigned gpu, uint64_t bytes)
{
        int none = PIN_NONE;

        if (p->size < PIN_MIN || atomic_load(&p->state) != PIN_NONE || atomic_fetch_add(&p->copied, bytes) < p->size)
                return;
        if (!atomic_compare_exchange_strong(&p->state, &none, PIN_UNDER_WAY))
                return;
        p->gpu = gpu;
        atomic_store(&p->state, pin(p) ? PIN_DONE : PIN_REFUSED);
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
        const struct gpu_device *device = gpu_is_pinned(p) ? gpu_device_in_use(p->gpu) : NULL;

        if (!device || !gpu_enter(device))
                return;
        /* Fails if the pin was lost with the context. */
        (void)gpu_driver()->host_unregister((void *)(uintptr_t)p->address);
        gpu_leave();
        atomic_store(&p->state, PIN_NONE);
}
