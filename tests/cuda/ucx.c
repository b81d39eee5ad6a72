/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "standin.h"

/*
 * What UCX's CUDA module calls, and Ferry does not: with these, and nvml.c, the module of a UCX for CUDA 12 works on
 * the memory that stands in for a GPU's.
 */

enum {
        NOT_READY = 600,
        POINTER_SYNC_MEMOPS = 6,
        DEVICE_UNKNOWN = -2, /* CU_DEVICE_INVALID */
};

/* No entry point has another version, and none that UCX asks for in this way is here. */
EXPORT cuda_result cuGetProcAddress_v2(const char *name, void **ret_function, int version, uint64_t flags,
                                       int *ret_status)
{
        (void)name;
        (void)version;
        (void)flags;
        *ret_function = NULL;
        if (ret_status)
                *ret_status = 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
        return NOT_FOUND;
}

EXPORT cuda_result cuGetErrorString(cuda_result result, const char **ret_text)
{
        return cuGetErrorName(result, ret_text);
}

EXPORT cuda_result cuDeviceGetUuid(struct cuda_uuid *ret_uuid, cuda_device device)
{
        return cuDeviceGetUuid_v2(ret_uuid, device);
}

/* ---- contexts ---- */

EXPORT cuda_result cuCtxGetCurrent(struct context **ret_context)
{
        cuda_result result = current(ret_context);

        if (result == CUDA_ERROR_INVALID_CONTEXT)
                *ret_context = NULL;
        return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : result;
}

EXPORT cuda_result cuCtxGetDevice(cuda_device *ret_device)
{
        struct context *context;
        cuda_result result = current(&context);

        if (result == CUDA_SUCCESS)
                *ret_device = context->device;
        return result;
}

EXPORT cuda_result cuCtxGetId(const struct context *context, uint64_t *ret_id)
{
        struct context *now;
        cuda_result result = context ? CUDA_SUCCESS : current(&now);

        if (result == CUDA_SUCCESS)
                *ret_id = 1 + (uint64_t)(context ? context : now)->device;
        return result;
}

EXPORT cuda_result cuDevicePrimaryCtxGetState(cuda_device device, unsigned *ret_flags, int *ret_active)
{
        *ret_flags = 0;
        *ret_active = context_is_active(device);
        return health();
}

/* ---- memory ---- */

/* Nor can UCX allocate any: it takes cuMemAlloc then. */
EXPORT cuda_result cuMemGetAllocationGranularity(size_t *ret_granularity, const void *properties, int option)
{
        (void)properties;
        (void)option;
        *ret_granularity = 0;
        return CUDA_ERROR_NOT_SUPPORTED;
}

/* UCX asks whether it is memory of the virtual memory API; it is not. */
EXPORT cuda_result cuMemRetainAllocationHandle(uint64_t *ret_handle, const void *address)
{
        (void)address;
        *ret_handle = 0;
        return CUDA_ERROR_INVALID_VALUE;
}

EXPORT cuda_result cuPointerSetAttribute(const void *value, int attribute, cuda_pointer pointer)
{
        cuda_result result = health();

        (void)value;
        (void)pthread_mutex_lock(&standin_lock);
        if (result == CUDA_SUCCESS && (attribute != POINTER_SYNC_MEMOPS || !find((void *)(uintptr_t)pointer, 1)))
                result = CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}

/* Zeros for memory that is no device's, as the driver has it. */
EXPORT cuda_result cuPointerGetAttributes(unsigned n, const int *attributes, void **ret_values, cuda_pointer pointer)
{
        cuda_result result = health();
        const struct allocation *a;

        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)pointer, 1);
        for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++)
                switch (attributes[i]) {
                case CUDA_POINTER_MEMORY_TYPE:
                        *(unsigned *)ret_values[i] = a ? CUDA_MEMORY_DEVICE : 0;
                        break;
                case CUDA_POINTER_IS_MANAGED:
                        *(unsigned *)ret_values[i] = 0;
                        break;
                case CUDA_POINTER_DEVICE_ORDINAL:
                        *(int *)ret_values[i] = a ? a->device : DEVICE_UNKNOWN;
                        break;
                case CUDA_POINTER_CONTEXT:
                        *(struct context **)ret_values[i] = a ? a->context : NULL;
                        break;
                default:
                        result = CUDA_ERROR_NOT_SUPPORTED; /* here alone */
                }
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}

/* ---- copies ---- */

/* The direction follows from the addresses. */
EXPORT cuda_result cuMemcpyAsync(cuda_pointer to, cuda_pointer from, size_t size, cuda_stream stream)
{
        bool to_device, from_device;

        (void)pthread_mutex_lock(&standin_lock);
        to_device = find((void *)(uintptr_t)to, 1) != NULL;
        from_device = find((void *)(uintptr_t)from, 1) != NULL;
        (void)pthread_mutex_unlock(&standin_lock);
        if (to_device && from_device)
                return cuMemcpyDtoDAsync_v2(to, from, size, stream);
        if (to_device)
                return cuMemcpyHtoDAsync_v2(to, (void *)(uintptr_t)from, size, stream);
        return from_device ? cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to, from, size, stream)
                           : CUDA_ERROR_NOT_SUPPORTED; /* here alone */
}

EXPORT cuda_result cuMemcpyHtoD_v2(cuda_pointer to, const void *from, size_t size)
{
        cuda_stream stream;
        cuda_result result = cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING), end;

        if (result != CUDA_SUCCESS)
                return result;
        result = cuMemcpyHtoDAsync_v2(to, from, size, stream);
        end = cuStreamDestroy_v2(stream);
        return result == CUDA_SUCCESS ? end : result;
}

EXPORT cuda_result cuEventQuery(cuda_event event)
{
        return event_is_over(event) ? cuEventSynchronize(event) : NOT_READY;
}

/* The device is at work on nothing of its own accord: what is asked to be told when it is done runs at once. */
EXPORT cuda_result cuStreamAddCallback(cuda_stream stream, void (*call)(cuda_stream, cuda_result, void *),
                                       void *context, unsigned flags)
{
        (void)flags;
        call(stream, CUDA_SUCCESS, context);
        return CUDA_SUCCESS;
}
