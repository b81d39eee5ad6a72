/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

/*
 * Bulk between two workers of one host: the active side maps the passive side's regions, which are files, and copies
 * once, where UCX's shared memory copies twice. The passive side checks and claims as ever (ATTACH), says where the
 * bytes are and gives a lease (GRANT); a piece is copied only under that lease (lease.h), so the passive side can end
 * its operation at any time and knows when it is quiet. DONE and DONE_ACK end the transfer as they end any other.
 *
 * Pieces of all such transfers are copied in turn, one in each pass.
 */

enum {
        COPY_PAST_CACHES = 4 << 20, /* a transfer of so many bytes would throw everything else out of the caches */
        COPY_PARTS = 4,             /* of a chunk, where somebody waits for a message */
        COPY_TELL_US = 10000,       /* the passive side hears how far it is so often */
};

/* A place in a list of segments. */
struct place {
        const struct fabric_segment *segments;
        size_t i;
        size_t inside;
};

struct copy {
        struct fabric *fabric;
        struct transfer *transfer;
        struct mapping *leases;
        struct lease_slot *slot;
        uint64_t lease;
        struct fabric_segment *segments; /* of the passive side, where we have mapped them; n */
        struct mapping **mappings;       /* of each of these */
        size_t n;
        struct place here, there;
        uint64_t told_us;
        bool queued;              /* in the fabric's list; else revoked, or all is copied */
        struct copy *prev, *next; /* fabric->copies */
};

/* ---- asking ---- */

bool direct_attach(struct transfer *t)
{
        struct wire_header h = transfer_header(t, WIRE_ATTACH);

        if (!peer_is_local(t->peer) || t->spec.verify || t->spec.total <= WIRE_EAGER_MAX)
                return false;
        if (t->spec.direction == FABRIC_WRITE)
                h.flags |= WIRE_STORE;
        t->attaching = true;
        transfer_note_asked(t);
        message_send_header(t->peer, &h);
        return true;
}

bool direct_may_borrow(const struct transfer *t)
{
        return peer_is_local(t->peer) && !t->spec.verify && t->spec.total <= WIRE_EAGER_MAX &&
               t->spec.total >= FABRIC_LEND_MIN;
}

/* ---- the grant ---- */

static void copy_free(struct copy *copy)
{
        struct mappings *mappings = &copy->fabric->mappings;

        copy->fabric->n_copies--;
        for (size_t i = 0; i < copy->n; i++)
                mapping_put(mappings, copy->mappings[i]);
        if (copy->leases)
                mapping_put(mappings, copy->leases);
        free(copy->mappings);
        free(copy->segments);
        free(copy);
}

static int map_extent(struct copy *copy, uint64_t epoch, bool writable, const struct grant_extent *extent)
{
        struct mapping *mapping = copy->n > 0 ? copy->mappings[copy->n - 1] : NULL;
        uint64_t end;
        int r;

        if (extent->file == MAPPING_LEASES || extent->size == 0 ||
            __builtin_add_overflow(extent->offset, extent->size, &end))
                return -EBADMSG;
        if (mapping && mapping->key.file == extent->file) {
                (void)mapping_share(mapping);
        } else {
                r = mapping_get(&copy->fabric->mappings, epoch, extent->file, writable, &mapping);
                if (r < 0)
                        return r;
        }
        copy->mappings[copy->n] = mapping;
        copy->segments[copy->n].address = mapping->address + extent->offset;
        copy->segments[copy->n].size = extent->size;
        copy->n++;
        return end <= mapping->size ? 0 : -EBADMSG;
}

static int map_extents(struct copy *copy, uint64_t epoch, bool writable, const struct grant *grant, uint64_t total)
{
        uint64_t sum = 0;
        int r;

        copy->segments = calloc(grant->n, sizeof(*copy->segments));
        copy->mappings = calloc(grant->n, sizeof(struct mapping *));
        if (!copy->segments || !copy->mappings)
                return -ENOMEM;
        for (uint64_t i = 0; i < grant->n; i++) {
                r = map_extent(copy, epoch, writable, &grant->extents[i]);
                if (r < 0)
                        return r;
                if (__builtin_add_overflow(sum, grant->extents[i].size, &sum))
                        return -EBADMSG;
        }
        return sum == total ? 0 : -EBADMSG;
}

static int copy_new(struct transfer *t, const struct grant *grant, struct copy **ret_copy)
{
        uint64_t epoch = t->spec.peer_epoch;
        struct copy *copy = calloc(1, sizeof(*copy));
        int r;

        if (!copy)
                return -ENOMEM;
        copy->fabric = t->fabric;
        copy->fabric->n_copies++;
        copy->transfer = t;
        r = mapping_get(&t->fabric->mappings, epoch, MAPPING_LEASES, true, &copy->leases);
        if (r == 0)
                r = map_extents(copy, epoch, t->spec.direction == FABRIC_WRITE, grant, t->spec.total);
        if (r < 0) {
                copy_free(copy);
                return r;
        }
        copy->slot = &((struct lease_slot *)(void *)copy->leases->address)[grant->slot];
        copy->lease = grant->lease;
        copy->here.segments = t->spec.segments;
        copy->there.segments = copy->segments;
        copy->told_us = clock_now_us();
        *ret_copy = copy;
        return 0;
}

/* Out of a message, in which it may lie anywhere. */
static int copy_of_grant(struct transfer *t, const void *bytes, uint64_t size, struct copy **ret_copy)
{
        FERRY_CLEANUP(cleanup_free) struct grant *grant = malloc(size);
        int r = -EBADMSG;

        if (!grant)
                return -ENOMEM;
        memcpy(grant, bytes, size);
        if (size >= sizeof(*grant) && grant->slot < LEASE_TABLE && grant->n > 0 &&
            grant->n == (size - sizeof(*grant)) / sizeof(grant->extents[0]))
                r = copy_new(t, grant, ret_copy);
        return r;
}

/* The transfer may be gone afterwards. */
static void use_grant(struct transfer *t, const void *bytes, uint64_t size)
{
        int r = copy_of_grant(t, bytes, size, &t->copy);

        t->attaching = false;
        if (r < 0) {
                log_event(LOG_DEBUG, "a peer's memory cannot be mapped: messages carry the bytes", LOG_I("error", r));
                chunks_pump(t);
                return;
        }
        t->copy->queued = true;
        DL_APPEND(t->fabric->copies, t->copy);
}

static void grant_received(struct message *message, ucs_status_t status)
{
        struct transfer *t;

        HASH_FIND(hh, message->fabric->transfers_by_id, &message->transfer, sizeof(message->transfer), t);
        if (!t || !t->attaching || t->error)
                return;
        if (status != UCS_OK)
                peer_fail(t->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
        else
                use_grant(t, message->buffer, message->length);
}

static ucs_status_t receive_grant(struct transfer *t, const struct payload *payload)
{
        struct message *message = message_new(t->fabric);

        if (message)
                message->buffer = malloc(payload->length);
        if (!message || !message->buffer) {
                if (message)
                        message_free(message);
                transfer_fail(t, FERRY_E_TRANSFER_FAILED, "out of memory");
                return UCS_OK;
        }
        message->done = grant_received;
        message->transfer = t->spec.id;
        message->length = payload->length;
        message_receive(t->peer, message, payload->data, message->buffer, payload->length);
        return UCS_INPROGRESS;
}

/* ---- copying ---- */

static uint64_t place_run(const struct place *place)
{
        return place->segments[place->i].size - place->inside;
}

static void place_move(struct place *place, uint64_t size)
{
        place->inside += size;
        if (place->inside == place->segments[place->i].size) {
                place->i++;
                place->inside = 0;
        }
}

static uint8_t *place_address(const struct place *place)
{
        return place->segments[place->i].address + place->inside;
}

static void copy_run(struct copy *copy, uint64_t run)
{
        const struct fabric_transfer *spec = &copy->transfer->spec;
        uint8_t *here = place_address(&copy->here), *there = place_address(&copy->there);
        struct mapping *mapping = copy->mappings[copy->there.i];
        uint8_t *to = spec->direction == FABRIC_READ ? here : there;
        const uint8_t *from = spec->direction == FABRIC_READ ? there : here;

        mapping_prepare(mapping, (size_t)(there - mapping->address), run);
        if (spec->total >= COPY_PAST_CACHES)
                copy_past_caches(to, from, run);
        else
                memcpy(to, from, run);
        place_move(&copy->here, run);
        place_move(&copy->there, run);
}

/* Transfers that wait for a message are not to wait for a whole piece. */
static uint64_t piece_limit(const struct transfer *t)
{
        const struct fabric *fabric = t->fabric;
        uint64_t chunk = t->peer->side->chunk_size;

        return HASH_COUNT(fabric->transfers_by_id) > fabric->n_copies ? chunk / COPY_PARTS : chunk;
}

static uint64_t copy_piece(struct copy *copy)
{
        const struct transfer *t = copy->transfer;
        uint64_t rest = t->spec.total - t->done, limit = piece_limit(t), piece = rest < limit ? rest : limit;

        for (uint64_t left = piece; left > 0;) {
                uint64_t run = left;

                if (place_run(&copy->here) < run)
                        run = place_run(&copy->here);
                if (place_run(&copy->there) < run)
                        run = place_run(&copy->there);
                copy_run(copy, run);
                left -= run;
        }
        copy_past_caches_end();
        return piece;
}

/*
 * A short read: all of it at once. Whoever was granted that is expected to say DONE, so a cancel there waits; a lease
 * that was taken back all the same has its reason, which the peer tells. The transfer may be gone afterwards.
 */
static void borrow(struct transfer *t, uint32_t seq, const struct payload *payload)
{
        struct copy *copy;
        bool copied;

        if (copy_of_grant(t, payload->data, payload->length, &copy) < 0) {
                chunk_ask_again(t, seq);
                return;
        }
        copied = lease_enter(copy->slot, copy->lease);
        if (copied) {
                t->mapped = true;
                (void)copy_piece(copy);
                copied = lease_leave(copy->slot);
        }
        copy_free(copy);
        if (copied)
                chunk_borrowed(t, seq);
}

static void tell_progress(struct copy *copy)
{
        struct transfer *t = copy->transfer;
        struct wire_header h = transfer_header(t, WIRE_PROGRESS);
        uint64_t now_us = clock_now_us();

        if (now_us < copy->told_us + COPY_TELL_US)
                return;
        copy->told_us = now_us;
        h.length = t->done;
        message_send_header(t->peer, &h);
}

static void unqueue(struct copy *copy)
{
        if (copy->queued)
                DL_DELETE(copy->fabric->copies, copy);
        copy->queued = false;
}

bool direct_pump(struct fabric *fabric)
{
        struct copy *copy = fabric->copies;
        struct transfer *t;

        if (!copy)
                return false;
        t = copy->transfer;
        unqueue(copy);
        if (peer_is_dead(t->peer)) /* a thread that copies does not sleep to hear of it */
                peer_fail(t->peer, FERRY_E_PEER_LOST, "its process ended");
        /* Taken back: the peer says why, or has closed the connection. */
        if (t->peer->failed || !lease_enter(copy->slot, copy->lease))
                return true;
        t->mapped = true;
        t->done += copy_piece(copy);
        t->next = t->done;
        (void)lease_leave(copy->slot);
        t->spec.progress(t->spec.context, t->done);
        if (t->done == t->spec.total) {
                chunks_pump(t); /* asks for the end */
                return true;
        }
        copy->queued = true;
        DL_APPEND(fabric->copies, copy);
        tell_progress(copy);
        return true;
}

ucs_status_t direct_on_grant(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                             const struct payload *payload)
{
        struct transfer *t = transfer_of_answer(fabric, peer, header);

        if (t && !t->error && chunk_is_asked(t, header->seq)) {
                if ((header->flags & WIRE_FINAL) && header->status == 0 && !payload->rendezvous)
                        borrow(t, header->seq, payload);
                return UCS_OK;
        }
        if (!t || !t->attaching || t->copy || t->error)
                return UCS_OK;
        if (header->status) {
                transfer_refused(t, header);
                return UCS_OK;
        }
        if (payload->rendezvous && payload->length <= GRANT_SIZE_MAX)
                return receive_grant(t, payload);
        if (payload->rendezvous || payload->length == 0) {
                t->attaching = false; /* claimed, but its memory is not in files */
                chunks_pump(t);
                return UCS_OK;
        }
        use_grant(t, payload->data, payload->length);
        return UCS_OK;
}

void direct_end(struct transfer *t)
{
        t->attaching = false;
        if (!t->copy)
                return;
        unqueue(t->copy);
        copy_free(t->copy);
        t->copy = NULL;
}
