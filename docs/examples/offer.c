// SPDX-License-Identifier: Apache-2.0
/* Offers memory of this program to one reader: offer | read */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/worker.h>

enum { SIZE = 16 << 20 };

/* Ends the program if a call failed. */
static void check(int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_worker_error());
        exit(1);
    }
}

int main(void)
{
    struct ferry_worker_request *request =
        ferry_worker_request_new(FERRY_READABLE);
    struct ferry_worker_operation *offer;
    struct ferry_worker *worker;
    char region[FERRY_WORKER_ID_SIZE];
    const char *metadata;
    void *memory;

    check(ferry_worker_new(NULL, &worker));
    check(ferry_worker_region_alloc(worker, SIZE, NULL, "example",
                                    &memory, region));
    memset(memory, 'x', SIZE);

    check(ferry_worker_request_add(request, region, 0, SIZE));
    check(ferry_worker_request_set(request, "ttl_ms", "60000"));
    check(ferry_worker_operation_create(worker, request, NULL, &offer));

    check(ferry_worker_operation_metadata(offer, &metadata));
    puts(metadata); /* a secret: whoever has it may read the bytes */
    fclose(stdout);

    check(ferry_worker_operation_wait(offer, -1));
    fprintf(stderr, "%llu bytes were read, by %s\n",
            (unsigned long long)ferry_worker_operation_bytes_done(offer),
            ferry_worker_operation_transport(offer));

    ferry_worker_operation_free(offer);
    ferry_worker_request_free(request);
    ferry_worker_free(worker);
    return 0;
}
