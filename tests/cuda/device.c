/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "standin.h"

enum { STACK_MAX = 16, LOOK_US = 500 };

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[DEVICES_MAX];
static bool initialized;

static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;
static _Thread_local int capture_mode;

/* ---- settings and faults ---- */

int setting(const char *name, int fallback)
{
        const char *text = getenv(name);

        return text ? atoi(text) : fallback;
}

static int device_count(void)
{
        int n = setting("CUDA_STANDIN_DEVICES", 2);

        return n < DEVICES_MAX ? n : DEVICES_MAX;
}

bool fault(const char *word)
{
        const char *path = getenv("CUDA_STANDIN_FAULTS");
        char text[128] = "";
        FILE *file = path ? fopen(path, "re") : NULL;
        bool found = false;

        if (!file)
                return false;
        while (!found && fscanf(file, "%127s", text) == 1)
                found = strcmp(text, word) == 0;
        (void)fclose(file);
        return found;
}

static bool fault_of(const char *name, int device)
{
        char word[16];

        (void)snprintf(word, sizeof(word), "%s%d", name, device);
        return fault(name) || fault(word);
}

bool is_stuck(int device)
{
        return fault_of("stuck", device) || fault_of("hung", device);
}

void await_moving(int device)
{
        while (is_stuck(device))
                (void)usleep(LOOK_US);
}

void await_answering(int device)
{
        while (fault_of("hung", device))
                (void)usleep(LOOK_US);
}

cuda_result health(void)
{
        if (!initialized)
                return NOT_INITIALIZED;
        if (fault("gone"))
                return CUDA_ERROR_ECC_UNCORRECTABLE;
        return fault("reset") ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

cuda_result current(struct context **ret_context)
{
        cuda_result result = health();

        if (result != CUDA_SUCCESS)
                return result;
        if (depth == 0 || stack[depth - 1]->users == 0)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (stack[depth - 1]->destroyed)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (capture_mode != CUDA_CAPTURE_MODE_RELAXED && fault("capture"))
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        *ret_context = stack[depth - 1];
        return CUDA_SUCCESS;
}

static struct standin_counts *own_counts;

static void map_counts(void)
{
        static struct standin_counts unread;
        const char *path = getenv("CUDA_STANDIN_COUNTS");
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void *address = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(unread), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        own_counts = address == MAP_FAILED ? &unread : address;
        if (fd >= 0)
                (void)close(fd);
}

struct standin_counts *counts(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, map_counts);
        return own_counts;
}

/* ---- devices and contexts ---- */

EXPORT cuda_result cuInit(unsigned flags)
{
        if (fault("init"))
                return CUDA_ERROR_SYSTEM_NOT_READY;
        if (flags != 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (device_count() == 0)
                return CUDA_ERROR_NO_DEVICE;
        initialized = true;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuGetErrorName(cuda_result result, const char **ret_name)
{
        static const struct {
                cuda_result result;
                const char *name;
        } names[] = {
                { CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
                { CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
                { CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
                { CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
                { CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE" },
                { CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" },
                { CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
                { CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY" },
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (names[i].result == result) {
                        *ret_name = names[i].name;
                        return CUDA_SUCCESS;
                }
        return CUDA_ERROR_INVALID_VALUE;
}

EXPORT cuda_result cuDeviceGetCount(int *ret_count)
{
        *ret_count = device_count();
        return initialized ? CUDA_SUCCESS : NOT_INITIALIZED;
}

EXPORT cuda_result cuDeviceGet(cuda_device *ret_device, int ordinal)
{
        if (ordinal < 0 || ordinal >= device_count())
                return CUDA_ERROR_INVALID_DEVICE;
        *ret_device = ordinal;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetName(char *ret_name, int size, cuda_device device)
{
        (void)snprintf(ret_name, (size_t)size, "Stand-in GPU %d", device + setting("CUDA_STANDIN_FIRST", 0));
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetUuid_v2(struct cuda_uuid *ret_uuid, cuda_device device)
{
        memset(ret_uuid->bytes, 0x5a, sizeof(ret_uuid->bytes));
        ret_uuid->bytes[15] = (uint8_t)(device + setting("CUDA_STANDIN_FIRST", 0));
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceGetAttribute(int *ret_value, int attribute, cuda_device device)
{
        enum { PCI_BUS_ID = 33, FIRST_BUS = 0x40 }; /* UCX tells devices by their places on the bus */

        *ret_value = attribute == PCI_BUS_ID ? FIRST_BUS + device : attribute == CUDA_DEVICE_GPU_DIRECT_RDMA;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDeviceTotalMem_v2(size_t *ret_bytes, cuda_device device)
{
        (void)device;
        *ret_bytes = TOTAL_BYTES;
        return CUDA_SUCCESS;
}

bool context_is_active(int device)
{
        bool active;

        (void)pthread_mutex_lock(&standin_lock);
        active = contexts[device].users > 0;
        (void)pthread_mutex_unlock(&standin_lock);
        return active;
}

EXPORT cuda_result cuDevicePrimaryCtxRetain(cuda_context *ret_context, cuda_device device)
{
        cuda_result result = health();

        if (result != CUDA_SUCCESS)
                return result;
        if (!context_is_active(device)) {
                atomic_fetch_add(&counts()->starting, 1);
                await_answering(device);
                atomic_fetch_sub(&counts()->starting, 1);
        }
        (void)pthread_mutex_lock(&standin_lock);
        contexts[device].device = device;
        contexts[device].users++;
        contexts[device].destroyed = false;
        (void)pthread_mutex_unlock(&standin_lock);
        *ret_context = &contexts[device];
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
        (void)pthread_mutex_lock(&standin_lock);
        contexts[device].users--;
        (void)pthread_mutex_unlock(&standin_lock);
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuDevicePrimaryCtxReset_v2(cuda_device device)
{
        struct allocation *a, *next;

        (void)pthread_mutex_lock(&standin_lock);
        DL_FOREACH_SAFE (allocations, a, next)
                if (a->device == device && a->foreign)
                        allocation_close(a);
                else if (a->device == device)
                        allocation_free(a);
        unpin_all(device);
        contexts[device].n_resets++;
        contexts[device].destroyed = true;
        (void)pthread_mutex_unlock(&standin_lock);
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuCtxPushCurrent_v2(cuda_context context)
{
        if (depth == STACK_MAX || !context)
                return CUDA_ERROR_INVALID_CONTEXT;
        stack[depth++] = context;
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuThreadExchangeStreamCaptureMode(int *mode)
{
        int before = capture_mode;

        if (depth == 0)
                return CUDA_ERROR_INVALID_CONTEXT;
        capture_mode = *mode;
        *mode = before;
        return CUDA_SUCCESS;
}

/* A context beside the primary one, current from now on. */
EXPORT cuda_result cuCtxCreate_v2(cuda_context *ret_context, unsigned flags, cuda_device device)
{
        struct context *context = calloc(1, sizeof(*context));

        (void)flags;
        *context = (struct context){ .device = device, .users = 1 };
        *ret_context = context;
        return cuCtxPushCurrent_v2(context);
}

EXPORT cuda_result cuCtxPopCurrent_v2(cuda_context *ret_context)
{
        if (depth == 0)
                return CUDA_ERROR_INVALID_CONTEXT;
        depth--;
        if (ret_context)
                *ret_context = stack[depth];
        return CUDA_SUCCESS;
}
