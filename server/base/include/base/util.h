/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define FERRY_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define FERRY_CONTAINER_OF(pointer, type, member) ((type *)(void *)(((char *)(pointer)) - offsetof(type, member)))

/* Hands a pointer over: yields its value and leaves NULL behind. */
#define FERRY_STEAL(pointer)                                                                                           \
        ({                                                                                                             \
                __typeof__(pointer) *steal_p_ = &(pointer);                                                            \
                __typeof__(pointer) steal_v_ = *steal_p_;                                                              \
                *steal_p_ = NULL;                                                                                      \
                steal_v_;                                                                                              \
        })

#define FERRY_CLEANUP(function) __attribute__((cleanup(function)))

static inline void cleanup_free(void *p)
{
        free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
        if (*fd >= 0)
                (void)close(*fd);
}

/* Fills buffer with random bytes from the kernel; aborts the process when the kernel has none (never on Linux >= 3.17).
 */
void random_bytes(void *buffer, size_t size);

/* realloc for what may be a secret: what it leaves behind is wiped. size bytes are in use. NULL: as before. */
void *memory_regrow(void *old, size_t size, size_t capacity);

/* A random number that is not 0. */
uint64_t random_id(void);

#endif
