/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_BUFFER_H
#define FERRY_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A growing buffer, NUL-terminated once anything was appended. It may hold a secret: growing wipes the former block.
 * Zero-initialise. One thread at a time.
 */
struct ferry_buffer {
        char *data;
        size_t size, capacity;
};

/* Appends size bytes. 0; -EMSGSIZE when the buffer would exceed max bytes; -ENOMEM. An error adds nothing. */
int ferry_buffer_append(struct ferry_buffer *b, const void *data, size_t size, size_t max);

/* The capacity in bytes after size more bytes are appended; SIZE_MAX when that overflows. */
size_t ferry_buffer_capacity(const struct ferry_buffer *b, size_t size);

/* Hands over the text ("" when nothing was appended), for free(), and empties the buffer. NULL when memory is short. */
char *ferry_buffer_take(struct ferry_buffer *b);

/* Frees the bytes. wipe: overwrites them first. */
void ferry_buffer_clear(struct ferry_buffer *b, bool wipe);

/*
 * Grows block, which has room for *room elements of size bytes, to at least n elements, by doubling. Returns the block,
 * which may have moved; NULL when memory is short, and the old block stays.
 */
void *ferry_reserve(void *block, size_t *room, size_t n, size_t size);

#endif
