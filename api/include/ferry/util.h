/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_UTIL_H
#define FERRY_UTIL_H

#include <stdlib.h>

#define FERRY_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

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

#endif
