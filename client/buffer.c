/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_FIRST = 512 };

static int buffer_reserve(struct buffer *b, size_t need)
{
        size_t capacity = b->capacity ? b->capacity : BUFFER_FIRST;
        while (capacity < need) {
                if (__builtin_mul_overflow(capacity, 2, &capacity))
                        return -ENOMEM;
        }
        if (b->data && capacity == b->capacity)
                return 0;
        /* Not realloc: what it leaves behind could be a secret. */
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

int buffer_append(struct buffer *b, const void *data, size_t size, size_t max)
{
        size_t total, need;
        if (__builtin_add_overflow(b->size, size, &total) || __builtin_add_overflow(total, 1, &need) || total > max)
                return -EMSGSIZE;
        int r = buffer_reserve(b, need);
        if (r < 0)
                return r;
        if (size)
                memcpy(b->data + b->size, data, size);
        b->size = total;
        b->data[total] = '\0';
        return 0;
}

char *buffer_take(struct buffer *b)
{
        if (!b->data && buffer_append(b, "", 0, SIZE_MAX) < 0)
                return NULL;
        char *data = b->data;
        *b = (struct buffer){ 0 };
        return data;
}

void buffer_clear(struct buffer *b, int wipe)
{
        if (b->data && wipe)
                explicit_bzero(b->data, b->size);
        free(b->data);
        *b = (struct buffer){ 0 };
}
