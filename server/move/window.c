/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <stddef.h>

/*
 * The window of a transfer: see window.h. A chunk's name is its place in the table and a generation, so that a late
 * answer to an earlier chunk in the same place is not taken for its own.
 */

struct chunk *window_take(struct window *window, uint64_t offset, uint64_t length)
{
        for (uint32_t i = 0; i < ENGINE_WINDOW_MAX; i++) {
                struct chunk *chunk = &window->chunks[i];

                if (chunk->taken)
                        continue;
                *chunk = (struct chunk){ .taken = true,
                                         .seq = window->generation++ * ENGINE_WINDOW_MAX + i,
                                         .offset = offset,
                                         .length = length };
                window->n_taken++;
                return chunk;
        }
        return NULL;
}

struct chunk *window_find(struct window *window, uint32_t seq)
{
        struct chunk *chunk = &window->chunks[seq % ENGINE_WINDOW_MAX];

        return chunk->taken && chunk->seq == seq ? chunk : NULL;
}

void window_release(struct window *window, struct chunk *chunk)
{
        window->n_taken--;
        *chunk = (struct chunk){ 0 };
}

struct chunk *window_find_idle(struct window *window)
{
        for (size_t i = 0; i < ENGINE_WINDOW_MAX && window->n_taken > 0; i++)
                if (window->chunks[i].taken && !chunk_is_busy(&window->chunks[i]))
                        return &window->chunks[i];
        return NULL;
}
