/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MAPPING_H
#define CLI_MAPPING_H

#include <stddef.h>

/*
 * Maps size bytes of a new, empty file with all huge pages present: copying to it takes a third of the time of write().
 * NULL if the file is not in memory (tmpfs) or is small, or the system has no huge pages; then use write(). Unmap with
 * munmap.
 */
void *mapping_new(int fd, size_t size);

#endif
