/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_REGION_H
#define MEMORY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;
struct room_paths;
struct space;

/*
 * Regions: memory registered once, used by many operations.
 *
 * A worker's own region is a memfd, sealed against shrinking and growing, with every page there and mapped once. A
 * large one is made and freed by the maker threads (makers_internal.h); until it is ready it is listed, and that is
 * all. A region on a GPU is made by a maker thread, of whatever size. A foreign region is memory that the embedding
 * program owns. All functions: any thread, unless said otherwise.
 *
 * Four things keep a region, each in its way:
 * - a reference (region_find, region_create; given back with region_unref): its memory stays;
 * - a use (region_use, of an operation that has not ended): it cannot be deleted;
 * - a stream of its content: a reference, and of foreign memory a use as well;
 * - held: it is the program's around the worker, and REST cannot delete it.
 */

enum {
        REGION_NAME_SIZE = 65,
        REGION_DEVICE_SIZE = 16,
        REGION_PATH_SIZE = 48,
        REGION_DETAIL_SIZE = 200,
};

struct region;
struct region_table;

/*
 * The layer that registers memory (the engine). Called without a lock of the table held. register_region may take
 * seconds and is called by several maker threads at once; for small regions and for adopted memory, by the thread that
 * makes them. deregister_region waits for the engine's thread, which therefore must not call it: see region_delete.
 */
struct region_registrar {
        /* 0 with *ret_registration, or -errno. The region's memory, address, space and fd stay until
         * deregister_region. */
        int (*register_region)(void *context, const struct region *region, void **ret_registration);
        void (*deregister_region)(void *context, void *registration);
        void *context;
};

/*
 * Whoever wants to know what becomes of regions: listed, ready or failed later than that, deleted. Called without a
 * lock of the table held, by the thread that did it. gone: the deleted one, borrowed; NULL: region_find may find it.
 */
enum region_change { REGION_LISTED, REGION_CHANGED, REGION_GONE };

struct region_observer {
        void (*changed)(void *context, struct region_table *table, uint64_t id, struct region *gone,
                        enum region_change change); /* NULL = nobody does */
        void *context;
};

/*
 *   REGION_PREPARING ──all pages there, registered──▶ REGION_READY
 *                    ──no room, or a fault──▶ REGION_FAILED
 */
enum region_state { REGION_PREPARING, REGION_READY, REGION_FAILED };

/* Fixed from creation on, but for the two groups, each of which is fixed from its state on. */
struct region {
        uint64_t id;
        char name[REGION_NAME_SIZE]; /* "" = none */
        char device[REGION_DEVICE_SIZE];
        size_t size;
        bool sealed; /* only this process can write it */
        bool held;   /* the program's: region_delete refuses it, region_let_go does not */
        uint64_t created_unix_ms;
        struct region_private *private;
        /* REGION_READY: */
        int fd;                      /* -1 = foreign memory, or a GPU's */
        char path[REGION_PATH_SIZE]; /* that a program of the same user can map; "" = there is none, as of fd */
        void *address;
        const struct space *space; /* of the address; NULL = host memory, else host code must not touch it */
        void *registration;        /* the registrar's */
        /* REGION_FAILED: */
        int error;                       /* FERRY_E_* or -errno */
        char detail[REGION_DETAIL_SIZE]; /* a sentence for the user; "" = none */
};

struct region_config {
        uint64_t memory_limit; /* bytes of all worker-owned regions; 0 = none may be made */
        size_t max_regions;
        struct region_registrar registrar;
        struct region_observer observer;
        struct metrics *metrics; /* may be NULL */
        /* For tests. fill is called before each part of a region that maker threads fill; a -errno fails the region. */
        int (*fill)(void *context, size_t size);
        void *fill_context;
        const struct room_paths *room; /* NULL = the system's */
};

/* 0 or -errno. */
int region_table_new(const struct region_config *config, struct region_table **ret_table);

/*
 * Abandons what is being made, deregisters and unmaps all regions without references. No region may
 * be in use. Takes NULL; returns NULL.
 */
struct region_table *region_table_free(struct region_table *table);

struct region_spec {
        uint64_t size;      /* bytes */
        const char *device; /* "cpu", "cuda:0" */
        const char *name;   /* NULL or "" = unnamed; names need not be unique */
        bool sealed;        /* seal it against writing by other processes; of "cpu" alone */
        bool held;          /* by the program around the worker, as adopted memory is */
};

/*
 * Makes a region of zeros. A small one is ready on return; of a large one the making has begun (region_state).
 * 0 with *ret_region; FERRY_E_UNKNOWN_DEVICE; FERRY_E_INVALID_PARAMETER (size 0); FERRY_E_NO_SPACE (memory limit, or
 * the system's); FERRY_E_LIMIT_REACHED (too many regions or open files); -errno. On failure detail (may be NULL) names
 * the limit, or is "". The same errors may come later, as the region's.
 */
int region_create(struct region_table *table, const struct region_spec *spec, struct region **ret_region,
                  char detail[REGION_DETAIL_SIZE]);

enum region_state region_state(const struct region *region);
const char *region_state_name(enum region_state state);

/* Bytes whose pages are there; the size once the region is ready. */
uint64_t region_bytes_prepared(const struct region *region);

/* Told once, with no lock held, when a region is no longer being prepared: it is ready, has failed, or was deleted. */
struct region_waiter {
        void (*wake)(struct region_waiter *waiter);
        struct region_waiter *prev, *next;
};

/* false: it is not being prepared, and nothing was registered. wake is never called from inside this function. */
bool region_wait(struct region *region, struct region_waiter *waiter);
/* true: it was waiting and wake will not be called. false: wake was called, or is being called. */
bool region_unwait(struct region *region, struct region_waiter *waiter);

/* Blocks until the region is not being prepared: 0 when it is ready, its error, or FERRY_E_NOT_FOUND (deleted). */
int region_await(struct region *region);

/*
 * Registers memory that the caller owns and keeps until region_let_go. Same results as region_create's, and
 * FERRY_E_INVALID_PARAMETER where the address is not memory of that GPU.
 */
int region_adopt(struct region_table *table, void *address, const struct region_spec *spec, struct region **ret_region,
                 char detail[REGION_DETAIL_SIZE]);

/* NULL when there is none (or it was deleted). */
struct region *region_find(struct region_table *table, uint64_t id);

/* The same by "rgn_…". Tries the one before first (NULL = none), since lists often name one region. */
struct region *region_named(struct region_table *table, const char *name, struct region *before);
struct region *region_ref(struct region *region);
struct region *region_unref(struct region *region); /* takes NULL; returns NULL */

/*
 * Marks the region as used by one more operation, after which its memory may be looked at. FERRY_E_NOT_FOUND when it
 * was deleted meanwhile; FERRY_E_REGION_NOT_READY while it is being prepared, and when that failed.
 */
int region_use(struct region *region);
void region_unuse(struct region *region);
uint32_t region_in_use(const struct region *region);

/*
 * A stream of content keeps the memory mapped (a reference) until its end. The worker's own memory may be deleted
 * under it; it then goes with the last stream. Foreign memory counts as in use as well, because its owner may free it
 * as soon as the region is deleted. Errors as region_use's.
 */
int region_stream_begin(struct region *region);
void region_stream_end(struct region *region);

/* Whether the region was deleted; its memory is there as long as the caller's reference. */
bool region_deleted(const struct region *region);

/*
 * Deletes: afterwards region_find does not find it. The memory of a large region is deregistered and freed by the maker
 * threads, once the last reference is given back; it counts until then, and unless a stream holds it, region_create
 * waits for it rather than refuse for lack of it. Other memory is deregistered on return. What is being made is
 * abandoned. FERRY_E_NOT_FOUND; FERRY_E_REGION_IN_USE; FERRY_E_REGION_HELD. Thread: any but the engine's, for which it
 * waits.
 */
int region_delete(struct region_table *table, uint64_t id);

/* The same for the program that holds the region. */
int region_let_go(struct region_table *table, uint64_t id);

/* Whether clients may store into the region by HTTP: into a held one only when its program said so. */
void region_allow_content(struct region *region, bool allowed);
bool region_content_allowed(const struct region *region);

/*
 * A page in order of creation. after = id of the last region of the previous page, 0 = from the start (an id that is
 * gone works: order is by a serial number that the table remembers in the cursor). *cursor in/out; 0 at the start and
 * again at the end. Returns how many were stored in page, each with a reference.
 */
size_t region_page(struct region_table *table, uint64_t *cursor, struct region **page, size_t n);

/* Sums for metrics and /v1/limits. */
void region_totals(struct region_table *table, size_t *ret_regions, uint64_t *ret_bytes);

#endif
