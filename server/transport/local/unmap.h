/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_UNMAP_H
#define LOCAL_UNMAP_H

#include "memory/gpu.h"
#include "transport/copier.h"

/* Unpins and unmaps a range, of which a copy is taken, on a thread of the copier where it is pinned. */
void unmap_range(struct gpu_pin *range, struct copier *copier);

/* Closes another process's memory there; takes NULL. */
void unmap_gpu(const struct space *space, struct copier *copier);

#endif
