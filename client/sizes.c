/* SPDX-License-Identifier: Apache-2.0 */
#include "sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_internal.h"

void sizes_give(void *theirs, size_t their_size, const void *ours, size_t our_size)
{
        size_t both = their_size < our_size ? their_size : our_size;
        memcpy(theirs, ours, both);
        memset((char *)theirs + both, 0, their_size - both);
}

void sizes_give_up(void *theirs, size_t their_size, void *ours, size_t our_size)
{
        sizes_give(theirs, their_size, ours, our_size);
        memset(ours, 0, their_size < our_size ? their_size : our_size);
}

int sizes_take(struct ferry *f, void *ours, size_t our_size, const void *theirs, size_t their_size)
{
        if (!theirs) {
                if (f)
                        (void)problem_argument(f, "an argument is missing");
                return -EINVAL;
        }
        sizes_give(ours, our_size, theirs, their_size);
        for (size_t i = our_size; i < their_size; i++) {
                if (!((const char *)theirs)[i])
                        continue;
                if (f)
                        (void)problem_argument(f, "an argument has a field of a later version of libferry");
                return -ENOTSUP;
        }
        return 0;
}

int sizes_give_items(void **items, size_t n, size_t their_size, size_t our_size)
{
        if (their_size == our_size)
                return 0;
        char *theirs = calloc(n ?: 1, their_size);
        if (!theirs)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                sizes_give(theirs + i * their_size, their_size, (char *)*items + i * our_size, our_size);
        free(*items);
        *items = theirs;
        return 0;
}
