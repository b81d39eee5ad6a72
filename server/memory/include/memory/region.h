/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_REGION_H
#define MEMORY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;
struct available_memory_paths;
struct loop;
struct space;

/*
 * Regions: memory registered once, used by many operations.
 *
 * A worker's own region is a memfd, sealed against shrinking and growing, with every page present and mapped once. A
 * large one is made and freed by threads of the pool; until it is ready it is listed, but cannot be
 * used. A region on a GPU is made by one of them, whatever its size. A foreign region is memory that the embedding
 * program owns. All functions: any thread, unless said otherwise.
 *
 * Four things protect a region:
 * - a reference (region_find, region_create; given back with region_unref): its memory stays;
 * - a use (region_use, of an operation that has not ended): it cannot be deleted;
 * - a stream of its content: a reference, and of foreign memory a use as well;
 * - held: the embedding program made it, and REST cannot delete it.
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
 * seconds and is called by several threads of the pool at once; for small regions and for adopted memory, by the thread
 * that makes them. deregister_region waits for the holder of the progress lock, which therefore must not call
 * region_create, region_adopt (both deregister when they fail) or region_delete.
 */
struct region_registrar {
        /* 0 with *ret_registration, or -errno. The region's memory, address, space and fd stay until
         * deregister_region. */
        int (*register_region)(void *context, const struct region *region, void **ret_registration);
        void (*deregister_region)(void *context, void *registration);
        void *context;
        /* 1 + the number of the GPU that deregister_region waits for; 0 = none. Takes no lock. May be NULL. */
        unsigned (*gpu)(const void *registration);
};

/*
 * Told of every change of a region: listed, ready or failed after that, deleted. Called without the table's lock, by
 * the thread that made the change. deleted: the deleted region, borrowed; NULL: region_find may find it.
 */
enum region_change { REGION_LISTED, REGION_CHANGED, REGION_UNLISTED };

struct region_observer {
        void (*changed)(void *context, struct region_table *table, uint64_t id, struct region *deleted,
                        enum region_change change); /* NULL = none */
        void *context;
};

/*
 *   REGION_PREPARING ──all pages there, registered──▶ REGION_READY
 *                    ──no room, or a fault──▶ REGION_FAILED
 */
enum region_state { REGION_PREPARING, REGION_READY, REGION_FAILED };

/* Fixed from creation on; each of the two groups is valid, and fixed, from its state on. */
struct region {
        uint64_t id;
        char name[REGION_NAME_SIZE]; /* "" = none */
        char device[REGION_DEVICE_SIZE];
        size_t size;
        bool sealed;      /* no other process can write it */
        bool held;        /* the embedding program's: only region_delete_held deletes it */
        uint64_t idle_ms; /* deleted once nothing has used or found it for so long; 0 = never */
        uint64_t created_unix_ms;
        struct region_private *private;
        /* REGION_READY: */
        int fd;                      /* -1 = foreign memory, or a GPU's */
        char path[REGION_PATH_SIZE]; /* for programs of the same user to map; "" = none */
        void *address;
        const struct space *space; /* of the address; NULL = host memory, else host code must not touch it */
        bool read_only;            /* the program's memory, which was not all writable: region_check_writable */
        void *registration;        /* the registrar's */
        /* REGION_FAILED: */
        int error;                       /* FERRY_E_* or -errno */
        char detail[REGION_DETAIL_SIZE]; /* a sentence for the user; "" = none */
};

struct region_config {
        uint64_t memory_limit; /* bytes of all worker-owned regions; 0 = no such region */
        size_t max_regions;    /* those that are held do not count */
        struct region_registrar registrar;
        struct region_observer observer;
        struct loop *loop;       /* times idle_ms; NULL: no region has that */
        struct metrics *metrics; /* may be NULL */
        /* For tests. fill is called before each part of a region that the pool fills; a -errno fails the region. */
        int (*fill)(void *context, size_t size);
        void *fill_context;
        const struct available_memory_paths *memory_paths; /* NULL = the system's */
};

/* 0 or -errno. */
int region_table_new(const struct region_config *config, struct region_table **ret_table);

/*
 * Cancels regions that are being made, deregisters all regions, unmaps those without references. No region may be in
 * use. Takes NULL; returns NULL.
 */
struct region_table *region_table_free(struct region_table *table);

struct region_spec {
        uint64_t size;      /* bytes */
        const char *device; /* "cpu", "cuda:0" */
        const char *name;   /* NULL or "" = unnamed; names need not be unique */
        bool sealed;        /* no other process may write it; for "cpu" only */
        bool held;          /* the embedding program's, as adopted memory is */
        uint64_t idle_ms;   /* 0 = it lives until it is deleted, as one that is held must */
};

/*
 * Creates a region of zeros. A small one is ready on return, unless it must wait for bytes of deleted regions; a large
 * one is being prepared (region_state). 0 with *ret_region; FERRY_E_UNKNOWN_DEVICE; FERRY_E_INVALID_PARAMETER (size 0);
 * FERRY_E_NO_SPACE (memory limit, or the system's); FERRY_E_LIMIT_REACHED (too many regions or open files); -errno. On
 * failure detail (may be NULL) names the limit, or is "". A region that is being prepared may fail with the same
 * errors.
 */
int region_create(struct region_table *table, const struct region_spec *spec, struct region **ret_region,
                  char detail[REGION_DETAIL_SIZE]);

/* Whether the memory limit and, of host memory, the process's file size limit allow a region of so many bytes when
 * there is no other. */
bool region_may_fit(const struct region_table *table, const char *device, uint64_t size);

enum region_state region_state(const struct region *region);
const char *region_state_name(enum region_state state);

/* Bytes whose pages are present; the size once the region is ready. */
uint64_t region_bytes_prepared(const struct region *region);

/* Called once, with no lock held, when a region is no longer being prepared: ready, failed or deleted. */
struct region_waiter {
        void (*wake)(struct region_waiter *waiter);
        struct region_waiter *prev, *next;
};

/* false: it is not being prepared, and nothing was registered. wake is never called from inside this function. */
bool region_wait(struct region *region, struct region_waiter *waiter);
/*
 * Waits until nothing uses a region that is ready: the holder of a use calls region_tell_unused. false: nothing uses
 * it, and nothing was registered.
 */
bool region_wait_unused(struct region *region, struct region_waiter *waiter);
/* true: it was waiting and wake will not be called. false: wake was called, or is being called. */
bool region_unwait(struct region *region, struct region_waiter *waiter);

/*
 * Blocks until the region is no longer being prepared: 0 when it is ready, its error, or FERRY_E_NOT_FOUND (deleted).
 */
int region_await(struct region *region);

/*
 * Registers memory that the caller owns and keeps until region_delete_held. It may be read-only, and of a file. 0 with
 * *ret_region; the errors of region_create; FERRY_E_INVALID_PARAMETER also where the address is not memory of that GPU.
 */
int region_adopt(struct region_table *table, void *address, const struct region_spec *spec, struct region **ret_region,
                 char detail[REGION_DETAIL_SIZE]);

/* NULL: there is no such region, or it was deleted. */
struct region *region_find(struct region_table *table, uint64_t id);

/*
 * Finds a region by its name for users, "rgn_…". Compares it with before first (NULL = none), since lists often name
 * one region. NULL: there is no such region.
 */
struct region *region_named(struct region_table *table, const char *name, struct region *before);
struct region *region_ref(struct region *region);
struct region *region_unref(struct region *region); /* takes NULL; returns NULL */

/*
 * Whether bytes can be stored there, as far as the program allows that: 0; of space_error: -EROFS; -ENXIO. To be asked
 * before an operation receives, since memory may be registered that is only sent.
 */
int region_check_writable(const struct region *region, uint64_t offset, uint64_t size);

/*
 * Marks the region as used by one more operation, which may then read its address. FERRY_E_NOT_FOUND: it was deleted
 * meanwhile; FERRY_E_REGION_NOT_READY: it is being prepared, or that failed.
 */
int region_use(struct region *region);
void region_unuse(struct region *region);
/* Wakes those that wait until the region is unused, if it is. Some time after region_unuse, with no lock held. */
void region_tell_unused(struct region *region);
/* Blocks until nothing uses the region, for at most ms. */
void region_await_unused(struct region *region, uint64_t ms);
uint32_t region_in_use(const struct region *region);

/*
 * When a region with idle_ms is deleted unless it is used or found before: idle_ms after the end of its making, of the
 * last use or stream, or after it was last found (region_find, region_named). CLOCK_MONOTONIC; UINT64_MAX = never, or
 * not while it is being made, used or streamed. The loop's thread deletes it, a moment later (region_state.c).
 */
uint64_t region_idle_due_us(const struct region *region);

/*
 * A stream of content keeps the memory mapped (a reference). The worker's own memory may be deleted meanwhile and is
 * then freed after the last stream. Foreign memory counts as in use as well, because its owner may free it as soon as
 * the region is deleted. Errors as of region_use.
 */
int region_stream_begin(struct region *region);
void region_stream_end(struct region *region);

/* Whether the region was deleted; the memory stays as long as the caller's reference. */
bool region_deleted(const struct region *region);

/*
 * Deletes a region: region_find does not find it any more. A large one is deregistered by threads of the pool, as is
 * one that a GPU has pinned, and freed by them once the last reference is given back; its bytes count until then, and
 * region_create waits for them rather than fail, unless a stream keeps them. Other memory is deregistered on return. A
 * region that is being made is cancelled. FERRY_E_NOT_FOUND; FERRY_E_REGION_IN_USE; FERRY_E_REGION_HELD. Thread: any
 * but the engine's, for which it waits.
 */
int region_delete(struct region_table *table, uint64_t id);

/* Deletes a region for the embedding program, whose held regions it deletes as well. Results as of region_delete. */
int region_delete_held(struct region_table *table, uint64_t id);

/* Whether clients may write the region by HTTP: a held one only if its program allowed it. */
void region_allow_content(struct region *region, bool allowed);
bool region_content_allowed(const struct region *region);

/*
 * Lists a page in order of creation, each region with a reference; returns how many. *cursor: 0 at the start and again
 * at the end; it is a serial number, so a region that goes meanwhile does no harm.
 */
size_t region_page(struct region_table *table, uint64_t *cursor, struct region **page, size_t n);

/* What counts against the limits: the number of listed regions that are not held, and the bytes of all. */
void region_totals(struct region_table *table, size_t *ret_regions, uint64_t *ret_bytes);

#endif
