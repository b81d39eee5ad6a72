/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_REGION_H
#define MEMORY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;

/*
 * Regions: memory registered once, used by many operations.
 *
 * A worker's own region is a shared-memory file /dev/shm/ferry-<epoch>-<id> of mode 0600, allocated in full
 * (fallocate; tmpfs would otherwise answer a full disk with SIGBUS) and pre-faulted. A foreign region is memory that
 * the embedding program owns. All functions: any thread, unless said otherwise.
 *
 * Reference counting: whoever got a region from region_find or region_create holds one reference and gives it back with
 * region_unref. "In use" is counted apart: region_use/region_unuse by operations; a region in use
 * cannot be deleted.
 */

enum { REGION_NAME_SIZE = 65, REGION_DEVICE_SIZE = 16, REGION_PATH_SIZE = 64 };

struct region_table;

/* How the layer that registers memory (UCX) is told. Called without a lock of the table held. */
struct region_registrar {
        /* file: the region whose file (base/presence.h) this memory is; 0 = none. 0 with *ret_registration, or -errno.
         */
        int (*enroll)(void *context, void *address, size_t size, uint64_t file, void **ret_registration);
        void (*withdraw)(void *context, void *registration);
        void *context;
};

/* Fields are fixed from creation on, but for the counters, which the table owns. */
struct region {
        uint64_t id;
        char name[REGION_NAME_SIZE]; /* "" = none */
        char device[REGION_DEVICE_SIZE];
        char path[REGION_PATH_SIZE]; /* "" = foreign memory */
        void *address;
        size_t size;
        uint64_t created_unix_ms;
        void *registration; /* the registrar's */
        struct region_private *private;
};

struct region_config {
        uint64_t epoch;        /* names the files */
        uint64_t memory_limit; /* bytes of all worker-owned regions; 0 = none may be made */
        size_t max_regions;
        struct region_registrar registrar;
        struct metrics *metrics; /* may be NULL */
};

/* 0 or -errno. The files of dead workers are the business of base/presence.h. */
int region_table_new(const struct region_config *config, struct region_table **ret_table);

/* Unlinks and unmaps all regions. No region may be in use. Takes NULL; returns NULL. */
struct region_table *region_table_free(struct region_table *table);

/*
 * Makes a region of size bytes of zeros on device, named name ("" = unnamed; names need not be unique).
 * 0 with *ret_region; FERRY_E_UNKNOWN_DEVICE; FERRY_E_INVALID_PARAMETER (size 0); FERRY_E_NO_SPACE (memory limit,
 * /dev/shm full, RLIMIT_MEMLOCK); FERRY_E_LIMIT_REACHED (too many regions or open files); -errno.
 */
int region_create(struct region_table *table, uint64_t size, const char *device, const char *name,
                  struct region **ret_region);

/* Registers memory that the caller owns and keeps until the region is gone. Same results. */
int region_adopt(struct region_table *table, void *address, size_t size, const char *device, const char *name,
                 struct region **ret_region);

/* NULL when there is none (or it was deleted). */
struct region *region_find(struct region_table *table, uint64_t id);
struct region *region_ref(struct region *region);
struct region *region_unref(struct region *region); /* takes NULL; returns NULL */

/* Marks the region as used by one more operation. FERRY_E_NOT_FOUND when it was deleted meanwhile. */
int region_use(struct region *region);
void region_unuse(struct region *region);
uint32_t region_in_use(const struct region *region);

/*
 * A stream of content keeps the memory mapped (a reference) until its end. The worker's own memory may be deleted
 * under it; it then goes with the last stream. Foreign memory counts as in use as well, because its owner may free it
 * as soon as the region is deleted. FERRY_E_NOT_FOUND when it was deleted meanwhile.
 */
int region_stream_begin(struct region *region);
void region_stream_end(struct region *region);

/* Whether the region was deleted; its memory is there as long as the caller's reference. */
bool region_deleted(const struct region *region);

/*
 * Deletes: afterwards region_find does not find it, its file is unlinked and its registration withdrawn; memory is
 * unmapped with the last reference. FERRY_E_NOT_FOUND; FERRY_E_REGION_IN_USE.
 */
int region_delete(struct region_table *table, uint64_t id);

/*
 * A page in order of creation. after = id of the last region of the previous page, 0 = from the start (an id that is
 * gone works: order is by a serial number that the table remembers in the cursor). *cursor in/out; 0 at the start and
 * again at the end. Returns how many were stored in page, each with a reference.
 */
size_t region_page(struct region_table *table, uint64_t *cursor, struct region **page, size_t n);

/* Sums for metrics and /v1/limits. */
void region_totals(struct region_table *table, size_t *ret_regions, uint64_t *ret_bytes);

#endif
