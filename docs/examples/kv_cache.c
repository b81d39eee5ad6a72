// SPDX-License-Identifier: Apache-2.0
/* Hands blocks from one paged cache to another: kv_cache */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/worker.h>

enum { BLOCK = 16 << 10, BLOCKS = 64, PROMPTS = 3 };

/* Ends the program if a call failed. */
static void check(int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_worker_error());
        exit(1);
    }
}

/* A worker with a cache of its own: the prefill or the decode. Usually
 * these are two processes. */
struct instance {
    struct ferry_worker *worker;
    char cache[FERRY_WORKER_ID_SIZE];
    char *memory;
};

static void instance_start(struct instance *i, const char *name)
{
    struct ferry_worker_options *options = ferry_worker_options_new();
    void *memory;
    check(ferry_worker_options_set(options, "name", name));
    check(ferry_worker_new(options, &i->worker));
    check(ferry_worker_region_alloc(i->worker, BLOCKS * BLOCK, NULL, "kv",
                                    &memory, i->cache));
    i->memory = memory;
    ferry_worker_options_free(options);
}

/* Offers the blocks of a prompt for 30 s, and for 10 minutes at most if
 * the decode asks for more time. */
static struct ferry_worker_operation *prompt_offer(struct instance *i,
                                                   const uint64_t *blocks,
                                                   size_t n)
{
    struct ferry_worker_request *request =
        ferry_worker_request_new(FERRY_READABLE);
    struct ferry_worker_operation *offer;
    check(ferry_worker_request_add_blocks(request, i->cache, 0, BLOCK,
                                          blocks, n));
    check(ferry_worker_request_set(request, "ttl_ms", "30000"));
    check(ferry_worker_request_set(request, "renew_max_ms", "600000"));
    check(
        ferry_worker_operation_create(i->worker, request, NULL, &offer));
    ferry_worker_request_free(request);
    return offer;
}

/* Reads all of the offer but its first block, which this cache has
 * already. */
static struct ferry_worker_operation *prompt_read(struct instance *i,
                                                  const char *metadata,
                                                  const uint64_t *blocks,
                                                  size_t n)
{
    struct ferry_worker_request *request =
        ferry_worker_request_new(FERRY_READ);
    struct ferry_worker_operation *read;
    check(ferry_worker_request_add_blocks(request, i->cache, 0, BLOCK,
                                          blocks, n));
    check(ferry_worker_request_add_remote(request, &(uint64_t){ BLOCK },
                                          &(uint64_t){ n * BLOCK }, 1));
    check(ferry_worker_operation_create(i->worker, request, metadata,
                                        &read));
    ferry_worker_request_free(request);
    return read;
}

int main(void)
{
    static const uint64_t of_prefill[PROMPTS][3] = { { 7, 3, 12 },
                                                     { 8, 40, 41 },
                                                     { 1, 2, 4 } };
    static const uint64_t of_decode[PROMPTS][2] = { { 0, 9 },
                                                    { 5, 6 },
                                                    { 10, 11 } };
    struct ferry_worker_operation *offers[PROMPTS],
        *reads[PROMPTS] = { NULL };
    struct ferry_worker_queue *queue;
    struct instance prefill, decode;
    const char *metadata;
    uint64_t left_ms;
    void *context;

    instance_start(&prefill, "prefill");
    instance_start(&decode, "decode");
    for (int i = 0; i < BLOCKS; i++)
        memset(prefill.memory + i * BLOCK, i, BLOCK);
    check(ferry_worker_queue_new(&queue));

    for (int i = 0; i < PROMPTS; i++) {
        offers[i] = prompt_offer(&prefill, of_prefill[i], 3);
        check(ferry_worker_operation_metadata(offers[i], &metadata));
        if (i == 2) { /* given up: the blocks are free at once */
            check(ferry_worker_decline(decode.worker, metadata, 1000));
            continue;
        }
        check(ferry_worker_renew(decode.worker, metadata, 30000, 1000,
                                 &left_ms)); /* it is kept */
        reads[i] = prompt_read(&decode, metadata, of_decode[i], 2);
        check(ferry_worker_queue_add(queue, reads[i], reads[i]));
    }

    /* An event loop polls this descriptor with its others. */
    struct pollfd wanted = { .events = POLLIN };
    wanted.fd = ferry_worker_queue_fd(queue);
    for (int ended = 0; ended < PROMPTS - 1;) {
        poll(&wanted, 1, -1);
        while (ferry_worker_queue_take(queue, &context) == 1) {
            check(ferry_worker_operation_result(context));
            printf("%s is complete\n",
                   ferry_worker_operation_id(context));
            ended++;
        }
    }

    for (int i = 0; i < PROMPTS; i++) {
        enum ferry_status status =
            ferry_worker_operation_status(offers[i]);
        printf("prompt %d: %s\n", i, ferry_status_name(status));
        ferry_worker_operation_free(offers[i]);
        ferry_worker_operation_free(reads[i]);
    }

    const char *memory = decode.memory;
    bool same = memory[0] == 3 && memory[9 * BLOCK] == 12 &&
                memory[5 * BLOCK] == 40;
    puts(same ? "same" : "different");

    ferry_worker_queue_free(queue);
    ferry_worker_free(decode.worker);
    ferry_worker_free(prefill.worker);
    return 0;
}
