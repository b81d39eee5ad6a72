// SPDX-License-Identifier: Apache-2.0
/* Reads what another program offers, into memory of this one: offer |
 * read */
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
        ferry_worker_request_new(FERRY_READ);
    struct ferry_worker_operation *read;
    struct ferry_worker *worker;
    char metadata[16384], region[FERRY_WORKER_ID_SIZE],
        *memory = malloc(SIZE);

    if (!memory || !fgets(metadata, sizeof(metadata), stdin))
        return 1;
    check(ferry_worker_new(NULL, &worker));
    check(ferry_worker_region_add(worker, memory, SIZE, NULL, NULL,
                                  region));

    check(ferry_worker_request_add(request, region, 0, SIZE));
    check(
        ferry_worker_operation_create(worker, request, metadata, &read));
    check(ferry_worker_operation_wait(read, 10000));

    puts(memory[0] == 'x' && memcmp(memory, memory + 1, SIZE - 1) == 0
             ? "same"
             : "different");

    ferry_worker_operation_free(read);
    check(ferry_worker_region_remove(
        worker, region)); /* from here on Ferry does not use the memory */
    ferry_worker_request_free(request);
    ferry_worker_free(worker);
    free(memory);
    return 0;
}
