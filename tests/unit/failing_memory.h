/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <stdlib.h>

/*
 * For one source of a test that is linked with failing_memory_dep: the allocations of the code under test, not those of
 * the libraries it uses, go through here.
 */

static _Thread_local long memory_left = -1; /* how many more of this thread succeed; -1 = all */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);

static int memory_fails(void)
{
        return memory_left == 0 || (memory_left > 0 && memory_left-- == 0);
}

void *__wrap_malloc(size_t size)
{
        return memory_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
        return memory_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *block, size_t size)
{
        return memory_fails() ? NULL : __real_realloc(block, size);
}

#endif
