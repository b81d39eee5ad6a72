/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/space.h"
#include "base/util.h"
#include "mover_internal.h"

/*
 * The bytes of an operation for the HTTP server: opening a range, copying, reading for digests, closing. An open range
 * has a reference to its responder, and the responder one to the operation, so memory stays as long as a client reads
 * or writes it; whether it may still be touched is asked before each copy (http_responder_copy_begin).
 *
 * Contract: move/content.h. Thread: any, the HTTP server's mostly. Lock: the offer's, which is not held while bytes are
 * copied or the store is called.
 */

enum { VISIT_PIECE = 1 << 20 };

/* ---- opening ---- */

static bool overlaps_open(const struct http_responder *responder, uint64_t first, uint64_t end)
{
        const struct http_content *content;

        DL_FOREACH (responder->open_ranges, content)
                if (content->first < end && first < content->end)
                        return true;
        return false;
}

/* Whether one more could leave more gaps than are remembered. */
static bool too_many_ranges(const struct http_responder *responder)
{
        const struct http_content *content;
        size_t n;

        DL_COUNT(responder->open_ranges, content, n);
        return responder->moved.n + n >= CONTENT_RANGES_MAX;
}

/* Finds the responder that the request joins; NULL = it begins one. The lock is held. */
static struct http_responder *http_responder_find(const struct http_offer *offer,
                                                  const struct http_content_request *request)
{
        struct http_responder *responder;

        DL_FOREACH (offer->responders, responder)
                if (responder->id == request->transfer && !responder->revoke_reason &&
                    responder->base.state == HTTP_MOVING &&
                    (responder->id || !overlaps_open(responder, request->first, request->first + request->size)))
                        return responder;
        return NULL;
}

/* Opens the range in the responder. The lock is held. */
static void content_add(struct http_content *content, struct http_responder *responder,
                        const struct http_content_request *request)
{
        *content = (struct http_content){ .responder = responder,
                                          .first = request->first,
                                          .position = request->first,
                                          .end = request->first + request->size };
        responder->references++;
        http_responder_disarm(responder);
        DL_APPEND(responder->open_ranges, content);
}

/* 1 + the device of the first bytes off the host; 0 = all are in host memory. */
static unsigned gpu_of(const struct stream *stream)
{
        const struct space *space = stream_next_space(stream, 0);

        return space ? 1 + space->device : 0;
}

/*
 * Claims the operation, as the engine does for a peer of its own. Returns 0 or the FERRY_E_* for the client. Without
 * the lock.
 */
static int claim_operation(struct http_responder *responder)
{
        struct engine_claim_request request = {
                .operation = operation_id(responder->offer->operation),
                .transfer = responder->id ? responder->id : random_id(),
                .direction = responder->offer->readable ? ENGINE_READ : ENGINE_WRITE,
                .total = http_responder_total(responder),
                .whole = responder->offer->total,
                .peer_epoch = responder->base.peer_epoch,
                .peer_name = responder->base.peer_name,
        };
        int r;

        memcpy(request.key, operation_key(responder->offer->operation), sizeof(request.key));
        r = operation_store_claim(responder->offer->store, &request, &responder->claim);
        explicit_bzero(request.key, sizeof(request.key));
        http_transfer_wake_waiters(&responder->base);
        return r;
}

/*
 * With the lock held, which is given back. The responder is listed before its claim, which is made without the lock, so
 * that a revoke in between is not lost.
 */
static int http_responder_begin_unlock(struct http_mover *mover, struct http_offer *offer,
                                       const struct http_content_request *request, struct http_responder *responder,
                                       struct http_content *content)
{
        int r, short_of_memory = 0;

        *responder = (struct http_responder){ .base = { .config = mover_config(mover),
                                                        .accepted = true,
                                                        .carrier = request->transport,
                                                        .peer_epoch = request->peer_epoch },
                                              .offer = offer,
                                              .id = request->transfer,
                                              .announced = request->announced,
                                              .references = 1 };
        (void)text_copy(responder->base.peer_name, sizeof(responder->base.peer_name), request->peer_name);
        (void)operation_ref(offer->operation);
        DL_APPEND(offer->responders, responder);
        content_add(content, responder, request);
        offer_unlock(offer);

        r = claim_operation(responder);
        if (r == 0) {
                short_of_memory =
                        stream_init(&responder->base.stream, responder->claim.segments, responder->claim.n_segments);
                responder->gpu = gpu_of(&responder->base.stream);
                http_transfer_note(&responder->base, NULL);
        }
        offer_lock(offer);
        if (r == 0) {
                http_transfer_set_state(&responder->base, HTTP_MOVING);
                if (short_of_memory)
                        http_responder_revoke_unlock(responder, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED,
                                                     space_error(short_of_memory));
                else
                        http_responder_end_due_unlock(responder);
                return 0;
        }
        http_transfer_set_state(&responder->base, HTTP_OVER);
        DL_DELETE(offer->responders, responder);
        DL_DELETE(responder->open_ranges, content);
        responder->references--; /* the reference of the range; that of the list is given back below */
        http_responder_put_unlock(responder);
        return r;
}

/* Both structs are made before the lock is taken; what is not used is freed without it. */
int http_content_open(struct http_mover *mover, struct operation_store *store, struct operation *operation,
                      const struct http_content_request *request, struct http_content **ret_content)
{
        FERRY_CLEANUP(cleanup_free) struct http_responder *fresh = NULL;
        FERRY_CLEANUP(cleanup_free) struct http_content *content = NULL;
        struct http_responder *responder;
        struct http_offer *offer;
        int r = offer_get(store, operation, &offer);

        if (r)
                return r;
        content = malloc(sizeof(*content));
        fresh = malloc(sizeof(*fresh));
        if (!content || !fresh)
                return -ENOMEM;
        offer_lock(offer);
        responder = http_responder_find(offer, request);
        if (!responder && offer_find_end(offer, request->transfer)) /* over another connection, and sooner */
                r = FERRY_E_GONE;
        else if (!responder)
                r = http_responder_begin_unlock(mover, offer, request, FERRY_STEAL(fresh), content);
        else if (responder->id && overlaps_open(responder, request->first, request->first + request->size))
                r = FERRY_E_ALREADY_CLAIMED;
        else if (request->announced != responder->announced)
                r = FERRY_E_SIZE_MISMATCH;
        else if (!responder->announced && too_many_ranges(responder))
                r = FERRY_E_LIMIT_REACHED;
        else
                content_add(content, responder, request);
        if (fresh)
                offer_unlock(offer);
        if (r)
                return r;
        *ret_content = FERRY_STEAL(content);
        return 0;
}

unsigned http_content_gpu(const struct http_content *content)
{
        return content->responder->gpu;
}

/* ---- moving ---- */

/* Counts what was copied, up to content->position: stored bytes at once, sent ones when the range is closed. */
static void content_copied(struct http_content *content, uint64_t from)
{
        struct http_responder *responder = content->responder;
        bool stored = !responder->offer->readable;
        uint64_t moved;

        offer_lock(responder->offer);
        if (stored && content->position > from)
                http_responder_note_moved(responder, from, content->position);
        moved = http_responder_moved(responder) + (stored ? 0 : content->position - content->first);
        if (moved > responder->base.reported)
                responder->base.reported = moved;
        offer_unlock(responder->offer);
        responder->claim.progress(responder->claim.context, moved);
        http_responder_copy_end(responder);
}

int http_content_error(const struct http_content *content)
{
        struct http_offer *offer = content->responder->offer;
        int error;

        offer_lock(offer);
        error = content->responder->revoke_wire_reason;
        offer_unlock(offer);
        return error ? error : FERRY_E_GONE;
}

int http_content_move(struct http_content *content, void *bytes, size_t size)
{
        struct http_responder *responder = content->responder;
        const struct stream *stream = &responder->base.stream;
        uint64_t at = content->position;
        int r;

        if (size > content->end - at)
                return FERRY_E_TOO_LARGE;
        if (!http_responder_copy_begin(responder))
                return http_content_error(content);
        r = responder->offer->readable ? stream_load(stream, at, bytes, size) : stream_store(stream, at, bytes, size);
        if (r == 0)
                content->position += size;
        content_copied(content, at);
        if (r == 0)
                return 0;
        http_responder_fault(responder, r);
        return http_content_error(content);
}

uint64_t http_content_stored(struct operation_store *store, struct operation *operation)
{
        struct operation_attachment *attachment = operation_attached(operation);
        struct http_offer *offer = attachment ? FERRY_CONTAINER_OF(attachment, struct http_offer, attachment) : NULL;
        struct operation_view view;
        uint64_t stored = 0;

        operation_get_view(store, operation, &view);
        if (view.status == FERRY_COMPLETE && view.bytes_done == view.bytes_total)
                return view.bytes_total;
        if (!offer)
                return 0;
        offer_lock(offer);
        if (offer->responders)
                stored = content_ranges_run(&offer->responders->moved, 0);
        offer_unlock(offer);
        return stored;
}

bool http_content_is_whole(struct http_content *content)
{
        struct http_offer *offer = content->responder->offer;
        bool whole;

        offer_lock(offer);
        whole = content->responder->moved.total == offer->total;
        offer_unlock(offer);
        return whole;
}

/* ---- reading for digests ---- */

bool http_content_checksum(struct http_content *content, uint64_t *ret_checksum)
{
        struct http_responder *responder = content->responder;
        int r;

        if (!http_responder_copy_begin(responder))
                return false;
        r = stream_checksum(&responder->base.stream, content->first, content->end - content->first, ret_checksum);
        http_responder_copy_end(responder);
        if (r < 0)
                http_responder_fault(responder, r);
        return r == 0;
}

bool http_content_visit(struct http_content *content, void (*visit)(void *context, const void *bytes, size_t size),
                        void *context)
{
        struct http_responder *responder = content->responder;
        const struct stream *stream = &responder->base.stream;
        FERRY_CLEANUP(cleanup_free) void *piece = malloc(VISIT_PIECE);
        int r = piece ? 0 : -ENOMEM;

        for (uint64_t at = 0, size; r == 0 && at < stream->total; at += size) {
                size = stream->total - at < VISIT_PIECE ? stream->total - at : VISIT_PIECE;
                if (!http_responder_copy_begin(responder))
                        return false;
                r = stream_load(stream, at, piece, size);
                http_responder_copy_end(responder);
                if (r == 0)
                        visit(context, piece, size);
        }
        if (r < 0)
                http_responder_fault(responder, r);
        return r == 0;
}

/* ---- closing ---- */

void http_content_close(struct http_content *content, bool sent)
{
        struct http_responder *responder;

        if (!content)
                return;
        responder = content->responder;
        offer_lock(responder->offer);
        DL_DELETE(responder->open_ranges, content);
        /*
         * A client that lost its connection asks for the rest. Whether the last byte arrived cannot be known, so it
         * stays open.
         */
        if (responder->offer->readable)
                http_responder_note_moved(responder, content->first,
                                          sent || content->position < content->end ? content->position
                                                                                   : content->end - 1);
        http_responder_end_due_unlock(responder);
        offer_lock(responder->offer);
        http_responder_arm(responder);
        http_responder_put_unlock(responder);
        free(content);
}

struct http_responder *http_content_connected(struct http_content *content)
{
        struct http_responder *responder = content->responder;

        if (!responder->id)
                return NULL;
        offer_lock(responder->offer);
        responder->n_connections++;
        responder->references++;
        offer_unlock(responder->offer);
        return responder;
}

void http_content_disconnected(struct http_responder *responder)
{
        if (!responder)
                return;
        offer_lock(responder->offer);
        responder->n_connections--;
        http_responder_arm(responder);
        http_responder_put_unlock(responder);
}

bool http_content_is_over(struct http_responder *responder)
{
        bool over;

        if (!responder)
                return false;
        offer_lock(responder->offer);
        over = responder->base.state == HTTP_OVER;
        offer_unlock(responder->offer);
        return over;
}

void http_content_fail(struct http_content *content, int error)
{
        offer_lock(content->responder->offer);
        http_responder_revoke_unlock(content->responder, error, error, NULL);
}
