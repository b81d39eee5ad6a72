/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "standin.h"

enum { LINGER_US = 500000 };

struct handle {
        char magic[8];
        int pid, fd, device;
        uint64_t size;
};

EXPORT cuda_result cuIpcGetMemHandle(struct cuda_ipc_handle *ret_handle, cuda_pointer pointer)
{
        struct handle handle = { .magic = "standin", .pid = (int)getpid() };
        struct context *context;
        struct allocation *a;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        if (fault("share"))
                return CUDA_ERROR_INVALID_VALUE;
        await_moving(context->device);
        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (a && !a->foreign && !a->managed && !a->mapped &&
            (uintptr_t)a->address == pointer) { /* no other address in it will do */
                handle.fd = a->fd;
                handle.device = a->device + setting("CUDA_STANDIN_FIRST", 0);
                handle.size = a->size;
        }
        (void)pthread_mutex_unlock(&standin_lock);
        memset(ret_handle, 0, sizeof(*ret_handle));
        memcpy(ret_handle, &handle, sizeof(handle));
        return handle.size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* With the lock. */
static struct allocation *open_file(const struct handle *handle, int device)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
        return allocation_new(device, handle->size, open(path, O_RDWR | O_CLOEXEC));
}

EXPORT cuda_result cuIpcOpenMemHandle_v2(cuda_pointer *ret_pointer, struct cuda_ipc_handle bytes, unsigned flags)
{
        struct context *context;
        struct allocation *a;
        struct handle handle;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        memcpy(&handle, &bytes, sizeof(handle));
        if (flags != CUDA_IPC_LAZY_PEER_ACCESS || memcmp(handle.magic, "standin", sizeof(handle.magic)) != 0 ||
            handle.device != context->device + setting("CUDA_STANDIN_FIRST", 0))
                return CUDA_ERROR_INVALID_VALUE;
        if (handle.pid == (int)getpid())
                return CUDA_ERROR_INVALID_CONTEXT; /* a process cannot open its own */
        if (fault("open"))
                return MAP_FAILED_RESULT;
        await_answering(context->device);
        (void)pthread_mutex_lock(&standin_lock);
        DL_FOREACH (allocations, a)
                if (a->foreign && memcmp(&a->handle, &bytes, sizeof(bytes)) == 0)
                        result = CUDA_ERROR_ALREADY_MAPPED; /* as drivers before CUDA 11 say; newer ones count */
        a = result == CUDA_SUCCESS ? open_file(&handle, context->device) : NULL;
        if (a) {
                atomic_fetch_add(&a->trailer->opens, 1);
                a->foreign = true;
                a->context = context;
                a->handle = bytes;
                *ret_pointer = (uintptr_t)a->address;
        } else if (result == CUDA_SUCCESS) {
                result = MAP_FAILED_RESULT;
        }
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}

EXPORT cuda_result cuIpcCloseMemHandle(cuda_pointer pointer)
{
        struct context *context;
        struct allocation *a;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        if (fault("lingers"))
                (void)usleep(LINGER_US);
        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (!a || !a->foreign || (uintptr_t)a->address != pointer || a->device != context->device)
                result = CUDA_ERROR_INVALID_VALUE;
        else
                allocation_close(a);
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}
