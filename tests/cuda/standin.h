/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STANDIN_H
#define TESTS_STANDIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counts.h"
#include "cuda_internal.h"

/*
 * A library that stands in for libcuda.so.1: GPUs whose memory is a memfd. What a program gets as a device's address is
 * mapped without any access, so that host code that touches it crashes; only the copies here reach the bytes, by
 * another mapping.
 *
 * It is as strict as the driver's documentation allows. A queued copy is done when its stream or event is waited for,
 * no sooner, so that whoever forgets that, or reuses a buffer before, finds wrong bytes. Calls need a current context.
 * Freed memory is overwritten. A device that the program resets and uses again has the same context as before, while
 * older streams and events abort the process: the driver's documentation leaves open what they do.
 *
 *   CUDA_STANDIN_DEVICES  how many GPUs there are; default 2
 *   CUDA_STANDIN_FIRST    which of the machine's is cuda:0: workers with different ones do not see the same GPU
 *   CUDA_STANDIN_COUNTS   a file of a struct standin_counts (counts.h), of all processes that name it
 *   CUDA_STANDIN_FAULTS   a file that may change at any time; words in it:
 *                         init, alloc, share, open, pin: such calls fail
 *                         capture: some thread of the program captures a graph in the global mode, and each call is
 *                         one of those that the driver's documentation calls potentially unsafe
 *                         range: nothing is told of the range of opened memory
 *                         gone, reset: the GPUs have fallen off the bus, or were reset
 *                         stuck, stuckN: no copy of any device, or of device N, ends before the word is gone, nor does
 *                         a call that shares memory
 *                         hung, hungN: the same, nor does a call that starts a device, opens shared memory, or pins
 *                         or unpins memory of the host
 *                         lingers: a call that closes another process's memory takes LINGER_US
 *                         slow: a copy takes SLOW_US on the device, whatever its size; copies of one stream follow
 *                         each other, those of several run at once
 *
 * device.c has the settings, the devices and the contexts, memory.c what is allocated, mapped.c what is mapped, ipc.c
 * other processes, host.c host memory, stream.c the copies and their time, ucx.c what UCX's CUDA module needs besides.
 */

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES_MAX = 8, TOTAL_BYTES = 1 << 30, NOT_INITIALIZED = 3, MAP_FAILED_RESULT = 205, NOT_FOUND = 500 };

struct context {
        int device;
        unsigned users;
        unsigned n_resets;
        bool destroyed; /* reset, and not retained since */
};

/* At the end of the memory's file, for all processes that have it. */
struct trailer {
        atomic_uint opens; /* by other processes */
};

struct allocation {
        uint8_t *address; /* without access */
        uint8_t *bytes;
        struct trailer *trailer;
        struct context *context; /* that it was allocated in; NULL = it is mapped */
        size_t size;
        int device, fd;
        uint64_t id;
        bool foreign; /* opened from another process */
        bool managed, mapped;
        struct cuda_ipc_handle handle;
        struct allocation *prev, *next;
};

/* ---- device.c ---- */

extern pthread_mutex_t standin_lock; /* guards contexts, allocations and host ranges */

int setting(const char *name, int fallback);
/* Whether the word is in the file of faults. */
bool fault(const char *word);
/* Whether the device stands still. */
bool is_stuck(int device);
/* Until it does not. */
void await_moving(int device);
/* Until it is not hung. */
void await_answering(int device);
cuda_result health(void);
cuda_result current(struct context **ret_context);
struct standin_counts *counts(void);
bool context_is_active(int device);

/* ---- memory.c; with the lock ---- */

/* What has all of [address, address + size); NULL = nothing. */
struct allocation *find(const void *address, size_t size);
/* A file of so many bytes and a trailer, or -1. */
int allocation_file(size_t size);
/* Take over fd, of such a file. NULL when memory is short. */
struct allocation *allocation_at(uint8_t *address, uint8_t *bytes, int device, size_t size, int fd);
struct allocation *allocation_new(int device, size_t size, int fd);
void allocation_close(struct allocation *a); /* a foreign one */
void allocation_free(struct allocation *a);  /* an own one; overwrites its bytes */
extern struct allocation *allocations;       /* utlist */

/* ---- host.c; with the lock ---- */

enum host_kind { HOST_WRONG, HOST_PAGEABLE, HOST_PINNED };

/* Unpins what a device has pinned. */
void unpin_all(int device);
/* Host memory is pinned whole, or not at all; a device's is wrong. */
enum host_kind host_kind(const uint8_t *address, size_t size);

/* ---- stream.c ---- */

/* Whether the device has had the time for what the event stands for; the driver's own thread may not wait. */
bool event_is_over(cuda_event event);

/* ---- entry points that others call ---- */

cuda_result cuMemAlloc_v2(cuda_pointer *ret_pointer, size_t size);
cuda_result cuGetErrorName(cuda_result result, const char **ret_name);
cuda_result cuDeviceGetUuid_v2(struct cuda_uuid *ret_uuid, cuda_device device);
cuda_result cuStreamCreate(cuda_stream *ret_stream, unsigned flags);
cuda_result cuStreamDestroy_v2(cuda_stream stream);
cuda_result cuEventSynchronize(cuda_event event);
cuda_result cuMemcpyHtoDAsync_v2(cuda_pointer to, const void *from, size_t size, cuda_stream stream);
cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_pointer from, size_t size, cuda_stream stream);
cuda_result cuMemcpyDtoDAsync_v2(cuda_pointer to, cuda_pointer from, size_t size, cuda_stream stream);

#endif
