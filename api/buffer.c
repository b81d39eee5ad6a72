/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/buffer.h>
#include <ferry/mapping.h>

/*
 * Buffers that grow, and files that are mapped (mapping.h). A buffer that grows wipes the bytes that it leaves behind,
 * since they may be a secret. No state; any thread, a buffer by one at a time.
 */

/* ---- buffers ---- */

enum { SIZE_FIRST = 512 };

size_t ferry_buffer_capacity(const struct ferry_buffer *b, size_t size)
{
        size_t capacity = b->capacity ? b->capacity : SIZE_FIRST, need;

        if (__builtin_add_overflow(b->size, size, &need) || __builtin_add_overflow(need, 1, &need))
                return SIZE_MAX;
        while (capacity < need)
                if (__builtin_mul_overflow(capacity, 2, &capacity))
                        return SIZE_MAX;
        return capacity;
}

/* Not by realloc: what that leaves behind could be a secret. */
static int grow(struct ferry_buffer *b, size_t capacity)
{
        char *data = malloc(capacity);

        if (!data)
                return -ENOMEM;
        if (b->data) {
                memcpy(data, b->data, b->size + 1);
                explicit_bzero(b->data, b->size);
                free(b->data);
        }
        b->data = data;
        b->capacity = capacity;
        return 0;
}

int ferry_buffer_append(struct ferry_buffer *b, const void *data, size_t size, size_t max)
{
        const size_t capacity = ferry_buffer_capacity(b, size);
        int r = 0;

        if (b->size > max || size > max - b->size)
                return -EMSGSIZE;
        if (!b->data || capacity != b->capacity)
                r = grow(b, capacity);
        if (r < 0)
                return r;
        if (size)
                memcpy(b->data + b->size, data, size);
        b->size += size;
        b->data[b->size] = '\0';
        return 0;
}

char *ferry_buffer_take(struct ferry_buffer *b)
{
        if (!b->data && ferry_buffer_append(b, "", 0, SIZE_MAX) < 0)
                return NULL;
        char *data = b->data;
        *b = (struct ferry_buffer){ 0 };
        return data;
}

void ferry_buffer_clear(struct ferry_buffer *b, bool wipe)
{
        if (b->data && wipe)
                explicit_bzero(b->data, b->size);
        free(b->data);
        *b = (struct ferry_buffer){ 0 };
}

void *ferry_reserve(void *block, size_t *room, size_t n, size_t size)
{
        size_t wanted = *room ? *room : 16, bytes;

        if (n <= *room)
                return block;
        while (wanted < n)
                if (__builtin_mul_overflow(wanted, 2, &wanted))
                        return NULL;
        if (__builtin_mul_overflow(wanted, size, &bytes))
                return NULL;
        block = realloc(block, bytes);
        if (block)
                *room = wanted;
        return block;
}

/* ---- mapped files ---- */

int ferry_map(int fd, size_t size, void **ret_address)
{
        size_t spare = size < FERRY_HUGE_PAGE ? 0 : FERRY_HUGE_PAGE, reserved;
        uint8_t *start, *address;

        if (__builtin_add_overflow(size, spare, &reserved))
                return -ENOMEM;
        start = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED)
                return -errno;
        address = start + (spare ? -(uintptr_t)start % FERRY_HUGE_PAGE : 0);
        if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
                int r = -errno;

                (void)munmap(start, reserved);
                return r;
        }
        if (spare) {
                size_t page = (size_t)sysconf(_SC_PAGESIZE);
                uint8_t *end = address + (size + page - 1) / page * page;

                if (address > start)
                        (void)munmap(start, (size_t)(address - start));
                if (start + reserved > end)
                        (void)munmap(end, (size_t)(start + reserved - end));
        }
        *ret_address = address;
        return 0;
}

bool ferry_map_huge(void *address, size_t size)
{
        for (size_t i = 0; i < size; i += FERRY_HUGE_PAGE)
                if (madvise((uint8_t *)address + i, 1, MADV_POPULATE_WRITE) < 0)
                        return false;
        return size == 0 || madvise(address, size, MADV_COLLAPSE) == 0;
}
