/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include <ferry/error.h>

#include "base/log.h"
#include "fabric_internal.h"

/*
 * The passive side of direct.c: what a peer on this host is granted, and how it is taken back.
 */

static bool follows(const struct grant_extent *last, const struct fabric_segment *segment, uint64_t offset)
{
        return last->file == segment->memory->file && last->offset + last->size == offset;
}

/* Where the operation's bytes are, neighbours as one. The count of extents; 0 = not all of them are in files. */
static uint64_t find_extents(const struct attempt *a, struct grant_extent *extents)
{
        uint64_t n = 0;

        for (size_t i = 0; i < a->offer.n_segments; i++) {
                const struct fabric_segment *segment = &a->offer.segments[i];
                uint64_t offset = (uint64_t)(segment->address - (uint8_t *)segment->memory->address);

                if (segment->memory->file == 0)
                        return 0;
                segment->memory->lent = true;
                if (n > 0 && follows(&extents[n - 1], segment, offset))
                        extents[n - 1].size += segment->size;
                else
                        extents[n++] = (struct grant_extent){ segment->memory->file, offset, segment->size };
        }
        return n;
}

static bool have_leases(struct fabric *fabric)
{
        int r = fabric->leases ? 0 : leases_new(fabric->epoch, &fabric->leases);

        if (r < 0)
                log_event(LOG_DEBUG, "no leases: messages carry the bytes", LOG_I("error", r));
        return r == 0;
}

/* The grant with the attempt's lease, for free(); NULL = the bytes have to go by messages. */
static struct grant *grant_new(struct attempt *a, uint64_t *ret_size)
{
        struct grant *grant;

        if (a->offer.n_segments > GRANT_EXTENTS_MAX || !have_leases(a->fabric))
                return NULL;
        grant = malloc(sizeof(*grant) + a->offer.n_segments * sizeof(grant->extents[0]));
        if (!grant)
                return NULL;
        grant->n = find_extents(a, grant->extents);
        if (grant->n == 0 || !lease_give(a->fabric->leases, &a->lease)) {
                free(grant);
                return NULL;
        }
        grant->slot = a->lease.slot;
        grant->lease = a->lease.number;
        *ret_size = sizeof(*grant) + grant->n * sizeof(grant->extents[0]);
        return grant;
}

static void grant_sent(struct message *message, ucs_status_t status)
{
        struct attempt *a = message->owner;

        a->in_flight--;
        if (status != UCS_OK)
                peer_fail(a->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
        attempt_end_when_quiet(a);
}

static struct message *grant_message(struct attempt *a)
{
        struct message *message = message_new(a->fabric);

        if (message) {
                message->done = grant_sent;
                message->owner = a;
        }
        return message;
}

static void grant_send(struct attempt *a, const struct wire_header *h, struct message *message, uint64_t size)
{
        struct wire_header answer = attempt_answer(a->fabric, h, WIRE_GRANT, 0);

        answer.flags = h->flags & WIRE_FINAL;
        a->in_flight++;
        message_send(a->peer, message, &answer, message->buffer, size);
}

void attempt_on_attach(struct fabric *fabric, struct peer *peer, const struct wire_header *h)
{
        struct attempt *a = NULL;
        struct message *message;
        uint64_t size = 0;
        int r = attempt_of_request(fabric, peer, h, &a);

        if (r == 0 && a->lease.leases)
                r = FERRY_E_ALREADY_CLAIMED;
        message = r == 0 ? grant_message(a) : NULL;
        if (!message) {
                attempt_refuse(fabric, peer, h, WIRE_GRANT, r ? r : FERRY_E_TRANSFER_FAILED);
                return;
        }
        message->buffer = grant_new(a, &size);
        grant_send(a, h, message, size);
}

bool attempt_lend(struct attempt *a, const struct wire_header *h)
{
        struct message *message;
        uint64_t size;

        if (!(h->flags & WIRE_LEND) || !(h->flags & WIRE_FINAL) || !peer_is_local(a->peer) || a->lease.leases ||
            h->length != a->stream.total || h->length > WIRE_EAGER_MAX || a->offer.n_segments > FABRIC_LEND_SEGMENTS)
                return false;
        message = grant_message(a);
        if (message && !(message->buffer = grant_new(a, &size))) {
                message_free(message);
                message = NULL;
        }
        if (!message)
                return false;
        a->final_served = true;
        grant_send(a, h, message, size);
        return true;
}

void attempt_on_progress(struct fabric *fabric, struct peer *peer, const struct wire_header *h)
{
        struct attempt *a;

        HASH_FIND(hh, fabric->attempts_by_transfer, &h->transfer, sizeof(h->transfer), a);
        if (!a || a->peer != peer || !ferry_key_equal(a->key, h->key) || !a->lease.leases || h->length <= a->bytes ||
            h->length > a->stream.total)
                return;
        a->bytes = h->length;
        a->offer.progress(a->offer.context, a->bytes);
}

bool attempt_lease_is_quiet(struct attempt *a)
{
        if (!a->lease.leases)
                return true;
        lease_revoke(&a->lease);
        if (!lease_is_busy(&a->lease) || peer_is_dead(a->peer))
                return true;
        /* No event tells when the peer is done with its piece. One that takes longer stands still: then once a second.
         */
        if (a->grace_deadline_us)
                thread_look_soon(a->fabric);
        return false;
}

void memory_forget(struct fabric *fabric, const struct fabric_memory *memory)
{
        struct peer *peer, *next;

        if (!memory->lent)
                return;
        HASH_ITER (by_name, fabric->peers_by_epoch, peer, next) {
                struct wire_header h = {
                        .type = WIRE_FORGET,
                        .to_epoch = peer->epoch,
                        .from_epoch = fabric->epoch,
                        .operation = memory->file,
                        .transfer = memory->file, /* not used, but never 0 */
                };

                message_send_header(peer, &h);
        }
}
