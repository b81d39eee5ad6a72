/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_FOREIGN_INTERNAL_H
#define MEMORY_FOREIGN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/space.h"
#include "maps_internal.h"

/*
 * Host memory that the program owns. Of what no access can fail (steady, in maps_internal.h), host code reads and
 * writes every byte itself. All other memory is a space: a mapped file raises SIGBUS once it is truncated, and that at
 * any moment. The kernel copies such memory, and where it finds nothing the copy fails, and not the process.
 */

/*
 * The space of memory that is adopted; NULL where it is steady. *ret_read_only: not all of it is writable now. 0 or
 * -ENOMEM.
 */
int foreign_adopt(struct maps *maps, void *address, size_t size, const struct space **ret_space, bool *ret_read_only);

/* Takes NULL. No copy may be using it. */
void foreign_free(const struct space *space);

/* Whether the memory is writable now: 0; -EROFS; -ENXIO: not mapped. */
int foreign_check_writable(struct maps *maps, const void *address, size_t size);

#endif
