/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_INTERNAL_H
#define DEVICE_INTERNAL_H

#include "memory/device.h"

/* Where the kernel tells of processors and modules; a test passes a faked root. */
struct device_paths {
        const char *cpuinfo; /* /proc/cpuinfo */
        const char *modules; /* /sys/module: a folder for each loaded kernel module */
};

/* The RDMA NICs by libibverbs; the default of device_source.fill. 0 (also when there are none) or -ENOMEM. */
int device_nics_fill(void *context, struct device_inventory *inventory);

/* Memory devices, those of CUDA too, and peer_memory. 0 or -ENOMEM. */
int device_memories_fill(const struct device_paths *paths, struct device_inventory *inventory);

#endif
