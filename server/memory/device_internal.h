/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_DEVICE_INTERNAL_H
#define MEMORY_DEVICE_INTERNAL_H

#include "memory/device.h"

/* The kernel's files about processors and modules; a test passes others. */
struct device_paths {
        const char *cpuinfo; /* /proc/cpuinfo */
        const char *modules; /* /sys/module: a folder for each loaded module */
};

/* Lists memory devices, GPUs included, and sets peer_memory. 0 or -ENOMEM. */
int device_memories_fill(const struct device_paths *paths, struct device_inventory *inventory);

#endif
