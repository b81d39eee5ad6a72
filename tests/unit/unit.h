/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include "test.h"

#define UNIT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Memory for a test itself, which goes no further without it. */
static inline void *unit_alloc(size_t size)
{
        void *block = malloc(size ? size : 1);

        if (!block)
                abort();
        return block;
}

#endif
