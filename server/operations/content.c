/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/content.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "content_ranges.h"
#include "operations_internal.h"

/* A worker comes back at once, unless the link is cut, which it bears for as long as its TCP does. */
enum { ABSENCE_NAMED_MS = 5000 };

enum { VISIT_PIECE = 1 << 20 };

/*
 * One transfer: one claim, and the ranges that it has moved. The store's content lock guards it and its list, which is
 * a leaf: the store's lock and callbacks are taken without it.
 */
struct content_transfer {
        struct content_transfer *prev, *next; /* of the operation's; while it is not over */
        struct operation *operation;          /* a reference */
        uint64_t id;                          /* 0 = its client names none */
        const char *transport;
        uint64_t peer_epoch;
        char peer_name[FERRY_METADATA_NAME_SIZE]; /* "" = not known */
        struct engine_offer offer;                /* of the claim */
        struct stream stream;
        unsigned references;             /* the operation's list, each open range, the timer */
        unsigned copying;                /* who touches the memory: the transfer cannot end meanwhile */
        struct operation_content *parts; /* open ranges */
        size_t n_parts;
        struct content_ranges moved;
        int stop, wire_stop; /* revoked: what it ends with, what the client is told; 0 = it was not */
        bool claimed;        /* offer and stream are there */
        bool over;
        bool timed; /* the timer is armed or about to run */
        struct loop_timer timer;
};

struct operation_content {
        struct operation_content *prev, *next; /* of the transfer's */
        struct content_transfer *transfer;     /* a reference */
        uint64_t first, position, end;
};

static void content_lock(struct operation_store *store)
{
        (void)pthread_mutex_lock(&store->content_lock);
}

static void content_unlock(struct operation_store *store)
{
        (void)pthread_mutex_unlock(&store->content_lock);
}

/* With the lock held, which is given back: the last reference must go without it. */
static void transfer_put_unlock(struct content_transfer *transfer)
{
        struct operation *operation = transfer->operation;
        bool last = --transfer->references == 0;

        content_unlock(operation->store);
        if (!last)
                return;
        stream_clear(&transfer->stream);
        free(transfer);
        (void)operation_unref(operation);
}

/* With the lock held. A callback that runs already sees what has changed. */
static void idle_disarm(struct content_transfer *transfer)
{
        if (!transfer->timed || !loop_timer_stop(transfer->operation->store->config.loop, &transfer->timer))
                return;
        transfer->timed = false;
        transfer->references--;
}

/* outcome NULL: it begins. */
static void transfer_note(const struct content_transfer *transfer, const struct engine_outcome *outcome)
{
        const struct operation_mover *mover = &transfer->operation->store->config.mover;
        const struct engine_visit visit = { .peer = { .epoch = transfer->peer_epoch, .name = transfer->peer_name },
                                            .transport = transfer->transport,
                                            .accepted = true,
                                            .outcome = outcome };

        if (mover->note)
                mover->note(mover->context, &visit);
}

/* With the lock held, which is given back. Nobody copies. error 0 = complete. */
static void transfer_end_unlock(struct content_transfer *transfer, int error, const char *detail)
{
        struct operation_store *store = transfer->operation->store;
        struct engine_outcome outcome = { .error = error, .bytes = transfer->moved.total };

        (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", transfer->transport);
        (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", detail);
        transfer->over = true;
        idle_disarm(transfer);
        DL_DELETE(transfer->operation->contents, transfer);
        content_unlock(store);
        transfer_note(transfer, &outcome);
        transfer->offer.ended(transfer->offer.context, &outcome);
        operation_store_wake_waiters(store);
        content_lock(store);
        transfer_put_unlock(transfer);
}

/* With the lock held, which is given back: ends a transfer that has reason to. */
static void transfer_look_unlock(struct content_transfer *transfer)
{
        if (transfer->over || !transfer->claimed || transfer->copying)
                content_unlock(transfer->operation->store);
        else if (transfer->stop)
                transfer_end_unlock(transfer, transfer->stop, "");
        else if (!transfer->id && !transfer->parts && transfer->moved.total == transfer->stream.total)
                transfer_end_unlock(transfer, 0, "");
        else
                content_unlock(transfer->operation->store);
}

/* ---- the client's absence ---- */

static void on_idle(struct loop_timer *timer)
{
        struct content_transfer *transfer = FERRY_CONTAINER_OF(timer, struct content_transfer, timer);
        struct operation_store *store = transfer->operation->store;
        char detail[OPERATION_DETAIL_SIZE];

        content_lock(store);
        transfer->timed = false;
        if (!transfer->over && !transfer->parts && !transfer->copying) {
                (void)snprintf(detail, sizeof(detail), "The HTTP client left after %" PRIu64 " of %" PRIu64 " bytes",
                               transfer->moved.total, transfer->stream.total);
                transfer_end_unlock(transfer, FERRY_E_PEER_LOST, detail);
                content_lock(store);
        }
        transfer_put_unlock(transfer);
}

/* With the lock held. Short of memory, the operation's stall limit is left. */
static void idle_arm(struct content_transfer *transfer)
{
        struct operation_store *store = transfer->operation->store;
        uint64_t absence_ms = store->config.limits.absence_ms;

        if (transfer->timed || transfer->over || transfer->parts)
                return;
        if (transfer->id && absence_ms > ABSENCE_NAMED_MS)
                absence_ms = ABSENCE_NAMED_MS;
        transfer->timer.fired = on_idle;
        if (loop_timer_start(store->config.loop, &transfer->timer, deadline_after(clock_now_us(), absence_ms)) < 0)
                return;
        transfer->timed = true;
        transfer->references++;
}

/* ---- opening ---- */

static bool overlaps_open(const struct content_transfer *transfer, uint64_t first, uint64_t end)
{
        const struct operation_content *part;

        DL_FOREACH (transfer->parts, part)
                if (part->first < end && first < part->end)
                        return true;
        return false;
}

/* With the lock held. NULL: the request begins a transfer of its own. */
static struct content_transfer *transfer_find(const struct operation *operation,
                                              const struct operation_content_request *request)
{
        struct content_transfer *transfer;

        DL_FOREACH (operation->contents, transfer)
                if (transfer->id == request->transfer && !transfer->stop && transfer->claimed &&
                    (transfer->id || !overlaps_open(transfer, request->first, request->first + request->size)))
                        return transfer;
        return NULL;
}

/* With the lock held. */
static void part_add(struct operation_content *part, struct content_transfer *transfer,
                     const struct operation_content_request *request)
{
        *part = (struct operation_content){ .transfer = transfer,
                                            .first = request->first,
                                            .position = request->first,
                                            .end = request->first + request->size };
        transfer->references++;
        idle_disarm(transfer);
        DL_APPEND(transfer->parts, part);
        transfer->n_parts++;
}

static int claim(struct content_transfer *transfer, const struct operation *operation)
{
        struct engine_request request = {
                .operation = operation->id,
                .transfer = transfer->id ? transfer->id : random_id(),
                .direction = operation->kind == FERRY_READABLE ? ENGINE_READ : ENGINE_WRITE,
                .total = operation->bytes_total,
                .peer_epoch = transfer->peer_epoch,
                .peer_name = transfer->peer_name,
        };
        int r;

        memcpy(request.key, operation->key, sizeof(request.key));
        r = operation_store_claim(operation->store, &request, &transfer->offer);
        explicit_bzero(request.key, sizeof(request.key));
        return r;
}

/*
 * With the lock held, which is given back. The transfer is in the list before it has its claim, so that a revoke in
 * between is not lost; the claim is made without the lock.
 */
static int transfer_begin_unlock(struct operation *operation, const struct operation_content_request *request,
                                 struct content_transfer *transfer, struct operation_content *part)
{
        struct operation_store *store = operation->store;
        struct engine_offer offer = { 0 };
        int r;

        *transfer = (struct content_transfer){ .operation = operation_ref(operation),
                                               .id = request->transfer,
                                               .transport = request->transport,
                                               .peer_epoch = request->peer_epoch,
                                               .references = 1 };
        (void)snprintf(transfer->peer_name, sizeof(transfer->peer_name), "%s", request->peer_name ?: "");
        DL_APPEND(operation->contents, transfer);
        part_add(part, transfer, request);
        content_unlock(store);

        r = claim(transfer, operation);
        if (r == 0 && stream_init(&transfer->stream, transfer->offer.segments, transfer->offer.n_segments) < 0) {
                offer = transfer->offer;
                r = -ENOMEM;
        }
        if (r == 0)
                transfer_note(transfer, NULL);
        content_lock(store);
        if (r == 0) {
                transfer->claimed = true;
                transfer_look_unlock(transfer);
                return 0;
        }
        transfer->over = true;
        DL_DELETE(operation->contents, transfer);
        DL_DELETE(transfer->parts, part);
        transfer->references--; /* the part's; the list's goes below */
        transfer_put_unlock(transfer);
        if (offer.ended) {
                offer.ended(offer.context, &(struct engine_outcome){ .error = FERRY_E_TRANSFER_FAILED });
                operation_store_wake_waiters(store);
        }
        return r;
}

int operation_content_open(struct operation_store *store, struct operation *operation,
                           const struct operation_content_request *request, struct operation_content **ret_content)
{
        FERRY_CLEANUP(cleanup_free) struct content_transfer *fresh = NULL;
        FERRY_CLEANUP(cleanup_free) struct operation_content *part = NULL;
        struct content_transfer *transfer;
        int r = 0;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        if (request->key && !operation_content_key(operation, request->key))
                return FERRY_E_PEER_REFUSED;
        part = malloc(sizeof(*part));
        fresh = malloc(sizeof(*fresh));
        if (!part || !fresh)
                return -ENOMEM;
        content_lock(store);
        transfer = transfer_find(operation, request);
        if (!transfer) {
                r = transfer_begin_unlock(operation, request, FERRY_STEAL(fresh), part);
        } else if (transfer->id && overlaps_open(transfer, request->first, request->first + request->size)) {
                r = FERRY_E_ALREADY_CLAIMED;
                content_unlock(store);
        } else if (transfer->moved.n + transfer->n_parts >= CONTENT_RANGES_MAX) {
                r = FERRY_E_LIMIT_REACHED;
                content_unlock(store);
        } else {
                part_add(part, transfer, request);
                content_unlock(store);
        }
        if (r)
                return r;
        *ret_content = FERRY_STEAL(part);
        return 0;
}

/* ---- moving ---- */

/* Whether the memory may be touched; content_copied follows then. */
static bool content_copies(struct content_transfer *transfer)
{
        struct operation_store *store = transfer->operation->store;
        bool may;

        content_lock(store);
        may = !transfer->over && !transfer->stop;
        if (may)
                transfer->copying++;
        content_unlock(store);
        return may;
}

/* The part's position is past what was copied. Counts it at once where it cannot get lost any more. */
static void content_copied(struct operation_content *part, uint64_t from)
{
        struct content_transfer *transfer = part->transfer;
        bool stored = transfer->operation->kind == FERRY_WRITABLE;
        uint64_t moved;

        content_lock(transfer->operation->store);
        if (stored && part->position > from)
                content_ranges_add(&transfer->moved, from, part->position);
        moved = stored ? transfer->moved.total : transfer->moved.total + (part->position - part->first);
        content_unlock(transfer->operation->store);
        transfer->offer.progress(transfer->offer.context, moved);
        content_lock(transfer->operation->store);
        transfer->copying--;
        transfer_look_unlock(transfer);
}

/*
 * The clients put what they do to the bytes of a region in order, not the worker: other requests, transfers and
 * programs may read and write the same ones. A function of its own, so that tests/tsan.supp can name it.
 */
__attribute__((noinline)) static int content_load(const struct stream *stream, uint64_t offset, void *to, size_t size)
{
        return stream_load(stream, offset, to, size);
}

__attribute__((noinline)) static int content_store(const struct stream *stream, uint64_t offset, const void *from,
                                                   size_t size)
{
        return stream_store(stream, offset, from, size);
}

ssize_t operation_content_read(struct operation_content *part, void *to, size_t size)
{
        uint64_t from = part->position;
        uint64_t left = part->end - from < size ? part->end - from : size;
        int r;

        if (!left)
                return 0;
        if (!content_copies(part->transfer))
                return -1;
        r = content_load(&part->transfer->stream, from, to, left);
        if (r == 0)
                part->position += left;
        content_copied(part, from);
        if (r < 0)
                operation_content_fail(part, FERRY_E_TRANSFER_FAILED);
        return r < 0 ? -1 : (ssize_t)left;
}

/* What the client of a transfer that is over is told. */
static int told(const struct content_transfer *transfer)
{
        return transfer->wire_stop ? transfer->wire_stop : FERRY_E_GONE;
}

int operation_content_write(struct operation_content *part, const void *from, size_t size)
{
        uint64_t at = part->position;
        int r;

        if (size > part->end - at)
                return FERRY_E_TOO_LARGE;
        if (!size)
                return 0;
        if (!content_copies(part->transfer))
                return told(part->transfer);
        r = content_store(&part->transfer->stream, at, from, size);
        if (r == 0)
                part->position += size;
        content_copied(part, at);
        if (r == 0)
                return 0;
        operation_content_fail(part, FERRY_E_TRANSFER_FAILED);
        return FERRY_E_TRANSFER_FAILED;
}

bool operation_content_checksum(struct operation_content *part, uint64_t *ret_checksum)
{
        struct content_transfer *transfer = part->transfer;
        int r;

        if (!content_copies(transfer))
                return false;
        r = stream_checksum(&transfer->stream, part->first, part->end - part->first, ret_checksum);
        content_lock(transfer->operation->store);
        transfer->copying--;
        transfer_look_unlock(transfer);
        if (r < 0)
                operation_content_fail(part, FERRY_E_TRANSFER_FAILED);
        return r == 0;
}

/* The data are the clients' to order, as above. */
__attribute__((noinline)) static void content_show(void (*visit)(void *context, const void *bytes, size_t size),
                                                   void *context, const void *bytes, size_t size)
{
        visit(context, bytes, size);
}

bool operation_content_visit(struct operation_content *part,
                             void (*visit)(void *context, const void *bytes, size_t size), void *context)
{
        struct content_transfer *transfer = part->transfer;
        uint8_t *address;

        for (uint64_t at = 0, run; at < transfer->stream.total; at += run) {
                if (!content_copies(transfer))
                        return false;
                run = stream_run(&transfer->stream, at, VISIT_PIECE, &address);
                content_show(visit, context, address, run);
                content_lock(transfer->operation->store);
                transfer->copying--;
                transfer_look_unlock(transfer);
        }
        return true;
}

/* ---- ending ---- */

void operation_content_close(struct operation_content *part, bool sent)
{
        struct content_transfer *transfer;
        bool readable;

        if (!part)
                return;
        transfer = part->transfer;
        readable = transfer->operation->kind == FERRY_READABLE;
        content_lock(transfer->operation->store);
        DL_DELETE(transfer->parts, part);
        transfer->n_parts--;
        /* Whoever lost the connection comes for what is missing; that the last byte got lost cannot be known. */
        if (readable)
                content_ranges_add(&transfer->moved, part->first,
                                   sent || part->position < part->end ? part->position : part->end - 1);
        transfer_look_unlock(transfer);
        content_lock(transfer->operation->store);
        idle_arm(transfer);
        transfer_put_unlock(transfer);
        free(part);
}

static void transfer_stop_unlock(struct content_transfer *transfer, int reason, int wire_reason)
{
        if (!transfer->stop) {
                transfer->stop = reason;
                transfer->wire_stop = wire_reason;
        }
        transfer_look_unlock(transfer);
}

void operation_content_fail(struct operation_content *part, int error)
{
        content_lock(part->transfer->operation->store);
        transfer_stop_unlock(part->transfer, error, error);
}

void content_revoke(struct operation *operation, int reason, int wire_reason)
{
        struct operation_store *store = operation->store;
        struct content_transfer *transfer;
        bool any;

        do {
                content_lock(store);
                DL_FOREACH (operation->contents, transfer)
                        if (!transfer->stop)
                                break;
                any = transfer != NULL;
                if (any)
                        transfer_stop_unlock(transfer, reason, wire_reason);
                else
                        content_unlock(store);
        } while (any);
}

bool operation_content_key(const struct operation *operation, const uint8_t key[FERRY_KEY_SIZE])
{
        return ferry_key_equal(key, operation->key);
}

uint64_t operation_content_stored(struct operation_store *store, struct operation *operation)
{
        struct aftermath after = { 0 };
        uint64_t stored = 0;

        store_lock(store);
        if (operation->status == FERRY_COMPLETE)
                stored = operation->bytes_total;
        store_unlock(store, &after);
        content_lock(store);
        if (operation->contents && !stored)
                stored = content_ranges_start(&operation->contents->moved);
        content_unlock(store);
        return stored;
}

/* With the lock held: counts what open ranges have moved, too. The client knows best what has arrived of it. */
static bool every_byte(struct content_transfer *transfer)
{
        const struct operation_content *part;

        DL_FOREACH (transfer->parts, part)
                content_ranges_add(&transfer->moved, part->first, part->position);
        return transfer->moved.total == transfer->stream.total;
}

int operation_content_end(struct operation_store *store, struct operation *operation, const uint8_t *key, uint64_t id,
                          bool *ret_complete)
{
        struct content_transfer *transfer;
        int r = 0;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        if (key && !operation_content_key(operation, key))
                return FERRY_E_PEER_REFUSED;
        content_lock(store);
        DL_FOREACH (operation->contents, transfer)
                if (transfer->id == id && !transfer->stop && transfer->claimed)
                        break;
        if (!transfer) {
                *ret_complete = id && operation->content_completed == id;
                r = *ret_complete ? 0 : FERRY_E_GONE;
                content_unlock(store);
        } else if (!transfer->copying && every_byte(transfer)) {
                *ret_complete = true;
                operation->content_completed = id;
                transfer_end_unlock(transfer, 0, "");
        } else {
                *ret_complete = false;
                transfer_stop_unlock(transfer, FERRY_E_CANCELLED_BY_PEER, FERRY_E_GONE);
        }
        return r;
}
