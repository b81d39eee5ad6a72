/* SPDX-License-Identifier: Apache-2.0 */
#include "requester.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "engine_internal.h"

/* ---- states ---- */

static const bool allowed[][REQUESTER_ENDED + 1] = {
        [REQUESTER_ROUTING] = { [REQUESTER_MOVING] = true, [REQUESTER_FAILING] = true },
        [REQUESTER_MOVING] = { [REQUESTER_ROUTING] = true,
                               [REQUESTER_FINISHING] = true,
                               [REQUESTER_COMPLETE] = true,
                               [REQUESTER_FAILING] = true },
        [REQUESTER_FINISHING] = { [REQUESTER_COMPLETE] = true, [REQUESTER_FAILING] = true },
        [REQUESTER_COMPLETE] = { [REQUESTER_ENDED] = true },
        [REQUESTER_FAILING] = { [REQUESTER_FINISHING] = true, [REQUESTER_COMPLETE] = true, [REQUESTER_ENDED] = true },
        [REQUESTER_ENDED] = { false },
};

static void set_state(struct requester *r, enum requester_state state)
{
        if (r->state == state)
                return;
        if (!allowed[r->state][state]) {
                log_event(LOG_ERROR, "a requester's state cannot change so", LOG_U("from", r->state),
                          LOG_U("to", state));
                abort();
        }
        r->state = state;
}

static void mark(struct requester *r)
{
        if (r->marked)
                return;
        r->marked = true;
        DL_APPEND2(r->engine->marked_requesters, r, marked_prev, marked_next);
}

/* ---- life ---- */

int requester_new(struct engine *engine, const struct engine_transfer *spec, struct requester **ret_requester)
{
        struct requester *r = calloc(1, sizeof(*r));
        int error;

        if (!r)
                return -ENOMEM;
        r->spec = *spec;
        r->engine = engine;
        error = stream_init(&r->stream, spec->segments, spec->n_segments);
        if (error == 0 && r->stream.total != spec->total)
                error = -EINVAL;
        if (error < 0) {
                requester_free(r);
                return error;
        }
        route_init(&r->route, &spec->peer);
        r->route.carriers = spec->carriers;
        *ret_requester = r;
        return 0;
}

void requester_free(struct requester *r)
{
        stream_clear(&r->stream);
        explicit_bzero(r->spec.key, sizeof(r->spec.key));
        free(r);
}

static struct wire_header header_of(const struct requester *r, enum wire_type type)
{
        struct wire_header h = {
                .type = type,
                .to_epoch = r->spec.peer.epoch,
                .from_epoch = r->engine->epoch,
                .operation = r->spec.remote_operation,
                .transfer = r->spec.id,
                .total = r->spec.total,
        };

        memcpy(h.key, r->spec.key, sizeof(h.key));
        return h;
}

static void send_done(struct requester *r, uint32_t flags)
{
        struct wire_header h = header_of(r, WIRE_DONE);

        h.flags = flags;
        h.status = (uint32_t)r->error;
        h.length = r->error ? r->done : r->spec.total;
        peer_send(r->peer, &h);
}

/* Connected, and the first chunk is asked for: tells once. */
static void note_started(struct requester *r)
{
        if (r->started)
                return;
        r->started = true;
        if (r->spec.started)
                r->spec.started(r->spec.context);
}

static void tell_progress(struct requester *r)
{
        uint64_t bytes = r->done + r->copying;

        if (bytes > 0 && !r->moved) {
                r->moved = true;
                (void)r->peer->link->transport->ops->carrier(r->peer->link); /* is kept for the outcome */
        }
        r->spec.progress(r->spec.context, bytes);
}

static void count_done(struct requester *r, uint64_t bytes)
{
        r->done += bytes;
        peer_moved(r->peer, bytes);
        tell_progress(r);
}

/* ---- waiting for a turn ---- */

static void stop_waiting(struct requester *r)
{
        if (!r->waiting)
                return;
        r->waiting = false;
        DL_DELETE2(r->peer->waiting, r, waiting_prev, waiting_next);
}

static void wait_for_turn(struct requester *r)
{
        if (!r->waiting) {
                r->waiting = true;
                DL_APPEND2(r->peer->waiting, r, waiting_prev, waiting_next);
        }
        peer_ready(r->peer);
}

static void release_chunk(struct requester *r, struct chunk *chunk)
{
        r->peer->asked -= chunk->length;
        window_release(&r->window, chunk);
        if (r->peer->waiting)
                peer_ready(r->peer);
}

/* Nobody will touch the memory of a READ that was only asked for: its data are refused when they come. */
static bool release_idle(struct requester *r)
{
        uint64_t before = r->window.bytes;
        bool all = window_release_idle(&r->window);

        if (r->peer) {
                r->peer->asked -= before - r->window.bytes;
                if (r->peer->waiting)
                        peer_ready(r->peer);
        }
        return all;
}

/* ---- failing ---- */

__attribute__((format(printf, 3, 4))) static void fail(struct requester *r, int error, const char *format, ...)
{
        if (r->error == 0) {
                va_list arguments;

                r->error = error;
                va_start(arguments, format);
                (void)vsnprintf(r->detail, sizeof(r->detail), format, arguments);
                va_end(arguments);
                r->grace_deadline_us = engine_grace(r->engine);
        }
        if (r->state == REQUESTER_COMPLETE || r->state == REQUESTER_ENDED)
                return;
        set_state(r, REQUESTER_FAILING);
        if (r->peer) {
                stop_waiting(r);
                if (peer_is_usable(r->peer))
                        r->peer->link->transport->ops->cancel(r->peer->link, r->spec.id);
        }
        mark(r);
}

/* Only what a responder can have to say is believed; everything else is a refusal. */
static int error_of_status(uint32_t status)
{
        switch (status) {
        case FERRY_E_KIND_MISMATCH:
        case FERRY_E_SIZE_MISMATCH:
        case FERRY_E_METADATA_EXPIRED:
        case FERRY_E_STALE_METADATA:
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_TRANSFER_FAILED:
        case FERRY_E_PEER_LOST:
                return (int)status;
        default:
                return FERRY_E_PEER_REFUSED;
        }
}

/* The responder has ended, for the reason that it names; this side's own reason, if there is one, counts. */
static void refused(struct requester *r, const struct wire_header *h)
{
        int error = error_of_status(h->status);

        if (r->word_awaited)
                r->error = 0;
        r->peer_knows = true;
        r->word_awaited = r->final_sent = false;
        fail(r, error, "the peer answered: %s", ferry_error_title(error));
}

/* ---- asking ---- */

static struct requester *find(struct engine *engine, uint64_t id)
{
        struct requester *r;

        HASH_FIND(hh, engine->requesters_by_id, &id, sizeof(id), r);
        return r;
}

static bool still_wanted(struct message *message)
{
        const struct requester *r = message->owner; /* stays as long as a chunk of it is busy */

        return r->error == 0;
}

static void read_sent(struct message *message, enum message_result result)
{
        struct peer *peer = message->link->owner;
        struct requester *r = peer ? find(peer->engine, message->transfer) : NULL;

        if (!r || r->peer != peer)
                return;
        if (result == MESSAGE_OK)
                note_started(r);
        else if (result == MESSAGE_NO_MEMORY)
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
}

static void chunk_is_written(struct requester *r, struct chunk *chunk)
{
        uint64_t length = chunk->length;

        if (chunk->sends > 0 || !chunk->acked)
                return;
        release_chunk(r, chunk);
        count_done(r, length);
}

static void write_sent(struct message *message, enum message_result result)
{
        struct requester *r = message->owner;
        struct chunk *chunk = window_find(&r->window, message->seq);

        if (result == MESSAGE_OK)
                note_started(r);
        else if (result == MESSAGE_NO_MEMORY)
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
        chunk->sends--;
        chunk_is_written(r, chunk);
        mark(r);
}

static struct wire_header request_header(const struct requester *r, const struct chunk *chunk, uint64_t offset,
                                         uint64_t length)
{
        bool write = r->spec.direction == ENGINE_WRITE;
        struct wire_header h = header_of(r, write ? WIRE_WRITE : WIRE_READ);

        h.seq = chunk->seq;
        h.offset = offset;
        h.length = length;
        if (r->spec.verify) {
                h.flags |= WIRE_VERIFY;
                if (write)
                        h.checksum = stream_checksum(&r->stream, offset, length);
        }
        /* A READ is final only when its data come inside the message: nobody touches this side's memory afterwards. */
        if (length == r->spec.total && (write || length <= WIRE_INLINE_MAX))
                h.flags |= WIRE_FINAL;
        if (offset + length < chunk->offset + chunk->length)
                h.flags |= WIRE_MORE;
        return h;
}

static struct chunk *take_chunk(struct requester *r, uint64_t length)
{
        struct chunk *chunk = window_take(&r->window, r->next, length);

        if (!chunk)
                return NULL;
        r->next += length;
        r->peer->asked += length;
        if (r->peer->link->state == LINK_UP)
                note_started(r);
        return chunk;
}

/* false: no chunk is free. */
static bool ask_read(struct requester *r)
{
        struct link *link = r->peer->link;
        uint64_t length = link->transport->ops->request_size(link, &r->stream, r->next, r->spec.total - r->next);
        struct chunk *chunk = take_chunk(r, length);
        struct message *message;

        if (!chunk)
                return false;
        message = message_new(link->transport);
        if (!message) {
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                return true;
        }
        message->header = request_header(r, chunk, chunk->offset, length);
        message->done = read_sent;
        message->transfer = r->spec.id;
        link->transport->ops->send(link, message);
        return true;
}

static bool send_part(struct requester *r, struct chunk *chunk, uint64_t offset, uint64_t length, bool inside)
{
        struct message *message = message_new(r->peer->link->transport);

        if (!message) {
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                return false;
        }
        message->header = request_header(r, chunk, offset, length);
        message->stream = &r->stream;
        message->offset = offset;
        message->length = length;
        message->inside = inside;
        message->begin = still_wanted;
        message->done = write_sent;
        message->owner = r;
        message->transfer = r->spec.id;
        message->seq = chunk->seq;
        if (message->header.flags & WIRE_FINAL)
                r->final_sent = true;
        chunk->sends++;
        r->peer->link->transport->ops->send(r->peer->link, message);
        return r->error == 0;
}

/*
 * How much of the wanted bytes makes a chunk: what one message carries, or messages that carry their bytes inside.
 * Those arrive in order, so that the ACK of the last confirms all. 0 = there is no room for a message.
 */
static uint64_t write_size(const struct requester *r, uint64_t wanted)
{
        struct link *link = r->peer->link;
        bool inside = false;
        uint64_t size = link->transport->ops->fit(link, &r->stream, r->next, wanted, &inside);

        while (inside && size < wanted) {
                uint64_t more = link->transport->ops->fit(link, &r->stream, r->next + size, wanted - size, &inside);

                if (inside)
                        size += more;
        }
        return size;
}

/* false: no chunk is free, or there is no room for a message. */
static bool ask_write(struct requester *r)
{
        struct link *link = r->peer->link;
        const struct transport_ops *ops = link->transport->ops;
        uint64_t wanted = ops->request_size(link, &r->stream, r->next, r->spec.total - r->next);
        uint64_t size = write_size(r, wanted), part;
        struct chunk *chunk = size > 0 ? take_chunk(r, size) : NULL;

        if (!chunk)
                return false;
        chunk->sends++; /* it is not over before all of it is sent */
        for (uint64_t sent = 0; sent < size; sent += part) {
                bool inside = false;

                part = ops->fit(link, &r->stream, chunk->offset + sent, size - sent, &inside);
                if (!send_part(r, chunk, chunk->offset + sent, part, inside))
                        break;
        }
        chunk->sends--;
        chunk_is_written(r, chunk);
        mark(r);
        return true;
}

static bool ask(struct requester *r)
{
        return r->spec.direction == ENGINE_READ ? ask_read(r) : ask_write(r);
}

void requesters_ask(struct peer *peer)
{
        struct link *link = peer->link;
        struct requester *r;

        while (peer_is_usable(peer) && (r = peer->waiting) && peer->asked < link->transport->ops->window(link)) {
                bool asked;

                stop_waiting(r);
                asked = ask(r);
                if (r->error || r->next == r->spec.total)
                        continue;
                if (asked) {
                        wait_for_turn(r); /* behind the others */
                } else if (r->window.n_taken < ENGINE_WINDOW_MAX) {
                        /* The transport has no room: it says when (handlers.room). */
                        r->waiting = true;
                        DL_PREPEND2(peer->waiting, r, waiting_prev, waiting_next);
                        return;
                } /* else the next of its chunks that ends brings it back */
        }
}

/* ---- beginning ---- */

/* Whether what carries the link is allowed. UCX chooses it when it connects. */
static bool is_allowed(const struct requester *r, const char *carrier)
{
        unsigned carriers = r->spec.carriers;

        if (carriers == 0 || r->peer->link->transport != r->engine->ucx)
                return true;
        return (carriers & (strcmp(carrier, "tcp") == 0 ? ENGINE_CARRIER_TCP : ENGINE_CARRIER_RDMA)) != 0;
}

static bool must_ask_carrier(const struct requester *r)
{
        unsigned carriers = r->spec.carriers & ENGINE_CARRIER_UCX;

        return r->spec.carriers != 0 && carriers != ENGINE_CARRIER_UCX && r->peer->link->transport == r->engine->ucx;
}

/* Whether the first that is heard of the peer would say that bytes have moved: too late to tell when that began. */
static bool is_silent(const struct requester *r)
{
        return r->spec.direction == ENGINE_WRITE && r->spec.total > WIRE_INLINE_MAX;
}

/* Its answer says that the link is up, and by what. */
static void greet(const struct requester *r)
{
        struct wire_header hello = header_of(r, WIRE_HELLO);

        explicit_bzero(hello.key, sizeof(hello.key));
        hello.total = 0;
        peer_send(r->peer, &hello);
}

void requester_link_up(struct requester *r)
{
        struct link *link = r->peer->link;
        const char *carrier = link->transport->ops->carrier(link);

        if (r->next > 0 && r->error == 0)
                note_started(r); /* what was asked for while it was connecting is being moved */
        if (r->state != REQUESTER_ROUTING)
                return;
        if (!is_allowed(r, carrier)) {
                r->peer_knows = true; /* nothing */
                fail(r, FERRY_E_PEER_UNREACHABLE, "UCX carries this link by %s, which \"transports\" does not allow",
                     carrier);
                return;
        }
        set_state(r, REQUESTER_MOVING);
        mark(r);
}

static void use_peer(struct requester *r, struct peer *peer)
{
        r->peer = peer;
        r->was_up = peer->link->state == LINK_UP;
        DL_APPEND2(peer->requesters, r, peer_prev, peer_next);
        if (!r->was_up) {
                r->connect_deadline_us = clock_now_us() + r->engine->connect_us;
                engine_tick_before(r->engine, r->connect_deadline_us);
        }
        if (!r->was_up && (must_ask_carrier(r) || is_silent(r)))
                greet(r);
        if (!must_ask_carrier(r)) {
                set_state(r, REQUESTER_MOVING);
                mark(r);
        } else if (r->was_up) {
                requester_link_up(r);
        }
}

static void take_route(struct requester *r)
{
        char reason[sizeof(r->detail)];
        struct peer *peer;

        switch (route_take(r->engine, &r->route, &peer, reason, sizeof(reason))) {
        case ROUTE_FOUND:
                use_peer(r, peer);
                break;
        case ROUTE_RESOLVING:
                r->connect_deadline_us = clock_now_us() + r->engine->connect_us;
                engine_tick_before(r->engine, r->connect_deadline_us);
                break;
        case ROUTE_NONE:
                fail(r, FERRY_E_PEER_UNREACHABLE, "%s", reason);
                break;
        }
}

void requester_begin(struct requester *r)
{
        HASH_ADD(hh, r->engine->requesters_by_id, spec.id, sizeof(r->spec.id), r);
        if (!r->hh.tbl)
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
        else if (r->engine->stopping)
                fail(r, FERRY_E_CANCELLED, "the worker is shutting down");
        else
                take_route(r);
}

void requester_resolved(struct requester *r)
{
        if (r->state == REQUESTER_ROUTING && !r->peer)
                take_route(r);
}

/* ---- answers ---- */

static struct requester *requester_of(struct engine *engine, struct peer *peer, const struct wire_header *h)
{
        struct requester *r = find(engine, h->transfer);

        if (!r || r->peer != peer)
                return NULL;
        /* A worker that took the place of the one in the metadata answers with its own epoch, and refuses. */
        if (h->from_epoch != r->spec.peer.epoch && h->status == 0)
                return NULL;
        note_started(r);
        return r;
}

/* Bytes of a READ are in place: as they were sent? If not, the transfer has failed. */
static bool check_bytes(struct requester *r, const struct wire_header *data)
{
        if (!r->spec.verify || stream_checksum(&r->stream, data->offset, data->length) == data->checksum)
                return true;
        fail(r, FERRY_E_CHECKSUM_MISMATCH, "the chunk at byte %llu differs", (unsigned long long)data->offset);
        return false;
}

/* The bytes of a DATA are in place and right. */
static void data_is_there(struct requester *r, struct chunk *chunk, const struct wire_header *data)
{
        uint64_t length = chunk->length;

        chunk->arrived += data->length;
        if (chunk->arrived < length || chunk_is_busy(chunk))
                return;
        release_chunk(r, chunk);
        count_done(r, length);
        if ((data->flags & WIRE_FINAL) && r->done == r->spec.total && r->error == 0) {
                send_done(r, WIRE_QUIET); /* tells the responder without waiting for an answer */
                r->peer_knows = true;
                set_state(r, REQUESTER_COMPLETE);
        }
}

static void data_received(struct message *message, enum message_result result)
{
        struct requester *r = message->owner;
        struct chunk *chunk = window_find(&r->window, message->seq);

        chunk->receives--;
        r->copying -= message->answer.total;
        switch (result) {
        case MESSAGE_OK:
                if (r->error == 0 && check_bytes(r, &message->answer))
                        data_is_there(r, chunk, &message->answer);
                break;
        case MESSAGE_REVOKED:
                /* Its DONE_ACK is on its way and says why. */
                r->word_awaited = r->error == 0;
                fail(r, FERRY_E_CANCELLED_BY_PEER, "the peer took its memory back");
                break;
        case MESSAGE_NO_MEMORY:
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                break;
        case MESSAGE_CANCELLED:
        case MESSAGE_LOST:
                break;
        }
        mark(r);
}

bool requester_owns(const struct message *message)
{
        return message->done == data_received;
}

void requester_copied(struct message *message)
{
        struct requester *r = message->owner;
        uint64_t before = message->answer.total; /* not used in a receive: what was counted of it so far */

        r->copying += message->copied - before;
        message->answer.total = message->copied;
        peer_moved(r->peer, message->copied - before);
        tell_progress(r);
}

/* Its turn has come; meanwhile the transfer may have been cancelled, or be gone. */
static bool data_begins(struct message *message)
{
        struct peer *peer = message->link->owner;
        struct requester *r = peer ? find(peer->engine, message->transfer) : NULL;
        struct chunk *chunk = r && r->error == 0 ? window_find(&r->window, message->seq) : NULL;

        if (!chunk)
                return false;
        chunk->receives++;
        return true;
}

static void receive(struct requester *r, struct chunk *chunk, const struct wire_header *h, struct payload *payload)
{
        struct link *link = r->peer->link;
        struct message *message = message_new(link->transport);

        if (!message) {
                fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        message->stream = &r->stream;
        message->offset = h->offset;
        message->length = h->length;
        message->begin = data_begins;
        message->done = data_received;
        message->owner = r;
        message->transfer = r->spec.id;
        message->seq = chunk->seq;
        message->answer = *h;
        message->answer.total = 0;
        link->transport->ops->receive(link, message, payload);
}

/* What comes is the next part of the chunk, or all of it. */
static bool is_expected(const struct requester *r, const struct chunk *chunk, const struct wire_header *h,
                        const struct payload *payload)
{
        if (r->spec.verify && !(h->flags & WIRE_VERIFY))
                return false;
        return h->offset == chunk->offset + chunk->announced && h->length == payload->length && h->length > 0 &&
               h->length <= chunk->length - chunk->announced;
}

void requester_on_data(struct engine *engine, struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        struct requester *r = requester_of(engine, peer, h);
        struct chunk *chunk = r && r->spec.direction == ENGINE_READ ? window_find(&r->window, h->seq) : NULL;

        if (!chunk)
                return;
        if (h->status) {
                refused(r, h);
                return;
        }
        if (r->error)
                return;
        if (!is_expected(r, chunk, h, payload)) {
                fail(r, FERRY_E_TRANSFER_FAILED, "the peer sent other bytes than were asked for");
                return;
        }
        chunk->announced += h->length;
        if (!payload->bytes) {
                receive(r, chunk, h, payload);
                return;
        }
        stream_store(&r->stream, h->offset, payload->bytes, h->length);
        if (check_bytes(r, h))
                data_is_there(r, chunk, h);
        mark(r);
}

void requester_on_ack(struct engine *engine, struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        struct requester *r = requester_of(engine, peer, h);
        struct chunk *chunk = r && r->spec.direction == ENGINE_WRITE ? window_find(&r->window, h->seq) : NULL;

        if (!chunk || chunk->acked)
                return;
        if (h->status) {
                refused(r, h);
                return;
        }
        if (h->offset != chunk->offset || h->length != chunk->length) {
                fail(r, FERRY_E_TRANSFER_FAILED, "the peer has other bytes than were sent");
                return;
        }
        chunk->acked = true;
        /* The other side is complete already; no DONE is needed, and neither a cancel nor its death changes that. */
        if ((h->flags & WIRE_FINAL) && chunk->length == r->spec.total) {
                r->final_sent = false;
                r->peer_knows = true;
                set_state(r, REQUESTER_COMPLETE);
        }
        chunk_is_written(r, chunk);
        mark(r);
}

void requester_on_done_ack(struct engine *engine, struct peer *peer, const struct wire_header *h,
                           struct payload *payload)
{
        struct requester *r = requester_of(engine, peer, h);

        if (!r || r->state == REQUESTER_COMPLETE)
                return;
        if (h->status) {
                refused(r, h);
        } else if (r->state == REQUESTER_FINISHING || r->final_sent) {
                r->peer_knows = true; /* a cancel that came after DONE came too late */
                r->final_sent = false;
                set_state(r, REQUESTER_COMPLETE);
                mark(r);
        }
}

/* ---- events ---- */

void requester_cancel(struct requester *r, int reason, const char *detail)
{
        if (r->state == REQUESTER_FINISHING && r->error == 0) {
                /* The peer decides whether it came in time; the grace time bounds how long that is waited for. */
                r->error = reason;
                (void)snprintf(r->detail, sizeof(r->detail), "%s", detail);
                r->grace_deadline_us = engine_grace(r->engine);
                return;
        }
        fail(r, reason, "%s", detail);
}

static void leave_peer(struct requester *r)
{
        if (!r->peer)
                return;
        stop_waiting(r);
        (void)release_idle(r);
        DL_DELETE2(r->peer->requesters, r, peer_prev, peer_next);
        peer_released(r->peer);
        r->peer = NULL;
}

/* A link that was idle for long may have been cut unnoticed: nothing has moved over it, so a new one is tried, once. */
static bool try_again(struct requester *r)
{
        if (!r->was_up || r->retried || r->error || r->state != REQUESTER_MOVING || r->moved || r->engine->stopping ||
            r->peer->link->transport != r->engine->ucx)
                return false;
        leave_peer(r);
        r->retried = true;
        r->next = 0;
        set_state(r, REQUESTER_ROUTING);
        take_route(r);
        return true;
}

/* The peer may be complete, and will not say so any more: then no reason of this side's own is the end of both. */
static void lose_answer(struct requester *r, int error, const char *detail)
{
        if (r->state != REQUESTER_FINISHING && !r->final_sent)
                return;
        r->error = error;
        (void)snprintf(r->detail, sizeof(r->detail), "%s", detail);
}

void requester_link_ended(struct requester *r, int error, const char *detail)
{
        if (r->state == REQUESTER_COMPLETE) {
                mark(r);
                return;
        }
        if (try_again(r))
                return;
        lose_answer(r, error, detail);
        r->peer_knows = true;
        r->word_awaited = r->final_sent = false;
        fail(r, error, "%s", detail);
}

void requester_tick(struct requester *r, uint64_t now_us)
{
        static const char late[] = "no answer within the connect time";
        static const char unresolved[] = "its name was not resolved within the connect time";
        bool connecting = r->state == REQUESTER_ROUTING || (r->peer && r->peer->link->state == LINK_CONNECTING);

        if (r->grace_deadline_us) {
                engine_tick_before(r->engine, r->grace_deadline_us > now_us ? r->grace_deadline_us : 0);
                if (now_us < r->grace_deadline_us)
                        return;
                r->grace_deadline_us = 0;
                if (r->peer && r->peer->link->state == LINK_UP)
                        lose_answer(r, FERRY_E_PEER_LOST, "the peer did not say whether the transfer is complete");
                r->peer_knows = r->peer_knows || r->state == REQUESTER_FINISHING;
                r->word_awaited = r->final_sent = false;
                if (r->state == REQUESTER_FINISHING)
                        set_state(r, REQUESTER_FAILING);
                if (!release_idle(r))
                        peer_fail(r->peer, FERRY_E_PEER_LOST, "a cancelled transfer did not come to rest");
                mark(r);
        } else if (connecting && r->connect_deadline_us) {
                engine_tick_before(r->engine, r->connect_deadline_us > now_us ? r->connect_deadline_us : 0);
                if (now_us < r->connect_deadline_us)
                        return;
                if (r->peer) {
                        peer_fail(r->peer, FERRY_E_PEER_UNREACHABLE, late);
                } else {
                        route_is_late(r->engine, &r->route, unresolved);
                        fail(r, FERRY_E_PEER_UNREACHABLE, "%s", unresolved);
                }
        } else if (r->waiting && r->window.n_taken == 0 && r->peer->moved_us + ENGINE_TICK_MS * 2000 > now_us) {
                tell_progress(r); /* others move: it has not stalled, it waits for its turn */
        }
}

/* ---- steps ---- */

static void end(struct requester *r)
{
        struct engine *engine = r->engine;
        struct engine_outcome outcome = { 0 };

        if (r->state == REQUESTER_COMPLETE) {
                outcome.bytes = r->spec.total;
        } else {
                outcome.error = r->error;
                outcome.bytes = r->done;
                (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", r->detail);
        }
        if (r->peer && (r->moved || outcome.bytes > 0))
                (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", r->peer->link->carrier);
        if (r->peer && !r->was_up)
                outcome.connect_us = r->peer->link->connect_us;
        set_state(r, REQUESTER_ENDED);
        if (r->hh.tbl)
                HASH_DEL(engine->requesters_by_id, r);
        leave_peer(r);
        r->spec.ended(r->spec.context, &outcome);
        engine->unsettled = true;
        requester_free(r);
}

/* Ends it when nobody touches the memory, and tells the peer. */
static void end_when_quiet(struct requester *r)
{
        bool usable = r->peer && peer_is_usable(r->peer);

        if (!release_idle(r) || (r->peer && r->peer->link->state == LINK_FAILED))
                return;
        if (r->state == REQUESTER_FAILING && r->word_awaited)
                return;
        if (r->state == REQUESTER_FAILING && r->final_sent && usable) {
                /* The one WRITE may have completed the operation: both sides shall say the same. */
                set_state(r, REQUESTER_FINISHING);
                send_done(r, 0);
                return;
        }
        if (usable && !r->peer_knows)
                send_done(r, WIRE_QUIET);
        end(r);
}

static void move(struct requester *r)
{
        if (r->next < r->spec.total) {
                if (r->next == 0 && r->spec.total <= WIRE_INLINE_MAX)
                        (void)ask(r); /* what fits inside one message does not wait for its turn */
                else
                        wait_for_turn(r);
        } else if (r->done == r->spec.total) {
                set_state(r, REQUESTER_FINISHING);
                send_done(r, 0);
        }
}

static void step(struct requester *r)
{
        switch (r->state) {
        case REQUESTER_MOVING:
                if (peer_is_usable(r->peer))
                        move(r);
                break;
        case REQUESTER_COMPLETE:
        case REQUESTER_FAILING:
                end_when_quiet(r);
                break;
        case REQUESTER_ROUTING:
        case REQUESTER_FINISHING:
        case REQUESTER_ENDED:
                break;
        }
}

bool requesters_step(struct engine *engine)
{
        struct requester *r;
        bool any = engine->marked_requesters != NULL;

        while ((r = engine->marked_requesters)) {
                DL_DELETE2(engine->marked_requesters, r, marked_prev, marked_next);
                r->marked = false;
                step(r);
        }
        return any;
}
