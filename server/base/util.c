/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/state.h"
#include "base/util.h"

/* Small functions that all folders use. Any thread. */

/* ---- cleanup ---- */

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

/* ---- states ---- */

void state_check(const char *of, const struct state_row *table, unsigned from, unsigned to)
{
        if (table[from].next & STATE_BIT(to))
                return;
        log_event(LOG_ERROR, "forbidden state change", LOG_S("of", of), LOG_S("from", table[from].name),
                  LOG_S("to", table[to].name));
        abort();
}
