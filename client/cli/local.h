/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "cli.h"

/*
 * Whether process pid of this machine has the listening socket of url. A worker behind a tunnel, or in another pid
 * namespace, reports a pid that means another process here.
 */
bool local_is_worker(const char *url, pid_t pid);

/*
 * Opens a region of a local worker and maps it. NULL if it cannot; the caller then uses HTTP. The mapping has
 * region->size bytes.
 */
void *local_map(const char *url, const struct ferry_region *region, bool writable);

/*
 * Maps size bytes of a new, empty file with all huge pages present: copying to it takes a third of the time of write().
 * NULL if the file is not in memory (tmpfs) or is small, or the system has no huge pages; then use write(). Unmap with
 * munmap.
 */
void *mapping_new(int fd, size_t size);

#endif
