/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <utlist.h>

#include "standin.h"

enum { PAGE = 4096 };

struct host_range {
        uint8_t *address;
        size_t size;
        int device;
        struct host_range *prev, *next;
};

static struct host_range *ranges; /* the lock */

static void range_add(struct host_range *range)
{
        DL_APPEND(ranges, range);
        counts()->pins++;
}

static void range_remove(struct host_range *range)
{
        DL_DELETE(ranges, range);
        counts()->pins--;
        free(range);
}

void unpin_all(int device)
{
        struct host_range *range, *next;

        DL_FOREACH_SAFE (ranges, range, next)
                if (range->device == device)
                        range_remove(range);
}

EXPORT cuda_result cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
        struct host_range *range, *other;
        struct context *context;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        await_answering(context->device);
        if (fault("pin") || size == 0 || (flags & ~(unsigned)(CUDA_HOST_PORTABLE | CUDA_HOST_READ_ONLY)) != 0)
                return CUDA_ERROR_INVALID_VALUE;
        range = malloc(sizeof(*range));
        *range = (struct host_range){ .address = address, .size = size, .device = context->device };
        (void)pthread_mutex_lock(&standin_lock);
        DL_FOREACH (ranges, other)
                if (range->address < other->address + other->size && other->address < range->address + size)
                        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        if (result == CUDA_SUCCESS)
                range_add(range);
        else
                free(range);
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}

EXPORT cuda_result cuMemHostUnregister(void *address)
{
        struct host_range *range;
        struct context *context;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        await_answering(context->device);
        (void)pthread_mutex_lock(&standin_lock);
        DL_FOREACH (ranges, range)
                if (range->address == address)
                        break;
        if (range)
                range_remove(range);
        else
                result = 713; /* CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED */
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}

enum host_kind host_kind(const uint8_t *address, size_t size)
{
        const struct host_range *range;

        DL_FOREACH (ranges, range)
                if (address < range->address + range->size && range->address < address + size)
                        return address >= range->address && address + size <= range->address + range->size ? HOST_PINNED
                                                                                                           : HOST_WRONG;
        return find(address, 1) ? HOST_WRONG : HOST_PAGEABLE;
}

EXPORT cuda_result cuMemHostAlloc(void **ret_address, size_t size, unsigned flags)
{
        void *address = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
        cuda_result result = address ? cuMemHostRegister_v2(address, size, flags) : CUDA_ERROR_OUT_OF_MEMORY;

        if (result == CUDA_SUCCESS)
                *ret_address = address;
        else
                free(address);
        return result;
}

EXPORT cuda_result cuMemFreeHost(void *address)
{
        cuda_result result = cuMemHostUnregister(address);

        if (result == CUDA_SUCCESS)
                free(address);
        return result;
}
