/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <ferry/error.h>
#include <ferry/worker.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A whole program that has memory on a GPU of its own, as PyTorch's is: the child offers it twice, the parent reads it
 * into its own. Before the second read the child frees the memory under the offer, which has to end the read. What
 * stands in for the driver (tests/cuda) lets nobody touch the memory but by the driver's copies.
 */

enum { SIZE = 3 << 20, OFFERS = 2, METADATA = 4096 };

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

static void offer_and_free(struct ferry_worker *worker, int in, int out)
{
        struct ferry_worker_operation *offers[OFFERS];
        uint64_t pointer = device_memory(0);
        char region[FERRY_WORKER_ID_SIZE], go;

        device_fill(pointer, 'x');
        CHECK(ferry_worker_region_add(worker, (void *)(uintptr_t)pointer, SIZE, "cuda:0", NULL, region));
        for (int i = 0; i < OFFERS; i++) {
                char metadata[METADATA] = "";
                const char *text;

                offers[i] = start(worker, FERRY_READABLE, NULL, region);
                CHECK(ferry_worker_operation_metadata(offers[i], &text));
                (void)snprintf(metadata, sizeof(metadata), "%s", text);
                say(out, metadata, sizeof(metadata));
        }
        CHECK(ferry_worker_operation_wait(offers[0], 10000));
        DRIVER(cuMemFree_v2, (uint64_t), pointer);
        say(out, "f", 1);
        CHECK(ferry_worker_operation_wait(offers[1], 10000) != FERRY_E_TRANSFER_FAILED);
        hear(in, &go, 1);
        for (int i = 0; i < OFFERS; i++)
                (void)ferry_worker_operation_free(offers[i]);
        CHECK(ferry_worker_region_remove(worker, region));
}

static void read_twice(struct ferry_worker *worker, int in, int out)
{
        uint64_t pointer = device_memory(1);
        char region[FERRY_WORKER_ID_SIZE], metadata[OFFERS][METADATA], freed;
        struct ferry_worker_operation *operation;

        device_fill(pointer, 0);
        CHECK(ferry_worker_region_add(worker, (void *)(uintptr_t)pointer, SIZE, "cuda:1", NULL, region));
        for (int i = 0; i < OFFERS; i++)
                hear(in, metadata[i], sizeof(metadata[i]));
        operation = start(worker, FERRY_READ, metadata[0], region);
        CHECK(ferry_worker_operation_wait(operation, 10000));
        (void)ferry_worker_operation_free(operation);
        device_expect(pointer, 'x');
        hear(in, &freed, 1);
        operation = start(worker, FERRY_READ, metadata[1], region);
        CHECK(ferry_worker_operation_wait(operation, 10000) != FERRY_E_TRANSFER_FAILED);
        (void)ferry_worker_operation_free(operation);
        say(out, "g", 1);
        CHECK(ferry_worker_region_remove(worker, region));
        DRIVER(cuMemFree_v2, (uint64_t), pointer);
}

int main(void)
{
        struct ferry_worker *worker;
        int down[2], up[2], status;
        pid_t child;

        if (pipe(down) < 0 || pipe(up) < 0 || (child = fork()) < 0)
                return 1;
        CHECK(ferry_worker_new(NULL, &worker)); /* after the fork: one each */
        if (child == 0)
                offer_and_free(worker, down[0], up[1]);
        else
                read_twice(worker, up[0], down[1]);
        (void)ferry_worker_free(worker);
        return child && (waitpid(child, &status, 0) != child || status) ? 1 : 0;
}
