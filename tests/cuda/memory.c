/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "standin.h"

enum {
        TRAILER = 4096,
        BLOCK_HEAD = 64 << 10, /* what the range of opened memory has before it: the driver opens whole blocks */
};

struct allocation *allocations;
static uint64_t last_id;
static size_t used[DEVICES_MAX];

static size_t file_size(size_t size)
{
        return (size + 2 * TRAILER - 1) / TRAILER * TRAILER;
}

struct allocation *find(const void *address, size_t size)
{
        const uint8_t *start = address;
        struct allocation *a;

        DL_FOREACH (allocations, a)
                if (start >= a->address && start < a->address + a->size) {
                        size_t left = (size_t)(a->address + a->size - start);
                        const struct allocation *next = size > left ? find(start + left, size - left) : NULL;

                        return size <= left || (next && next->bytes == a->bytes + a->size) ? a : NULL;
                }
        return NULL;
}

static void *map(void *address, size_t size, int protection, int fd, size_t offset)
{
        return fd < 0 ? MAP_FAILED
                      : mmap(address, size, protection, MAP_SHARED | (address ? MAP_FIXED : 0), fd, (off_t)offset);
}

struct allocation *allocation_at(uint8_t *place, uint8_t *bytes_place, int device, size_t size, int fd)
{
        struct allocation *a = calloc(1, sizeof(*a));
        void *address = map(place, size, PROT_NONE, fd, 0);
        void *bytes = map(bytes_place, size, PROT_READ | PROT_WRITE, fd, 0);
        void *trailer = map(NULL, TRAILER, PROT_READ | PROT_WRITE, fd, file_size(size) - TRAILER);

        if (!a || address == MAP_FAILED || bytes == MAP_FAILED || trailer == MAP_FAILED) {
                free(a);
                return NULL;
        }
        *a = (struct allocation){ .address = address, .bytes = bytes, .size = size, .device = device, .fd = fd };
        a->trailer = trailer;
        a->id = ++last_id;
        DL_APPEND(allocations, a);
        return a;
}

struct allocation *allocation_new(int device, size_t size, int fd)
{
        return allocation_at(NULL, NULL, device, size, fd);
}

int allocation_file(size_t size)
{
        int fd = memfd_create("cuda-standin", MFD_CLOEXEC);

        if (fd >= 0 && ftruncate(fd, (off_t)file_size(size)) < 0) {
                (void)close(fd);
                return -1;
        }
        return fd;
}

static void unmap(struct allocation *a)
{
        DL_DELETE(allocations, a);
        (void)munmap(a->address, a->size);
        (void)munmap(a->bytes, a->size);
        (void)munmap(a->trailer, TRAILER);
        (void)close(a->fd);
        free(a);
}

void allocation_close(struct allocation *a)
{
        atomic_fetch_sub(&a->trailer->opens, 1);
        unmap(a);
}

void allocation_free(struct allocation *a)
{
        if (!a->mapped)
                used[a->device] -= a->size;
        counts()->freed_while_open += atomic_load(&a->trailer->opens) > 0;
        memset(a->bytes, 0xdd, a->size); /* who still has it open finds this */
        unmap(a);
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
        (void)pthread_mutex_lock(&standin_lock);
        if (!fault("alloc") && size <= TOTAL_BYTES - used[context->device])
                a = allocation_new(context->device, size, allocation_file(size));
        if (a) {
                used[context->device] += size;
                a->context = context;
                memset(a->bytes, 0xcd, size);
                *ret_pointer = (uintptr_t)a->address;
        }
        (void)pthread_mutex_unlock(&standin_lock);
        return a ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT cuda_result cuMemFree_v2(cuda_pointer pointer)
{
        struct context *context;
        struct allocation *a;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (!a || (uintptr_t)a->address != pointer || a->foreign)
                result = CUDA_ERROR_INVALID_VALUE;
        else
                allocation_free(a);
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}

EXPORT cuda_result cuMemGetAddressRange_v2(cuda_pointer *ret_base, size_t *ret_size, cuda_pointer pointer)
{
        struct context *context;
        struct allocation *a;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (a && a->foreign && fault("range"))
                a = NULL;
        if (a) {
                *ret_base = (uintptr_t)a->address - (a->foreign ? BLOCK_HEAD : 0);
                *ret_size = a->size + (a->foreign ? BLOCK_HEAD : 0);
        }
        (void)pthread_mutex_unlock(&standin_lock);
        return a ? CUDA_SUCCESS : NOT_FOUND;
}

EXPORT cuda_result cuPointerGetAttribute(void *ret_value, int attribute, cuda_pointer pointer)
{
        struct context *context;
        cuda_result result = current(&context);
        struct allocation *a;

        if (result != CUDA_SUCCESS)
                return result;
        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)pointer, 1);
        if (!a)
                result = CUDA_ERROR_INVALID_VALUE;
        else if (attribute == CUDA_POINTER_MEMORY_TYPE)
                *(unsigned *)ret_value = CUDA_MEMORY_DEVICE;
        else if (attribute == CUDA_POINTER_BUFFER_ID)
                *(uint64_t *)ret_value = a->id;
        else if (attribute == CUDA_POINTER_CONTEXT)
                *(const struct context **)ret_value = a->context;
        else if (attribute == CUDA_POINTER_IS_MANAGED)
                *(unsigned *)ret_value = a->managed;
        else if (attribute == CUDA_POINTER_DEVICE_ORDINAL)
                *(int *)ret_value = a->device;
        else
                result = CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_unlock(&standin_lock);
        return result;
}
