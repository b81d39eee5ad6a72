/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <ferry/error.h>
#include <ferry/worker.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Two programs that have memory on a GPU of their own, as PyTorch's is: one offers it twice, the other reads it into
 * its own, or writes from there. Before the second transfer one of the two frees the memory under its region, which has
 * to end the transfer on both sides. What stands in for the driver (tests/cuda) lets nobody touch the memory but by the
 * driver's copies.
 */

enum { SIZE = 3 << 20, OFFERS = 2, METADATA = 4096, WAIT_MS = 20000 };

static const struct row {
        bool network;
        enum ferry_kind offer;
        bool active_frees; /* else the side that offers */
} rows[] = {
        { false, FERRY_READABLE, false }, { false, FERRY_READABLE, true }, { false, FERRY_WRITABLE, false },
        { false, FERRY_WRITABLE, true },  { true, FERRY_READABLE, false }, { true, FERRY_READABLE, true },
        { true, FERRY_WRITABLE, false },  { true, FERRY_WRITABLE, true },
};

#define CHECK(call)                                                                                                    \
        ((call) ? (fprintf(stderr, "%d: %s: %s\n", __LINE__, #call, ferry_worker_error()), exit(1)) : (void)0)
#define DRIVER(name, type, ...) CHECK(((int(*) type)symbol(#name))(__VA_ARGS__))

static void *symbol(const char *name)
{
        static void *library;
        void *found;

        if (!library)
                library = dlopen("libcuda.so.1", RTLD_NOW);
        found = library ? dlsym(library, name) : NULL;
        CHECK(!found);
        return found;
}

/* ---- the program's own use of its GPU ---- */

static void *stream;

static uint64_t device_memory(int device)
{
        uint64_t pointer;
        void *context;

        DRIVER(cuInit, (unsigned), 0);
        DRIVER(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
        DRIVER(cuCtxPushCurrent_v2, (void *), context);
        DRIVER(cuStreamCreate, (void **, unsigned), &stream, 0);
        DRIVER(cuMemAlloc_v2, (uint64_t *, size_t), &pointer, SIZE);
        return pointer;
}

static void device_fill(uint64_t pointer, int value)
{
        void *here = malloc(SIZE);

        CHECK(!here);
        memset(here, value, SIZE);
        DRIVER(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *), pointer, here, SIZE, stream);
        DRIVER(cuStreamSynchronize, (void *), stream);
        free(here);
}

static void device_expect(uint64_t pointer, char value)
{
        char *here = malloc(SIZE);

        CHECK(!here);
        DRIVER(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *), here, pointer, SIZE, stream);
        DRIVER(cuStreamSynchronize, (void *), stream);
        CHECK(here[0] != value || memcmp(here, here + 1, SIZE - 1) != 0);
        free(here);
}

/* ---- Ferry ---- */

static struct ferry_worker_operation *start(struct ferry_worker *worker, enum ferry_kind kind, const char *remote,
                                            const char *region)
{
        struct ferry_worker_request *request = ferry_worker_request_new(kind);
        struct ferry_worker_operation *operation;

        CHECK(ferry_worker_request_add(request, region, 0, SIZE));
        CHECK(ferry_worker_operation_create(worker, request, remote, &operation));
        (void)ferry_worker_request_free(request);
        return operation;
}

static void say(int fd, const void *bytes, size_t size)
{
        CHECK(write(fd, bytes, size) != (ssize_t)size);
}

static void hear(int fd, void *bytes, size_t size)
{
        CHECK(read(fd, bytes, size) != (ssize_t)size);
}

static struct ferry_worker *worker_of(const struct row *row)
{
        struct ferry_worker_options *options = ferry_worker_options_new();
        struct ferry_worker *worker;

        CHECK(!options);
        if (row->network)
                CHECK(ferry_worker_options_set(options, "data-listen", "127.0.0.1:0") ||
                      ferry_worker_options_set(options, "local", "off"));
        CHECK(ferry_worker_new(options, &worker));
        (void)ferry_worker_options_free(options);
        return worker;
}

/* The program's memory on its GPU, and the region that it is. */
static uint64_t memory_add(struct ferry_worker *worker, int device, char value, char region[FERRY_WORKER_ID_SIZE])
{
        uint64_t pointer = device_memory(device);

        device_fill(pointer, value);
        CHECK(ferry_worker_region_add(worker, (void *)(uintptr_t)pointer, SIZE, device ? "cuda:1" : "cuda:0", NULL,
                                      region));
        return pointer;
}

static void memory_free(uint64_t pointer)
{
        DRIVER(cuMemFree_v2, (uint64_t), pointer);
}

static void offer_twice(const struct row *row, int in, int out)
{
        struct ferry_worker *worker = worker_of(row);
        struct ferry_worker_operation *offers[OFFERS];
        bool read = row->offer == FERRY_READABLE;
        char region[FERRY_WORKER_ID_SIZE], go;
        uint64_t pointer = memory_add(worker, 0, read ? 'x' : 0, region);

        for (int i = 0; i < OFFERS; i++) {
                char metadata[METADATA] = "";
                const char *text;

                offers[i] = start(worker, row->offer, NULL, region);
                CHECK(ferry_worker_operation_metadata(offers[i], &text));
                (void)snprintf(metadata, sizeof(metadata), "%s", text);
                say(out, metadata, sizeof(metadata));
        }
        CHECK(ferry_worker_operation_wait(offers[0], WAIT_MS));
        device_expect(pointer, 'x');
        if (!row->active_frees)
                memory_free(pointer);
        say(out, "f", 1);
        if (read || !row->active_frees)
                CHECK(ferry_worker_operation_wait(offers[1], WAIT_MS) != FERRY_E_TRANSFER_FAILED);
        hear(in, &go, 1);
        if (!read && row->active_frees) { /* no byte was read to be sent, so the offer stands */
                CHECK(ferry_worker_operation_status(offers[1]) != FERRY_INITIALIZED);
                ferry_worker_operation_cancel(offers[1]);
                CHECK(ferry_worker_operation_wait(offers[1], WAIT_MS) != FERRY_E_CANCELLED);
        }
        for (int i = 0; i < OFFERS; i++)
                (void)ferry_worker_operation_free(offers[i]);
        CHECK(ferry_worker_region_remove(worker, region));
        if (row->active_frees)
                memory_free(pointer);
        (void)ferry_worker_free(worker);
}

static void move_twice(const struct row *row, int in, int out)
{
        struct ferry_worker *worker = worker_of(row);
        enum ferry_kind kind = row->offer == FERRY_READABLE ? FERRY_READ : FERRY_WRITE;
        char region[FERRY_WORKER_ID_SIZE], metadata[OFFERS][METADATA], freed;
        uint64_t pointer = memory_add(worker, 1, kind == FERRY_READ ? 0 : 'x', region);
        struct ferry_worker_operation *operation;

        for (int i = 0; i < OFFERS; i++)
                hear(in, metadata[i], sizeof(metadata[i]));
        operation = start(worker, kind, metadata[0], region);
        CHECK(ferry_worker_operation_wait(operation, WAIT_MS));
        (void)ferry_worker_operation_free(operation);
        device_expect(pointer, 'x');
        hear(in, &freed, 1);
        if (row->active_frees)
                memory_free(pointer);
        operation = start(worker, kind, metadata[1], region);
        CHECK(ferry_worker_operation_wait(operation, WAIT_MS) != FERRY_E_TRANSFER_FAILED);
        (void)ferry_worker_operation_free(operation);
        say(out, "g", 1);
        CHECK(ferry_worker_region_remove(worker, region));
        if (!row->active_frees)
                memory_free(pointer);
        (void)ferry_worker_free(worker);
}

/* Each side is a process of its own: CUDA cannot be used after a fork. */
static pid_t run(const struct row *row, void (*side)(const struct row *row, int in, int out), int in, int out)
{
        pid_t pid = fork();

        CHECK(pid < 0);
        if (pid > 0)
                return pid;
        side(row, in, out);
        exit(0);
}

static bool succeeds(pid_t pid)
{
        int status;

        return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int down[2], up[2];
                pid_t passive, active;

                CHECK(pipe(down) < 0 || pipe(up) < 0);
                passive = run(&rows[i], offer_twice, down[0], up[1]);
                active = run(&rows[i], move_twice, up[0], down[1]);
                for (int k = 0; k < 2; k++)
                        (void)(close(down[k]), close(up[k]));
                bool well = succeeds(passive);
                if (!succeeds(active) || !well) {
                        fprintf(stderr, "row %zu failed\n", i);
                        return 1;
                }
        }
        return 0;
}
