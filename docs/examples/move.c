// SPDX-License-Identifier: Apache-2.0
/* Moves bytes from worker A to worker B: move URL-A URL-B */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

/* Ends the program if a call on this handle failed. */
static void check(struct ferry *f, int result)
{
    if (result != 0) {
        fprintf(stderr, "%s\n", ferry_last_message(f));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static char sent[1 << 20], received[sizeof(sent)];
    struct ferry_region source, target;
    struct ferry_operation offer, read, end;
    struct ferry *a, *b;

    if (argc < 3 || ferry_new(argv[1], NULL, &a) ||
        ferry_new(argv[2], NULL, &b))
        return 2;
    memset(sent, 'f', sizeof(sent));

    const struct ferry_region_spec memory = { .size = sizeof(sent) };
    check(a, ferry_create_region(a, &memory, &source));
    check(b, ferry_create_region(b, &memory, &target));
    check(a,
          ferry_put_region_content(a, source.id, 0, sent, sizeof(sent)));

    const struct ferry_descriptor from = { .region = source.id };
    const struct ferry_descriptor to = { .region = target.id };
    const struct ferry_operation_spec readable = {
        .kind = FERRY_READABLE,
        .descriptors = &from,
        .n_descriptors = 1,
        .include_metadata = true,
    };
    check(a, ferry_create_operation(a, &readable, &offer));

    /* The metadata go to the reader, over any channel. */
    const struct ferry_operation_spec reading = {
        .kind = FERRY_READ,
        .descriptors = &to,
        .n_descriptors = 1,
        .remote_metadata = offer.metadata,
    };
    check(b, ferry_create_operation(b, &reading, &read));
    check(b, ferry_wait_operation(b, read.id, FERRY_FOREVER, &end));

    check(b, ferry_get_region_content(b, target.id, 0, received,
                                      sizeof(received), NULL));
    printf("%s %s %lu us\n", ferry_status_name(end.status), end.transport,
           (unsigned long)end.duration_us);
    puts(memcmp(sent, received, sizeof(sent)) ? "different" : "same");

    ferry_operation_clear(&offer);
    ferry_operation_clear(&read);
    ferry_operation_clear(&end);
    check(a, ferry_delete_region(a, source.id));
    check(b, ferry_delete_region(b, target.id));
    ferry_free(a);
    ferry_free(b);
    return 0;
}
