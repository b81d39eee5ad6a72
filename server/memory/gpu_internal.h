/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_GPU_INTERNAL_H
#define MEMORY_GPU_INTERNAL_H

#include "base/util.h"
#include "cuda_internal.h"
#include "memory/gpu.h"

/* A device with its context. Fixed once gpu_device_use has returned it. */
struct gpu_device {
        unsigned number;
        cuda_device device;
        _Atomic(cuda_context) context; /* the primary one, retained; written last */
        struct cuda_uuid uuid;
        /* A byte of ours, and CUDA's id of it. Once the address has another id, the program has reset the device. 0 =
         * there was no room. */
        cuda_pointer witness;
        uint64_t witness_id;
};

/* Memory on a device: allocated, adopted, or opened from another process. All fields but opens and is_freed are fixed.
 */
struct gpu_memory {
        struct space space;
        const struct gpu_device *device;
        cuda_pointer address;
        size_t size;
        enum { GPU_ALLOCATED, GPU_ADOPTED, GPU_OPENED } kind;
        uint64_t buffer_id;        /* GPU_ADOPTED: CUDA's id of the program's allocation */
        struct gpu_import *import; /* GPU_OPENED from another process; else NULL */
        unsigned opens;            /* opens by other processes; gpu_share.c's opens_lock guards it */
        bool is_freed;             /* the last of them frees this; the same lock */
};

/* The driver; only after gpu_device_use has succeeded. */
const struct cuda_driver *gpu_driver(void);

/*
 * Starts device n if it is not in use yet. 0 with *ret_device; FERRY_E_UNKNOWN_DEVICE: no such device, or it does not
 * start; detail gets the reason of the latter only.
 */
int gpu_device_use(unsigned n, const struct gpu_device **ret_device, char detail[GPU_DETAIL_SIZE]);

/* Device n; NULL = gpu_device_use has not returned it yet. */
const struct gpu_device *gpu_device(unsigned n);

/* Makes the device's context current until gpu_leave. false: the device is gone, or was reset. */
bool gpu_enter(const struct gpu_device *device);
/* Makes a context current until gpu_leave, without the check of its device. false: the driver refuses. */
bool gpu_push(cuda_context context);
/* Restores the thread's context and its mode of graph capture. */
void gpu_leave(void);

/* Logs a failed driver call on the device and returns it as -errno. */
int gpu_fail(const struct gpu_device *device, const char *action, cuda_result result);

/* 0: usable; of adopted memory: -EFAULT, the program has freed it, -ENODEV, the device is gone, or another -errno. */
int gpu_check(const struct gpu_memory *memory);

/* Forgets that the memory is shared, or closes it if another process has shared it. */
void gpu_unshare(struct gpu_memory *memory);

/* Frees the struct, whose memory is freed: at once, or when the last process that may have it open has closed it. */
void gpu_forget(struct gpu_memory *memory);

/* Makes the struct of a memory, without an address. NULL: memory is short. */
struct gpu_memory *gpu_memory_new(const struct gpu_device *device, size_t size);

/* The memory of a space; NULL for NULL, which is host memory. */
static inline struct gpu_memory *gpu_memory_of(const struct space *space)
{
        return space ? FERRY_CONTAINER_OF(space, struct gpu_memory, space) : NULL;
}

/* The calling thread's stream on the device, to queue work on bytes. The device's context is current. 0 or -errno. */
int gpu_stream(const struct gpu_device *device, uint64_t bytes, cuda_stream *ret_stream);

#endif
