/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/content.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/space.h"
#include "content_transfer.h"

/* The bytes of an operation for the HTTP server: opening a range, copying, closing. */

/* ---- the ends that clients have told ---- */

enum { CONTENT_ENDS_MAX = 64, CONTENT_ENDS_EARLY = 8 };

/* How many are remembered: of complete ones, and of those given up, which may come before their first request. */
static uint32_t ends_max(const struct operation *operation)
{
        uint64_t uses = operation_uses_max(operation);

        return CONTENT_ENDS_EARLY + (uint32_t)(uses < CONTENT_ENDS_MAX ? uses : CONTENT_ENDS_MAX);
}

/* With the lock held. NULL = its client has not ended it. */
static const struct content_end *end_find(const struct operation *operation, uint64_t id)
{
        for (uint32_t i = 0; id && operation->content_ends && i < ends_max(operation); i++)
                if (operation->content_ends[i].id == id)
                        return &operation->content_ends[i];
        return NULL;
}

/* With the lock held. If memory is short, a client that repeats its end is told that the transfer is gone. */
static void end_note(struct operation *operation, uint64_t id, bool complete)
{
        const uint32_t max = ends_max(operation);

        if (!id || end_find(operation, id))
                return;
        if (!operation->content_ends)
                operation->content_ends = calloc(max, sizeof(operation->content_ends[0]));
        if (operation->content_ends)
                operation->content_ends[operation->n_content_ends++ % max] =
                        (struct content_end){ .id = id, .complete = complete };
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

/* With the lock held. The transfer that the request joins; NULL = it begins one. */
static struct content_transfer *transfer_find(const struct operation *operation,
                                              const struct operation_content_request *request)
{
        struct content_transfer *transfer;

        DL_FOREACH (operation->contents, transfer)
                if (transfer->id == request->transfer && !transfer->revoke_reason && transfer->claimed &&
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
        content_transfer_disarm(transfer);
        DL_APPEND(transfer->parts, part);
        transfer->n_parts++;
}

static unsigned gpu_of(const struct stream *stream)
{
        const struct space *space = stream_next_space(stream, 0);

        return space ? 1 + space->device : 0;
}

static int claim_operation(struct content_transfer *transfer, const struct operation *operation)
{
        struct engine_claim_request request = {
                .operation = operation->id,
                .transfer = transfer->id ? transfer->id : random_id(),
                .direction = operation->kind == FERRY_READABLE ? ENGINE_READ : ENGINE_WRITE,
                .total = content_transfer_total(transfer),
                .whole = operation->bytes_total,
                .peer_epoch = transfer->peer_epoch,
                .peer_name = transfer->peer_name,
        };
        int r;

        memcpy(request.key, operation->key, sizeof(request.key));
        r = operation_store_claim(operation->store, &request, &transfer->claim);
        operation_store_wake_waiters(operation->store);
        explicit_bzero(request.key, sizeof(request.key));
        return r;
}

/*
 * With the lock held, which is given back. The transfer is listed before its claim, which is made without the lock, so
 * that a revoke in between is not lost.
 */
static int transfer_begin_unlock(struct operation *operation, const struct operation_content_request *request,
                                 struct content_transfer *transfer, struct operation_content *part)
{
        struct operation_store *store = operation->store;
        struct engine_claim unused = { 0 };
        int r;

        *transfer = (struct content_transfer){ .operation = operation_ref(operation),
                                               .id = request->transfer,
                                               .announced = request->announced,
                                               .transport = request->transport,
                                               .peer_epoch = request->peer_epoch,
                                               .references = 1 };
        (void)text_copy(transfer->peer_name, sizeof(transfer->peer_name), request->peer_name);
        DL_APPEND(operation->contents, transfer);
        part_add(part, transfer, request);
        content_unlock(store);

        r = claim_operation(transfer, operation);
        if (r == 0 && stream_init(&transfer->stream, transfer->claim.segments, transfer->claim.n_segments) < 0) {
                unused = transfer->claim;
                r = -ENOMEM;
        }
        if (r == 0) {
                transfer->gpu = gpu_of(&transfer->stream);
                content_transfer_note(transfer, NULL);
        }
        content_lock(store);
        if (r == 0) {
                transfer->claimed = true;
                content_transfer_end_due_unlock(transfer);
                return 0;
        }
        transfer->over = true;
        DL_DELETE(operation->contents, transfer);
        DL_DELETE(transfer->parts, part);
        transfer->references--; /* the reference of the range; that of the list is given back below */
        content_transfer_put_unlock(transfer);
        if (unused.ended) {
                unused.ended(unused.context, &(struct engine_outcome){ .error = FERRY_E_TRANSFER_FAILED });
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
        if (!transfer &&
            end_find(operation, request->transfer)) { /* the end came over another connection, and sooner */
                r = FERRY_E_GONE;
                content_unlock(store);
        } else if (!transfer) {
                r = transfer_begin_unlock(operation, request, FERRY_STEAL(fresh), part);
        } else if (transfer->id && overlaps_open(transfer, request->first, request->first + request->size)) {
                r = FERRY_E_ALREADY_CLAIMED;
                content_unlock(store);
        } else if (request->announced != transfer->announced) {
                r = FERRY_E_SIZE_MISMATCH;
                content_unlock(store);
        } else if (!transfer->announced && transfer->moved.n + transfer->n_parts >= CONTENT_RANGES_MAX) {
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

unsigned operation_content_gpu(const struct operation_content *part)
{
        return part->transfer->gpu;
}

/* ---- moving ---- */

void content_fault(struct operation_content *part, int error)
{
        struct content_transfer *transfer = part->transfer;

        content_lock(transfer->operation->store);
        if (!transfer->revoke_reason)
                transfer->fault = space_error(error);
        content_transfer_revoke_unlock(transfer, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED);
}

/* With the lock held: bytes [first, end) have moved. */
static void note_moved(struct content_transfer *transfer, uint64_t first, uint64_t end)
{
        if (!transfer->announced)
                content_ranges_add(&transfer->moved, first, end);
        else if (end > first)
                transfer->bytes += end - first;
}

/* Counts what was copied, up to part->position: stored bytes at once, sent ones when the range is closed. */
static void content_copied(struct operation_content *part, uint64_t from)
{
        struct content_transfer *transfer = part->transfer;
        bool stored = transfer->operation->kind == FERRY_WRITABLE;
        uint64_t moved;

        content_lock(transfer->operation->store);
        if (stored && part->position > from)
                note_moved(transfer, from, part->position);
        moved = content_transfer_moved(transfer) + (stored ? 0 : part->position - part->first);
        if (moved > transfer->reported)
                transfer->reported = moved;
        content_unlock(transfer->operation->store);
        transfer->claim.progress(transfer->claim.context, moved);
        content_transfer_copy_end(transfer);
}

/*
 * Other requests, transfers and programs may read and write the same bytes; their order is up to the clients. A
 * function of its own so that tests/tsan.supp can name it.
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
        if (!content_transfer_copy_begin(part->transfer))
                return -1;
        r = content_load(&part->transfer->stream, from, to, left);
        if (r == 0)
                part->position += left;
        content_copied(part, from);
        if (r < 0)
                content_fault(part, r);
        return r < 0 ? -1 : (ssize_t)left;
}

int operation_content_error(const struct operation_content *part)
{
        struct operation_store *store = part->transfer->operation->store;
        int error;

        content_lock(store);
        error = part->transfer->revoke_wire_reason;
        content_unlock(store);
        return error ? error : FERRY_E_GONE;
}

int operation_content_write(struct operation_content *part, const void *from, size_t size)
{
        uint64_t at = part->position;
        int r;

        if (size > part->end - at)
                return FERRY_E_TOO_LARGE;
        if (!size)
                return 0;
        if (!content_transfer_copy_begin(part->transfer))
                return operation_content_error(part);
        r = content_store(&part->transfer->stream, at, from, size);
        if (r == 0)
                part->position += size;
        content_copied(part, at);
        if (r == 0)
                return 0;
        content_fault(part, r);
        return FERRY_E_TRANSFER_FAILED;
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
        /*
         * A client that lost its connection asks for the rest. Whether the last byte arrived cannot be known, so it
         * stays open.
         */
        if (readable)
                note_moved(transfer, part->first, sent || part->position < part->end ? part->position : part->end - 1);
        content_transfer_end_due_unlock(transfer);
        content_lock(transfer->operation->store);
        content_transfer_arm(transfer);
        content_transfer_put_unlock(transfer);
        free(part);
}

struct content_transfer *operation_content_connected(struct operation_content *part)
{
        struct content_transfer *transfer = part->transfer;

        if (!transfer->id)
                return NULL;
        content_lock(transfer->operation->store);
        transfer->n_connections++;
        transfer->references++;
        content_unlock(transfer->operation->store);
        return transfer;
}

void operation_content_disconnected(struct content_transfer *transfer)
{
        if (!transfer)
                return;
        content_lock(transfer->operation->store);
        transfer->n_connections--;
        content_transfer_arm(transfer);
        content_transfer_put_unlock(transfer);
}

bool operation_content_is_over(struct content_transfer *transfer)
{
        bool over;

        if (!transfer)
                return false;
        content_lock(transfer->operation->store);
        over = transfer->over;
        content_unlock(transfer->operation->store);
        return over;
}

void operation_content_fail(struct operation_content *part, int error)
{
        content_lock(part->transfer->operation->store);
        content_transfer_revoke_unlock(part->transfer, error, error);
}

bool operation_content_key(const struct operation *operation, const uint8_t key[FERRY_KEY_SIZE])
{
        return ferry_key_equal(key, operation->key);
}

uint64_t operation_content_stored(struct operation_store *store, struct operation *operation)
{
        uint64_t stored = 0;

        store_lock(store);
        if (operation->state == OPERATION_COMPLETE && atomic_load(&operation->bytes_done) == operation->bytes_total)
                stored = operation->bytes_total;
        store_unlock_plain(store);
        content_lock(store);
        if (operation->contents && !stored)
                stored = content_ranges_run(&operation->contents->moved, 0);
        content_unlock(store);
        return stored;
}

/* With the lock held. Counts the open ranges as moved, because the client knows best what has arrived. */
static bool every_byte(struct content_transfer *transfer)
{
        const struct operation_content *part;

        DL_FOREACH (transfer->parts, part)
                note_moved(transfer, part->first, part->position);
        return content_transfer_moved(transfer) == content_transfer_total(transfer);
}

int operation_content_end(struct operation_store *store, struct operation *operation, const uint8_t *key, uint64_t id,
                          int error, bool *ret_complete)
{
        const struct content_end *before;
        struct content_transfer *transfer;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        if (key && !operation_content_key(operation, key))
                return FERRY_E_PEER_REFUSED;
        content_lock(store);
        DL_FOREACH (operation->contents, transfer)
                if (transfer->id == id && !transfer->revoke_reason)
                        break;
        before = end_find(operation, id);
        *ret_complete = transfer ? !error && transfer->claimed && !transfer->copying && every_byte(transfer)
                                 : before && before->complete;
        end_note(operation, id, *ret_complete);
        if (!transfer) {
                content_unlock(store);
                return *ret_complete ? 0 : FERRY_E_GONE;
        }
        if (*ret_complete) {
                content_transfer_end_unlock(transfer, 0, "");
        } else {
                transfer->revoked_by_peer = true;
                content_transfer_revoke_unlock(
                        transfer, error ? engine_error_of_peer((uint32_t)error) : FERRY_E_CANCELLED_BY_PEER,
                        FERRY_E_GONE);
        }
        return 0;
}
