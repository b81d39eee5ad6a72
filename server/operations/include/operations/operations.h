/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATIONS_OPERATIONS_H
#define OPERATIONS_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/metadata.h>
#include <ferry/status.h>

#include "move/engine.h"

struct loop;
struct metrics;
struct ranges;
struct region;

/*
 * The operations of this worker: state table, store, waiters, deadlines.
 *
 * The store's lock guards every operation. Lock order: a caller's own lock, the store's, those of base (loop,
 * metrics); region_unuse takes none. Callbacks (waiters, data plane, drained) run with no lock held. All functions: any
 * thread, the engine's included.
 */

struct operation_store;
struct operation;

/* A value of uses: the offer stands until it is cancelled, deleted or expires. */
#define OPERATION_USES_UNLIMITED UINT32_MAX

enum {
        OPERATION_DETAIL_SIZE = 160,
        OPERATION_TRANSPORT_SIZE = 32,
        OPERATION_DEVICE_SIZE = 16,
        OPERATION_LABEL_SIZE = 65,
        OPERATION_REQUEST_SIZE = 65,
};

/* The worker at the other end. */
struct operation_peer {
        uint64_t epoch;                        /* 0 = not known yet */
        char worker[FERRY_METADATA_NAME_SIZE]; /* its name; "" = not known */
};

/* A slice of a region, or several pieces of one size: a row of them, or blocks. */
struct operation_slice {
        struct region *region;
        uint64_t offset;
        uint64_t size;          /* of each piece; never 0 */
        uint64_t count;         /* pieces; 0 and 1 = one */
        uint64_t stride;        /* of a row: distance between the starts of two pieces; size or more */
        const uint64_t *blocks; /* the pieces are at offset + blocks[i] * size; NULL = a row */
};

/* End of the slice, from the start of the region. false: a row overlaps itself, or an overflow. */
bool operation_slice_end(const struct operation_slice *slice, uint64_t *ret_end);

/*
 * A slice as users see it. It outlives its region, whose reference the operation gives back when it becomes terminal.
 */
struct operation_descriptor {
        uint64_t region_id;
        uint64_t offset;
        uint64_t size;
        char device[OPERATION_DEVICE_SIZE];
        uint64_t count, stride;
        const uint64_t *blocks; /* NULL = a row, or one piece */
};

/* The data plane's functions, as in move/engine.h; tests pass a fake. */
struct data_plane_ops {
        int (*transfer_start)(void *context, const struct engine_transfer *transfer);
        /* Called also for an operation that ended before operation_begin: its peer's metadata are not needed any more.
         */
        void (*transfer_cancel)(void *context, uint64_t id, int reason);
        void (*claims_revoke)(void *context, uint64_t operation, int reason, int wire_reason);
        void (*held_reads_retry)(void *context);
        void *context;
};

/*
 * Told of every change of an operation. Called without the store's lock, on the thread that changed the operation,
 * which may be the data plane's: it must not block. CHANGED comes at most ten times a second for each operation, and is
 * to be ignored after ENDED.
 */
enum operation_change { OPERATION_MADE, OPERATION_CHANGED, OPERATION_ENDED };

struct operation_observer {
        void (*changed)(void *context, struct operation_store *store, struct operation *operation,
                        enum operation_change change); /* NULL = none */
        void *context;
};

/*
 * Pieces of all operations together, with the terminal ones that are kept: a row of 262,144 pieces is asked for in 100
 * bytes, and takes 8 MiB. A piece is one of the equal parts of a slice; the pieces of tasks, pulls and messages are
 * others. At this limit they take some 100 MiB as rows and blocks, four times that as descriptors.
 */
enum { OPERATION_PIECES_MAX = 1 << 22 };

struct operation_limits {
        uint64_t ttl_ms_default, ttl_ms_max; /* of passive operations */
        uint64_t timeout_ms_max;             /* of active ones; the default is none */
        uint64_t stall_ms;                   /* longest time without a byte moved; after it: stalled */
        uint64_t absence_ms;                 /* how long a transfer over HTTP waits for its client to come back */
        uint64_t retention_ms;               /* how long terminal operations are kept */
        size_t operations_max;               /* live and terminal */
        size_t pieces_max;                   /* of all of them together */
        size_t terminal_max;                 /* kept terminal ones; the oldest go first */
        size_t gone_max;                     /* ids remembered as gone (410) after that */
        uint32_t uses_max;
};

struct operation_config {
        uint64_t epoch;
        struct operation_limits limits;
        struct data_plane_ops data_plane;
        struct operation_observer observer;
        struct loop *loop;
        struct metrics *metrics; /* may be NULL */
};

/* Makes a store. The config is copied; its loop and metrics stay until operation_store_free. 0 or -ENOMEM. */
int operation_store_new(const struct operation_config *config, struct operation_store **ret_store);

/*
 * Cancels all live operations with reason CANCELLED; those in flight end through the data plane. From now on none can
 * be created (FERRY_E_DRAINING). Returns how many were live.
 */
size_t operation_store_cancel_all(struct operation_store *store);

/* How many operations are not terminal; deleted ones count until they are terminal. */
size_t operation_store_live(struct operation_store *store);

/*
 * Bytes that the store's transfers moved into (received) and out of (sent) regions, in each of the last whole seconds
 * of the monotonic clock, oldest first; fewer than OPERATION_SECONDS_MAX only while the store is younger. They count as
 * they move, also those of transfers that failed later.
 */
enum { OPERATION_SECONDS_MAX = 300 };
struct operation_throughput {
        size_t n;
        uint64_t since_us; /* monotonic time at which the first of the n seconds began */
        uint64_t received[OPERATION_SECONDS_MAX], sent[OPERATION_SECONDS_MAX];
};
/* Any thread. */
void operation_store_get_throughput(struct operation_store *store, uint64_t now_us,
                                    struct operation_throughput *ret_throughput);

/*
 * Calls drained once, from any thread, when no live operation is left; from inside this function when there is none.
 * From now on none can be created (FERRY_E_DRAINING), no peer can begin to use one, and passive ones that no peer uses
 * are cancelled: at once, or when their last use ends.
 */
void operation_store_on_drained(struct operation_store *store, void (*drained)(void *context), void *context);

/*
 * No transfer may be in flight. Cancels operations that have not begun. Before loop_free. References to operations may
 * be given back later. Takes NULL; returns NULL.
 */
struct operation_store *operation_store_free(struct operation_store *store);

/* Its loop, its limits and its epoch. Fixed. */
const struct operation_config *operation_store_config(const struct operation_store *store);

/* For struct engine_operations: answers the first request of a peer's transfer. store is its context. */
int operation_store_claim(void *store, const struct engine_claim_request *request, struct engine_claim *ret_claim);
/* For struct engine_operations: answers a notice of a peer. */
int operation_store_notice(void *store, const struct engine_notice *notice, int *ret_status, uint64_t *ret_left_ms);
/* For struct engine_operations: tells of the operations that were started or ended, and wakes their waiters. */
void operation_store_wake_waiters(void *store);

/* ---- making ---- */

struct operation_spec {
        enum ferry_kind kind;
        enum ferry_layout layout;
        const struct operation_slice *slices; /* copied; the store takes its own references and uses */
        size_t n_slices;
        /* Active: the parts of the offer that the slices pair with, seen as one stream, as the slices are. Copied. NULL
         * = all of the offer. */
        const struct ranges *remote;
        /* Passive: how many transfers it serves; 0 and 1 = one, whose failure is the operation's. */
        uint32_t uses;
        uint64_t ttl_ms;       /* passive; 0 = default */
        uint64_t renew_max_ms; /* passive; its holders may keep it for so long from its creation on; 0 = they may not */
        uint64_t timeout_ms;   /* active; 0 = none */
        bool verify;           /* active */
        unsigned carriers;     /* active; of enum engine_carrier; 0 = whatever both sides have */
        /*
         * Readable: a read of the same store that fills all of its bytes. The readable serves the bytes that have
         * arrived there and delays requests for the rest. It ends with the read's error if that fails. NULL = all bytes
         * are there.
         */
        struct operation *follow;
        bool relay;                       /* read; others will follow it: its requests are small from the start on */
        char label[OPERATION_LABEL_SIZE]; /* the client's own; "" = none */
        const char *request_id;           /* Request-Id of the HTTP request; NULL = none. Copied */
};

/*
 * Creates an operation, INITIALIZED: a passive one can be claimed, an active one waits for operation_begin.
 * *ret_operation has a reference. 0; FERRY_E_INVALID_PARAMETER; FERRY_E_SIZE_MISMATCH (remote has another number of
 * bytes than the slices); FERRY_E_LIMIT_REACHED; FERRY_E_NOT_FOUND (a region was deleted meanwhile); FERRY_E_DRAINING;
 * -ENOMEM. With follow: FERRY_E_KIND_MISMATCH (not a read); FERRY_E_OUT_OF_BOUNDS
 * (it does not fill all of the bytes); FERRY_E_INVALID_PARAMETER (it fills some twice); FERRY_E_GONE (it has failed).
 * On failure detail says why not to follow, or what does not match, or names the limit that is reached, or is "".
 */
int operation_create(struct operation_store *store, const struct operation_spec *spec, struct operation **ret_operation,
                     char detail[OPERATION_DETAIL_SIZE]);

/*
 * Starts an active operation with a peer's metadata (borrowed). Checks first; if a check fails, the operation is
 * unchanged: FERRY_E_KIND_MISMATCH; FERRY_E_SIZE_MISMATCH; FERRY_E_OUT_OF_BOUNDS (of remote); FERRY_E_METADATA_EXPIRED;
 * FERRY_E_INVALID_METADATA, with a sentence in detail. 0: it runs and ends by itself, also when the data plane refuses
 * it (ERRORED), or it was cancelled before. -EALREADY: begun before. -EINVAL: not active. may_run_inline: the caller
 * waits for the end, so the data plane may use this thread for a moment (in a callback on the progress thread it does
 * not).
 */
int operation_begin(struct operation_store *store, struct operation *operation, const struct ferry_metadata *metadata,
                    bool may_run_inline, char detail[OPERATION_DETAIL_SIZE]);

/*
 * Checks what operation_begin checks, with its errors, so that a POST is refused before anything is created. The slices
 * are those of the spec.
 */
int operation_check(struct operation_store *store, const struct operation_spec *spec,
                    const struct ferry_metadata *metadata, char detail[OPERATION_DETAIL_SIZE]);

/*
 * Ends an active operation that has not begun as ERRORED (its metadata could not be fetched). Ignored after its begin
 * or end.
 */
void operation_fail(struct operation_store *store, struct operation *operation, int error, const char *detail);

/* ---- using ---- */

enum operation_lookup { OPERATION_FOUND, OPERATION_GONE, OPERATION_UNKNOWN };

/*
 * *ret_operation has a reference when FOUND. GONE: it was deleted or its retention is over, and the id is remembered.
 */
enum operation_lookup operation_find(struct operation_store *store, uint64_t id, struct operation **ret_operation);
/* Take a reference, and give it back: the last one frees the operation. Any thread, also with the store's lock held. */
struct operation *operation_ref(struct operation *operation);
struct operation *operation_unref(struct operation *operation); /* takes NULL; returns NULL */

uint64_t operation_id(const struct operation *operation);
/* The key of a passive operation, FERRY_KEY_SIZE bytes. Fixed, and read without a lock. */
const uint8_t *operation_key(const struct operation *operation);

/* The cursor of the page after one that ends with this operation. */
uint64_t operation_cursor(const struct operation *operation);

/*
 * An operation as users see it. A consistent copy; descriptors are borrowed from the operation and never change. While
 * bytes move, revision rises about ten times a second.
 */
struct operation_view {
        uint64_t id;
        enum ferry_kind kind;
        enum ferry_status status;
        enum ferry_layout layout;
        bool done;
        bool deleted;
        bool cancel_requested;
        bool verify;
        bool relay;
        bool brief; /* for the caller: to be shown without descriptors */
        unsigned carriers;
        uint64_t follow; /* id of the read that it follows, or has followed; 0 = none */
        uint64_t revision;
        uint64_t bytes_total;
        uint64_t bytes_done;   /* never falls; with several uses, how far the furthest transfer came */
        uint64_t bytes_prefix; /* of a failed read: bytes in place from the first one on */
        uint32_t uses;         /* 0 = not asked for */
        uint64_t uses_done;
        uint32_t uses_declined;         /* of several uses */
        const char *label, *request_id; /* borrowed from the operation; "" = none */
        struct operation_peer peer;     /* with several uses, the latest */
        uint64_t ttl_ms, timeout_ms, renew_max_ms;
        uint64_t created_unix_ms;
        uint64_t expires_unix_ms; /* passive, not done and no transfer in flight; 0 = does not apply */
        uint64_t ended_unix_ms;
        uint64_t duration_us; /* from the first chunk (or, if there was none, from creation) to the end */
        char transport[OPERATION_TRANSPORT_SIZE];
        uint64_t connect_us; /* time to connect to the peer; 0 = it did not have to, or has not ended */
        int error;           /* 0 = none */
        char detail[OPERATION_DETAIL_SIZE];
        const struct operation_descriptor *descriptors;
        size_t n_descriptors;
        const struct ranges *remote; /* borrowed from the operation; NULL = none was given */
};
void operation_get_view(struct operation_store *store, struct operation *operation, struct operation_view *ret_view);

/*
 * true: the first call for this operation. Another thread may end an operation before the one that made it tells the
 * observer of that; by this call, under a lock of its own, the observer puts its beginning first.
 */
bool operation_announce(struct operation *operation);

/*
 * The metadata fields that an operation has: operation_kind, key, epoch, operation, expires_ms, descriptors
 * (allocated). The caller fills worker, data, http and frees with ferry_metadata_free. 0; FERRY_E_NOT_PASSIVE;
 * FERRY_E_GONE (terminal or being cancelled); -ENOMEM.
 */
int operation_metadata(struct operation_store *store, struct operation *operation,
                       struct ferry_metadata **ret_metadata);

/* Cancels: CANCELLED at once when nothing is in flight, else cancel_requested first. Ignored when terminal. */
void operation_cancel(struct operation_store *store, struct operation *operation);

/*
 * Cancels and removes: operation_find answers GONE from now on, waiters wake, the memory stays in use until it is
 * quiet.
 */
void operation_delete(struct operation_store *store, struct operation *operation);

/*
 * Restarts the time to live of a passive operation (0 = as at creation). It stands still during a transfer. 0;
 * FERRY_E_NOT_PASSIVE; FERRY_E_GONE (terminal or being cancelled); FERRY_E_INVALID_PARAMETER (beyond the maximum);
 * -ENOMEM.
 */
int operation_renew(struct operation_store *store, struct operation *operation, uint64_t ttl_ms);

/* ---- the holder of its metadata, whose key the caller has checked ---- */

/*
 * The holder will not use it. An operation with one use ends, CANCELLED with DECLINED; of several, one is used up: the
 * last one ends the operation, COMPLETE if another has moved its bytes. transfer: the id of the transfer that the
 * holder gives up; one that was declined before changes nothing, and 0 is none. 0 with *ret_status, also of one that
 * has ended; FERRY_E_NOT_PASSIVE; FERRY_E_ALREADY_CLAIMED (a peer is moving its bytes, or no use is left).
 */
int operation_decline(struct operation_store *store, struct operation *operation, uint64_t transfer,
                      enum ferry_status *ret_status);

/*
 * The holder will use it later: moves its expiry to ttl_ms from now (0 = as at creation), but not beyond renew_max_ms
 * from its creation, and never back. 0 with its status, and its expiry in Unix milliseconds; FERRY_E_NOT_PASSIVE;
 * FERRY_E_FORBIDDEN (it has no renew_max_ms); FERRY_E_GONE (terminal or being cancelled); -ENOMEM.
 */
int operation_keep(struct operation_store *store, struct operation *operation, uint64_t ttl_ms,
                   enum ferry_status *ret_status, uint64_t *ret_expires_unix_ms);

/*
 * Whether bytes of a readable are there: all are, unless it follows a read that has not filled them yet. false: the
 * readable's revision passes *ret_revision when more is there, or when it ends.
 */
bool operation_available(struct operation_store *store, struct operation *operation, uint64_t first, uint64_t size,
                         uint64_t *ret_revision);

/* ---- what a mover that is above keeps with a passive operation ---- */

struct operation_attachment {
        /* Ends the mover's transfers of the operation, as claims_revoke of the data plane. Any thread. */
        void (*revoke)(struct operation_attachment *attachment, int reason, int wire_reason);
        /* The operation is being freed. Any thread, perhaps with the store's lock held. */
        void (*free)(struct operation_attachment *attachment);
};

/* Attaches it unless something is attached. Returns what is attached now; the operation owns it. */
struct operation_attachment *operation_attach(struct operation *operation, struct operation_attachment *attachment);
/* NULL = nothing. */
struct operation_attachment *operation_attached(struct operation *operation);

/* ---- waiting ---- */

/* Embedded in the waiting object, zero-initialised; guarded by the store's lock while it waits. */
struct operation_waiter {
        void (*wake)(struct operation_waiter
                             *waiter); /* called at most once, with no lock held: the operation has changed */
        bool quiet;                    /* a deleted operation is waited for until it is terminal */
        struct operation_waiter *previous, *next; /* the store's */
        struct operation *operation;              /* the store's; NULL = not waiting */
        uint64_t revision;                        /* the store's */
};

/* Whether operation_wait would return false. */
bool operation_is_past(struct operation_store *store, struct operation *operation, uint64_t revision);

/*
 * Waits until the operation is done or deleted (or quiet), or, with revision not 0, its revision has passed that.
 * false: that is so already, and nothing was registered. true: wake will be called once, unless operation_unwait comes
 * first. The caller may have a lock of its own; wake is never called from inside this function.
 */
bool operation_wait(struct operation_store *store, struct operation *operation, uint64_t revision,
                    struct operation_waiter *waiter);

/* true: it was waiting and wake will not be called. false: wake was called, or will be shortly. */
bool operation_unwait(struct operation_store *store, struct operation_waiter *waiter);

/* ---- listing ---- */

/* The operations that a page lists. */
struct operation_filter {
        int kind, status;  /* -1 = any */
        int done;          /* 0, 1; -1 = any */
        uint64_t region;   /* a region of its descriptors; 0 = any */
        const char *label; /* NULL = any */
        bool newest;       /* the newest first; else in order of creation */
};

/* Lists a page, each operation with a reference; filter NULL = all in order of creation. *cursor as in region_page. */
size_t operation_page(struct operation_store *store, const struct operation_filter *filter, uint64_t *cursor,
                      struct operation **page, size_t n);

/*
 * Whether each operation that uses the region and can be found is in its last transfer. Its peer may have the last byte
 * already, and say so to its client, before this worker knows: it is worth a short wait.
 */
bool operation_store_lets_go(struct operation_store *store, uint64_t region);

#endif
