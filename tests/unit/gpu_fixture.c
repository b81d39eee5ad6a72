/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "unit.h"

static char faults[64], counts_path[64];
struct standin_counts *counts;
char detail[GPU_DETAIL_SIZE];

void *driver_symbol(const char *name)
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

void set_faults(const char *words)
{
        FILE *file = fopen(faults, "we");

        assert_non_null(file);
        assert_true(fputs(words, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

void *program_allocate(int device, size_t size)
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

void program_free(int device, void *address)
{
        cuda_context context;

        assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device), &context, device), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPushCurrent_v2, (cuda_context), context), CUDA_SUCCESS);
        assert_int_equal(CALL(cuMemFree_v2, (cuda_pointer), (uintptr_t)address), CUDA_SUCCESS);
        assert_int_equal(CALL(cuCtxPopCurrent_v2, (cuda_context *), &context), CUDA_SUCCESS);
}

int store(const struct space *space, void *to, const void *from, size_t size)
{
        int r = space_copy(space, to, NULL, from, size), finished = space_finish(space, NULL);

        return r < 0 ? r : finished;
}

int load(const struct space *space, void *to, const void *from, size_t size)
{
        int r = space_copy(NULL, to, space, from, size), finished = space_finish(NULL, space);

        return r < 0 ? r : finished;
}

void allocate(const char *device, const struct space **space, void **address)
{
        assert_int_equal(gpu_allocate(device, GPU_SIZE, space, address, detail), 0);
}

int gpu_setup(void **state)
{
        (void)snprintf(faults, sizeof(faults), "/tmp/ferry-unit-gpu-%d", (int)getpid());
        (void)snprintf(counts_path, sizeof(counts_path), "/tmp/ferry-unit-gpu-counts-%d", (int)getpid());
        counts = standin_counts_new(counts_path);
        return counts && setenv("CUDA_STANDIN_FAULTS", faults, 1) == 0 ? 0 : -1;
}

int gpu_teardown(void **state)
{
        (void)unlink(faults);
        (void)unlink(counts_path);
        return 0;
}
