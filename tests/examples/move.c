// SPDX-License-Identifier: Apache-2.0
/* Moves bytes from worker A to worker B: move http://HOST-A:PORT http://HOST-B:PORT (cc move.c -lferry) */
#include <stdio.h>
#include <string.h>

#include <ferry/ferry.h>

static int fail(const struct ferry *f)
{
        fprintf(stderr, "%s\n", ferry_last_message(f));
        return 1;
}

int main(int argc, char **argv)
{
        static char sent[1 << 20], received[sizeof(sent)];
        struct ferry_region source, target;
        struct ferry_operation offer, read;
        struct ferry *a, *b;
        size_t n;

        if (argc < 3 || ferry_new(argv[1], NULL, &a) || ferry_new(argv[2], NULL, &b))
                return 2;
        memset(sent, 'f', sizeof(sent));

        const struct ferry_region_spec memory = { .size = sizeof(sent) };
        if (ferry_create_region(a, &memory, &source) || ferry_put_region_content(a, source.id, 0, sent, sizeof(sent)))
                return fail(a);
        const struct ferry_descriptor from = { .region = source.id };
        const struct ferry_operation_spec readable = {
                .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
        };
        if (ferry_create_operation(a, &readable, &offer))
                return fail(a);

        if (ferry_create_region(b, &memory, &target))
                return fail(b);
        const struct ferry_descriptor to = { .region = target.id };
        const struct ferry_operation_spec reading = {
                .kind = FERRY_READ, .descriptors = &to, .n_descriptors = 1, .remote_metadata = offer.metadata
        };
        if (ferry_create_operation(b, &reading, &read))
                return fail(b);
        char id[FERRY_ID_SIZE];
        strcpy(id, read.id);
        ferry_operation_clear(&read);
        if (ferry_wait_operation(b, id, FERRY_FOREVER, &read) ||
            ferry_get_region_content(b, target.id, 0, received, sizeof(received), &n))
                return fail(b);
        printf("%s %s %lu us\n", ferry_status_name(read.status), read.transport, (unsigned long)read.duration_us);
        puts(memcmp(sent, received, sizeof(sent)) ? "different" : "same");

        ferry_operation_clear(&offer);
        ferry_operation_clear(&read);
        if (ferry_delete_region(a, source.id) || ferry_delete_region(b, target.id))
                return 1;
        ferry_free(a);
        ferry_free(b);
        return 0;
}
