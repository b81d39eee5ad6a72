/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_FIXTURE_H
#define GPU_FIXTURE_H

#include "unit.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "counts.h"
#include "cuda_internal.h"
#include "memory/gpu.h"

/*
 * GPU memory on tests/cuda, which LD_LIBRARY_PATH names. What a program around the worker calls by itself goes to the
 * driver directly. Every function asserts.
 */

enum { GPU_SIZE = 3 << 20 };

#define CALL(name, type, ...) ((cuda_result(*) type)driver_symbol(#name))(__VA_ARGS__)

static char faults[64], counts_path[64];
static struct standin_counts *counts;
static char detail[GPU_DETAIL_SIZE];

static inline void *driver_symbol(const char *name)
{
        static void *library;
        void *symbol;

        if (!library)
                library = dlopen("libcuda.so.1", RTLD_NOW);
        assert_non_null(library);
        symbol = dlsym(library, name);
        assert_non_null(symbol);
        return symbol;
}

/* What goes wrong from now on. */
static inline void set_faults(const char *words)
{
        FILE *file = fopen(faults, "we");

        assert_non_null(file);
        assert_true(fputs(words, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

/* What the program does: its own context, and memory in it. */
static inline void *program_allocate(int device, size_t size)
{
        cuda_context context;
        cuda_pointer pointer;

        assert_int_equal(CALL(cuInit, (unsigned), 0), CUDA_SUCCESS);
        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, device), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemAlloc_v2, (cuda_pointer *, size_t), &pointer, size), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
        return (void *)(uintptr_t)pointer;
}

static inline void program_free(int device, void *address)
{
        cuda_context context;

        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, device), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemFree_v2, (cuda_pointer), (uintptr_t)address), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
}

/* Between GPU memory and the host's. 0 or -errno. */
static inline int store(const struct space *space, void *to, const void *from, size_t size)
{
        int r = space_copy(space, to, NULL, from, size), finished = space_finish(space, NULL);

        return r < 0 ? r : finished;
}

static inline int load(const struct space *space, void *to, const void *from, size_t size)
{
        int r = space_copy(NULL, to, space, from, size), finished = space_finish(NULL, space);

        return r < 0 ? r : finished;
}

/* GPU_SIZE bytes of a GPU. */
static inline void allocate(const char *device, const struct space **space, void **address)
{
        assert_int_equal(gpu_allocate(device, GPU_SIZE, space, address, detail), 0);
}

/* Before the first test of a file, and after its last. */
static inline int gpu_setup(void **state)
{
        (void)snprintf(faults, sizeof(faults), "/tmp/ferry-unit-gpu-%d", (int)getpid());
        (void)snprintf(counts_path, sizeof(counts_path), "/tmp/ferry-unit-gpu-counts-%d", (int)getpid());
        counts = standin_counts_new(counts_path);
        return counts && setenv("CUDA_STANDIN_FAULTS", faults, 1) == 0 ? 0 : -1;
}

static inline int gpu_teardown(void **state)
{
        (void)unlink(faults);
        (void)unlink(counts_path);
        return 0;
}

#endif
