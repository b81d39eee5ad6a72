/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_INTERNAL_H
#define GPU_INTERNAL_H

#include "cuda_internal.h"
#include "memory/gpu.h"

/* A device that is in use. Fixed once gpu_device_use has returned it. */
struct gpu_device {
        unsigned number;
        cuda_device device;
        cuda_context context; /* the primary one, retained */
        struct cuda_uuid uuid;
};

/* Memory on a device: allocated, adopted, or opened from another process. Fixed, but for opens. */
struct gpu_memory {
        struct space space;
        const struct gpu_device *device;
        cuda_pointer address;
        size_t size;
        enum { GPU_ALLOCATED, GPU_ADOPTED, GPU_OPENED } kind;
        uint64_t buffer_id;        /* ADOPTED: of the allocation that the program made */
        struct gpu_import *import; /* OPENED */
        unsigned opens;            /* by other processes; gpu_share.c's opens_lock */
};

/* The driver; only after gpu_device_use has succeeded. */
const struct cuda_driver *gpu_driver(void);

/*
 * Device n with its context. 0 with *ret_device; FERRY_E_UNKNOWN_DEVICE: there is none, or it does not start, which
 * detail says.
 */
int gpu_device_use(unsigned n, const struct gpu_device **ret_device, char detail[GPU_DETAIL_SIZE]);

/* One that gpu_device_use has returned before. */
const struct gpu_device *gpu_device(unsigned n);
/* One that is in use; NULL = none is. */
const struct gpu_device *gpu_device_any(void);

/* The context becomes current, until leave. false: the device is gone. */
bool gpu_enter(const struct gpu_device *device);
void gpu_leave(void);

/* A failure of the driver as -errno, logged. NULL device: of none. */
int gpu_fail(const struct gpu_device *device, const char *action, cuda_result result);

/* Whether the program still has the memory that it gave: 0, -EFAULT, -ENODEV. */
int gpu_check(const struct gpu_memory *memory);

/* Forgets what gpu_share has told of the memory. */
void gpu_unshare(const struct gpu_memory *memory);

extern const struct space_ops gpu_space_ops;

/* This thread's stream on the device, for work on so many bytes. 0 or -errno. Its context is current. */
int gpu_stream(const struct gpu_device *device, uint64_t bytes, cuda_stream *ret_stream);

#endif
