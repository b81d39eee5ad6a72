/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGION_INTERNAL_H
#define REGION_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/metrics.h"
#include "memory/region.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/*
 * The table lives until its last region is gone, which may be after region_table_free: an HTTP answer may still send
 * from the memory. The lock is a leaf.
 */
struct region_table {
        struct region_config config; /* fixed */
        struct metric *count_gauge, *bytes_gauge;
        atomic_size_t references; /* the owner's, and one of each region that lives */

        pthread_mutex_t lock;         /* guards all below */
        struct region_private *by_id; /* the regions that region_find finds */
        struct region **ordered;      /* the same by ascending serial */
        size_t n_regions, capacity;   /* of ordered; capacity >= n_regions + n_pending */
        size_t n_pending;             /* regions being made */
        uint64_t bytes_listed;        /* of the regions that region_find finds */
        uint64_t bytes_owned;         /* of worker-owned memory, also where it is being made or not yet unmapped */
        uint64_t last_serial;
};

/* Set in region_private.state when the region was deleted; the rest of it counts the uses. */
#define REGION_DELETED UINT32_C(0x80000000)

struct region_private {
        struct region_table *table; /* holds a reference */
        atomic_size_t references;   /* the table's, and the callers' */
        _Atomic uint32_t state;     /* REGION_DELETED | number of uses */
        uint64_t serial;            /* fixed once listed */
        struct region region;
        UT_hash_handle hh; /* by region.id; the table's lock */
};

/*
 * Makes room for one more region in the lists and counts its bytes against the limit. 0; FERRY_E_LIMIT_REACHED;
 * FERRY_E_NO_SPACE; -ENOMEM. Undone by region_table_cancel, or turned into a listed region by region_table_add.
 */
int region_table_reserve(struct region_table *table, uint64_t owned_bytes);
void region_table_cancel(struct region_table *table, uint64_t owned_bytes);

/* Lists the region, whose reference becomes the table's. 0 or -ENOMEM; the reservation stays on failure. */
int region_table_add(struct region_table *table, struct region_private *private);

/* Gives back bytes of memory that is unmapped now. */
void region_table_release_bytes(struct region_table *table, uint64_t owned_bytes);

void region_table_unref(struct region_table *table);

/* Ends what others see of a region that is off the lists: its file and its registration; drops one reference. */
void region_retire(struct region *region);

#endif
