/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/worker.h>

#include "ref.h"

/*
 * "sim_inside": two processes with a worker inside each, and no HTTP. Answers each line with the seconds of one
 * transfer of 4 KiB: from the create to the moment at which the offering program knows that both ends have seen it. The
 * metadata and the other's word go over a Unix socket.
 */

enum { SIZE = 4096, TEXT_SIZE = 4096 };

#define CHECK(call) ((call) ? (fprintf(stderr, "%s: %s\n", #call, ferry_worker_error()), exit(1)) : (void)0)

struct side {
        struct ferry_worker *worker;
        struct ferry_worker_request *request;
        int peer;
        char text[TEXT_SIZE];
};

static struct side ours;

static void side_start(struct side *side, enum ferry_kind kind)
{
        char region[FERRY_WORKER_ID_SIZE];
        void *memory;

        CHECK(ferry_worker_new(NULL, &side->worker));
        CHECK(ferry_worker_region_alloc(side->worker, SIZE, NULL, NULL, &memory, region));
        side->request = ferry_worker_request_new(kind);
        CHECK(ferry_worker_request_add(side->request, region, 0, SIZE));
}

static void side_stop(struct side *side)
{
        (void)ferry_worker_request_free(side->request);
        (void)ferry_worker_free(side->worker);
}

/* false: the other has left. */
static int hear(struct side *side)
{
        ssize_t n = recv(side->peer, side->text, sizeof(side->text) - 1, 0);

        side->text[n > 0 ? n : 0] = '\0';
        return n > 0;
}

static void tell(const struct side *side, const char *text)
{
        if (send(side->peer, text, strlen(text), MSG_NOSIGNAL) < 0)
                exit(EXIT_FAILURE);
}

static int serve(struct side *side)
{
        struct ferry_worker_operation *read;

        side_start(side, FERRY_READ);
        tell(side, "ready");
        while (hear(side)) {
                CHECK(ferry_worker_operation_create(side->worker, side->request, side->text, &read));
                CHECK(ferry_worker_operation_wait(read, -1));
                tell(side, "seen");
                (void)ferry_worker_operation_free(read);
        }
        side_stop(side);
        return EXIT_SUCCESS;
}

static double transfer(uint64_t unused)
{
        struct ferry_worker_operation *offer;
        const char *metadata;
        double start = ref_now(), seconds;

        CHECK(ferry_worker_operation_create(ours.worker, ours.request, NULL, &offer));
        CHECK(ferry_worker_operation_metadata(offer, &metadata));
        tell(&ours, metadata);
        CHECK(ferry_worker_operation_wait(offer, -1));
        if (!hear(&ours))
                exit(EXIT_FAILURE);
        seconds = ref_now() - start;
        (void)ferry_worker_operation_free(offer);
        return seconds;
}

int main(void)
{
        int pair[2];
        pid_t child;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return EXIT_FAILURE;
        child = fork();
        ours.peer = pair[child != 0];
        (void)close(pair[child == 0]);
        if (child <= 0)
                return child < 0 ? EXIT_FAILURE : serve(&ours);
        side_start(&ours, FERRY_READABLE);
        if (!hear(&ours))
                return EXIT_FAILURE;
        ref_answer(transfer);
        side_stop(&ours);
        return EXIT_SUCCESS;
}
