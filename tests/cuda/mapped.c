/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "standin.h"

/*
 * Memory that is managed, or mapped piece by piece at addresses that were reserved for it, as PyTorch does with
 * expandable_segments. Neither has an IPC handle, and cuMemGetAddressRange knows the one piece alone.
 */

enum { GRANULARITY = 2 << 20 };

/* The addresses, and behind them as many for the bytes, so that those of adjacent pieces are adjacent, too. */
struct reservation {
        uint8_t *address;
        size_t size;
        struct reservation *prev, *next;
};

static struct reservation *reservations; /* the lock */

struct properties { /* CUmemAllocationProp */
        int type, handle_types, location_type, location_id;
};

struct piece { /* CUmemGenericAllocationHandle */
        int fd, device;
        size_t size;
};

EXPORT cuda_result cuMemAllocManaged(cuda_pointer *ret_pointer, size_t size, unsigned flags)
{
        cuda_result result = flags ? cuMemAlloc_v2(ret_pointer, size) : CUDA_ERROR_INVALID_VALUE;

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&standin_lock);
        find((void *)(uintptr_t)*ret_pointer, 1)->managed = true;
        (void)pthread_mutex_unlock(&standin_lock);
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuMemAddressReserve(cuda_pointer *ret_pointer, size_t size, size_t alignment, cuda_pointer hint,
                                       uint64_t flags)
{
        void *address = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        struct reservation *reservation = calloc(1, sizeof(*reservation));

        (void)alignment;
        (void)hint;
        if (size % GRANULARITY || flags)
                return CUDA_ERROR_INVALID_VALUE;
        *reservation = (struct reservation){ .address = address, .size = size };
        (void)pthread_mutex_lock(&standin_lock);
        DL_APPEND(reservations, reservation);
        (void)pthread_mutex_unlock(&standin_lock);
        *ret_pointer = (uintptr_t)address;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuMemCreate(struct piece **ret_piece, size_t size, const struct properties *properties,
                               uint64_t flags)
{
        if (size % GRANULARITY || flags)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_piece = malloc(sizeof(**ret_piece));
        **ret_piece = (struct piece){ .fd = allocation_file(size), .device = properties->location_id, .size = size };
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuMemRelease(struct piece *piece)
{
        (void)close(piece->fd);
        free(piece);
        return CUDA_SUCCESS;
}

/* Gives access, too, which takes another call of the driver. */
EXPORT cuda_result cuMemMap(cuda_pointer pointer, size_t size, size_t offset, const struct piece *piece, uint64_t flags)
{
        uint8_t *address = (uint8_t *)(uintptr_t)pointer;
        struct reservation *reservation;
        struct allocation *a = NULL;

        if (size != piece->size || offset || flags)
                return CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_lock(&standin_lock);
        DL_FOREACH (reservations, reservation)
                if (address >= reservation->address && address + size <= reservation->address + reservation->size)
                        a = allocation_at(address, address + reservation->size, piece->device, size, dup(piece->fd));
        if (a)
                a->mapped = true;
        (void)pthread_mutex_unlock(&standin_lock);
        return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
