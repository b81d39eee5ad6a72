/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_BUFFER_H
#define CLIENT_BUFFER_H

#include <stddef.h>

/* Bytes that grow, always followed by a NUL once there are any. Zero-initialise. */
struct buffer {
        char *data;
        size_t size, capacity;
};

/* 0; -EMSGSIZE when it would exceed max bytes, and nothing was added; -ENOMEM. */
int buffer_append(struct buffer *b, const void *data, size_t size, size_t max);

/* The text for free(), which is "" when nothing was added; the buffer is empty then. NULL when memory is short. */
char *buffer_take(struct buffer *b);

/* wipe: overwrite before freeing. */
void buffer_clear(struct buffer *b, int wipe);

#endif
