/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_FIXTURE_H
#define GPU_FIXTURE_H

#include <stddef.h>

#include "counts.h"
#include "cuda_internal.h"
#include "memory/gpu.h"

/*
 * GPU memory on tests/cuda, which LD_LIBRARY_PATH names. What a program around the worker calls by itself goes to the
 * driver directly. Every function asserts.
 */

enum { GPU_SIZE = 3 << 20 };

extern struct standin_counts *counts; /* the driver's */
extern char detail[GPU_DETAIL_SIZE];

#define CALL(name, type, ...) ((cuda_result(*) type)driver_symbol(#name))(__VA_ARGS__)
void *driver_symbol(const char *name);

/* What goes wrong from now on. */
void set_faults(const char *words);

/* What the program does: its own context, and memory in it. */
void *program_allocate(int device, size_t size);
void program_free(int device, void *address);

/* Between GPU memory and the host's. 0 or -errno. */
int store(const struct space *space, void *to, const void *from, size_t size);
int load(const struct space *space, void *to, const void *from, size_t size);

/* GPU_SIZE bytes of a GPU. */
void allocate(const char *device, const struct space **space, void **address);

/* Before the first test of a file, and after its last. */
int gpu_setup(void **state);
int gpu_teardown(void **state);

#endif
