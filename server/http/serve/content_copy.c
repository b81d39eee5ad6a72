/* SPDX-License-Identifier: Apache-2.0 */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "operations/operations.h"
#include "serve_internal.h"

/*
 * Copying: see serve/request.h. Host memory is moved on the request's thread; memory of a GPU or of a mapped file,
 * through buffers, by a thread of the pool, as is a digest of many bytes. One piece of work is under way at a time
 * (idle is unset meanwhile), and has a reference: a request may end while a GPU stands still, and leaves its buffers to
 * it.
 *
 * Thread: the request's, but for work_detached().
 */

enum {
        COPYING_PIECE = 1 << 20,
        COPYING_READS = 1 << 20, /* that the request's thread does itself: a millisecond, as a SHA-256 */
        COPYING_BYTES_MAX =
                256 << 20, /* of all buffers; as many requests of 1 MiB and more may wait for GPUs and disks */
};

/*
 * References: the request's, and that of the work under way, which alone touches content, work, moving and error until
 * idle is set.
 */
struct content_copy {
        struct http_server *server;
        const struct content_copy_ops *ops;
        void *content;
        struct pool_devices devices; /* fixed; none = host memory */
        atomic_uint references;
        struct wait_flag idle; /* unset while work is under way */
        int (*work)(void *content);
        struct {
                uint8_t *bytes;
                size_t size;
        } moving;
        int error; /* the first one */
        atomic_bool done;
        /* The request's thread's. */
        uint64_t deadline_us; /* of the work under way */
        uint8_t *buffers[2];  /* of an upload, one is filled while the other one moves; of a response, the first */
        size_t room;          /* of each; 0 = there is none yet */
        unsigned filling;     /* index of the one being filled */
        size_t filled;        /* bytes in it */
        uint64_t left;        /* of a response: bytes not loaded yet */
        size_t at;            /* of a response: bytes taken out of its buffer */
};

static void content_copy_unref(struct content_copy *copy)
{
        if (atomic_fetch_sub(&copy->references, 1) != 1)
                return;
        copy->ops->close(copy->content, atomic_load(&copy->done));
        wait_flag_destroy(&copy->idle);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(copy->buffers); i++)
                if (copy->buffers[i])
                        atomic_fetch_sub(&copy->server->copying_bytes, copy->room);
        free(copy->buffers[0]);
        free(copy->buffers[1]);
        free(copy);
}

/* The request is over: its content counts as sent only if the whole answer was. */
static void clean(struct http_request *request)
{
        struct content_copy *copy = request->state;

        atomic_store(&copy->done, request->sent && request->status < 300); /* a problem has none of the bytes */
        content_copy_unref(copy);
}

int content_copy_open(struct http_request *request, const struct content_copy_ops *ops, void *content,
                      struct pool_devices devices)
{
        struct content_copy *copy = calloc(1, sizeof(*copy));

        if (!copy)
                return -ENOMEM;
        wait_flag_init(&copy->idle);
        wait_flag_set(&copy->idle);
        copy->server = request->server;
        copy->ops = ops;
        copy->content = content;
        copy->devices = devices;
        atomic_init(&copy->references, 1);
        request_keep(request, copy, clean);
        return 0;
}

void content_copy_close(struct http_request *request, bool done)
{
        struct content_copy *copy = FERRY_STEAL(request->state);

        if (!copy)
                return;
        atomic_store(&copy->done, done);
        content_copy_unref(copy);
}

void *content_copy_content(const struct http_request *request)
{
        const struct content_copy *copy = request->state;

        return copy->content;
}

int content_copy_error(const struct http_request *request)
{
        const struct content_copy *copy = request->state;

        return copy->error;
}

/* ---- work ---- */

/* Does what was begun, then moves the buffer. The first error stays. */
static void work(struct content_copy *copy)
{
        int r = copy->work ? copy->work(copy->content) : 0;

        if (!r && copy->moving.size)
                r = copy->ops->move(copy->content, copy->moving.bytes, copy->moving.size);
        if (!copy->error)
                copy->error = r;
}

/* On a thread of the pool. */
static void work_detached(void *context)
{
        struct content_copy *copy = context;

        work(copy);
        wait_flag_set(&copy->idle);
        content_copy_unref(copy);
}

/* Nothing is under way. Has the work done, which reads so many bytes, and then the buffer moved. */
static void start(struct http_request *request, int (*function)(void *content), uint64_t reads, uint8_t *bytes,
                  size_t size)
{
        struct http_server *server = request->server;
        struct content_copy *copy = request->state;
        uint64_t stall_ms = server->config.operation_limits->stall_ms;

        copy->work = function;
        copy->moving.bytes = bytes;
        copy->moving.size = size;
        if (!copy->devices.one && reads <= COPYING_READS) {
                work(copy);
                return;
        }
        /* Host memory never stands still. */
        copy->deadline_us = stall_ms && copy->devices.one ? clock_now_us() + stall_ms * 1000 : UINT64_MAX;
        wait_flag_reset(&copy->idle);
        atomic_fetch_add(&copy->references, 1);
        pool_run(server->tasks, copy->devices.one ? POOL_WORK : POOL_DIGEST, copy->devices, work_detached, copy);
}

/*
 * Buffer i, for up to size bytes if it is the first. false: answered. A request that ends leaves its buffers to a GPU
 * that stands still, so their sum has a limit.
 */
static bool make_buffer(struct http_request *request, unsigned i, uint64_t size)
{
        struct content_copy *copy = request->state;
        atomic_size_t *sum = &request->server->copying_bytes;

        if (copy->buffers[i])
                return true;
        if (!copy->room)
                copy->room = size < COPYING_PIECE ? size : COPYING_PIECE;
        if (atomic_fetch_add(sum, copy->room) + copy->room > COPYING_BYTES_MAX) {
                atomic_fetch_sub(sum, copy->room);
                request_problem(request, FERRY_E_LIMIT_REACHED,
                                "Content to and from GPUs and mapped files uses %d MiB, which is the limit",
                                COPYING_BYTES_MAX >> 20);
                return false;
        }
        copy->buffers[i] = malloc(copy->room);
        if (copy->buffers[i])
                return true;
        atomic_fetch_sub(sum, copy->room);
        request_problem(request, -ENOMEM, NULL);
        return false;
}

/* Loads the next bytes of a response. */
static void load(struct http_request *request, int (*function)(void *content), uint64_t reads)
{
        struct content_copy *copy = request->state;
        size_t size = copy->left < copy->room ? copy->left : copy->room;

        copy->left -= size;
        copy->filled = size;
        copy->at = 0;
        start(request, function, reads, copy->buffers[0], size);
}

void content_copy_begin(struct http_request *request, int (*function)(void *content), uint64_t reads, uint64_t size)
{
        struct content_copy *copy = request->state;

        copy->left = copy->devices.one ? size : 0;
        if (copy->left && !make_buffer(request, 0, size))
                return;
        if (function || copy->left)
                load(request, function, reads);
}

/* 0: nothing is under way; -EINPROGRESS: parked until then; else the FERRY_E_* with which the wait ends. */
static int await(struct http_request *request, void (*resume)(struct http_request *request))
{
        struct content_copy *copy = request->state;
        uint64_t wait_ms_max = request->server->config.limits.wait_ms_max;

        while (!wait_flag_is_set(&copy->idle)) {
                uint64_t now = clock_now_us();
                if (now >= copy->deadline_us)
                        return FERRY_E_REGION_NOT_READY;
                uint64_t wait_ms = (copy->deadline_us - now) / 1000 + 1;
                if (wait_ms > wait_ms_max)
                        wait_ms = wait_ms_max;
                switch (copy->devices.one ? wait_park_flag(request, &copy->idle, wait_ms, resume)
                                          : wait_park_work(request, &copy->idle, wait_ms, resume)) {
                case WAIT_PARKED:
                        return -EINPROGRESS;
                case WAIT_FULL:
                        return FERRY_E_LIMIT_REACHED;
                case WAIT_NEEDLESS:
                        if (!wait_flag_is_set(&copy->idle))
                                return atomic_load(&request->server->waits->stopping) ? FERRY_E_DRAINING : FERRY_E_GONE;
                }
        }
        return 0;
}

bool content_copy_await(struct http_request *request, void (*resume)(struct http_request *request))
{
        if (request->answered)
                return false;
        int r = await(request, resume);

        if (r == FERRY_E_LIMIT_REACHED)
                wait_refuse(request);
        else if (r == FERRY_E_REGION_NOT_READY)
                request_problem(request, r, "The bytes were not copied in %" PRIu64 " ms, the stall limit",
                                request->server->config.operation_limits->stall_ms);
        else if (r > 0)
                request_problem(request, r, "%s before the bytes were read",
                                r == FERRY_E_GONE ? "The client closed its end of the connection" : "The worker ended");
        return r == 0;
}

/* ---- uploads ---- */

/* Nothing is under way. Has the buffer moved that was filled; the other one is filled next. */
static void store(struct http_request *request)
{
        struct content_copy *copy = request->state;
        uint8_t *bytes = copy->buffers[copy->filling];
        size_t size = copy->filled;

        copy->filling ^= 1;
        copy->filled = 0;
        start(request, NULL, 0, bytes, size);
}

int content_copy_take(struct http_request *request, const char *data, size_t size)
{
        struct content_copy *copy = request->state;
        const uint64_t most = request->chunked ? COPYING_PIECE : request->content_length;

        if (!copy->devices.one)
                return copy->ops->move(copy->content, (void *)(uintptr_t)data, size);
        if (!make_buffer(request, copy->filling, most))
                return -EINPROGRESS;
        assert(size <= copy->room);
        if (size > copy->room - copy->filled && !content_copy_await(request, request->route->handler))
                return -EINPROGRESS;
        if (wait_flag_is_set(&copy->idle)) {
                if (copy->error)
                        return copy->error;
                if (copy->filled)
                        store(request);
                if (!make_buffer(request, copy->filling, most))
                        return -EINPROGRESS;
        }
        memcpy(copy->buffers[copy->filling] + copy->filled, data, size);
        copy->filled += size;
        return 0;
}

bool content_copy_flush(struct http_request *request, void (*resume)(struct http_request *request))
{
        struct content_copy *copy = request->state;

        for (;;) {
                if (!content_copy_await(request, resume))
                        return false;
                if (copy->error || !copy->filled)
                        return true;
                store(request);
        }
}

/* ---- responses ---- */

/* libmicrohttpd's content reader. 0: the connection is suspended, and the reader is called again afterwards. */
static ssize_t read_next(void *context, uint64_t position, char *to, size_t size)
{
        struct http_request *request = context;
        struct content_copy *copy = request->state;

        (void)position; /* reads are sequential: the response is used once */
        if (!copy->devices.one)
                return copy->ops->move(copy->content, to, size) ? MHD_CONTENT_READER_END_WITH_ERROR : (ssize_t)size;
        int r = await(request, NULL);
        if (r == -EINPROGRESS)
                return 0;
        if (r || copy->error)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        if (copy->filled - copy->at < size)
                size = copy->filled - copy->at;
        memcpy(to, copy->buffers[0] + copy->at, size);
        copy->at += size;
        if (copy->at == copy->filled && copy->left)
                load(request, NULL, 0);
        return (ssize_t)size;
}

struct MHD_Response *content_copy_response(struct http_request *request, uint64_t size)
{
        size_t block = size == 0 ? 1 : size < COPYING_PIECE ? size : COPYING_PIECE; /* libmicrohttpd refuses one of 0 */

        return MHD_create_response_from_callback(size, block, read_next, request, NULL);
}
