/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REF_H
#define REF_H

#include <stddef.h>
#include <stdint.h>

/* What the reference programs share. Each takes a size a line on standard input and answers with the seconds. */

/*
 * Maps a memfd as a worker does for a region: every page there, huge pages where the kernel has them to give, each byte
 * = value. NULL without memory.
 */
void *ref_memory_new(size_t size, int value);

double ref_now(void);

/* Runs with each size that is asked for, until the end of the input. run returns the seconds. */
void ref_answer(double (*run)(uint64_t size));

#endif
