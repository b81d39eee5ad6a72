/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>

/*
 * memcpy with non-temporal stores, for bulk that is not read soon: the old content of the destination is not loaded
 * into the caches first. glibc does the same only for copies of a large part of the last-level cache (180 MiB on a
 * large host), not for bulk copied in pieces. Measured in tests/bench/NOTES.md: 11.8 GB/s instead of 7.2 in pieces of 1
 * MiB. Call copy_past_caches_end after the last of several copies, before another thread may read the bytes. Any
 * thread.
 */
void copy_past_caches(void *to, const void *from, size_t size);
void copy_past_caches_end(void);

#endif
