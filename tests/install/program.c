/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows nothing but what pkg-config says: moves bytes between two regions of the worker at argv[1]. */
#include <ferry/aio.h>
#include <ferry/ferry.h>

#include <stdio.h>
#include <string.h>

static int run(struct ferry *f)
{
        char back[6] = "";
        struct ferry_region source, target;
        struct ferry_operation offer, read, end;
        struct ferry_region_spec size = { .size = 5 };
        if (ferry_create_region(f, &size, &source) || ferry_create_region(f, &size, &target) ||
            ferry_put_region_content(f, source.id, 0, "ferry", 5))
                return 1;
        struct ferry_descriptor from = { .region = source.id }, to = { .region = target.id };
        struct ferry_operation_spec readable = {
                .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
        };
        if (ferry_create_operation(f, &readable, &offer))
                return 1;
        struct ferry_operation_spec reading = {
                .kind = FERRY_READ, .descriptors = &to, .n_descriptors = 1, .remote_metadata = offer.metadata
        };
        if (ferry_create_operation(f, &reading, &read) || ferry_wait_operation(f, read.id, 10000, &end))
                return 1;
        if (end.status != FERRY_COMPLETE || ferry_get_region_content(f, target.id, 0, back, 5, NULL))
                return 1;
        puts(back);
        ferry_operation_clear(&offer);
        ferry_operation_clear(&read);
        ferry_operation_clear(&end);
        return strcmp(back, "ferry") != 0;
}

int main(int argc, char **argv)
{
        struct ferry *f = NULL;
        if (argc < 2 || ferry_new(argv[1], NULL, &f) != 0)
                return 2;
        int r = run(f);
        if (r)
                fprintf(stderr, "%s\n", ferry_last_message(f));
        ferry_free(f);
        return r;
}
