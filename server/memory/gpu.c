/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/log.h"
#include "base/util.h"
#include "cuda_internal.h"
#include "gpu_internal.h"
#include "memory/device.h"

/*
 * The CUDA driver, its devices and contexts: see gpu.h. The driver is opened once and never closed, since programs that
 * use CUDA share it. A device's primary context is retained when its first memory is made, and kept until the process
 * ends; every call makes it current for its duration (gpu_enter, gpu_leave). The driver's calls may block for as long
 * as a GPU stands still, so here only the start lock of that device is held over them.
 *
 * Thread: any. What is open or started is fixed, and read without a lock.
 */

/* ---- the driver ---- */

/* Set once, by open_driver. */
static struct cuda_driver driver;
static bool driver_works;
static char driver_reason[CUDA_REASON_SIZE];

static const struct {
        const char *name;
        size_t offset;
} functions[] = {
#define CUDA_ENTRY(field, name, parameters) { #name, offsetof(struct cuda_driver, field) },
        CUDA_FUNCTIONS(CUDA_ENTRY)
#undef CUDA_ENTRY
};
_Static_assert(sizeof(struct cuda_driver) == FERRY_ARRAY_SIZE(functions) * sizeof(void *), "the table is complete");

/* Fills in the table of functions, or leaves the sentence that says which is missing. */
static void find_functions(void *library)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(functions); i++) {
                void *function = dlsym(library, functions[i].name);

                if (!function) {
                        (void)snprintf(driver_reason, sizeof(driver_reason),
                                       "The CUDA driver library has no %s: install a driver of CUDA 11.4 or later",
                                       functions[i].name);
                        return;
                }
                memcpy((char *)&driver + functions[i].offset, &function, sizeof(function));
        }
}

/* Runs once a process. Leaves driver_works, or the sentence why it does not. */
static void open_driver(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        cuda_result result;

        if (!library) {
                (void)snprintf(driver_reason, sizeof(driver_reason),
                               "The CUDA driver library libcuda.so.1 was not found: install the NVIDIA driver");
                return;
        }
        find_functions(library);
        if (driver_reason[0])
                return;
        result = driver.init(0);
        if (result == CUDA_ERROR_NO_DEVICE)
                (void)snprintf(driver_reason, sizeof(driver_reason),
                               "The CUDA driver finds no GPU that this process may use");
        else if (result != CUDA_SUCCESS)
                (void)snprintf(driver_reason, sizeof(driver_reason), "The CUDA driver does not start: %s",
                               cuda_error_name(&driver, result));
        driver_works = driver_reason[0] == '\0';
        if (!driver_works)
                log_event(LOG_INFO, "GPU memory not available", LOG_S("reason", driver_reason));
}

const struct cuda_driver *cuda_open(const char **ret_reason)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, open_driver);
        if (!driver_works)
                *ret_reason = driver_reason;
        return driver_works ? &driver : NULL;
}

const char *cuda_error_name(const struct cuda_driver *cuda, cuda_result result)
{
        const char *name = NULL;

        return cuda->get_error_name(result, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

/* ---- devices ---- */

static struct gpu_device devices[GPU_MAX]; /* an entry with a context is fixed */
/* Held while the device of that number starts, which may take for ever if it stands still. */
static pthread_mutex_t start_locks[GPU_MAX] = { [0 ... GPU_MAX - 1] = PTHREAD_MUTEX_INITIALIZER };

bool gpu_parse(const char *device, unsigned *ret_n)
{
        static const char prefix[] = "cuda:";
        const char *digits = device + strlen(prefix);
        uint64_t n;

        if (strncmp(device, prefix, strlen(prefix)) != 0 || (digits[0] == '0' && digits[1]) ||
            !ferry_uint_parse(digits, 9999, &n))
                return false;
        *ret_n = (unsigned)n;
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

bool gpu_describe(unsigned n, struct device_memory *ret_memory, bool *ret_direct)
{
        const char *reason;
        const struct cuda_driver *cuda = n < gpu_count(&reason) ? cuda_open(&reason) : NULL;
        struct device_memory memory = { 0 };
        cuda_device device;
        size_t bytes;
        int direct;

        if (!cuda || cuda->device_get(&device, (int)n) != CUDA_SUCCESS)
                return false;
        (void)snprintf(memory.name, sizeof(memory.name), "cuda:%u", n);
        if (cuda->device_get_name(memory.model, sizeof(memory.model), device) != CUDA_SUCCESS)
                memory.model[0] = '\0';
        memory.model[sizeof(memory.model) - 1] = '\0';
        if (cuda->device_total_mem(&bytes, device) == CUDA_SUCCESS)
                memory.total_bytes = bytes;
        *ret_direct =
                cuda->device_get_attribute(&direct, CUDA_DEVICE_GPU_DIRECT_RDMA, device) == CUDA_SUCCESS && direct;
        *ret_memory = memory;
        return true;
}

const struct cuda_driver *gpu_driver(void)
{
        const char *reason;

        return cuda_open(&reason);
}

/* ---- the current context ---- */

static _Thread_local unsigned n_pushed;
static _Thread_local int capture_mode; /* the thread's before the first gpu_push */

/*
 * While any thread captures a CUDA graph in the global mode, PyTorch's default, the driver refuses calls such as
 * allocations to every thread, and drops the capture. None of ours belong in the program's graph, so the mode is
 * relaxed as long as they run.
 */
bool gpu_push(cuda_context context)
{
        const struct cuda_driver *cuda = gpu_driver();

        if (cuda->ctx_push(context) != CUDA_SUCCESS)
                return false;
        if (n_pushed++ > 0)
                return true;
        capture_mode = CUDA_CAPTURE_MODE_RELAXED;
        if (cuda->exchange_capture_mode(&capture_mode) != CUDA_SUCCESS)
                capture_mode = CUDA_CAPTURE_MODE_GLOBAL; /* as every thread begins */
        return true;
}

void gpu_leave(void)
{
        const struct cuda_driver *cuda = gpu_driver();
        cuda_context context;

        if (--n_pushed == 0)
                (void)cuda->exchange_capture_mode(&capture_mode);
        (void)cuda->ctx_pop(&context);
}

/* ---- the start of a device, and its end ---- */

/* On a device that is full, only the driver's own errors tell of a reset. */
static void witness_make(struct gpu_device *device, cuda_context context)
{
        const struct cuda_driver *cuda = gpu_driver();

        if (!gpu_push(context))
                return;
        if (cuda->mem_alloc(&device->witness, 1) != CUDA_SUCCESS ||
            cuda->pointer_get_attribute(&device->witness_id, CUDA_POINTER_BUFFER_ID, device->witness) != CUDA_SUCCESS)
                device->witness = 0;
        gpu_leave();
}

/*
 * A device that the program has reset and uses again has the same context, while all that was in it, our streams too,
 * is gone, and its addresses may be others' memory. Other errors are for the call that follows to tell. The context is
 * current.
 */
static bool is_reset(const struct gpu_device *device)
{
        uint64_t id = 0;
        cuda_result result;

        if (!device->witness)
                return false;
        result = gpu_driver()->pointer_get_attribute(&id, CUDA_POINTER_BUFFER_ID, device->witness);
        if (result == CUDA_SUCCESS)
                return id != device->witness_id;
        return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* The device's start lock is held. Retains its primary context. */
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
        witness_make(device, context);
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
        (void)pthread_mutex_lock(&start_locks[n]);
        if (!devices[n].context)
                result = device_start(&devices[n], n);
        (void)pthread_mutex_unlock(&start_locks[n]);
        if (result != CUDA_SUCCESS) {
                (void)snprintf(detail, GPU_DETAIL_SIZE, "cuda:%u does not start: %s", n,
                               cuda_error_name(gpu_driver(), result));
                return FERRY_E_UNKNOWN_DEVICE;
        }
        *ret_device = &devices[n];
        return 0;
}

const struct gpu_device *gpu_device(unsigned n)
{
        return n < GPU_MAX && devices[n].context ? &devices[n] : NULL;
}

bool gpu_enter(const struct gpu_device *device)
{
        if (!gpu_push(device->context))
                return false;
        if (!is_reset(device))
                return true;
        gpu_leave();
        return false;
}

/* ---- failures ---- */

/* A result of the driver as -errno. -ENODEV: the context is lost, and the memory on it with it. */
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
                /* From 700 to 799: a kernel has broken the context for good. */
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
        log_event(LOG_WARN, "CUDA call failed", LOG_S("device", name), LOG_S("action", action),
                  LOG_S("reason", cuda_error_name(gpu_driver(), result)));
        return classify(result);
}

int gpu_check(const struct gpu_memory *memory)
{
        uint64_t id = 0;
        cuda_result result;

        if (memory->kind != GPU_ADOPTED)
                return 0;
        if (!gpu_enter(memory->device))
                return -ENODEV;
        result = gpu_driver()->pointer_get_attribute(&id, CUDA_POINTER_BUFFER_ID, memory->address);
        gpu_leave();
        if (result == CUDA_SUCCESS)
                return id == memory->buffer_id ? 0 : -EFAULT;
        return result == CUDA_ERROR_INVALID_VALUE ? -EFAULT : gpu_fail(memory->device, "check", result);
}
