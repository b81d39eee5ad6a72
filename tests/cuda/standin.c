/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "cuda_internal.h"

/*
 * A library that stands in for libcuda.so.1: GPUs whose memory is a memfd. What a program gets as a device's address is
 * mapped without any access, so that host code that touches it crashes; only the copies here reach the bytes, by
 * another mapping.
 *
 * It is as strict as the driver's documentation allows. A queued copy is done when its stream is synchronised, no
 * sooner, so that whoever forgets that, or reuses a buffer before, finds wrong bytes. Calls need a current context.
 * Freed memory is overwritten.
 *
 *   CUDA_STANDIN_DEVICES  how many GPUs there are; default 2
 *   CUDA_STANDIN_FIRST    which of the machine's is cuda:0: workers with different ones do not see the same GPU
 *   CUDA_STANDIN_FAULTS   a file that may change at any time; words in it:
 *                         init, alloc, share, open, pin: such calls fail
 *                         gone, reset: the GPUs have fallen off the bus, or were reset
 *                         stuck: a synchronise waits until the word is gone
 */

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES_MAX = 8, TOTAL_BYTES = 1 << 30, STACK_MAX = 16 };

struct context {
        int device;
        unsigned users;
};

struct allocation {
        uint8_t *address; /* without access */
        uint8_t *bytes;
        size_t size;
        int device, fd;
        uint64_t id;
        unsigned opens; /* of another process's memory; 0 = own */
        struct cuda_ipc_handle handle;
        struct allocation *prev, *next;
};

struct copy {
        uint8_t *to, *from; /* as they were given; from NULL = zeros */
        bool to_device, from_device;
        size_t size;
        struct copy *prev, *next;
};

struct stream {
        const struct context *context;
        struct copy *queue;
};

struct host_range {
        uint8_t *address;
        size_t size;
        struct host_range *prev, *next;
};

struct handle {
        char magic[8];
        int pid, fd, device;
        uint64_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows */
static struct context contexts[DEVICES_MAX];
static struct allocation *allocations;
static struct host_range *ranges;
static uint64_t last_id;
static size_t used[DEVICES_MAX];
static bool initialized;

static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;

/* ---- settings and faults ---- */

static int setting(const char *name, int fallback)
{
        const char *text = getenv(name);

        return text ? atoi(text) : fallback;
}

static int device_count(void)
{
        int n = setting("CUDA_STANDIN_DEVICES", 2);

        return n < DEVICES_MAX ? n : DEVICES_MAX;
}

static bool fault(const char *word)
{
        const char *path = getenv("CUDA_STANDIN_FAULTS");
        char text[128] = "";
        FILE *file = path ? fopen(path, "re") : NULL;
        bool found = false;

        if (!file)
                return false;
        while (!found && fscanf(file, "%127s", text) == 1)
                found = strcmp(text, word) == 0;
        (void)fclose(file);
        return found;
}

static cuda_result health(void)
{
        if (!initialized)
                return 3; /* CUDA_ERROR_NOT_INITIALIZED */
        if (fault("gone"))
                return CUDA_ERROR_ECC_UNCORRECTABLE;
        return fault("reset") ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

static cuda_result current(struct context **ret_context)
{
        cuda_result result = health();

        if (result != CUDA_SUCCESS)
                return result;
        if (depth == 0 || stack[depth - 1]->users == 0)
                return CUDA_ERROR_INVALID_CONTEXT;
        *ret_context = stack[depth - 1];
        return CUDA_SUCCESS;
}

/* ---- devices and contexts ---- */

EXPORT cuda_result cuInit(unsigned flags)
{
        if (fault("init"))
                return CUDA_ERROR_SYSTEM_NOT_READY;
        if (flags != 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (device_count() == 0)
                return CUDA_ERROR_NO_DEVICE;
        initialized = true;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuGetErrorName(cuda_result result, const char **ret_name)
{
        static const struct {
                cuda_result result;
                const char *name;
        } names[] = {
                { CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
                { CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
                { CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
                { CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
                { CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE" },
                { CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" },
                { CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
                { CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (names[i].result == result) {
                        *ret_name = names[i].name;
                        return CUDA_SUCCESS;
                }
        return CUDA_ERROR_INVALID_VALUE;
}

EXPORT cuda_result cuDeviceGetCount(int *ret_count)
{
        *ret_count = device_count();
        return initialized ? CUDA_SUCCESS : 3;
}

EXPORT cuda_result cuDeviceGet(cuda_device *ret_device, int ordinal)
{
        if (ordinal < 0 || ordinal >= device_count())
                return CUDA_ERROR_INVALID_DEVICE;
        *ret_device = ordinal;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetName(char *ret_name, int size, cuda_device device)
{
        (void)snprintf(ret_name, (size_t)size, "Stand-in GPU %d", device + setting("CUDA_STANDIN_FIRST", 0));
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetUuid_v2(struct cuda_uuid *ret_uuid, cuda_device device)
{
        memset(ret_uuid->bytes, 0x5a, sizeof(ret_uuid->bytes));
        ret_uuid->bytes[15] = (uint8_t)(device + setting("CUDA_STANDIN_FIRST", 0));
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetAttribute(int *ret_value, int attribute, cuda_device device)
{
        (void)device;
        *ret_value = attribute == CUDA_DEVICE_GPU_DIRECT_RDMA;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceTotalMem_v2(size_t *ret_bytes, cuda_device device)
{
        (void)device;
        *ret_bytes = TOTAL_BYTES;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDevicePrimaryCtxRetain(cuda_context *ret_context, cuda_device device)
{
        cuda_result result = health();

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&lock);
        contexts[device].device = device;
        contexts[device].users++;
        (void)pthread_mutex_unlock(&lock);
        *ret_context = &contexts[device];
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
        (void)pthread_mutex_lock(&lock);
        contexts[device].users--;
        (void)pthread_mutex_unlock(&lock);
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuCtxPushCurrent_v2(cuda_context context)
{
        if (depth == STACK_MAX || !context)
                return CUDA_ERROR_INVALID_CONTEXT;
        stack[depth++] = context;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuCtxPopCurrent_v2(cuda_context *ret_context)
{
        if (depth == 0)
                return CUDA_ERROR_INVALID_CONTEXT;
        *ret_context = stack[--depth];
        return CUDA_SUCCESS;
}

/* ---- memory ---- */

/* With the lock. What has all of [address, address + size); NULL = nothing. */
static struct allocation *find(const void *address, size_t size)
{
        const uint8_t *start = address;
        struct allocation *a;

        DL_FOREACH (allocations, a)
                if (start >= a->address && start < a->address + a->size &&
                    size <= (size_t)(a->address + a->size - start))
                        return a;
        return NULL;
}

/* Takes over fd. NULL when memory is short. */
static struct allocation *allocation_new(int device, size_t size, int fd)
{
        struct allocation *a = calloc(1, sizeof(*a));
        void *address = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
        void *bytes = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (!a || address == MAP_FAILED || bytes == MAP_FAILED) {
                free(a);
                return NULL;
        }
        *a = (struct allocation){ .address = address, .bytes = bytes, .size = size, .device = device, .fd = fd };
        a->id = ++last_id;
        DL_APPEND(allocations, a);
        return a;
}

static void allocation_free(struct allocation *a)
{
        DL_DELETE(allocations, a);
        (void)munmap(a->address, a->size);
        (void)munmap(a->bytes, a->size);
        (void)close(a->fd);
        free(a);
}

EXPORT cuda_result cuMemAlloc_v2(cuda_pointer *ret_pointer, size_t size)
{
        struct context *context;
        struct allocation *a = NULL;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        if (size == 0)
                return CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_lock(&lock);
        if (!fault("alloc") && size <= TOTAL_BYTES - used[context->device]) {
                int fd = memfd_create("cuda-standin", MFD_CLOEXEC);

                if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
                        a = allocation_new(context->device, size, fd);
        }
        if (a) {
                used[context->device] += size;
                memset(a->bytes, 0xcd, size);
                *ret_pointer = (uintptr_t)a->address;
        }
        (void)pthread_mutex_unlock(&lock);
        return a ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT cuda_result cuMemFree_v2(cuda_pointer pointer)
{
        struct context *context;
        struct allocation *a;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (!a || (uintptr_t)a->address != pointer || a->opens > 0) {
                result = CUDA_ERROR_INVALID_VALUE;
        } else {
                used[a->device] -= a->size;
                memset(a->bytes, 0xdd, a->size); /* who still has it open finds this */
                allocation_free(a);
        }
        (void)pthread_mutex_unlock(&lock);
        return result;
}

EXPORT cuda_result cuMemGetAddressRange_v2(cuda_pointer *ret_base, size_t *ret_size, cuda_pointer pointer)
{
        struct allocation *a;

        (void)pthread_mutex_lock(&lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (a) {
                *ret_base = (uintptr_t)a->address;
                *ret_size = a->size;
        }
        (void)pthread_mutex_unlock(&lock);
        return a ? CUDA_SUCCESS : 500; /* CUDA_ERROR_NOT_FOUND */
}

EXPORT cuda_result cuPointerGetAttribute(void *ret_value, int attribute, cuda_pointer pointer)
{
        cuda_result result = health();
        struct allocation *a;

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (!a)
                result = CUDA_ERROR_INVALID_VALUE;
        else if (attribute == CUDA_POINTER_MEMORY_TYPE)
                *(unsigned *)ret_value = CUDA_MEMORY_DEVICE;
        else if (attribute == CUDA_POINTER_BUFFER_ID)
                *(uint64_t *)ret_value = a->id;
        else if (attribute == CUDA_POINTER_DEVICE_ORDINAL)
                *(int *)ret_value = a->device;
        else
                result = CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_unlock(&lock);
        return result;
}

/* ---- host memory ---- */

EXPORT cuda_result cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
        struct host_range *range, *other;
        struct context *context;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        if (fault("pin") || size == 0 || (flags & ~(unsigned)(CUDA_HOST_PORTABLE | CUDA_HOST_READ_ONLY)) != 0)
                return CUDA_ERROR_INVALID_VALUE;
        range = malloc(sizeof(*range));
        *range = (struct host_range){ .address = address, .size = size };
        (void)pthread_mutex_lock(&lock);
        DL_FOREACH (ranges, other)
                if (range->address < other->address + other->size && other->address < range->address + size)
                        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        if (result == CUDA_SUCCESS)
                DL_APPEND(ranges, range);
        else
                free(range);
        (void)pthread_mutex_unlock(&lock);
        return result;
}

EXPORT cuda_result cuMemHostUnregister(void *address)
{
        struct host_range *range;

        (void)pthread_mutex_lock(&lock);
        DL_FOREACH (ranges, range)
                if (range->address == address)
                        break;
        if (range)
                DL_DELETE(ranges, range);
        free(range);
        (void)pthread_mutex_unlock(&lock);
        return range ? CUDA_SUCCESS : 713; /* CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED */
}

/* With the lock. Host memory is registered whole, or not at all. */
static bool host_is_fine(const uint8_t *address, size_t size)
{
        const struct host_range *range;

        DL_FOREACH (ranges, range)
                if (address < range->address + range->size && range->address < address + size)
                        return address >= range->address && address + size <= range->address + range->size;
        return find(address, 1) == NULL;
}

/* ---- streams ---- */

EXPORT cuda_result cuStreamCreate(cuda_stream *ret_stream, unsigned flags)
{
        struct context *context;
        cuda_result result = current(&context);
        struct stream *stream;

        if (result != CUDA_SUCCESS || flags > CUDA_STREAM_NON_BLOCKING)
                return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
        stream = calloc(1, sizeof(*stream));
        stream->context = context;
        *ret_stream = stream;
        return CUDA_SUCCESS;
}

/* With the lock. The bytes behind an address, as a program gave it; NULL: they are gone. */
static uint8_t *bytes_of(uint8_t *address, bool device, size_t size)
{
        struct allocation *a = device ? find(address, size) : NULL;

        if (!device)
                return address;
        return a ? a->bytes + (address - a->address) : NULL;
}

/* The addresses are checked when the copy is queued, and again when it runs. */
static cuda_result queue(cuda_stream handle, struct copy copy)
{
        struct stream *stream = handle;
        struct context *context;
        cuda_result result = current(&context);
        struct copy *own;

        if (result != CUDA_SUCCESS)
                return result;
        if (!stream || stream->context != context)
                return CUDA_ERROR_INVALID_HANDLE;
        (void)pthread_mutex_lock(&lock);
        if (!bytes_of(copy.to, copy.to_device, copy.size) || (!copy.to_device && !host_is_fine(copy.to, copy.size)) ||
            (copy.from && (!bytes_of(copy.from, copy.from_device, copy.size) ||
                           (!copy.from_device && !host_is_fine(copy.from, copy.size)))))
                result = CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_unlock(&lock);
        if (result != CUDA_SUCCESS)
                return result;
        own = malloc(sizeof(*own));
        *own = copy;
        DL_APPEND(stream->queue, own);
        return CUDA_SUCCESS;
}

static cuda_result run(const struct copy *copy)
{
        uint8_t *to, *from;

        /* The lock is held while the bytes move: nobody frees them meanwhile, as the driver waits for copies, too. */
        (void)pthread_mutex_lock(&lock);
        to = bytes_of(copy->to, copy->to_device, copy->size);
        from = copy->from ? bytes_of(copy->from, copy->from_device, copy->size) : NULL;
        if (to && from)
                memcpy(to, from, copy->size);
        else if (to && !copy->from)
                memset(to, 0, copy->size);
        (void)pthread_mutex_unlock(&lock);
        return to && (from || !copy->from) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

EXPORT cuda_result cuStreamSynchronize(cuda_stream handle)
{
        struct stream *stream = handle;
        struct context *context;
        cuda_result result;

        while (fault("stuck"))
                (void)usleep(500);
        result = current(&context);
        if (result == CUDA_SUCCESS && stream->context != context)
                result = CUDA_ERROR_INVALID_HANDLE;
        while (stream->queue) {
                struct copy *copy = stream->queue;

                DL_DELETE(stream->queue, copy);
                if (result == CUDA_SUCCESS)
                        result = run(copy);
                free(copy);
        }
        return result;
}

EXPORT cuda_result cuStreamDestroy_v2(cuda_stream handle)
{
        cuda_result result = cuStreamSynchronize(handle);

        free(handle);
        return result;
}

EXPORT cuda_result cuMemcpyHtoDAsync_v2(cuda_pointer to, const void *from, size_t size, cuda_stream stream)
{
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to,
                                            .from = (uint8_t *)(uintptr_t)from,
                                            .to_device = true,
                                            .size = size });
}

EXPORT cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_pointer from, size_t size, cuda_stream stream)
{
        return queue(stream,
                     (struct copy){ .to = to, .from = (uint8_t *)(uintptr_t)from, .from_device = true, .size = size });
}

EXPORT cuda_result cuMemcpyDtoDAsync_v2(cuda_pointer to, cuda_pointer from, size_t size, cuda_stream stream)
{
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to,
                                            .from = (uint8_t *)(uintptr_t)from,
                                            .to_device = true,
                                            .from_device = true,
                                            .size = size });
}

EXPORT cuda_result cuMemcpyPeerAsync(cuda_pointer to, cuda_context to_context, cuda_pointer from,
                                     cuda_context from_context, size_t size, cuda_stream stream)
{
        struct allocation *a, *b;

        (void)pthread_mutex_lock(&lock);
        a = find((void *)(uintptr_t)to, size);
        b = find((void *)(uintptr_t)from, size);
        if (a && a->device != ((struct context *)to_context)->device)
                a = NULL;
        if (b && b->device != ((struct context *)from_context)->device)
                b = NULL;
        (void)pthread_mutex_unlock(&lock);
        return a && b ? cuMemcpyDtoDAsync_v2(to, from, size, stream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT cuda_result cuMemsetD8Async(cuda_pointer to, unsigned char value, size_t n, cuda_stream stream)
{
        if (value != 0)
                return CUDA_ERROR_NOT_SUPPORTED; /* here alone */
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to, .to_device = true, .size = n });
}

/* ---- other processes ---- */

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
        (void)pthread_mutex_lock(&lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (a && a->opens == 0) {
                handle.fd = a->fd;
                handle.device = a->device + setting("CUDA_STANDIN_FIRST", 0);
                handle.size = a->size;
        }
        (void)pthread_mutex_unlock(&lock);
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
                return 205; /* CUDA_ERROR_MAP_FAILED */
        (void)pthread_mutex_lock(&lock);
        DL_FOREACH (allocations, a)
                if (a->opens > 0 && memcmp(&a->handle, &bytes, sizeof(bytes)) == 0)
                        break;
        if (!a)
                a = open_file(&handle, context->device);
        if (a) {
                a->opens++;
                a->handle = bytes;
                *ret_pointer = (uintptr_t)a->address;
        }
        (void)pthread_mutex_unlock(&lock);
        return a ? CUDA_SUCCESS : 205;
}

EXPORT cuda_result cuIpcCloseMemHandle(cuda_pointer pointer)
{
        struct context *context;
        struct allocation *a;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (!a || a->opens == 0 || (uintptr_t)a->address != pointer)
                result = CUDA_ERROR_INVALID_VALUE;
        else if (--a->opens == 0)
                allocation_free(a);
        (void)pthread_mutex_unlock(&lock);
        return result;
}
