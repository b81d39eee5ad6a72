/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/util.h"
#include "gpu_internal.h"

/*
 * Copies to, from and between GPUs, and the pinning of host memory. A copy is queued on the calling thread's stream and
 * done when space_finish() has returned; in between the thread may queue more. Memory of the program is checked before
 * the first copy of a batch and after the last, so that bytes of an allocation that it has freed meanwhile do not
 * count.
 *
 * Thread: any; each has streams of its own (struct gpu_thread), freed as the thread ends. A struct gpu_pin has one
 * owner, but any thread may use it.
 */

/* ---- pinned host memory ---- */

/*
 * Pinned host memory.
 *
 * The driver copies between a GPU and host memory that is not pinned through a buffer of its own: the processor copies
 * each byte once more, at 5 to 12 GB/s where the bus moves 25 to 55, and the call blocks. A pipeline of our own buffers
 * would need five or more threads to reach 0.9 of the bus. So memory that is copied repeatedly is pinned in place.
 *
 * Pinning takes about 0.25 ns a byte, once, and saves about 0.1 ns on each byte copied later. A range is pinned once as
 * many bytes have been copied as the range is long. So pinning takes at most a few times as long as the copies before
 * it, and memory that is used once is never pinned.
 */

enum { PIN_MIN = 64 << 10 }; /* bytes; smaller copies take as long either way */

enum { ALIGNMENT = 4096 };

enum { PIN_NONE, PIN_UNDER_WAY, PIN_DONE, PIN_REFUSED };

/* false: the memory cannot be pinned, or the program has pinned it already. */
static bool pin(unsigned gpu, const void *address, size_t size, bool read_only)
{
        const struct gpu_device *device = gpu_device(gpu);
        const unsigned flags = CUDA_HOST_PORTABLE | (read_only ? CUDA_HOST_READ_ONLY : 0);
        cuda_result result;

        if (!device || !gpu_enter(device))
                return false;
        result = gpu_driver()->host_register((void *)(uintptr_t)address, size, flags);
        gpu_leave();
        return result == CUDA_SUCCESS;
}

/* Fails, as it may, if the memory is not pinned, or the pin was lost with the context. */
static void unpin(unsigned gpu, const void *address)
{
        const struct gpu_device *device = gpu_device(gpu);

        if (!device || !gpu_enter(device))
                return;
        (void)gpu_driver()->host_unregister((void *)(uintptr_t)address);
        gpu_leave();
}

/* Not the driver's own memory, which a reset of the device unmaps under those that use it. */
void *gpu_host_new(unsigned gpu, size_t size)
{
        void *address = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);

        if (address)
                (void)pin(gpu, address, size, false);
        return address;
}

void gpu_host_free(unsigned gpu, void *address)
{
        if (address)
                unpin(gpu, address);
        free(address);
}

void gpu_pin_use(struct gpu_pin *p, unsigned gpu, uint64_t bytes)
{
        int none = PIN_NONE;

        if (p->size < PIN_MIN || atomic_load(&p->state) != PIN_NONE || atomic_fetch_add(&p->copied, bytes) < p->size)
                return;
        if (!atomic_compare_exchange_strong(&p->state, &none, PIN_UNDER_WAY))
                return;
        p->gpu = gpu;
        atomic_store(&p->state, pin(gpu, p->address, p->size, p->read_only) ? PIN_DONE : PIN_REFUSED);
}

bool gpu_is_pinned(const struct gpu_pin *p)
{
        return atomic_load(&p->state) == PIN_DONE;
}

void gpu_pin_move(struct gpu_pin *to, struct gpu_pin *from)
{
        to->address = from->address;
        to->size = from->size;
        to->read_only = from->read_only;
        to->gpu = from->gpu;
        atomic_init(&to->state, atomic_exchange(&from->state, PIN_NONE));
        atomic_init(&to->copied, 0);
}

void gpu_pin_end(struct gpu_pin *p)
{
        if (!gpu_is_pinned(p))
                return;
        unpin(p->gpu, p->address);
        atomic_store(&p->state, PIN_NONE);
}

/* ---- streams: one for each thread and device ---- */

enum { SPIN_BYTES = 1 << 20 }; /* a smaller copy ends before a thread could fall asleep */

/* The copies of one thread on one device. */
struct gpu_lane {
        cuda_stream stream; /* NULL = none yet */
        cuda_event event;   /* marks the end of the queue; a wait for an event sleeps, a wait for a stream spins */
        uint64_t queued;    /* bytes; 0 = nothing */
};

struct gpu_thread {
        struct gpu_lane lanes[GPU_MAX];
        const struct gpu_memory *checked[2]; /* target and source that check_once has passed in this batch */
};

static pthread_key_t thread_key;

/* Runs when the thread ends. The driver may have shut down already; its calls fail then. */
static void thread_free(void *context)
{
        struct gpu_thread *thread = context;

        for (unsigned n = 0; n < GPU_MAX; n++) {
                struct gpu_lane *lane = &thread->lanes[n];

                if (!lane->stream || !gpu_enter(gpu_device(n)))
                        continue;
                (void)gpu_driver()->event_destroy(lane->event);
                (void)gpu_driver()->stream_destroy(lane->stream);
                gpu_leave();
        }
        free(thread);
}

static void make_key(void)
{
        (void)pthread_key_create(&thread_key, thread_free);
}

/* NULL: out of memory. */
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

/* The context is current. On failure nothing is left to destroy. */
static cuda_result lane_make(struct gpu_lane *lane)
{
        const struct cuda_driver *cuda = gpu_driver();
        cuda_stream stream;
        cuda_result result = cuda->stream_create(&stream, CUDA_STREAM_NON_BLOCKING);

        if (result != CUDA_SUCCESS)
                return result;
        result = cuda->event_create(&lane->event, CUDA_EVENT_BLOCKING_SYNC | CUDA_EVENT_DISABLE_TIMING);
        if (result != CUDA_SUCCESS) {
                (void)cuda->stream_destroy(stream);
                return result;
        }
        lane->stream = stream;
        return CUDA_SUCCESS;
}

int gpu_stream(const struct gpu_device *device, uint64_t bytes, cuda_stream *ret_stream)
{
        struct gpu_thread *thread = thread_of_caller();
        struct gpu_lane *lane;
        cuda_result result;

        if (!thread)
                return -ENOMEM;
        lane = &thread->lanes[device->number];
        if (!lane->stream) {
                result = lane_make(lane);
                if (result != CUDA_SUCCESS)
                        return gpu_fail(device, "make a stream", result);
        }
        lane->queued += bytes;
        *ret_stream = lane->stream;
        return 0;
}

/* ---- copies ---- */

/* gpu_check of memory that has been copied, for the program may have freed it since. Forgets it. */
static int check_again(struct gpu_thread *thread, size_t i)
{
        const struct gpu_memory *memory = FERRY_STEAL(thread->checked[i]);

        return memory ? gpu_check(memory) : 0;
}

/*
 * gpu_check, once per memory before and once after the copies of a batch, because it takes a microsecond. i: 0 =
 * target, 1 = source. A batch ends with gpu_finish.
 */
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
        r = check_again(thread, i);
        if (r == 0)
                r = gpu_check(memory);
        if (r == 0)
                thread->checked[i] = memory;
        return r;
}

/* Queues one copy by the direction of its ends. Between two devices it runs on the target's stream. */
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

/*
 * Makes the device's context current until gpu_leave. Amid a batch it does not ask whether the device is still there:
 * gpu_finish does. Returns false: the device is gone, or was reset.
 */
static bool enter(const struct gpu_device *device)
{
        const struct gpu_thread *thread = thread_of_caller();

        return thread && thread->lanes[device->number].queued ? gpu_push(device->context) : gpu_enter(device);
}

/* Why a copy has failed: the program may have freed the memory since it was checked. */
static int cause_of(int error, const struct gpu_memory *to_memory, const struct gpu_memory *from_memory)
{
        int to = to_memory ? gpu_check(to_memory) : 0, from = from_memory ? gpu_check(from_memory) : 0;

        return to < 0 ? to : from < 0 ? from : error;
}

static int gpu_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                    size_t size)
{
        const struct gpu_memory *to_memory = gpu_memory_of(to_space), *from_memory = gpu_memory_of(from_space);
        const struct gpu_device *device = to_memory ? to_memory->device : from_memory->device;
        cuda_result result;
        cuda_stream stream;
        int r = check_once(to_memory, 0);

        if (r == 0)
                r = check_once(from_memory, 1);
        if (r == 0 && !enter(device))
                r = -ENODEV;
        if (r < 0)
                return r;
        r = gpu_stream(device, size, &stream);
        if (r == 0) {
                result = queue(to_memory, to, from_memory, from, size, stream);
                if (result != CUDA_SUCCESS)
                        r = gpu_fail(device, "copy", result);
        }
        gpu_leave();
        return r < 0 ? cause_of(r, to_memory, from_memory) : 0;
}

/* The context is current. Waits for everything queued on the lane. */
static cuda_result lane_wait(const struct gpu_lane *lane, uint64_t queued)
{
        const struct cuda_driver *cuda = gpu_driver();
        cuda_result result;

        if (queued < SPIN_BYTES)
                return cuda->stream_synchronize(lane->stream);
        result = cuda->event_record(lane->event, lane->stream);
        return result == CUDA_SUCCESS ? cuda->event_synchronize(lane->event) : result;
}

/* Waits for what the thread has queued on one device. Returns 0 or -errno. */
static int finish_device(struct gpu_thread *thread, unsigned n)
{
        const struct gpu_device *device = gpu_device(n);
        uint64_t queued = thread->lanes[n].queued;
        cuda_result result;

        thread->lanes[n].queued = 0;
        if (!gpu_enter(device))
                return -ENODEV;
        result = lane_wait(&thread->lanes[n], queued);
        gpu_leave();
        return result == CUDA_SUCCESS ? 0 : gpu_fail(device, "copy", result);
}

/* Waits on all devices: a copy between two devices is on the stream of only one of them. Returns the first error. */
static int gpu_finish(const struct space *space)
{
        struct gpu_thread *thread = thread_of_caller();
        int first = 0, checked = 0;

        if (!thread)
                return 0; /* then nothing was queued */
        for (unsigned n = 0; n < GPU_MAX; n++) {
                int r = thread->lanes[n].queued ? finish_device(thread, n) : 0;

                if (first == 0)
                        first = r;
        }
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(thread->checked); i++) {
                int r = check_again(thread, i);

                if (checked == 0)
                        checked = r;
        }
        return checked < 0 ? checked : first; /* the cause before its consequence */
}

static int gpu_space_check(const struct space *space)
{
        return gpu_check(gpu_memory_of(space));
}

struct gpu_memory *gpu_memory_new(const struct gpu_device *device, size_t size)
{
        static const struct space_ops ops = { .copy = gpu_copy, .finish = gpu_finish, .check = gpu_space_check };
        struct gpu_memory *memory = calloc(1, sizeof(*memory));

        if (memory)
                *memory = (struct gpu_memory){ .space = { .ops = &ops, .device = device->number },
                                               .device = device,
                                               .size = size };
        return memory;
}
