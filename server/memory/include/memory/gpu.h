/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_GPU_H
#define MEMORY_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/space.h"

/*
 * GPU memory, by the CUDA driver library, which is opened when it is first asked for. "cuda:N" is CUDA's device N, of
 * those that CUDA_VISIBLE_DEVICES leaves.
 *
 * Contexts: the device's primary one, which programs that use the CUDA runtime (PyTorch, JAX, …) have as well. It is
 * retained with the first memory on the device and kept until the process ends. Every function makes it current and
 * restores the caller's context before it returns.
 *
 * Streams: each thread that copies has one for each device, non-blocking, so that neither the program's work on the
 * legacy default stream nor ours waits for the other. A thread that waits for a long copy sleeps on an event. So the
 * program has to synchronise its own work on the memory before it offers it, and finds the bytes of an operation that
 * has ended without synchronising with Ferry.
 *
 * All functions: any thread; each may block as long as the driver does, where it does not say otherwise.
 */

enum { GPU_MAX = 64, GPU_NAME_SIZE = 16, GPU_MODEL_SIZE = 64, GPU_DETAIL_SIZE = 200, GPU_UUID_SIZE = 16 };

struct gpu_view {
        char name[GPU_NAME_SIZE]; /* "cuda:0" */
        char model[GPU_MODEL_SIZE];
        uint64_t total_bytes; /* 0 = not known */
        bool gpu_direct;      /* its driver lets RDMA cards reach its memory */
};

/* How many there are, at most GPU_MAX; 0 with *ret_reason, a sentence for users, where CUDA has none. */
unsigned gpu_count(const char **ret_reason);

/* false: there is none of that number, or the driver cannot tell. */
bool gpu_look(unsigned n, struct gpu_view *ret_view);

/* Whether the text names a GPU, be it here or not: "cuda:0". */
bool gpu_parse(const char *device, unsigned *ret_n);

/* ---- memory ---- */

/*
 * Allocates zeros on "cuda:N". 0 with *ret_space, which names the memory to space_copy, and *ret_address, which host
 * code must not touch; FERRY_E_UNKNOWN_DEVICE (there is none, it does not start, or is gone); FERRY_E_NO_SPACE (its
 * memory is used up); -EIO; -ENOMEM. On a failure detail is a sentence for users, or "".
 */
int gpu_allocate(const char *device, size_t size, const struct space **ret_space, void **ret_address,
                 char detail[GPU_DETAIL_SIZE]);

/*
 * Memory that the program has allocated on "cuda:N" and keeps until gpu_free. Once it frees the memory, or resets the
 * device, copies answer -EFAULT or -ENODEV, also when something else has the address by then. Errors as of
 * gpu_allocate; FERRY_E_INVALID_PARAMETER: not memory of that device, or not so much of it.
 */
int gpu_adopt(const char *device, void *address, size_t size, const struct space **ret_space,
              char detail[GPU_DETAIL_SIZE]);

/* Frees what gpu_allocate made, forgets what gpu_adopt took. Takes NULL. Nothing may copy there any more. */
void gpu_free(const struct space *space);

/* ---- other processes of this host ---- */

/* Names memory to another process that sees the same device. Plain bytes. */
struct gpu_share {
        uint8_t device[GPU_UUID_SIZE];
        uint8_t handle[64];
        uint64_t offset; /* from the start of what the handle names */
};

/* The memory from its first byte on. 0 or -errno; -ENOTSUP where the driver has no handles for such memory. May block.
 */
int gpu_share(const struct space *space, struct gpu_share *ret_share);

/*
 * Another process may open what was shared, or has closed it. CUDA leaves undefined what becomes of memory that is
 * freed before that, so whoever frees it waits: false = it is still open after so many milliseconds. The first two
 * never wait for the driver.
 */
void gpu_note_opened(const struct space *space);
void gpu_note_closed(const struct space *space);
bool gpu_await_closed(const struct space *space, unsigned ms);

/*
 * Opens size bytes that another process has shared; they are only read here. 0; -ENODEV: this process does not see that
 * device; -ENOTSUP: the driver refuses (another user's, or another namespace); -EBADMSG: the memory is not that large.
 * May take long where the device was not used before.
 */
int gpu_open(const struct gpu_share *share, uint64_t size, const struct space **ret_space, const void **ret_address);

/* Takes NULL. */
void gpu_close(const struct space *space);

/* ---- host memory ---- */

/*
 * Host memory of the driver's: copies between it and any GPU go at the speed of the bus, and beside each other. NULL
 * where no GPU is in use, or the driver refuses; any other memory serves as well, slower.
 */
void *gpu_host_new(size_t size);
void gpu_host_free(void *address); /* takes NULL */

/* One range of host memory, such as a mapping, and whether it is pinned. Its owner sets the first part; the rest is 0.
 */
struct gpu_pin {
        const void *address;
        size_t size;
        bool read_only; /* it is mapped so */
        atomic_int state;
        _Atomic uint64_t copied; /* bytes, while it was not pinned */
};

/*
 * So many bytes of the range are about to be copied to or from a GPU. Pins the whole range where it pays, which takes
 * as long as several such copies; gpu_host.c says when.
 */
void gpu_pin_use(struct gpu_pin *pin, uint64_t bytes);
bool gpu_is_pinned(const struct gpu_pin *pin);
/* The pin is another struct's from now on. Nobody may use it meanwhile. */
void gpu_pin_move(struct gpu_pin *to, struct gpu_pin *from);
/* Before the range is unmapped or given back to its owner; nothing copies there any more. */
void gpu_pin_end(struct gpu_pin *pin);

#endif
