/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_GPU_H
#define MEMORY_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/space.h"

/*
 * GPU memory, through the CUDA driver library, which is opened at first use. "cuda:N" is CUDA's device N among those
 * that CUDA_VISIBLE_DEVICES leaves visible.
 *
 * Contexts: the device's primary one, which programs that use the CUDA runtime (PyTorch, JAX, …) have as well. It is
 * retained with the first memory on the device and kept until the process ends. Every function makes it current and
 * restores the caller's context before it returns; meanwhile the program may capture CUDA graphs. A device that the
 * program resets stays gone, also if the program uses it again.
 *
 * Streams: each copying thread has one non-blocking stream a device, so that our work and the program's work on the
 * legacy default stream never wait for each other. So the program must synchronise its own work on the memory before it
 * offers the memory. Once an operation has ended, its bytes are in place. A thread that waits for a long copy sleeps.
 *
 * Any thread may call any function. Unless it says otherwise, a function may block as long as the driver does.
 */

enum { GPU_MAX = 64, GPU_NAME_SIZE = 16, GPU_DETAIL_SIZE = 200, GPU_UUID_SIZE = 16 };

struct device_memory;

/* The number of GPUs, at most GPU_MAX; 0 with *ret_reason, a sentence for users. */
unsigned gpu_count(const char **ret_reason);

/*
 * Describes GPU n. *ret_direct: the driver lets RDMA cards reach its memory. false: no such GPU, or the driver cannot
 * tell.
 */
bool gpu_describe(unsigned n, struct device_memory *ret_memory, bool *ret_direct);

/* Whether the text has the form "cuda:N"; this host may lack the GPU. */
bool gpu_parse(const char *device, unsigned *ret_n);

/* ---- memory ---- */

/*
 * Allocates zeros on "cuda:N". 0 with *ret_space, which names the memory to space_copy, and *ret_address, which host
 * code must not touch; FERRY_E_UNKNOWN_DEVICE (no such device, it does not start, or is gone); FERRY_E_NO_SPACE (its
 * memory is used up); -EIO; -ENOMEM. On a failure detail is a sentence for users, or "".
 */
int gpu_allocate(const char *device, size_t size, const struct space **ret_space, void **ret_address,
                 char detail[GPU_DETAIL_SIZE]);

/*
 * Takes memory that the program has on "cuda:N", in one allocation or in several side by side, and should keep until
 * gpu_free. Once the program frees it (of several allocations, the first) or resets the device, copies fail with
 * -EFAULT or -ENODEV, even if a new allocation has the same address. Errors as of gpu_allocate;
 * FERRY_E_INVALID_PARAMETER: not all of it is memory of that device.
 */
int gpu_adopt(const char *device, void *address, size_t size, const struct space **ret_space,
              char detail[GPU_DETAIL_SIZE]);

/* Frees memory of gpu_allocate, lets go of memory of gpu_adopt, closes memory of gpu_open. Takes NULL. No copy may be
 * using it. */
void gpu_free(const struct space *space);

/* ---- other processes of this host ---- */

/* Names memory to another process that sees the same device. Plain bytes. */
struct gpu_share {
        uint8_t device[GPU_UUID_SIZE];
        uint8_t handle[64];
        uint64_t offset; /* bytes from the start of the allocation that the handle names */
};

/* Names the memory to other processes. 0 or -errno; -ENOTSUP: the driver has no handles for such memory. May block. */
int gpu_share(const struct space *space, struct gpu_share *ret_share);

/*
 * Count the processes that may have shared memory open. CUDA leaves it undefined to free memory that another process
 * has open, so gpu_await_closed comes before gpu_free; false: still open after ms milliseconds. The space stays until
 * the last process has closed it, also after gpu_free, so that a peer which stood still may be noted later.
 * gpu_note_opened and gpu_note_closed never wait for the driver.
 */
void gpu_note_opened(const struct space *space);
void gpu_note_closed(const struct space *space);
bool gpu_await_closed(const struct space *space, unsigned ms);

/* The number here of the GPU that has shared memory; does not wait for the GPU. 0; -ENODEV: this process does not see
 * it. */
int gpu_find(const struct gpu_share *share, unsigned *ret_gpu);

/*
 * Opens size bytes that another process has shared, to read them. 0; -ENODEV: this process does not see that device;
 * -ENOTSUP: the driver refuses (another user, or another namespace); -EBADMSG: the memory is shorter; -ENOMEM. Starts
 * the device if it is not in use yet, which may take long.
 */
int gpu_open(const struct gpu_share *share, uint64_t size, const struct space **ret_space, const void **ret_address);

/* ---- host memory ---- */

/*
 * Allocates host memory, pinned if the GPU is in use and its driver agrees: copies between it and any GPU run at the
 * speed of the bus, and concurrently. NULL: memory is short.
 */
void *gpu_host_new(unsigned gpu, size_t size);   /* gpu: the number of the one that it is made for first */
void gpu_host_free(unsigned gpu, void *address); /* takes NULL */

/* A range of host memory and whether it is pinned. Its owner sets address, size and read_only; the rest starts at 0. */
struct gpu_pin {
        const void *address;
        size_t size;
        bool read_only; /* mapped read-only */
        atomic_int state;
        unsigned gpu;            /* the one that has pinned it */
        _Atomic uint64_t copied; /* bytes, until it is pinned */
};

/*
 * To be called before bytes of the range are copied to or from a GPU, which is the one to wait for. Pins the whole
 * range if that pays (gpu_copy.c says when), which takes as long as several copies of the range.
 */
void gpu_pin_use(struct gpu_pin *pin, unsigned gpu, uint64_t bytes);
bool gpu_is_pinned(const struct gpu_pin *pin);
/* Hands the pin over to another struct. No other call may use either meanwhile. */
void gpu_pin_move(struct gpu_pin *to, struct gpu_pin *from);
/* Unpins. To be called before the range is unmapped or given back to its owner, with no copy using it. */
void gpu_pin_end(struct gpu_pin *pin);

#endif
