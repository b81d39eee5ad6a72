/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

size_t text_copy(char *to, size_t size, const char *from)
{
        size_t length = from ? strnlen(from, size - 1) : 0;

        if (length > 0)
                memcpy(to, from, length);
        to[length] = '\0';
        return length;
}

void random_bytes(void *buffer, size_t size)
{
        unsigned char *next = buffer;
        while (size > 0) {
                ssize_t n = getrandom(next, size, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        abort();
                next += n;
                size -= (size_t)n;
        }
}

uint64_t random_id(void)
{
        uint64_t id;
        do {
                random_bytes(&id, sizeof(id));
        } while (id == 0);
        return id;
}
