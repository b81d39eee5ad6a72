/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "cli.h"

/*
 * Whether process pid of this machine is what answers at url: it holds the listening socket. A worker behind a tunnel
 * or in another pid namespace has a pid, too, which is somebody else's here.
 */
bool local_is_worker(const char *url, pid_t pid);

/*
 * Opens a region of a local worker and maps it. NULL when that cannot be; the caller then takes HTTP. The mapping has
 * region->size bytes.
 */
void *local_map(const char *url, const struct ferry_region *region, bool writable);

#endif
