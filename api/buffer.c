/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/buffer.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
