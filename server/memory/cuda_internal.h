/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_CUDA_INTERNAL_H
#define MEMORY_CUDA_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

/*
 * The part of the CUDA driver API that Ferry calls, declared here so that Ferry builds without CUDA. Types and numbers
 * are from the CUDA Driver API reference (docs.nvidia.com/cuda/cuda-driver-api) and part of its ABI. Names with a
 * version (_v2) are those that libcuda.so.1 exports for the current prototypes.
 */

typedef int cuda_result;       /* CUresult */
typedef int cuda_device;       /* CUdevice */
typedef uint64_t cuda_pointer; /* CUdeviceptr; as long as a host pointer since API 3.2 (_v2) */
typedef void *cuda_context;    /* CUcontext */
typedef void *cuda_stream;     /* CUstream */
typedef void *cuda_event;      /* CUevent */

struct cuda_uuid {
        uint8_t bytes[16];
};

struct cuda_ipc_handle {
        uint8_t bytes[64]; /* CU_IPC_HANDLE_SIZE */
};

enum {
        CUDA_SUCCESS = 0,
        CUDA_ERROR_INVALID_VALUE = 1,
        CUDA_ERROR_OUT_OF_MEMORY = 2,
        CUDA_ERROR_DEINITIALIZED = 4,
        CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
        CUDA_ERROR_NO_DEVICE = 100,
        CUDA_ERROR_INVALID_DEVICE = 101,
        CUDA_ERROR_INVALID_CONTEXT = 201,
        CUDA_ERROR_ALREADY_MAPPED = 208,
        CUDA_ERROR_ECC_UNCORRECTABLE = 214,
        CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
        CUDA_ERROR_INVALID_HANDLE = 400,
        CUDA_ERROR_ILLEGAL_ADDRESS = 700,
        CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
        CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
        CUDA_ERROR_LAUNCH_FAILED = 719,
        CUDA_ERROR_NOT_SUPPORTED = 801,
        CUDA_ERROR_SYSTEM_NOT_READY = 802,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
        CUDA_ERROR_UNKNOWN = 999,

        CUDA_STREAM_NON_BLOCKING = 1,
        CUDA_CAPTURE_MODE_GLOBAL = 0,  /* CU_STREAM_CAPTURE_MODE_GLOBAL */
        CUDA_CAPTURE_MODE_RELAXED = 2, /* CU_STREAM_CAPTURE_MODE_RELAXED */
        CUDA_IPC_LAZY_PEER_ACCESS = 1, /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS */
        CUDA_EVENT_BLOCKING_SYNC = 1,
        CUDA_EVENT_DISABLE_TIMING = 2,
        CUDA_HOST_PORTABLE = 1,  /* CU_MEMHOSTREGISTER_PORTABLE */
        CUDA_HOST_READ_ONLY = 8, /* CU_MEMHOSTREGISTER_READ_ONLY */
        CUDA_MEMORY_DEVICE = 2,  /* CU_MEMORYTYPE_DEVICE */

        /* CUpointer_attribute */
        CUDA_POINTER_CONTEXT = 1,
        CUDA_POINTER_MEMORY_TYPE = 2,
        CUDA_POINTER_BUFFER_ID = 7,
        CUDA_POINTER_IS_MANAGED = 8,
        CUDA_POINTER_DEVICE_ORDINAL = 9,

        /* CUdevice_attribute */
        CUDA_DEVICE_GPU_DIRECT_RDMA = 116,
};

/* clang-format off */
/* field, exported name, parameters */
#define CUDA_FUNCTIONS(F)                                                                                              \
        F(init, cuInit, (unsigned flags))                                                                              \
        F(get_error_name, cuGetErrorName, (cuda_result result, const char **ret_name))                                 \
        F(device_get_count, cuDeviceGetCount, (int *ret_count))                                                        \
        F(device_get, cuDeviceGet, (cuda_device *ret_device, int ordinal))                                             \
        F(device_get_name, cuDeviceGetName, (char *ret_name, int size, cuda_device device))                            \
        F(device_get_uuid, cuDeviceGetUuid_v2, (struct cuda_uuid *ret_uuid, cuda_device device))                       \
        F(device_get_attribute, cuDeviceGetAttribute, (int *ret_value, int attribute, cuda_device device))             \
        F(device_total_mem, cuDeviceTotalMem_v2, (size_t *ret_bytes, cuda_device device))                              \
        F(primary_retain, cuDevicePrimaryCtxRetain, (cuda_context *ret_context, cuda_device device))                   \
        F(ctx_push, cuCtxPushCurrent_v2, (cuda_context context))                                                       \
        F(ctx_pop, cuCtxPopCurrent_v2, (cuda_context *ret_context))                                                    \
        F(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                                       \
        F(mem_alloc, cuMemAlloc_v2, (cuda_pointer *ret_pointer, size_t size))                                          \
        F(mem_free, cuMemFree_v2, (cuda_pointer pointer))                                                              \
        F(mem_range, cuMemGetAddressRange_v2, (cuda_pointer *ret_base, size_t *ret_size, cuda_pointer pointer))        \
        F(pointer_get_attribute, cuPointerGetAttribute, (void *ret_value, int attribute, cuda_pointer pointer))        \
        F(memset_d8_async, cuMemsetD8Async, (cuda_pointer to, unsigned char value, size_t n, cuda_stream stream))      \
        F(copy_to_device, cuMemcpyHtoDAsync_v2, (cuda_pointer to, const void *from, size_t size, cuda_stream stream))  \
        F(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, cuda_pointer from, size_t size, cuda_stream stream))          \
        F(copy_on_device, cuMemcpyDtoDAsync_v2, (cuda_pointer to, cuda_pointer from, size_t size, cuda_stream stream)) \
        F(copy_peer, cuMemcpyPeerAsync,                                                                                \
          (cuda_pointer to, cuda_context to_context, cuda_pointer from, cuda_context from_context, size_t size,        \
           cuda_stream stream))                                                                                        \
        F(stream_create, cuStreamCreate, (cuda_stream *ret_stream, unsigned flags))                                    \
        F(stream_synchronize, cuStreamSynchronize, (cuda_stream stream))                                               \
        F(stream_destroy, cuStreamDestroy_v2, (cuda_stream stream))                                                    \
        F(event_create, cuEventCreate, (cuda_event *ret_event, unsigned flags))                                        \
        F(event_record, cuEventRecord, (cuda_event event, cuda_stream stream))                                         \
        F(event_synchronize, cuEventSynchronize, (cuda_event event))                                                   \
        F(event_destroy, cuEventDestroy_v2, (cuda_event event))                                                        \
        F(host_register, cuMemHostRegister_v2, (void *address, size_t size, unsigned flags))                           \
        F(host_unregister, cuMemHostUnregister, (void *address))                                                       \
        F(ipc_get, cuIpcGetMemHandle, (struct cuda_ipc_handle *ret_handle, cuda_pointer pointer))                      \
        F(ipc_open, cuIpcOpenMemHandle_v2,                                                                             \
          (cuda_pointer *ret_pointer, struct cuda_ipc_handle handle, unsigned flags))                                  \
        F(ipc_close, cuIpcCloseMemHandle, (cuda_pointer pointer))
/* clang-format on */

struct cuda_driver {
#define CUDA_FIELD(field, name, parameters) cuda_result(*field) parameters;
        CUDA_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
};

enum { CUDA_REASON_SIZE = 160 };

/*
 * Opens and initialises libcuda.so.1 at the first call; it stays open until the process ends. NULL: the library is
 * missing, too old or does not start; *ret_reason says which, as a sentence for users. Any thread.
 */
const struct cuda_driver *cuda_open(const char **ret_reason);

/* "CUDA_ERROR_OUT_OF_MEMORY"; never NULL. */
const char *cuda_error_name(const struct cuda_driver *driver, cuda_result result);

#endif
