/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_BUFFER_H
#define FERRY_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes that grow, followed by a NUL once there are any. They may be a secret: what growing leaves behind is wiped.
 * Zero-initialise.
 */
struct ferry_buffer {
        char *data;
        size_t size, capacity;
};

/* 0; -EMSGSIZE when it would exceed max bytes, and nothing was added; -ENOMEM. */
int ferry_buffer_append(struct ferry_buffer *b, const void *data, size_t size, size_t max);

/* The capacity that it has once size bytes are appended. */
size_t ferry_buffer_capacity(const struct ferry_buffer *b, size_t size);

/* The text for free(), which is "" when nothing was added; the buffer is empty then. NULL when memory is short. */
char *ferry_buffer_take(struct ferry_buffer *b);

/* wipe: overwrite before freeing. */
void ferry_buffer_clear(struct ferry_buffer *b, bool wipe);

/* Room for n elements of size bytes; grows twofold. NULL when memory is short, and the old block stays. */
void *ferry_reserve(void *block, size_t *room, size_t n, size_t size);

#endif
