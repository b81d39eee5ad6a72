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
struct copying {
        struct http_server *server;
        const struct copying_ops *ops;
        void *content;
        struct pool_devices devices; /* fixed; none = host memory */
        atomic_uint references;
        struct http_latch idle; /* unset while work is under way */
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

static void copying_unref(struct copying *copying)
{
        if (atomic_fetch_sub(&copying->references, 1) != 1)
                return;
        copying->ops->close(copying->content, atomic_load(&copying->done));
        latch_destroy(&copying->idle);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(copying->buffers); i++)
                if (copying->buffers[i])
                        atomic_fetch_sub(&copying->server->copying_bytes, copying->room);
        free(copying->buffers[0]);
        free(copying->buffers[1]);
        free(copying);
}

/* The request is over: its content counts as sent only if the whole answer was. */
static void clean(struct http_request *request)
{
        struct copying *copying = request->state;

        atomic_store(&copying->done, request->sent && request->status < 300); /* a problem has none of the bytes */
        copying_unref(copying);
}

int copying_open(struct http_request *request, const struct copying_ops *ops, void *content,
                 struct pool_devices devices)
{
        struct copying *copying = calloc(1, sizeof(*copying));

        if (!copying)
                return -ENOMEM;
        latch_init(&copying->idle);
        latch_set(&copying->idle);
        copying->server = request->server;
        copying->ops = ops;
        copying->content = content;
        copying->devices = devices;
        atomic_init(&copying->references, 1);
        request_keep(request, copying, clean);
        return 0;
}

void copying_close(struct http_request *request, bool done)
{
        struct copying *copying = FERRY_STEAL(request->state);

        if (!copying)
                return;
        atomic_store(&copying->done, done);
        copying_unref(copying);
}

void *copying_content(const struct http_request *request)
{
        const struct copying *copying = request->state;

        return copying->content;
}

int copying_error(const struct http_request *request)
{
        const struct copying *copying = request->state;

        return copying->error;
}

/* ---- work ---- */

/* Does what was begun, then moves the buffer. The first error stays. */
static void work(struct copying *copying)
{
        int r = copying->work ? copying->work(copying->content) : 0;

        if (!r && copying->moving.size)
                r = copying->ops->move(copying->content, copying->moving.bytes, copying->moving.size);
        if (!copying->error)
                copying->error = r;
}

/* On a thread of the pool. */
static void work_detached(void *context)
{
        struct copying *copying = context;

        work(copying);
        latch_set(&copying->idle);
        copying_unref(copying);
}

/* Nothing is under way. Has the work done, which reads so many bytes, and then the buffer moved. */
static void start(struct http_request *request, int (*function)(void *content), uint64_t reads, uint8_t *bytes,
                  size_t size)
{
        struct http_server *server = request->server;
        struct copying *copying = request->state;
        uint64_t stall_ms = server->config.operation_limits->stall_ms;

        copying->work = function;
        copying->moving.bytes = bytes;
        copying->moving.size = size;
        if (!copying->devices.one && reads <= COPYING_READS) {
                work(copying);
                return;
        }
        /* Host memory never stands still. */
        copying->deadline_us = stall_ms && copying->devices.one ? clock_now_us() + stall_ms * 1000 : UINT64_MAX;
        latch_reset(&copying->idle);
        atomic_fetch_add(&copying->references, 1);
        pool_run(server->tasks, copying->devices.one ? POOL_WORK : POOL_DIGEST, copying->devices, work_detached,
                 copying);
}

/*
 * Buffer i, for up to size bytes if it is the first. false: answered. A request that ends leaves its buffers to a GPU
 * that stands still, so their sum has a limit.
 */
static bool make_buffer(struct http_request *request, unsigned i, uint64_t size)
{
        struct copying *copying = request->state;
        atomic_size_t *sum = &request->server->copying_bytes;

        if (copying->buffers[i])
                return true;
        if (!copying->room)
                copying->room = size < COPYING_PIECE ? size : COPYING_PIECE;
        if (atomic_fetch_add(sum, copying->room) + copying->room > COPYING_BYTES_MAX) {
                atomic_fetch_sub(sum, copying->room);
                request_problem(request, FERRY_E_LIMIT_REACHED,
                                "Content to and from GPUs and mapped files uses %d MiB, which is the limit",
                                COPYING_BYTES_MAX >> 20);
                return false;
        }
        copying->buffers[i] = malloc(copying->room);
        if (copying->buffers[i])
                return true;
        atomic_fetch_sub(sum, copying->room);
        request_problem(request, -ENOMEM, NULL);
        return false;
}

/* Loads the next bytes of a response. */
static void load(struct http_request *request, int (*function)(void *content), uint64_t reads)
{
        struct copying *copying = request->state;
        size_t size = copying->left < copying->room ? copying->left : copying->room;

        copying->left -= size;
        copying->filled = size;
        copying->at = 0;
        start(request, function, reads, copying->buffers[0], size);
}

void copying_begin(struct http_request *request, int (*function)(void *content), uint64_t reads, uint64_t size)
{
        struct copying *copying = request->state;

        copying->left = copying->devices.one ? size : 0;
        if (copying->left && !make_buffer(request, 0, size))
                return;
        if (function || copying->left)
                load(request, function, reads);
}

/* 0: nothing is under way; -EINPROGRESS: parked until then; else the FERRY_E_* with which the wait ends. */
static int await(struct http_request *request, void (*resume)(struct http_request *request))
{
        struct copying *copying = request->state;
        uint64_t wait_ms_max = request->server->config.limits.wait_ms_max;

        while (!latch_is_set(&copying->idle)) {
                uint64_t now = clock_now_us();
                if (now >= copying->deadline_us)
                        return FERRY_E_REGION_NOT_READY;
                uint64_t wait_ms = (copying->deadline_us - now) / 1000 + 1;
                if (wait_ms > wait_ms_max)
                        wait_ms = wait_ms_max;
                switch (copying->devices.one ? wait_park_latch(request, &copying->idle, wait_ms, resume)
                                             : wait_park_work(request, &copying->idle, wait_ms, resume)) {
                case WAIT_PARKED:
                        return -EINPROGRESS;
                case WAIT_FULL:
                        return FERRY_E_LIMIT_REACHED;
                case WAIT_NEEDLESS:
                        if (!latch_is_set(&copying->idle))
                                return atomic_load(&request->server->waits->stopping) ? FERRY_E_DRAINING : FERRY_E_GONE;
                }
        }
        return 0;
}

bool copying_await(struct http_request *request, void (*resume)(struct http_request *request))
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
        struct copying *copying = request->state;
        uint8_t *bytes = copying->buffers[copying->filling];
        size_t size = copying->filled;

        copying->filling ^= 1;
        copying->filled = 0;
        start(request, NULL, 0, bytes, size);
}

int copying_take(struct http_request *request, const char *data, size_t size)
{
        struct copying *copying = request->state;
        const uint64_t most = request->chunked ? COPYING_PIECE : request->content_length;

        if (!copying->devices.one)
                return copying->ops->move(copying->content, (void *)(uintptr_t)data, size);
        if (!make_buffer(request, copying->filling, most))
                return -EINPROGRESS;
        assert(size <= copying->room);
        if (size > copying->room - copying->filled && !copying_await(request, request->route->handler))
                return -EINPROGRESS;
        if (latch_is_set(&copying->idle)) {
                if (copying->error)
                        return copying->error;
                if (copying->filled)
                        store(request);
                if (!make_buffer(request, copying->filling, most))
                        return -EINPROGRESS;
        }
        memcpy(copying->buffers[copying->filling] + copying->filled, data, size);
        copying->filled += size;
        return 0;
}

bool copying_flush(struct http_request *request, void (*resume)(struct http_request *request))
{
        struct copying *copying = request->state;

        for (;;) {
                if (!copying_await(request, resume))
                        return false;
                if (copying->error || !copying->filled)
                        return true;
                store(request);
        }
}

/* ---- responses ---- */

/* libmicrohttpd's content reader. 0: the connection is suspended, and the reader is called again afterwards. */
static ssize_t read_next(void *context, uint64_t position, char *to, size_t size)
{
        struct http_request *request = context;
        struct copying *copying = request->state;

        (void)position; /* reads are sequential: the response is used once */
        if (!copying->devices.one)
                return copying->ops->move(copying->content, to, size) ? MHD_CONTENT_READER_END_WITH_ERROR
                                                                      : (ssize_t)size;
        int r = await(request, NULL);
        if (r == -EINPROGRESS)
                return 0;
        if (r || copying->error)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        if (copying->filled - copying->at < size)
                size = copying->filled - copying->at;
        memcpy(to, copying->buffers[0] + copying->at, size);
        copying->at += size;
        if (copying->at == copying->filled && copying->left)
                load(request, NULL, 0);
        return (ssize_t)size;
}

struct MHD_Response *copying_response(struct http_request *request, uint64_t size)
{
        size_t block = size == 0 ? 1 : size < COPYING_PIECE ? size : COPYING_PIECE; /* libmicrohttpd refuses one of 0 */

        return MHD_create_response_from_callback(size, block, read_next, request, NULL);
}
