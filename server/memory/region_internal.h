/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_REGION_INTERNAL_H
#define MEMORY_REGION_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "base/loop.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "base/space.h"
#include "base/util.h"
#include "memory/gpu.h"
#include "memory/region.h"

/* ---- foreign.c: what the kernel knows of memory ---- */

/*
 * The memory map of this process, as the kernel tells it. Linux 6.11 answers for one address in a microsecond
 * (PROCMAP_QUERY); before, /proc/self/maps is read up to the address: what a program has mapped last, and the heap, are
 * at its beginning. Any thread.
 */

struct maps {
        atomic_int fd; /* of /proc/self/maps, for the queries; 0 = not open yet */
};

/* The memory at an address. */
struct maps_facts {
        bool mapped;   /* all of it, and readable */
        bool writable; /* all of it */
        /*
         * No access can fail while the mapping stays: no file is behind any of it, or none that a program could
         * truncate or fill a disk with.
         */
        bool steady;
};

/* Closes the file. No other call may use maps. */
void maps_clear(struct maps *maps);

/* What is known of [address, address + size). Where the kernel does not tell, nothing is mapped, and all writable. */
void maps_look(struct maps *maps, const void *address, size_t size, struct maps_facts *ret_facts);

/* ---- foreign.c ---- */

/*
 * Host memory that the program owns. Where no access can fail (steady in struct maps_facts), host code reads and
 * writes every byte itself. All other memory is a space: a mapped file raises SIGBUS once it is truncated, and that at
 * any moment. The kernel copies such memory, and where it finds nothing the copy fails, and not the process.
 */

/*
 * The space of memory that is adopted; NULL where it is steady. *ret_read_only: not all of it is writable now. 0 or
 * -ENOMEM.
 */
int foreign_adopt(struct maps *maps, void *address, size_t size, const struct space **ret_space, bool *ret_read_only);

/* Takes NULL. No copy may be using it. */
void foreign_free(const struct space *space);

/* Whether the memory is writable now: 0; -EROFS; -ENXIO: not mapped. */
int foreign_check_writable(struct maps *maps, const void *address, size_t size);

/* ---- pages.c ---- */

/*
 * Memory of a region: a memfd, sealed against shrinking and growing, mapped once. Plain data; the owner synchronises.
 */
struct pages {
        int fd; /* -1 = none */
        void *address;
        size_t size;
};

/* Whether RLIMIT_FSIZE, beyond which growing a file would raise SIGXFSZ, allows so many bytes. */
bool pages_may_have(uint64_t size);

/* Reserves address space without pages, in a file that has the region's id in its name. 0 or -errno; -EFBIG also where
 * RLIMIT_FSIZE is too small. */
int pages_new(uint64_t region, size_t size, struct pages *ret_pages);

/*
 * Makes and maps every page of [offset, offset + size); offset is a multiple of FERRY_HUGE_PAGE. Several threads may
 * fill parts of one memory. huge: huge pages are tried while it is true; set to false once there are none. 0 or -errno.
 */
int pages_fill(const struct pages *pages, size_t offset, size_t size, atomic_bool *huge);

/*
 * Adds the last seals; none can be added or removed after it. future_write: from now on no process can map the memory
 * for writing or write it, but through the mapping that exists. 0 or -errno.
 */
int pages_seal(const struct pages *pages, bool future_write);

/* Frees the memory. May take 0.2 s per GiB of ordinary pages. Harmless without memory. */
void pages_free(struct pages *pages);

/* ---- regions ---- */

/*
 * The table exists until its last region is freed, which may be after region_table_free: an HTTP answer may still read
 * the memory. Under the lock only the loop's is taken.
 *
 * Bytes of worker-owned memory are either reserved (also while they are being made) or being freed. The limit refuses
 * by the reserved ones. The sum never exceeds it, because new regions wait for bytes that are being freed.
 */
struct region_table {
        struct region_config config; /* fixed */
        struct metric *count_gauge, *bytes_gauge;
        struct pool_user *tasks;  /* that make, fill and free regions */
        struct maps maps;         /* of the program's memory */
        atomic_size_t references; /* the owner's, and one of each region that lives */

        pthread_mutex_t lock;         /* guards all below */
        pthread_cond_t changed;       /* a region is no longer being prepared */
        struct region_private *by_id; /* the regions that region_find finds */
        struct region **ordered;      /* the same by ascending serial */
        size_t n_regions, capacity;   /* of ordered; capacity >= n_regions + n_pending */
        size_t n_pending;             /* small regions that are being made and not listed yet */
        size_t n_held;                /* of both, those that the program made */
        uint64_t bytes_listed;        /* of the worker's own memory in listed regions, without the failed ones */
        uint64_t bytes_reserved, bytes_freeing;
        uint64_t bytes_unchecked; /* of small regions since the last check of the system's memory */
        uint64_t last_serial;
};

/* Bits of region_private.uses: the region was deleted; somebody waits until it is unused. The others count the uses. */
#define REGION_DELETED UINT32_C(0x80000000)
#define REGION_AWAITED UINT32_C(0x40000000) /* changed under the table's lock */
#define REGION_USES UINT32_C(0x3fffffff)

struct region_private {
        struct region_table *table; /* holds a reference */
        atomic_size_t references;   /* the table's, the task's and the callers' */
        _Atomic uint32_t uses;      /* REGION_DELETED | REGION_AWAITED | number of uses */
        atomic_int state;           /* enum region_state; written under the table's lock */
        uint64_t serial;            /* fixed once listed */
        struct region region;
        UT_hash_handle hh; /* by region.id; the table's lock */

        bool owned;                  /* the worker's own memory; fixed */
        bool on_gpu;                 /* fixed */
        bool registered;             /* of the thread that makes the region, then of the one that deregisters it */
        struct pages pages;          /* the same */
        struct pool_task task;       /* makes it, later ends it, and then frees it */
        size_t piece, n_pieces;      /* bytes that a thread fills at a time, and how often; fixed once they begin */
        atomic_size_t n_taken;       /* of these */
        atomic_bool huge;            /* huge pages are to be had */
        atomic_bool content_allowed; /* a held region may be stored into by HTTP */
        atomic_bool failed;          /* the making has failed; region.error says why */
        _Atomic uint64_t bytes_prepared;
        atomic_size_t streams;        /* streams of content, which may last long */
        _Atomic uint64_t found_us;    /* of a region with idle_ms: see region_idle_due_us */
        struct loop_timer idle_timer; /* holds a reference while armed, until its callback */
        /* the table's lock: */
        bool freeing; /* its bytes count as bytes_freeing */
        bool overdue; /* region_idle_is_over has found it idle */
        struct region_waiter *waiters;
};

/*
 * Regions up to this size are freed by the calling thread, and made by it unless they must wait for bytes that are
 * being freed: 0.1 ms, while waking another one takes 0.05.
 */
enum { REGION_SMALL = 256 << 10 };

/* Whether threads of the pool make and free it: if it takes long, as the first allocation on a GPU does. */
static inline bool region_is_large(const struct region_private *private)
{
        return private->owned && (private->on_gpu || private->region.size > REGION_SMALL);
}

/* What counts against the limit. */
static inline uint64_t region_own_bytes(const struct region_private *private)
{
        return private->owned ? private->region.size : 0;
}

static inline struct region_private *region_of_task(struct pool_task *task)
{
        return FERRY_CONTAINER_OF(task, struct region_private, task);
}

/* ---- region_table.c ---- */

/*
 * Reserves a place in the lists, and bytes of the limit. 0; FERRY_E_LIMIT_REACHED; FERRY_E_NO_SPACE; -ENOMEM. *ret_now:
 * the bytes are free already, nothing must be freed before. Undone by region_table_cancel, or turned into a listed
 * region by region_table_add.
 */
int region_table_reserve(struct region_table *table, const struct region_spec *spec, uint64_t bytes, bool *ret_now,
                         char detail[REGION_DETAIL_SIZE]);
void region_table_cancel(struct region_table *table, const struct region_spec *spec, uint64_t bytes);

/*
 * Whether the limit has room for all reserved bytes: 0 or FERRY_E_NO_SPACE. *ret_freeing: some bytes are being freed,
 * after which waiting tasks run again.
 */
int region_table_check_limit(struct region_table *table, uint64_t bytes, bool *ret_freeing,
                             char detail[REGION_DETAIL_SIZE]);

/*
 * The bytes of a deleted or unlisted region: they are being freed from now on; they are reserved again if a stream
 * keeps the memory; they are free.
 */
void region_table_begin_freeing(struct region_table *table, struct region_private *private);
void region_table_begin_freeing_locked(struct region_table *table, struct region_private *private); /* under the lock */
void region_table_keep(struct region_table *table, struct region_private *private);
void region_table_end_freeing(struct region_table *table, struct region_private *private);

/* Tells the observer. Without the lock. */
void region_table_observe(struct region_table *table, uint64_t id, struct region *deleted, enum region_change change);

/* Brings the gauges up to date. Under the lock, so that they never show an older state last. */
void region_table_publish(struct region_table *table);

/* Gives back a reference to the table; the last one frees it. */
void region_table_unref(struct region_table *table);

/* ---- region_state.c ---- */

/* The region is found, or no longer made, used or streamed. */
void region_idle_touch(struct region_private *private);

/* Whether the timer may delete the region: found idle for the second time. Under the lock. */
bool region_idle_is_over(struct region_private *private);

/* Arms the timer of a listed region that has idle_ms. 0 or -ENOMEM. Under the lock. */
int region_idle_arm(struct region_private *private);

/* Stops the timer of idle_ms. Under the lock, and with a reference of the caller's. */
void region_idle_disarm(struct region_private *private);

/*
 * The only setter of region_private.state, once the fields of that state are set. Under the lock if the region is
 * listed.
 */
void region_state_set(struct region_private *private, enum region_state state);

/* The region is made. true: takes the caller's reference. false: it was deleted meanwhile. */
bool region_table_ready(struct region_table *table, struct region_private *private);

/* Making the region failed, and its memory is freed. false: it was deleted meanwhile. */
bool region_table_failed(struct region_table *table, struct region_private *private);

/* Takes the waiters, to be woken without the lock. Under the lock. */
struct region_waiter *region_waiters_take(struct region_table *table, struct region_private *private);
/* Wakes the waiters that region_waiters_take has returned. Without the lock. */
void region_waiters_wake(struct region_waiter *waiters);

/* The GPU to wait for: the one that the memory is on, or that has pinned it. */
struct pool_devices region_devices(const struct region_private *private);

/* Has work done by a thread of the pool. false: there is none, and the caller does it. */
bool region_task_add(struct region_private *private, void (*work)(struct pool_task *task));

/* Whether a thread of the pool deregisters the memory: of a large region, or where a GPU must be waited for. */
bool region_is_ended_in_pool(const struct region_private *private);

/* Undoes region_register; harmless when that was not done. Waits for the registrar. */
void region_deregister(struct region_private *private);

/*
 * Gives back the table's reference to a deleted region, and before that deregisters its memory, in the pool where
 * region_is_ended_in_pool. Memory that is not ready is that of the task that makes it.
 */
void region_end(struct region_private *private);

/* Frees the worker's own memory, of either kind. Harmless when there is none. */
void region_memory_free(struct region_private *private);

/* Frees the struct of a region without references, whose owned memory is freed already. Returns NULL. */
struct region_private *region_private_free(struct region_private *private);

/* ---- region_list.c ---- */

/* Lists the region, whose reference becomes the table's. 0 or -ENOMEM; the reservation stays on failure. */
int region_table_add(struct region_table *table, struct region_private *private);

/* ---- region_make.c ---- */

/* Makes a small region on the calling thread, without listing it. 0, or an error with everything undone. */
int region_make_small(struct region_private *private, char detail[REGION_DETAIL_SIZE]);

/* Has a listed region made in the pool, by a task that takes over a reference. */
void region_make_start(struct region_private *private);

/* Has the registrar register the memory, where there is one. 0 or an error. */
int region_register(struct region_private *private, char detail[REGION_DETAIL_SIZE]);

#endif
