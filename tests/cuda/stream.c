/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "standin.h"

enum { SLOW_US = 20000 };

struct copy {
        uint8_t *to, *from; /* as they were given; from NULL = zeros */
        bool to_device, from_device;
        size_t size;
        const struct context *peer; /* from another device; NULL = from none */
        struct copy *prev, *next;
};

struct stream {
        const struct context *context;
        unsigned n_resets; /* of the context when the stream was made */
        struct copy *queue;
        uint64_t idle_us; /* when the last of them ends */
};

EXPORT cuda_result cuStreamCreate(cuda_stream *ret_stream, unsigned flags)
{
        struct context *context;
        cuda_result result = current(&context);
        struct stream *stream;

        if (result != CUDA_SUCCESS || flags > CUDA_STREAM_NON_BLOCKING)
                return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
        stream = calloc(1, sizeof(*stream));
        stream->context = context;
        stream->n_resets = context->n_resets;
        *ret_stream = stream;
        return CUDA_SUCCESS;
}

/* Whether it is a stream of the context; one from before a reset is dangling. */
static bool is_of(const struct stream *stream, const struct context *context)
{
        if (stream && stream->n_resets != stream->context->n_resets)
                abort();
        return stream && stream->context == context;
}

/* With the lock. The bytes behind an address, as a program gave it; NULL: they are gone. */
static uint8_t *bytes_of(uint8_t *address, bool device, size_t size)
{
        struct allocation *a = device ? find(address, size) : NULL;

        if (!device)
                return address;
        return a ? a->bytes + (address - a->address) : NULL;
}

/* With the lock. Whether it is memory that a copy of the context can reach: of no other context, or a peer's. */
static bool is_reached(const struct context *context, uint8_t *address, bool device, const struct copy *copy)
{
        const struct allocation *a = device ? find(address, 1) : NULL;

        return !a || !a->context || a->context == context || copy->peer;
}

/* With the lock. Whether it is host memory as a copy may have it. */
static bool count_host(const uint8_t *address, size_t size)
{
        enum host_kind kind = host_kind(address, size);

        if (kind == HOST_PINNED)
                counts()->pinned += size;
        else if (kind == HOST_PAGEABLE)
                counts()->pageable += size;
        return kind != HOST_WRONG;
}

static uint64_t now_us(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The addresses are checked when the copy is queued, and again when it runs. */
static cuda_result queue(cuda_stream handle, struct copy copy)
{
        struct stream *stream = handle;
        struct context *context;
        cuda_result result = current(&context);
        struct copy *own;

        if (result != CUDA_SUCCESS)
                return result;
        if (!is_of(stream, context))
                return CUDA_ERROR_INVALID_HANDLE;
        (void)pthread_mutex_lock(&standin_lock);
        if (!is_reached(context, copy.to, copy.to_device, &copy) ||
            !is_reached(context, copy.from, copy.from_device, &copy) || !bytes_of(copy.to, copy.to_device, copy.size) ||
            (!copy.to_device && !count_host(copy.to, copy.size)) ||
            (copy.from && (!bytes_of(copy.from, copy.from_device, copy.size) ||
                           (!copy.from_device && !count_host(copy.from, copy.size)))))
                result = CUDA_ERROR_INVALID_VALUE;
        (void)pthread_mutex_unlock(&standin_lock);
        if (result != CUDA_SUCCESS)
                return result;
        own = malloc(sizeof(*own));
        *own = copy;
        stream->idle_us = (stream->idle_us > now_us() ? stream->idle_us : now_us()) + (fault("slow") ? SLOW_US : 0U);
        counts()->in_flight++;
        DL_APPEND(stream->queue, own);
        return CUDA_SUCCESS;
}

static cuda_result run(const struct copy *copy)
{
        uint8_t *to, *from;

        /* The lock is held while the bytes move: nobody frees them meanwhile, as the driver waits for copies, too. */
        (void)pthread_mutex_lock(&standin_lock);
        to = bytes_of(copy->to, copy->to_device, copy->size);
        from = copy->from ? bytes_of(copy->from, copy->from_device, copy->size) : NULL;
        if (to && from)
                memcpy(to, from, copy->size);
        else if (to && !copy->from)
                memset(to, 0, copy->size);
        (void)pthread_mutex_unlock(&standin_lock);
        return to && (from || !copy->from) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* The device's own time passes, which no signal ends: this is what is simulated. */
static void pass_time(int device, uint64_t end_us)
{
        struct timespec end = { .tv_sec = (time_t)(end_us / 1000000), .tv_nsec = (long)(end_us % 1000000) * 1000 };

        await_moving(device);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
                ;
}

EXPORT cuda_result cuStreamSynchronize(cuda_stream handle)
{
        struct stream *stream = handle;
        struct context *context;
        const struct copy *next;
        cuda_result result;

        pass_time(stream->context->device, stream->idle_us);
        DL_FOREACH (stream->queue, next)
                if (next->peer)
                        await_moving(next->peer->device);
        result = current(&context);
        if (result == CUDA_SUCCESS && !is_of(stream, context))
                result = CUDA_ERROR_INVALID_HANDLE;
        while (stream->queue) {
                struct copy *copy = stream->queue;

                DL_DELETE(stream->queue, copy);
                if (result == CUDA_SUCCESS)
                        result = run(copy);
                counts()->in_flight--;
                free(copy);
        }
        return result;
}

/* ---- events: each is waited for by the thread that recorded it ---- */

struct event {
        const struct context *context;
        struct stream *stream; /* NULL = not recorded */
};

EXPORT cuda_result cuEventCreate(cuda_event *ret_event, unsigned flags)
{
        struct context *context;
        cuda_result result = current(&context);

        if (result != CUDA_SUCCESS)
                return result;
        if (flags & ~(unsigned)(CUDA_EVENT_BLOCKING_SYNC | CUDA_EVENT_DISABLE_TIMING))
                return CUDA_ERROR_INVALID_VALUE;
        *ret_event = malloc(sizeof(struct event));
        **(struct event **)ret_event = (struct event){ .context = context };
        return CUDA_SUCCESS;
}

EXPORT cuda_result cuEventRecord(cuda_event handle, cuda_stream stream)
{
        struct context *context;
        cuda_result result = current(&context);

        if (result == CUDA_SUCCESS && (!is_of(stream, context) || ((struct event *)handle)->context != context))
                result = CUDA_ERROR_INVALID_HANDLE;
        if (result == CUDA_SUCCESS)
                ((struct event *)handle)->stream = stream;
        return result;
}

EXPORT cuda_result cuEventSynchronize(cuda_event handle)
{
        struct event *event = handle;

        return event->stream ? cuStreamSynchronize(event->stream) : CUDA_SUCCESS;
}

bool event_is_over(cuda_event handle)
{
        const struct event *event = handle;

        return !event->stream || (!is_stuck(event->stream->context->device) && now_us() >= event->stream->idle_us);
}

EXPORT cuda_result cuEventDestroy_v2(cuda_event handle)
{
        free(handle);
        return CUDA_SUCCESS;
}

/* ---- copies ---- */

EXPORT cuda_result cuStreamDestroy_v2(cuda_stream handle)
{
        cuda_result result = cuStreamSynchronize(handle);

        free(handle);
        return result;
}

EXPORT cuda_result cuMemcpyHtoDAsync_v2(cuda_pointer to, const void *from, size_t size, cuda_stream stream)
{
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to,
                                            .from = (uint8_t *)(uintptr_t)from,
                                            .to_device = true,
                                            .size = size });
}

EXPORT cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_pointer from, size_t size, cuda_stream stream)
{
        return queue(stream,
                     (struct copy){ .to = to, .from = (uint8_t *)(uintptr_t)from, .from_device = true, .size = size });
}

EXPORT cuda_result cuMemcpyDtoDAsync_v2(cuda_pointer to, cuda_pointer from, size_t size, cuda_stream stream)
{
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to,
                                            .from = (uint8_t *)(uintptr_t)from,
                                            .to_device = true,
                                            .from_device = true,
                                            .size = size });
}

EXPORT cuda_result cuMemcpyPeerAsync(cuda_pointer to, cuda_context to_context, cuda_pointer from,
                                     cuda_context from_context, size_t size, cuda_stream stream)
{
        struct allocation *a, *b;

        (void)pthread_mutex_lock(&standin_lock);
        a = find((void *)(uintptr_t)to, size);
        b = find((void *)(uintptr_t)from, size);
        if (a && a->device != ((struct context *)to_context)->device)
                a = NULL;
        if (b && b->device != ((struct context *)from_context)->device)
                b = NULL;
        (void)pthread_mutex_unlock(&standin_lock);
        if (!a || !b)
                return CUDA_ERROR_INVALID_VALUE;
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to,
                                            .from = (uint8_t *)(uintptr_t)from,
                                            .to_device = true,
                                            .from_device = true,
                                            .size = size,
                                            .peer = from_context });
}

EXPORT cuda_result cuMemsetD8Async(cuda_pointer to, unsigned char value, size_t n, cuda_stream stream)
{
        if (value != 0)
                return CUDA_ERROR_NOT_SUPPORTED; /* here alone */
        return queue(stream, (struct copy){ .to = (uint8_t *)(uintptr_t)to, .to_device = true, .size = n });
}
