/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_TEXT_H
#define TESTS_FUZZ_TEXT_H

#include <string.h>

#include "fuzz.h"

/* Bytes as a C string in a block without a byte to spare, for free(). A NUL inside stays there. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1);

        FUZZ_CHECK(text);
        if (size)
                memcpy(text, data, size);
        text[size] = '\0';
        return text;
}

/* How many of size bytes come before the first that is mark; size when there is none. */
static inline size_t fuzz_until(const uint8_t *data, size_t size, int mark)
{
        const uint8_t *at = size ? memchr(data, mark, size) : NULL;

        return at ? (size_t)(at - data) : size;
}

/* Bytes that grow, for free(). */
struct fuzz_buffer {
        char *bytes;
        size_t size, room;
};

static inline void fuzz_append(struct fuzz_buffer *buffer, const void *bytes, size_t size)
{
        if (!size)
                return;
        if (buffer->room - buffer->size < size) {
                buffer->room = 2 * buffer->room + size;
                buffer->bytes = realloc(buffer->bytes, buffer->room);
                FUZZ_CHECK(buffer->bytes);
        }
        memcpy(buffer->bytes + buffer->size, bytes, size);
        buffer->size += size;
}

#endif
