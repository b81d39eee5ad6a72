/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REF_MEMORY_H
#define REF_MEMORY_H

#include <stddef.h>

/*
 * Maps a memfd as a worker does for a region: every page there, huge pages where the kernel has them to give, each byte
 * = value. NULL without memory.
 */
void *ref_memory_new(size_t size, int value);

#endif
