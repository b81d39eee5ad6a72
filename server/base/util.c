/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include <string.h>
#include <unistd.h>

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
        const size_t most = 256; /* of getentropy() */

        for (size_t done = 0; done < size; done += most)
                if (getentropy((char *)buffer + done, at_most(size - done, most)) < 0)
                        abort();
}

uint64_t random_id(void)
{
        uint64_t id;
        do {
                random_bytes(&id, sizeof(id));
        } while (id == 0);
        return id;
}
