/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_TOMBSTONE_H
#define TRANSFER_TOMBSTONE_H

#include <stdint.h>

struct engine;
struct tombstone;

/* Transfers that are over, and how their late messages are answered. */

void tombstone_add(struct engine *engine, uint64_t transfer, int wire_error);
/* NULL = not known (any more). */
const struct tombstone *tombstone_find(struct engine *engine, uint64_t transfer);

#endif
