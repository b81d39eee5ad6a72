/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/log.h"
#include "base/util.h"
#include "gpu_internal.h"

/* ---- devices ---- */

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_device devices[GPU_MAX]; /* each is fixed once its context is there; the lock */

bool gpu_parse(const char *device, unsigned *ret_n)
{
        static const char prefix[] = "cuda:";
        const char *digits = device + strlen(prefix);
        unsigned n = 0;

        if (strncmp(device, prefix, strlen(prefix)) != 0 || !*digits || (digits[0] == '0' && digits[1]))
                return false;
        for (; *digits; digits++) {
                if (*digits < '0' || *digits > '9' || n >= 1000)
                        return false;
                n = n * 10 + (unsigned)(*digits - '0');
        }
        *ret_n = n;
        return true;
}

unsigned gpu_count(const char **ret_reason)
{
        const struct cuda_driver *cuda = cuda_open(ret_reason);
        int count = 0;

        if (!cuda)
                return 0;
        if (cuda->device_get_count(&count) != CUDA_SUCCESS || count <= 0) {
                *ret_reason = "The CUDA driver finds no GPU that this process may use";
                return 0;
        }
        return count < GPU_MAX ? (unsigned)count : GPU_MAX;
}

bool gpu_look(unsigned n, struct gpu_view *ret_view)
{
        const char *reason;
        const struct cuda_driver *cuda = n < gpu_count(&reason) ? cuda_open(&reason) : NULL;
        struct gpu_view view = { 0 };
        cuda_device device;
        size_t bytes;
        int direct;

        if (!cuda || cuda->device_get(&device, (int)n) != CUDA_SUCCESS)
                return false;
        (void)snprintf(view.name, sizeof(view.name), "cuda:%u", n);
        if (cuda->device_get_name(view.model, sizeof(view.model), device) != CUDA_SUCCESS)
                view.model[0] = '\0';
        view.model[sizeof(view.model) - 1] = '\0';
        if (cuda->device_total_mem(&bytes, device) == CUDA_SUCCESS)
                view.total_bytes = bytes;
        view.gpu_direct =
                cuda->device_get_attribute(&direct, CUDA_DEVICE_GPU_DIRECT_RDMA, device) == CUDA_SUCCESS && direct;
        *ret_view = view;
        return true;
}

const struct cuda_driver *gpu_driver(void)
{
        const char *reason;

        return cuda_open(&reason);
}

/* With the lock. 0 or a result of the driver. */
static cuda_result device_start(struct gpu_device *device, unsigned n)
{
        const struct cuda_driver *cuda = gpu_driver();
        cuda_context context;
        cuda_result result = cuda->device_get(&device->device, (int)n);

        if (result == CUDA_SUCCESS)
                result = cuda->device_get_uuid(&device->uuid, device->device);
        if (result == CUDA_SUCCESS)
                result = cuda->primary_retain(&context, device->device);
        if (result != CUDA_SUCCESS)
                return result;
        device->number = n;
        device->context = context;
        return CUDA_SUCCESS;
}

int gpu_device_use(unsigned n, const struct gpu_device **ret_device, char detail[GPU_DETAIL_SIZE])
{
        const char *reason;
        cuda_result result = CUDA_SUCCESS;

        if (n >= gpu_count(&reason))
                return FERRY_E_UNKNOWN_DEVICE;
        (void)pthread_mutex_lock(&devices_lock);
        if (!devices[n].context)
                result = device_start(&devices[n], n);
        (void)pthread_mutex_unlock(&devices_lock);
        if (result != CUDA_SUCCESS) {
                (void)snprintf(detail, GPU_DETAIL_SIZE, "cuda:%u does not start: %s", n,
                               cuda_error_name(gpu_driver(), result));
                return FERRY_E_UNKNOWN_DEVICE;
        }
        *ret_device = &devices[n];
        return 0;
}

const struct gpu_device *gpu_device_any(void)
{
        const struct gpu_device *device = NULL;

        (void)pthread_mutex_lock(&devices_lock);
        for (unsigned n = 0; n < GPU_MAX && !device; n++)
                if (devices[n].context)
                        device = &devices[n];
        (void)pthread_mutex_unlock(&devices_lock);
        return device;
}

bool gpu_enter(const struct gpu_device *device)
{
        return gpu_driver()->ctx_push(device->context) == CUDA_SUCCESS;
}

void gpu_leave(void)
{
        cuda_context context;

        (void)gpu_driver()->ctx_pop(&context);
}

/* ---- failures ---- */

/* What ends the context ends the memory on it. */
static int classify(cuda_result result)
{
        switch (result) {
        case CUDA_ERROR_OUT_OF_MEMORY:
                return -ENOMEM;
        case CUDA_ERROR_DEINITIALIZED:
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
        case CUDA_ERROR_NO_DEVICE:
        case CUDA_ERROR_INVALID_DEVICE:
        case CUDA_ERROR_INVALID_CONTEXT:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_SYSTEM_NOT_READY:
        case CUDA_ERROR_UNKNOWN:
                return -ENODEV;
        default:
                /* From 700 to 799 a kernel, ours or the program's, has broken the context for good. */
                return result >= CUDA_ERROR_ILLEGAL_ADDRESS && result < 800 &&
                                       result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                               ? -ENODEV
                               : -EIO;
        }
}

int gpu_fail(const struct gpu_device *device, const char *action, cuda_result result)
{
        char name[GPU_NAME_SIZE];

        (void)snprintf(name, sizeof(name), "cuda:%u", device->number);
        log_event(LOG_WARN, "the CUDA driver has failed", LOG_S("device", name), LOG_S("action", action),
                  LOG_S("reason", cuda_error_name(gpu_driver(), result)));
        return classify(result);
}

int gpu_check(const struct gpu_memory *memory)
{
        uint64_t id = 0;
        cuda_result result;

        if (memory->kind != GPU_ADOPTED)
                return 0;
        result = gpu_driver()->pointer_get_attribute(&id, CUDA_POINTER_BUFFER_ID, memory->address);
        if (result == CUDA_SUCCESS)
                return id == memory->buffer_id ? 0 : -EFAULT;
        return result == CUDA_ERROR_INVALID_VALUE ? -EFAULT : gpu_fail(memory->device, "check", result);
}

/* ---- streams: one for each thread and device ---- */

struct gpu_thread {
        cuda_stream streams[GPU_MAX]; /* NULL = none yet */
        bool busy[GPU_MAX];           /* copies are queued */
        const struct gpu_memory *checked[2];
};

static pthread_key_t thread_key;

/* At the end of the thread. The driver may be gone already, and says so. */
static void thread_free(void *context)
{
        struct gpu_thread *thread = context;

        for (unsigned n = 0; n < GPU_MAX; n++) {
                if (!thread->streams[n] || !gpu_enter(&devices[n]))
                        continue;
                (void)gpu_driver()->stream_destroy(thread->streams[n]);
                gpu_leave();
        }
        free(thread);
}

static void make_key(void)
{
        (void)pthread_key_create(&thread_key, thread_free);
}

/* NULL when memory is short. */
static struct gpu_thread *thread_of_caller(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct gpu_thread *thread;

        (void)pthread_once(&once, make_key);
        thread = pthread_getspecific(thread_key);
        if (thread)
                return thread;
        thread = calloc(1, sizeof(*thread));
        if (thread && pthread_setspecific(thread_key, thread) != 0) {
                free(thread);
                return NULL;
        }
        return thread;
}

int gpu_stream(const struct gpu_device *device, cuda_stream *ret_stream)
{
        struct gpu_thread *thread = thread_of_caller();
        cuda_result result;

        if (!thread)
                return -ENOMEM;
        if (!thread->streams[device->number]) {
                result = gpu_driver()->stream_create(&thread->streams[device->number], CUDA_STREAM_NON_BLOCKING);
                if (result != CUDA_SUCCESS) {
                        thread->streams[device->number] = NULL;
                        return gpu_fail(device, "make a stream", result);
                }
        }
        thread->busy[device->number] = true;
        *ret_stream = thread->streams[device->number];
        return 0;
}

/* ---- copies ---- */

/* Once for each memory and batch: it costs a microsecond. */
static int check_once(const struct gpu_memory *memory, size_t i)
{
        struct gpu_thread *thread = thread_of_caller();
        int r;

        if (!memory || memory->kind != GPU_ADOPTED)
                return 0;
        if (!thread)
                return -ENOMEM;
        if (thread->checked[i] == memory)
                return 0;
        r = gpu_check(memory);
        if (r == 0)
                thread->checked[i] = memory;
        return r;
}

static const struct gpu_memory *memory_of(const struct space *space)
{
        return space ? FERRY_CONTAINER_OF(space, struct gpu_memory, space) : NULL;
}

static cuda_result queue(const struct gpu_memory *to_memory, void *to, const struct gpu_memory *from_memory,
                         const void *from, size_t size, cuda_stream stream)
{
        const struct cuda_driver *cuda = gpu_driver();
        cuda_pointer to_pointer = (uintptr_t)to, from_pointer = (uintptr_t)from;

        if (!from_memory)
                return cuda->copy_to_device(to_pointer, from, size, stream);
        if (!to_memory)
                return cuda->copy_to_host(to, from_pointer, size, stream);
        if (to_memory->device == from_memory->device)
                return cuda->copy_on_device(to_pointer, from_pointer, size, stream);
        return cuda->copy_peer(to_pointer, to_memory->device->context, from_pointer, from_memory->device->context, size,
                               stream);
}

static int gpu_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                    size_t size)
{
        const struct gpu_memory *to_memory = memory_of(to_space), *from_memory = memory_of(from_space);
        const struct gpu_device *device = to_memory ? to_memory->device : from_memory->device;
        cuda_result result;
        cuda_stream stream;
        int r = check_once(to_memory, 0);

        if (r == 0)
                r = check_once(from_memory, 1);
        if (r == 0 && !gpu_enter(device))
                r = -ENODEV;
        if (r < 0)
                return r;
        r = gpu_stream(device, &stream);
        if (r == 0) {
                result = queue(to_memory, to, from_memory, from, size, stream);
                if (result != CUDA_SUCCESS)
                        r = gpu_fail(device, "copy", result);
        }
        gpu_leave();
        return r;
}

static int finish_device(struct gpu_thread *thread, unsigned n)
{
        cuda_result result;

        thread->busy[n] = false;
        if (!gpu_enter(&devices[n]))
                return -ENODEV;
        result = gpu_driver()->stream_synchronize(thread->streams[n]);
        gpu_leave();
        return result == CUDA_SUCCESS ? 0 : gpu_fail(&devices[n], "copy", result);
}

/* Of this thread's copies on all devices: one that was queued with two spaces is on the stream of one of them. */
static int gpu_finish(const struct space *space)
{
        struct gpu_thread *thread = thread_of_caller();
        int first = 0;

        if (!thread)
                return 0; /* then nothing was queued */
        thread->checked[0] = thread->checked[1] = NULL;
        for (unsigned n = 0; n < GPU_MAX; n++) {
                int r = thread->busy[n] ? finish_device(thread, n) : 0;

                if (first == 0)
                        first = r;
        }
        return first;
}

const struct space_ops gpu_space_ops = { .copy = gpu_copy, .finish = gpu_finish };
