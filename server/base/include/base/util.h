/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ferry/util.h>

/* Of the indices i below n, those for which beyond is true come last: the first of them, n when there are none. */
#define FERRY_FIRST_INDEX(n, i, beyond)                                                                                \
        ({                                                                                                             \
                size_t low_ = 0, high_ = (n);                                                                          \
                while (low_ < high_) {                                                                                 \
                        size_t i = low_ + (high_ - low_) / 2;                                                          \
                        if (beyond)                                                                                    \
                                high_ = i;                                                                             \
                        else                                                                                           \
                                low_ = i + 1;                                                                          \
                }                                                                                                      \
                low_;                                                                                                  \
        })

#define FERRY_CONTAINER_OF(pointer, type, member) ((type *)(void *)(((char *)(pointer)) - offsetof(type, member)))

static inline uint64_t at_least(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

static inline uint64_t at_most(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static inline void cleanup_close(const int *fd)
{
        if (*fd >= 0)
                (void)close(*fd);
}

static inline void cleanup_file(FILE **file)
{
        if (*file)
                (void)fclose(*file);
}

/* Hands a descriptor over: yields it and leaves -1 behind. */
static inline int steal_fd(int *fd)
{
        int stolen = *fd;

        *fd = -1;
        return stolen;
}

/* Whether accept() failed for want of a client, or of one alone: it may be called again at once. */
static inline bool accept_is_repeatable(int error)
{
        return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

/* Copies from, NULL = "", cut to size - 1 bytes; a snprintf costs ten times as much. Returns the length of the copy. */
size_t text_copy(char *to, size_t size, const char *from);

/* Fills buffer with random bytes from the kernel; aborts the process when the kernel has none (never on Linux >= 3.17).
 */
void random_bytes(void *buffer, size_t size);

/* A random number that is not 0. */
uint64_t random_id(void);

#endif
