// SPDX-License-Identifier: Apache-2.0
/* Eight reads at once from one thread: many URL-A URL-B */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/aio.h>

enum { READS = 8, SIZE = 64 << 10 };

/* Ends the program if a call on this handle failed. */
static void check(struct ferry *f, int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_last_message(f));
        exit(1);
    }
}

/* Runs inside ferry_aio_dispatch(), once for each call. */
static void read_ended(void *context,
                       const struct ferry_aio_result *result)
{
    int *complete = context;
    if (result->result == 0 &&
        result->operation->status == FERRY_COMPLETE)
        ++*complete;
    else
        fprintf(stderr, "a read failed: %s\n", result->message);
}

/* Prints how the worker's operations of a label ended, page by page. */
static void print_operations(struct ferry *f, const char *label)
{
    struct ferry_operation_query query = { .label = label };
    struct ferry_operation_list page;
    char after[FERRY_ID_SIZE] = "";
    do {
        check(f, ferry_list_operations(f, &query, &page));
        for (size_t i = 0; i < page.n; i++)
            printf("%s %s\n", page.items[i].id,
                   ferry_status_name(page.items[i].status));
        snprintf(after, sizeof(after), "%s", page.next ? page.next : "");
        query.after = after;
        ferry_operation_list_clear(&page);
    } while (*after);
}

int main(int argc, char **argv)
{
    struct ferry_region source, target;
    struct ferry_operation offer;
    struct ferry_aio *aio;
    struct ferry *a, *b;
    static char sent[SIZE], received[READS * SIZE];
    int ended = 0;

    if (argc < 3 || ferry_new(argv[1], NULL, &a) ||
        ferry_new(argv[2], NULL, &b))
        return 2;
    memset(sent, 'f', sizeof(sent));
    const struct ferry_region_spec one = { .size = SIZE };
    const struct ferry_region_spec all = { .size = READS * SIZE };
    check(a, ferry_create_region(a, &one, &source));
    check(b, ferry_create_region(b, &all, &target));
    check(a, ferry_put_region_content(a, source.id, 0, sent, SIZE));

    /* One offer that serves all reads. */
    const struct ferry_descriptor from = { .region = source.id };
    const struct ferry_operation_spec readable = {
        .kind = FERRY_READABLE,
        .descriptors = &from,
        .n_descriptors = 1,
        .uses = READS,
        .include_metadata = true,
    };
    check(a, ferry_create_operation(a, &readable, &offer));

    if (ferry_aio_new(b, &aio))
        return 1;
    for (int i = 0; i < READS; i++) {
        const struct ferry_descriptor to = {
            .region = target.id,
            .offset = (uint64_t)i * SIZE,
            .size = SIZE,
        };
        const struct ferry_operation_spec reading = {
            .kind = FERRY_READ,
            .descriptors = &to,
            .n_descriptors = 1,
            .remote_metadata = offer.metadata,
            .label = "many",
            .wait_ms = 30000, /* the call ends when the read has */
        };
        if (ferry_aio_create_operation(aio, &reading, read_ended, &ended))
            return 1;
    }

    /* A program with an event loop polls ferry_aio_fd() instead. */
    while (ferry_aio_pending(aio) > 0) {
        if (ferry_aio_dispatch(aio, -1) < 0)
            return 1;
    }
    (void)ferry_aio_free(aio);

    print_operations(b, "many");
    check(b, ferry_get_region_content(b, target.id, 0, received,
                                      sizeof(received), NULL));
    for (int i = 0; i < READS; i++)
        ended -= memcmp(sent, received + i * SIZE, SIZE) == 0;
    puts(ended == 0 ? "same" : "different");

    ferry_operation_clear(&offer);
    check(a, ferry_delete_region(a, source.id));
    check(b, ferry_delete_region(b, target.id));
    ferry_free(a);
    ferry_free(b);
    return 0;
}
