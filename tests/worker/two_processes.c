/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A whole program of libferry-worker: the child offers memory, the parent reads it. No HTTP, no file, no address. */

enum { SIZE = 16 << 20 };

#define CHECK(call) ((call) ? (fprintf(stderr, "%s: %s\n", #call, ferry_worker_error()), exit(1)) : (void)0)

/* Starts an operation on SIZE bytes of the worker's own memory. remote: the peer's metadata, NULL for an offer. */
static struct ferry_worker_operation *start(struct ferry_worker *worker, enum ferry_kind kind, const char *remote,
                                            unsigned char **ret_memory, int fill)
{
        struct ferry_worker_request *request = ferry_worker_request_new(kind);
        struct ferry_worker_operation *operation;
        char region[FERRY_WORKER_ID_SIZE];
        void *memory;

        CHECK(ferry_worker_region_alloc(worker, SIZE, NULL, NULL, &memory, region));
        memset(memory, fill, SIZE);
        CHECK(ferry_worker_request_add(request, region, 0, SIZE));
        CHECK(ferry_worker_operation_create(worker, request, remote, &operation));
        (void)ferry_worker_request_free(request);
        *ret_memory = memory;
        return operation;
}

int main(void)
{
        char metadata[4096] = "";
        struct ferry_worker_operation *operation;
        struct ferry_worker *worker;
        unsigned char *memory;
        const char *text;
        int pipes[2], status;
        pid_t child;

        if (pipe(pipes) < 0 || (child = fork()) < 0)
                return 1;
        CHECK(ferry_worker_new(NULL, &worker)); /* after the fork: one each */
        if (child == 0) {
                operation = start(worker, FERRY_READABLE, NULL, &memory, 'x');
                CHECK(ferry_worker_operation_metadata(operation, &text));
                CHECK(write(pipes[1], text, strlen(text)) < 0); /* by any way: the metadata are a secret */
        } else {
                CHECK(read(pipes[0], metadata, sizeof(metadata) - 1) < 0);
                operation = start(worker, FERRY_READ, metadata, &memory, 0);
        }
        CHECK(ferry_worker_operation_wait(operation, 10000)); /* both sides know how it ended */
        if (memory[0] != 'x' || memcmp(memory, memory + 1, SIZE - 1) != 0)
                return 1;
        (void)ferry_worker_operation_free(operation);
        (void)ferry_worker_free(worker);
        return child && (waitpid(child, &status, 0) != child || status) ? 1 : 0;
}
