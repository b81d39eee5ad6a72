/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/error.h>

#include "base/util.h"
#include "gpu_internal.h"

/*
 * Memory on a GPU: allocated for a region, or the program's own, adopted. It is named by a struct space, whose
 * functions copy it (gpu_copy.c); host code never follows the address. It lives until gpu_free(), which also undoes
 * what gpu_share.c has opened or shared.
 *
 * Thread: any, one at a time for one memory. Calls block for as long as the driver does.
 */

enum { BLOCK = 2 << 20 };

/* Says that the device is gone. Returns FERRY_E_UNKNOWN_DEVICE. */
static int device_lost(const char *name, char detail[GPU_DETAIL_SIZE])
{
        (void)snprintf(detail, GPU_DETAIL_SIZE, "%s is gone or was reset", name);
        return FERRY_E_UNKNOWN_DEVICE;
}

/* Starts device "cuda:N". Results as of gpu_allocate. */
static int use(const char *name, const struct gpu_device **ret_device, char detail[GPU_DETAIL_SIZE])
{
        unsigned n;

        detail[0] = '\0';
        return gpu_parse(name, &n) ? gpu_device_use(n, ret_device, detail) : FERRY_E_UNKNOWN_DEVICE;
}

/*
 * The context is current. On failure nothing stays allocated. Allocations below 2 MiB share a block with others of the
 * process, all of which an IPC handle would expose.
 */
static cuda_result allocate_zeros(struct gpu_memory *memory, cuda_stream stream)
{
        const struct cuda_driver *cuda = gpu_driver();
        const size_t blocks = memory->size / BLOCK + (memory->size % BLOCK != 0);
        cuda_result result;

        if (blocks > SIZE_MAX / BLOCK)
                return CUDA_ERROR_OUT_OF_MEMORY;
        result = cuda->mem_alloc(&memory->address, blocks * BLOCK);
        if (result != CUDA_SUCCESS)
                return result;
        result = cuda->memset_d8_async(memory->address, 0, blocks * BLOCK, stream);
        if (result == CUDA_SUCCESS)
                result = cuda->stream_synchronize(stream);
        if (result != CUDA_SUCCESS)
                (void)cuda->mem_free(memory->address);
        return result;
}

int gpu_allocate(const char *name, size_t size, const struct space **ret_space, void **ret_address,
                 char detail[GPU_DETAIL_SIZE])
{
        FERRY_CLEANUP(cleanup_free) struct gpu_memory *memory = NULL;
        const struct gpu_device *device;
        cuda_result result;
        cuda_stream stream;
        int r = use(name, &device, detail);

        if (r != 0)
                return r;
        memory = gpu_memory_new(device, size);
        if (!memory)
                return -ENOMEM;
        if (!gpu_enter(device))
                return device_lost(name, detail);
        r = gpu_stream(device, size, &stream);
        result = r == 0 ? allocate_zeros(memory, stream) : CUDA_SUCCESS;
        gpu_leave();
        if (r < 0)
                return r == -ENODEV ? device_lost(name, detail) : r;
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
                (void)snprintf(detail, GPU_DETAIL_SIZE, "%s has no room for %zu bytes", name, size);
                return FERRY_E_NO_SPACE;
        }
        if (result != CUDA_SUCCESS) {
                r = gpu_fail(device, "allocate", result);
                return r == -ENODEV ? device_lost(name, detail) : r;
        }
        *ret_space = &memory->space;
        *ret_address = (void *)(uintptr_t)memory->address; /* hosts and devices share one address space */
        memory = NULL;
        return 0;
}

/* The context is current. Whether the address is memory of the device, of an allocation that goes on until *ret_end. */
static bool allocation_end(const struct gpu_device *device, cuda_pointer address, cuda_pointer *ret_end)
{
        const struct cuda_driver *cuda = gpu_driver();
        unsigned type = 0;
        int ordinal = -1;
        cuda_pointer base;
        size_t range;

        if (cuda->pointer_get_attribute(&type, CUDA_POINTER_MEMORY_TYPE, address) != CUDA_SUCCESS ||
            type != CUDA_MEMORY_DEVICE ||
            cuda->pointer_get_attribute(&ordinal, CUDA_POINTER_DEVICE_ORDINAL, address) != CUDA_SUCCESS ||
            ordinal != (int)device->number || cuda->mem_range(&base, &range, address) != CUDA_SUCCESS)
                return false;
        *ret_end = base + range;
        return *ret_end > address;
}

/*
 * The context is current. 0: the bytes are memory of the device; FERRY_E_INVALID_PARAMETER. They may lie in several
 * allocations, as a large tensor of PyTorch does under expandable_segments, which maps memory piece by piece. An IPC
 * handle is of one alone, and so is what UCX registers. Managed memory may be on the host when others look at the
 * device.
 */
static int adopt_check(struct gpu_memory *memory, char detail[GPU_DETAIL_SIZE])
{
        const struct cuda_driver *cuda = gpu_driver();
        const cuda_pointer start = memory->address;
        const unsigned number = memory->device->number;
        cuda_context context = NULL;
        cuda_pointer end, at;
        unsigned managed = 0;

        if (!allocation_end(memory->device, start, &at)) {
                (void)snprintf(detail, GPU_DETAIL_SIZE, "The address is not memory of cuda:%u", number);
                return FERRY_E_INVALID_PARAMETER;
        }
        /* Memory that is mapped, or of a pool, may have none. */
        if (cuda->pointer_get_attribute(&context, CUDA_POINTER_CONTEXT, start) == CUDA_SUCCESS && context &&
            context != memory->device->context) {
                (void)snprintf(detail, GPU_DETAIL_SIZE,
                               "The memory does not belong to the primary CUDA context of cuda:%u", number);
                return FERRY_E_INVALID_PARAMETER;
        }
        if (__builtin_add_overflow(start, memory->size, &end))
                end = UINT64_MAX;
        (void)cuda->pointer_get_attribute(&managed, CUDA_POINTER_IS_MANAGED, start);
        memory->space.only_copied = managed || at < end;
        while (at < end && allocation_end(memory->device, at, &at))
                ;
        if (at >= end)
                return 0;
        (void)snprintf(detail, GPU_DETAIL_SIZE, "The memory of cuda:%u at this address is smaller", number);
        return FERRY_E_INVALID_PARAMETER;
}

int gpu_adopt(const char *name, void *address, size_t size, const struct space **ret_space,
              char detail[GPU_DETAIL_SIZE])
{
        FERRY_CLEANUP(cleanup_free) struct gpu_memory *memory = NULL;
        const struct gpu_device *device;
        int r = use(name, &device, detail);

        if (r != 0)
                return r;
        memory = gpu_memory_new(device, size);
        if (!memory)
                return -ENOMEM;
        memory->kind = GPU_ADOPTED;
        memory->space.foreign = true;
        memory->address = (uintptr_t)address;
        if (!gpu_enter(device))
                return device_lost(name, detail);
        r = adopt_check(memory, detail);
        if (r == 0 && gpu_driver()->pointer_get_attribute(&memory->buffer_id, CUDA_POINTER_BUFFER_ID,
                                                          memory->address) != CUDA_SUCCESS)
                r = -EIO;
        gpu_leave();
        if (r != 0)
                return r;
        *ret_space = &memory->space;
        memory = NULL;
        return 0;
}

void gpu_free(const struct space *space)
{
        struct gpu_memory *memory = gpu_memory_of(space);

        if (!memory)
                return;
        gpu_unshare(memory);
        if (memory->kind == GPU_ALLOCATED && gpu_enter(memory->device)) {
                /* Fails if the device is gone, which has freed the memory. */
                (void)gpu_driver()->mem_free(memory->address);
                gpu_leave();
        }
        gpu_forget(memory);
}
