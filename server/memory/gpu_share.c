/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "gpu_internal.h"

/*
 * GPU memory shared between processes of this host by CUDA's IPC handles. A process can open a handle once in each of
 * its contexts, and cannot open a handle of its own. So imports holds the open handles, each with the number of its
 * users, and exports the memory that this process has shared. A handle names a whole allocation.
 */

_Static_assert(sizeof(((struct gpu_share *)0)->handle) == sizeof(struct cuda_ipc_handle), "a handle fits");
_Static_assert(sizeof(((struct gpu_share *)0)->device) == sizeof(struct cuda_uuid), "a UUID fits");

struct gpu_import {
        const struct gpu_device *device;
        struct cuda_ipc_handle handle;
        cuda_pointer pointer; /* to the first byte of the allocation */
        uint64_t size;        /* from there on; UINT64_MAX = not known */
        unsigned users;
        struct gpu_import *prev, *next;
};

struct gpu_export {
        const struct gpu_memory *memory;
        struct gpu_share share;
        struct gpu_export *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* guards exports; never held over driver calls */
static pthread_mutex_t opens_lock = PTHREAD_MUTEX_INITIALIZER; /* guards gpu_memory.opens; nor this one */
static pthread_cond_t closed;                                  /* the last open has gone; lock_opens makes it */
static struct gpu_export *exports;
static struct {
        pthread_mutex_t lock; /* guards list; held over driver calls, which may wait for the device */
        struct gpu_import *list;
} imports[GPU_MAX] = { [0 ... GPU_MAX - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

/* ---- exports ---- */

/* The handle stays in exports until the memory is freed, by which gpu_open() knows its own process's memory. */
int gpu_share(const struct space *space, struct gpu_share *ret_share)
{
        const struct gpu_memory *memory = gpu_memory_of(space);
        struct gpu_export *export = calloc(1, sizeof(*export));
        struct cuda_ipc_handle handle;
        cuda_pointer base;
        size_t size;
        int r = !export ? -ENOMEM : space->only_copied ? -ENOTSUP : gpu_check(memory);

        if (r == 0 && !gpu_enter(memory->device))
                r = -ENODEV;
        if (r < 0) {
                free(export);
                return r;
        }
        /* Memory of a pool and mapped memory have no IPC handles. Of the rest, only the base has one. */
        if (gpu_driver()->mem_range(&base, &size, memory->address) != CUDA_SUCCESS ||
            gpu_driver()->ipc_get(&handle, base) != CUDA_SUCCESS)
                r = -ENOTSUP;
        gpu_leave();
        if (r < 0) {
                free(export);
                return r;
        }
        export->memory = memory;
        memcpy(export->share.device, memory->device->uuid.bytes, sizeof(export->share.device));
        memcpy(export->share.handle, handle.bytes, sizeof(export->share.handle));
        export->share.offset = memory->address - base;
        *ret_share = export->share;
        (void)pthread_mutex_lock(&lock);
        DL_APPEND(exports, export);
        (void)pthread_mutex_unlock(&lock);
        return 0;
}

static void make_closed(void)
{
        condition_init(&closed);
}

/* Takes opens_lock. The condition is made at the first call, since it uses the monotonic clock. */
static void lock_opens(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, make_closed);
        (void)pthread_mutex_lock(&opens_lock);
}

void gpu_note_opened(const struct space *space)
{
        lock_opens();
        gpu_memory_of(space)->opens++;
        (void)pthread_mutex_unlock(&opens_lock);
}

void gpu_note_closed(const struct space *space)
{
        struct gpu_memory *memory = gpu_memory_of(space);

        lock_opens();
        if (--memory->opens == 0) {
                (void)pthread_cond_broadcast(&closed);
                if (memory->is_freed)
                        free(memory);
        }
        (void)pthread_mutex_unlock(&opens_lock);
}

void gpu_forget(struct gpu_memory *memory)
{
        lock_opens();
        memory->is_freed = true;
        if (memory->opens == 0)
                free(memory);
        (void)pthread_mutex_unlock(&opens_lock);
}

bool gpu_await_closed(const struct space *space, unsigned ms)
{
        const uint64_t deadline_us = clock_now_us() + ms * UINT64_C(1000);
        bool is_closed;

        lock_opens();
        while (gpu_memory_of(space)->opens > 0 && condition_wait(&closed, &opens_lock, deadline_us))
                ;
        is_closed = gpu_memory_of(space)->opens == 0;
        (void)pthread_mutex_unlock(&opens_lock);
        return is_closed;
}

/* ---- imports ---- */

int gpu_find(const struct gpu_share *share, unsigned *ret_gpu)
{
        const char *reason;
        unsigned count = gpu_count(&reason);

        for (unsigned n = 0; n < count; n++) {
                struct cuda_uuid own;
                cuda_device device;

                if (gpu_driver()->device_get(&device, (int)n) == CUDA_SUCCESS &&
                    gpu_driver()->device_get_uuid(&own, device) == CUDA_SUCCESS &&
                    memcmp(own.bytes, share->device, sizeof(own.bytes)) == 0) {
                        *ret_gpu = n;
                        return 0;
                }
        }
        return -ENODEV;
}

/* With the lock. The memory if this process has shared it; NULL = another process has. */
static const struct gpu_memory *find_export(const struct gpu_share *share)
{
        struct gpu_export *export;

        DL_FOREACH (exports, export)
                if (memcmp(&export->share, share, sizeof(*share)) == 0)
                        return export->memory;
        return NULL;
}

/*
 * With the import lock; the context is current. The driver opens the whole block that the allocation is a part of, so
 * that what it tells of the range may begin before the allocation. It promises to tell of its own process's memory
 * only.
 */
static cuda_result import_open(struct gpu_import *import)
{
        const struct cuda_driver *cuda = gpu_driver();
        cuda_result result = cuda->ipc_open(&import->pointer, import->handle, CUDA_IPC_LAZY_PEER_ACCESS);
        cuda_pointer base;
        size_t size;

        if (result != CUDA_SUCCESS)
                return result;
        import->size = cuda->mem_range(&base, &size, import->pointer) == CUDA_SUCCESS ? base + size - import->pointer
                                                                                      : UINT64_MAX;
        return CUDA_SUCCESS;
}

/* With the import lock. Opens the handle, or adds a user to an open one. NULL with *ret_error = -errno. */
static struct gpu_import *import_get(const struct gpu_device *device, const struct gpu_share *share, int *ret_error)
{
        struct gpu_import *import;
        cuda_result result;

        DL_FOREACH (imports[device->number].list, import)
                if (memcmp(import->handle.bytes, share->handle, sizeof(share->handle)) == 0) {
                        import->users++;
                        return import;
                }
        *ret_error = -ENOMEM;
        import = calloc(1, sizeof(*import));
        if (!import)
                return NULL;
        import->device = device;
        import->users = 1;
        memcpy(import->handle.bytes, share->handle, sizeof(share->handle));
        *ret_error = -ENODEV;
        result = CUDA_ERROR_UNKNOWN;
        if (gpu_enter(device)) {
                result = import_open(import);
                gpu_leave();
                *ret_error = -ENOTSUP;
        }
        if (result != CUDA_SUCCESS) {
                free(import);
                return NULL;
        }
        DL_APPEND(imports[device->number].list, import);
        return import;
}

/* With the import lock. Closes the handle after its last user. */
static void import_put(struct gpu_import *import)
{
        if (--import->users > 0)
                return;
        DL_DELETE(imports[import->device->number].list, import);
        if (gpu_enter(import->device)) {
                (void)gpu_driver()->ipc_close(import->pointer);
                gpu_leave();
        }
        free(import);
}

/* Opens memory of another process. Errors as of gpu_open. */
static int open_foreign(struct gpu_memory *memory, const struct gpu_share *share)
{
        struct gpu_import *import;
        uint64_t end;
        int r = 0;

        (void)pthread_mutex_lock(&imports[memory->device->number].lock);
        import = import_get(memory->device, share, &r);
        if (import && (__builtin_add_overflow(share->offset, memory->size, &end) || end > import->size)) {
                import_put(import);
                import = NULL;
                r = -EBADMSG;
        }
        (void)pthread_mutex_unlock(&imports[memory->device->number].lock);
        if (!import)
                return r;
        memory->kind = GPU_OPENED;
        memory->import = import;
        memory->address = import->pointer + share->offset;
        return 0;
}

/* With the lock. Opens memory that this process has shared itself. Adopted memory stays adopted: the program may free
 * it any time. */
static int open_own(struct gpu_memory *memory, const struct gpu_memory *own)
{
        if (memory->size > own->size)
                return -EBADMSG;
        memory->kind = own->kind == GPU_ALLOCATED ? GPU_OPENED : own->kind;
        memory->address = own->address;
        memory->buffer_id = own->buffer_id;
        memory->space.foreign = own->space.foreign;
        return 0;
}

int gpu_open(const struct gpu_share *share, uint64_t size, const struct space **ret_space, const void **ret_address)
{
        const struct gpu_memory *own;
        const struct gpu_device *device;
        char detail[GPU_DETAIL_SIZE];
        struct gpu_memory *memory;
        unsigned gpu;
        int r = gpu_find(share, &gpu);

        if (r < 0 || gpu_device_use(gpu, &device, detail) != 0)
                return -ENODEV;
        memory = gpu_memory_new(device, size);
        if (!memory)
                return -ENOMEM;
        (void)pthread_mutex_lock(&lock);
        own = find_export(share);
        r = own ? open_own(memory, own) : 0;
        (void)pthread_mutex_unlock(&lock);
        if (!own)
                r = open_foreign(memory, share);
        if (r < 0) {
                free(memory);
                return r;
        }
        *ret_space = &memory->space;
        *ret_address = (const void *)(uintptr_t)memory->address;
        return 0;
}

void gpu_unshare(struct gpu_memory *memory)
{
        struct gpu_export *export, *next;

        (void)pthread_mutex_lock(&lock);
        DL_FOREACH_SAFE (exports, export, next) {
                if (export->memory != memory)
                        continue;
                DL_DELETE(exports, export);
                free(export);
        }
        (void)pthread_mutex_unlock(&lock);
        if (!memory->import)
                return;
        (void)pthread_mutex_lock(&imports[memory->device->number].lock);
        import_put(FERRY_STEAL(memory->import));
        (void)pthread_mutex_unlock(&imports[memory->device->number].lock);
}
