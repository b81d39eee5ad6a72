/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_UNMAP_H
#define LOCAL_UNMAP_H

#include "memory/gpu.h"
#include "transport/copier.h"

/* Unmaps a range; if it is pinned, unpins and unmaps it on a thread of the copier. Copies *range. */
void unmap_range(struct gpu_pin *range, struct copier *copier);

/* Closes another process's memory, on a thread of the copier; takes NULL. */
void unmap_gpu(const struct space *space, struct copier *copier);

#endif
