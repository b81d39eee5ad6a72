/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_TAPE_H
#define TESTS_FUZZ_TAPE_H

#include <stdbool.h>
#include <string.h>

#include "fuzz.h"

/* An input as a sequence of choices. After its end every choice is 0. */
struct fuzz_tape {
        const uint8_t *at, *end;
};

static inline bool tape_has(const struct fuzz_tape *tape)
{
        return tape->at < tape->end;
}

static inline uint8_t tape_byte(struct fuzz_tape *tape)
{
        return tape_has(tape) ? *tape->at++ : 0;
}

/* n: 1 to 256 */
static inline unsigned tape_below(struct fuzz_tape *tape, unsigned n)
{
        return tape_byte(tape) % n;
}

static inline uint64_t tape_number(struct fuzz_tape *tape, size_t bytes)
{
        uint64_t number = 0;

        for (size_t i = 0; i < bytes; i++)
                number |= (uint64_t)tape_byte(tape) << 8 * i;
        return number;
}

/* Copies at most size bytes of the rest; how many. */
static inline size_t tape_take(struct fuzz_tape *tape, void *buffer, size_t size)
{
        size_t rest = (size_t)(tape->end - tape->at), n = size < rest ? size : rest;

        if (n > 0)
                memcpy(buffer, tape->at, n);
        tape->at += n;
        return n;
}

#endif
