/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_MAPPING_H
#define FERRY_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

/* Advice that the kernel takes from Linux 5.14 and 6.1 on, and that Debian 12's headers do not name. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { FERRY_HUGE_PAGE = 2 << 20 };

/* Maps a file for reading and writing: size bytes, at a multiple of FERRY_HUGE_PAGE if it has one. 0 or -errno. */
int ferry_map(int fd, size_t size, void **ret_address);

/*
 * Makes huge pages of a range of them, which takes the pages that are missing: on most systems shmem uses none
 * (shmem_enabled), but MADV_COLLAPSE (Linux 6.1) makes them, and not from the pool of hugetlbfs. false: the system has
 * none, or an access would raise SIGBUS.
 */
bool ferry_map_huge(void *address, size_t size);

#endif
