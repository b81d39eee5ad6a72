/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NODE_FIXTURE_H
#define NODE_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "memory/region.h"
#include "move/engine.h"
#include "operations/operations.h"

/* A worker without HTTP: an engine with operations above it, and one region. */

struct node {
        struct engine *engine;
        uint64_t epoch;
        struct operation_store *store;
        struct region_table *regions;
        struct region *region;
        pthread_rwlock_t lock; /* read by the engine while it uses store */
};

struct node_limits {
        uint64_t size; /* of the region */
        uint32_t grace_ms, connect_ms;
        uint64_t stall_ms, ttl_ms;
};
/* Over UCX if network, else over the local transport. */
void node_open(struct node *node, struct loop *loop, bool network, const struct node_limits *limits);
/* Ends its operations. The region stays. */
void node_close(struct node *node);
/* Asserts that nothing uses the region. */
void node_free(struct node *node);

#endif
