/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

/* What nearly every test uses; with test.h also pthread.h, stdarg.h, stdbool.h, stddef.h, stdint.h and stdlib.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test.h"

#define UNIT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The same of numbers: FOR_EACH (size_t, size, 1, 4096) assert_true(is_moved(size)); */
#define FOR_EACH(type, number, ...)                                                                                    \
        for (type number##_all[] = { __VA_ARGS__ }, *number##_at = number##_all, number = 0;                           \
             test_row(number##_at == number##_all + UNIT_COUNT(number##_all)                                           \
                              ? NULL                                                                                   \
                              : text_format(#number " %lld", (long long)(number = *number##_at++)));)

/* Memory for a test itself, which goes no further without it. */
static inline void *unit_alloc(size_t size)
{
        void *block = malloc(size ? size : 1);

        if (!block)
                abort();
        return block;
}

#endif
