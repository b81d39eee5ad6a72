/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATIONS_INTERNAL_H
#define OPERATIONS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

/* The ids are random: their own low bits are the best hash. */
#define HASH_FUNCTION(key, length, hash) ((hash) = (unsigned)*(const uint64_t *)(const void *)(key))
#include <uthash.h>
/*
 * The number of buckets doubles when one of them has this many elements. uthash's 10 leaves 1.5 to 3 elements a bucket,
 * and each of them that a look-up passes is a cache miss. With 6 there are two or three buckets an element, 40 bytes.
 */
#undef HASH_BKT_CAPACITY_THRESH
#define HASH_BKT_CAPACITY_THRESH 6U
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/util.h"
#include "memory/region.h"
#include "message/ranges.h"
#include "operations/operations.h"

#define OPERATION_NEVER UINT64_MAX
#define OPERATION_PROGRESS_US UINT64_C(100000) /* shortest time between two revisions by progress */

/*
 * What an operation that has not ended keeps of its regions: a reference to and a use of each, and the segments for the
 * engine.
 */
struct operation_pins {
        size_t n_regions;
        struct region **regions;
        size_t n_segments;
        struct segment segments[];
};

/* A part of a readable's bytes in the stream of a read: [at, at + size) of the one is [source_at, …) of the other. */
struct follow_piece {
        uint64_t at, source_at, size;
};

/* The read that a readable follows. Fixed. */
struct follow_map {
        struct operation *source; /* a reference; a read of the same store */
        size_t n, room;
        struct follow_piece *pieces; /* all of the readable's bytes, ascending */
};

/* The bytes of the last seconds, received and sent. Any thread, without a lock. */
enum { THROUGHPUT_CELLS = 512 };
struct throughput {
        uint64_t first; /* second of CLOCK_MONOTONIC since which it counts; fixed */
        _Atomic uint64_t cells[2][THROUGHPUT_CELLS];
};

/* A transfer of an operation. Has a reference to it from the start until ended. */
struct operation_transfer {
        struct operation *operation;
        struct operation_peer peer;
        uint64_t total; /* bytes to move; of an offer, perhaps only parts of it */
        _Atomic uint64_t bytes;
};

/* Where an operation stands; users see the status that it stands for. */
enum operation_state {
        OPERATION_NEW,        /* not in the store yet */
        OPERATION_WAITING,    /* a passive one for its first claim, an active one for its peer's metadata */
        OPERATION_STARTING,   /* active: the data plane is being given the transfer, and cannot cancel it yet */
        OPERATION_CONNECTING, /* active: the data plane has the transfer */
        OPERATION_RUNNING,    /* its first transfer has started */
        OPERATION_STOPPING,   /* the data plane was told to end its transfers */
        OPERATION_COMPLETE,
        OPERATION_CANCELLED,
        OPERATION_ERRORED,
        OPERATION_STATE_COUNT,
};

struct operation {
        /* The fields of a look-up, next to each other. */
        uint64_t id;
        UT_hash_handle hh; /* by id, while it can be found; guarded by the store's lock */
        atomic_uint refs;

        /* Fixed from creation on. */
        struct operation_store *store; /* a reference */
        uint64_t serial;               /* order of creation, from 1 */
        enum ferry_kind kind;
        enum ferry_layout layout;
        bool verify;
        bool relay;
        unsigned carriers;
        uint32_t uses;
        const char *label, *request_id; /* in the operation's own memory; "" = none */
        struct operation_transfer *own; /* in the same memory; of active ones */
        uint64_t bytes_total;
        size_t n_pieces;       /* of its descriptors and of remote */
        struct ranges *remote; /* owned; NULL = all of the offer */
        uint64_t ttl_created_ms, renew_max_ms;
        uint64_t timeout_ms;
        uint64_t created_us, created_unix_ms;
        uint8_t key[FERRY_KEY_SIZE]; /* of passive ones */
        uint64_t *blocks;            /* of all descriptors, one after the other; in the same memory */
        struct follow_map *follow;   /* of a readable; owned; NULL = all its bytes are there */

        atomic_bool announced; /* operation_announce was called */

        /* Written by the data plane without the lock, and read without it. */
        _Atomic uint64_t bytes_done; /* of the furthest transfer; never falls */
        _Atomic uint64_t moved_us;   /* when a byte last moved, or a transfer started */
        _Atomic uint64_t bumped_us;  /* when progress last bumped the revision */

        /* Written under the store's lock, read without it. */
        atomic_uint n_followers;
        _Atomic enum operation_state state; /* operation_set_state */
        atomic_int stop_reason;             /* why it is to end, FERRY_E_CANCELLED before others; 0 = it is not */

        /* Of a read, guarded by the store's arrival lock: what has arrived; NULL = nothing, or it is terminal. */
        struct content_ranges *arrived;

        /* Guarded by the store's lock. Nothing but deleted and revision changes once the state is terminal. */
        bool deleted; /* by a client: not found any more */
        uint32_t n_active;
        uint64_t n_completed;
        uint32_t n_declined;       /* of several uses */
        struct declined *declined; /* by which transfers; owned; NULL = none */
        uint64_t revision;
        uint64_t told_us;     /* when the observer was last told of frequent changes */
        atomic_bool untold;   /* it has started, and the observer was not told yet; cleared without the lock */
        uint64_t transfer_id; /* active: its id at the data plane */
        uint64_t ttl_ms, expires_us, expires_unix_ms;
        uint64_t started_us, ended_us, ended_unix_ms;
        int error;
        char transport[OPERATION_TRANSPORT_SIZE];
        struct operation_peer peer; /* of the latest transfer */
        uint64_t prefix;            /* of a failed read: bytes in place from the first one on */
        uint64_t connect_us;        /* active: 0 = it did not have to connect, or has not ended */
        char *detail;               /* of the error; owned; NULL = the title of the error will do */
        struct operation_waiter *waiters;
        struct operation_pins *pins; /* NULL once terminal */
        struct operation *followers; /* of a read: readables that follow it and are not terminal */
        struct operation *follower_prev, *follower_next;
        bool has_waiting_request; /* of a follower: a request waits for more bytes */

        /* Each pending run of the timer's callback owns a reference. armed_us 0 = the timer may not be armed. */
        struct loop_timer timer;
        uint64_t armed_us;

        struct operation *older, *newer;                 /* in the store's list in order of creation */
        struct operation *terminal_prev, *terminal_next; /* in the store's list while terminal and not deleted */
        struct operation *started_next;                  /* deferred_actions' */
        struct operation *ended_next;                    /* deferred_actions' */
        struct operation *stopping_next;                 /* deferred_actions' */

        _Atomic(struct operation_attachment *) attachment; /* NULL = none yet, and set once. Any thread */

        size_t n_descriptors;
        struct operation_descriptor descriptors[];
};

static inline bool operation_terminal(const struct operation *operation)
{
        return operation->state >= OPERATION_COMPLETE;
}

/* What users see of the state. */
static inline enum ferry_status operation_status(const struct operation *operation)
{
        const enum operation_state state = operation->state; /* clang 14 refuses to switch on an atomic enum */

        switch (state) {
        case OPERATION_NEW:
                return FERRY_UNINITIALIZED;
        case OPERATION_COMPLETE:
                return FERRY_COMPLETE;
        case OPERATION_CANCELLED:
                return FERRY_CANCELLED;
        case OPERATION_ERRORED:
                return FERRY_ERRORED;
        default:
                return operation->started_us ? FERRY_IN_PROGRESS : FERRY_INITIALIZED;
        }
}

/* Whether it is terminal, or is to be. */
static inline bool operation_ends(const struct operation *operation)
{
        return operation->stop_reason || operation_terminal(operation);
}

/* The text of the error for users. */
static inline const char *operation_detail(const struct operation *operation)
{
        return operation->detail ? operation->detail : ferry_error_title(operation->error);
}

/* How many transfers the operation serves. */
static inline uint64_t operation_uses_max(const struct operation *operation)
{
        if (operation->uses == OPERATION_USES_UNLIMITED)
                return UINT64_MAX;
        return operation->uses > 1 ? operation->uses : 1;
}

/* Whether each of them is under way, complete or declined. */
static inline bool operation_is_used_up(const struct operation *operation)
{
        return (uint64_t)operation->n_active + operation->n_completed + operation->n_declined >=
               operation_uses_max(operation);
}

/* The actions that a change under the lock defers until store_unlock has released it. Zero-initialise. */
struct deferred_actions {
        struct operation *made;         /* borrowed; is INITIALIZED now */
        struct operation *started;      /* became IN_PROGRESS; a reference each */
        struct operation *moved;        /* borrowed; the observer is to be told */
        struct operation *ended;        /* became terminal; a reference each */
        struct operation *stopping;     /* the data plane is to be told; a reference each */
        struct operation_waiter *woken; /* in the order of the changes */
        bool held_reads_due;            /* more bytes of followed reads have arrived */
        void (*drained)(void *context);
        void *drained_context;
};

/* ---- slice.c: the pieces of regions ---- */

/* Writes a sentence for users into detail, and returns the error. */
__attribute__((format(printf, 3, 4))) int operation_refuse(char detail[OPERATION_DETAIL_SIZE], int error,
                                                           const char *format, ...);

/* How many pieces the slice has. */
static inline uint64_t slice_count(const struct operation_slice *slice)
{
        return slice->count ? slice->count : 1;
}

/* Checks each slice and the list. *ret_total: bytes; *ret_pieces: pieces of all rows and blocks. */
bool slices_valid(const struct operation_slice *slices, size_t n, uint64_t *ret_total, size_t *ret_pieces);

/* Stores the contiguous segments of the pieces unless segments is NULL; returns how many. */
size_t slice_segments(const struct operation_slice *slice, struct segment *segments);

/* Whether an operation can store into all of them: 0, or FERRY_E_FORBIDDEN with a sentence. */
int slices_check_writable(const struct operation_slice *slices, size_t n, char detail[OPERATION_DETAIL_SIZE]);

/* The block numbers of all slices, in order: how many, and a copy. */
size_t slices_count_blocks(const struct operation_slice *slices, size_t n);
void slices_copy_blocks(const struct operation_slice *slices, size_t n, uint64_t *to);

/* ---- references.c: the last deleted ids, answered by 410 Gone; guarded by the store's lock ---- */

struct gone_entry {
        uint64_t id;    /* 0 = none */
        uint32_t chain; /* index of the next one in the chain plus 1; 0 = none */
};

struct gone_ids {
        struct gone_entry *ring;
        uint32_t *heads;
        size_t size, next, n_heads; /* n_heads: a power of two */
};

/* 0; -ENOMEM, and gone_ids_clear must follow. size: below 2^32. */
int gone_ids_init(struct gone_ids *ids, size_t size);
void gone_ids_clear(struct gone_ids *ids);
void gone_ids_add(struct gone_ids *ids, uint64_t id);
bool gone_ids_has(const struct gone_ids *ids, uint64_t id);

/* ---- metrics.c: counters and times ---- */

struct operation_metrics {
        struct metric *now[FERRY_KIND_COUNT][FERRY_STATUS_COUNT];
        struct metric *ended[FERRY_KIND_COUNT][FERRY_STATUS_COUNT];
        struct metric *duration[FERRY_KIND_COUNT];
        struct metric *waits, *connect, *pieces;
        struct metric_family *bytes, *errors;
};

void operation_metrics_init(struct operation_metrics *metrics, struct metrics *metrics_of_worker);
/* Counts an operation under its new status. FERRY_UNINITIALIZED = it is not in the store. */
void operation_metrics_move(struct operation_metrics *metrics, enum ferry_kind kind, enum ferry_status from,
                            enum ferry_status to);
/* Counts the end of an operation: its status, error, duration and time to connect. */
void operation_metrics_ended(struct operation_metrics *metrics, const struct operation *operation);
/* Counts the bytes of an ended transfer, by direction and carrier. */
void operation_metrics_bytes(struct operation_metrics *metrics, enum ferry_kind kind,
                             const struct engine_outcome *outcome);

/* ---- the store ---- */

struct operation_store {
        struct operation_config config; /* fixed */
        struct operation_metrics metrics;
        struct throughput throughput;
        atomic_uint refs; /* of its user, its operations and its timer's pending callbacks */

        pthread_mutex_t lock;
        struct operation *by_id;
        struct operation *oldest;   /* utlist; all in by_id, in order of creation */
        struct operation *terminal; /* oldest first */
        size_t n_terminal;
        size_t n_live;   /* with deleted ones that are not quiet yet */
        size_t n_pieces; /* of the n_live and the n_terminal */
        uint64_t last_serial;
        struct gone_ids gone_ids;
        enum {
                STORE_OPEN,
                STORE_DRAINING, /* creates no operation any more */
                STORE_CLOSED,   /* operation_store_free was called: arms no timer either, calls no data plane */
        } stage;                /* never back */
        void (*drained)(void *context);
        void *drained_context;
        struct loop_timer timer; /* of retention; its pending callback owns a reference */
        bool timer_armed;
        struct deferred_actions wakes; /* left to operation_store_wake_waiters */

        pthread_mutex_t arrival_lock; /* a leaf, also under the store's lock; guards arrived of reads */
};

/* ---- metrics.c: the bytes of each second ---- */

/* Begins to count; now_us and all other times are monotonic. The struct is zeroed. */
void throughput_init(struct throughput *throughput, uint64_t now_us);
/* Adds what an operation of a kind has moved. */
void throughput_add(struct throughput *throughput, enum ferry_kind kind, uint64_t bytes, uint64_t now_us);
/* Copies the counts of the last whole seconds, oldest first. */
void throughput_get(struct throughput *throughput, uint64_t now_us, struct operation_throughput *ret_throughput);

/* ---- slice.c: pins ---- */

/*
 * Takes a use of and a reference to each region, makes the segments. 0; FERRY_E_NOT_FOUND; -ENOMEM. Without the lock.
 */
int operation_pins_new(const struct operation_slice *slices, size_t n, struct operation_pins **ret_pins);
/* Gives the uses back. */
void operation_pins_unuse(struct operation_pins *pins);
/* Gives the references back, and tells those that wait for the uses; takes NULL, returns NULL. Without the lock. */
struct operation_pins *operation_pins_free(struct operation_pins *pins);

/* ---- references.c: counts; operation_ref and operation_unref are in operations.h ---- */

/* Takes a reference to the store, and gives one back; the last one frees it. Any thread. */
struct operation_store *store_ref(struct operation_store *store);
void store_unref(struct operation_store *store);

/* ---- store_lock.c ---- */

/* Takes the store's lock. */
void store_lock(struct operation_store *store);
/* Unlocks where nothing was deferred. */
void store_unlock_plain(struct operation_store *store);
/* Unlocks, then runs the deferred actions: calls the data plane, wakes waiters, logs, unpins regions. */
void store_unlock(struct operation_store *store, struct deferred_actions *deferred);
/*
 * Unlocks, and runs the actions that the data plane needs. Starts, waking, ends and draining are left to
 * operation_store_wake_waiters.
 */
void store_unlock_without_waking(struct operation_store *store, struct deferred_actions *deferred);
/* With the lock held, which is given back meanwhile: tells the observer of a start that was left. */
void store_tell_started(struct operation *operation);

/*
 * Ends all transfers of a passive operation, of its attachment and of the engine. reason is this side's error, a
 * FERRY_E_*, wire_reason what the peers are told. Without the lock.
 */
void store_revoke(struct operation *operation, int reason, int wire_reason);

/* ---- deadline.c; with the lock held ---- */

/* now_us + ms, or OPERATION_NEVER when that is too far. */
uint64_t deadline_after(uint64_t now_us, uint64_t ms);

/* Makes the timer fire no later than the operation's next deadline. 0 or -ENOMEM. */
int deadline_arm(struct operation *operation);
/* Stops the timer; a callback that runs already finds nothing to do. */
void deadline_disarm(struct operation *operation);

/* Restarts the time to live: it ends ttl_ms from now. The timer is armed by the caller. */
void deadline_expire_after(struct operation *operation, uint64_t ttl_ms);

/* FERRY_E_TIMEOUT, FERRY_E_EXPIRED, FERRY_E_STALLED; 0 = no deadline has passed. */
int deadline_passed(const struct operation *operation, uint64_t now_us);

/* ---- state.c: whom a change wakes; with the lock held ---- */

/* Whether a waiter (NULL = one that is not quiet) need not wait. */
bool operation_wakes(const struct operation *operation, const struct operation_waiter *waiter, uint64_t revision);

/* ---- store_index.c: look-up by id and pages; with the lock held ---- */

/* Lists a new operation and arms its timer. 0 or -ENOMEM. */
int store_insert(struct operation_store *store, struct operation *operation);
/*
 * Removes an operation from the index and remembers its id as gone; gives back the store's reference. If terminal, it
 * must be out of retention.
 */
void store_remove(struct operation *operation);
/* Counts the pieces of an operation that has come, or is neither live nor kept any more. */
void store_count_pieces(struct operation_store *store, const struct operation *operation, bool come);

/* ---- store_index.c: retention; with the lock held ---- */

/* Keeps a terminal operation for a while; ends that. */
void retention_keep(struct operation *operation);
void retention_forget(struct operation *operation);
/* Evicts the oldest terminal operation. false: the store has none. */
bool retention_evict(struct operation_store *store);
/* Evicts until the limits have room for a new operation. 0; FERRY_E_LIMIT_REACHED, and detail names the limit. */
int retention_make_room(struct operation_store *store, const struct operation *operation,
                        char detail[OPERATION_DETAIL_SIZE]);
/* Without the lock. */
void retention_fired(struct loop_timer *timer);

/* ---- state.c: the table of states; with the lock held ---- */

/* Changes the state. A change that the table does not allow aborts the process. */
void operation_set_state(struct operation *operation, enum operation_state state, struct deferred_actions *deferred);

/* Ends the operation, which is quiet. error 0 = COMPLETE; detail may be "". */
void operation_finish(struct operation *operation, int error, const char *detail, struct deferred_actions *deferred);

/* Ends the operation at once when nothing is in flight, else has the data plane end it; reason is a FERRY_E_*. */
void operation_stop(struct operation *operation, int reason, struct deferred_actions *deferred);

/* The data plane can cancel the transfers from now on: tells it of a stop that came before. */
void operation_stop_if_due(struct operation *operation, struct deferred_actions *deferred);

/* Users see a change: raises the revision and wakes the waiters. */
void operation_bump(struct operation *operation, struct deferred_actions *deferred);

/* Raises the revision and wakes the waiters after a frequent change: the observer hears ten times a second at most. */
void operation_bump_often(struct operation *operation, struct deferred_actions *deferred);

/* ---- follow.c ---- */

/*
 * Maps the bytes of a readable that is being made to those that a read fills. 0; KIND_MISMATCH, OUT_OF_BOUNDS and
 * INVALID_PARAMETER, with a sentence in detail; -ENOMEM. Without the lock.
 */
int follow_map_new(struct operation *operation, struct operation *source, char detail[OPERATION_DETAIL_SIZE]);
/* Callbacks of a transfer, for struct engine_transfer and struct engine_claim. */
void follow_arrived(void *transfer, uint64_t offset, uint64_t length);
uint64_t follow_available(void *transfer, uint64_t offset, uint64_t length);
uint64_t follow_request_max(void *transfer);

/* ---- begin.c: transfers ---- */

/* Callbacks of a transfer, for struct engine_transfer and struct engine_claim. Without the lock. */
void operation_transfer_progress(void *transfer, uint64_t bytes);
void operation_transfer_ended(void *transfer, const struct engine_outcome *outcome);

/* With the lock held: a transfer of total bytes starts. peer_name NULL = not known. */
void operation_transfer_begin(struct operation_transfer *transfer, struct operation *operation, uint64_t total,
                              uint64_t peer_epoch, const char *peer_name);

/* With the lock held: a transfer has ended; error 0 = it moved every byte. */
void operation_transfer_over(struct operation *operation, int error, const char *detail,
                             struct deferred_actions *deferred);

#endif
