/* SPDX-License-Identifier: Apache-2.0 */
#include "incoming.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/log.h"
#include "outgoing.h"

enum { READ_MAX = 32 }; /* datagrams of one link before the others' turn */

/* ---- pulls ---- */

static void release(struct channel *channel, const struct pull *pull)
{
        struct frame frame = frame_of(FRAME_RELEASE);

        frame.slot = pull->slot;
        frame.number = pull->number;
        channel->pulling[pull->slot] = false;
        channel_post_frame(channel, frame, NULL);
}

/* tell = false: its done is not to run. */
static void pull_end(struct pull *pull, enum message_result result, bool tell)
{
        struct channel *channel = pull->channel;
        struct message *message = pull->message;
        struct local *local = channel_local(channel);

        DL_DELETE(local->pulls, pull);
        crew_stop(local->crew, pull);
        release(channel, pull);
        pull_free(pull, &channel->mappings);
        if (tell)
                message_finish(message, result);
        else
                message_free(&local->base, message);
}

/* Resolves the extents at once: a later FORGET may name their memory. NULL with *ret_wrong. */
static struct pull *pull_of(struct channel *channel, const struct frame *frame, const uint8_t *bytes,
                            const char **ret_wrong)
{
        struct pull *pull = pull_new(frame->n);
        uint64_t sum = 0;

        *ret_wrong = pull ? NULL : "out of memory";
        for (uint32_t i = 0; pull && i < frame->n && !*ret_wrong; i++) {
                struct pull_extent *to = &pull->extents[i];
                struct frame_extent from;

                memcpy(&from, bytes + i * sizeof(from), sizeof(from));
                to->size = from.size;
                to->address = mapping_get(&channel->mappings, from.memory, from.offset, from.size, &to->mapping);
                if (to->address)
                        pull->n++;
                if (!to->address || __builtin_add_overflow(sum, from.size, &sum))
                        *ret_wrong = "it named memory that it has not lent";
        }
        if (!*ret_wrong && sum != frame->size)
                *ret_wrong = "its extents are not as long as its payload";
        if (!*ret_wrong && channel->pulling[frame->slot])
                *ret_wrong = "it used a lease's slot twice";
        if (pull && *ret_wrong) {
                pull_free(pull, &channel->mappings);
                return NULL;
        }
        return pull;
}

void incoming_receive(struct link *link, struct message *message, struct payload *payload)
{
        struct local *local = channel_local(channel_of(link));
        struct pull *pull = payload->descriptor;

        assert(pull && !payload->taken); /* what came inside is not received */
        message->link = link;
        message->copied = 0;
        pull->message = message;
        payload->taken = true;
        DL_APPEND(local->pulls, pull);
}

/* Whether it is still there. */
static bool pull_begin(struct local *local, struct pull *pull)
{
        if (pull->begun)
                return true;
        pull->begun = true;
        if (pull->message->begin && !pull->message->begin(pull->message)) {
                pull_end(pull, MESSAGE_CANCELLED, false);
                return false;
        }
        return true;
}

static void tell_copied(struct local *local, struct pull *pull, uint64_t copied)
{
        struct message *message = pull->message;

        if (copied <= message->copied)
                return;
        message->copied = copied;
        if (local->base.handlers.copied)
                local->base.handlers.copied(local->base.handlers.context, message);
}

/* One step of one pull. Bytes that were copied here; *ret_did whether anything was done. */
static uint64_t pull_step(struct local *local, struct pull *pull, uint64_t limit, bool *ret_did)
{
        uint64_t size, copied;

        if (!link_is_usable(&pull->channel->link))
                return 0; /* the next progress() ends it */
        if (!pull_begin(local, pull)) {
                *ret_did = true;
                return 0;
        }
        crew_share(local->crew, pull);
        size = crew_copy(local->crew, pull, limit);
        *ret_did |= size > 0;
        switch (crew_look(local->crew, pull, &copied)) {
        case CREW_COPIED:
                pull->message->copied = copied;
                pull_end(pull, MESSAGE_OK, true);
                *ret_did = true;
                break;
        case CREW_REVOKED:
                pull_end(pull, MESSAGE_REVOKED, true);
                *ret_did = true;
                break;
        case CREW_MORE:
        case CREW_WAITS:
                tell_copied(local, pull, copied); /* which may end it */
                break;
        }
        return size;
}

bool incoming_copy(struct local *local)
{
        uint64_t limit = PULL_PIECE;
        struct pull *pull;
        bool did = false;
        size_t n;

        DL_COUNT(local->pulls, pull, n);
        for (; n > 0 && limit > 0 && local->pulls; n--) {
                pull = local->pulls;
                DL_DELETE(local->pulls, pull); /* to the end of the list: the others' turn */
                DL_APPEND(local->pulls, pull);
                limit -= pull_step(local, pull, limit, &did);
        }
        return did;
}

bool incoming_has_work(const struct local *local)
{
        const struct pull *pull;
        uint64_t copied;

        DL_FOREACH (local->pulls, pull)
                if (crew_look(local->crew, pull, &copied) != CREW_WAITS)
                        return true;
        return false;
}

static struct pull *find(const struct channel *channel, const uint64_t *transfer)
{
        struct pull *pull;

        DL_FOREACH (channel_local(channel)->pulls, pull)
                if (pull->channel == channel && (!transfer || pull->message->transfer == *transfer))
                        return pull;
        return NULL;
}

void incoming_cancel(struct channel *channel, uint64_t transfer)
{
        for (struct pull *pull; (pull = find(channel, &transfer));)
                pull_end(pull, MESSAGE_CANCELLED, pull->begun || !pull->message->begin);
}

void incoming_end(struct channel *channel)
{
        for (struct pull *pull; (pull = find(channel, NULL));)
                pull_end(pull, MESSAGE_LOST, pull->begun || !pull->message->begin);
}

bool incoming_is_idle(const struct channel *channel)
{
        return !find(channel, NULL);
}

/* ---- datagrams; NULL or what is wrong ---- */

static const char *read_greeting(struct channel *channel, const struct frame *frame, const struct datagram *datagram)
{
        void *page;

        if (channel->was_greeted)
                return "it greeted twice";
        if (memfd_map(datagram->fds[0], FRAME_LEASES * sizeof(struct lease_slot), &page, &channel->peer_page_size) < 0)
                return "its lease page cannot be mapped";
        channel->peer_page = page;
        channel->was_greeted = true;
        channel->link.peer_epoch = frame->id;
        return NULL;
}

/* A stranger becomes a link of the engine's. */
static void introduce(struct channel *channel)
{
        struct local *local = channel_local(channel);

        local->n_strangers--;
        link_init(&channel->link, &local->base, true);
        channel->known = local->base.handlers.accepted(local->base.handlers.context, &channel->link);
        if (!channel->known) {
                DL_DELETE(local->base.links, &channel->link);
                channel_fail(channel, FERRY_E_LIMIT_REACHED, "this worker takes no further links");
        } else if (channel_greet(channel) < 0) {
                channel_fail(channel, FERRY_E_PEER_LOST, "no memory for its leases");
        }
}

static const char *on_hello(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        const char *wrong = read_greeting(channel, frame, datagram);

        if (wrong)
                return wrong;
        if (channel->epoch != 0 && channel->epoch != frame->id)
                channel_fail(channel, FERRY_E_PEER_UNREACHABLE, "another worker answered");
        else if (channel->link.accepted)
                introduce(channel);
        if (!link_is_usable(&channel->link))
                return NULL;
        link_was_heard(&channel->link);
        channel_local(channel)->base.handlers.room(channel_local(channel)->base.handlers.context, &channel->link);
        return NULL;
}

static void hand_over(struct channel *channel, const struct wire_header *header, struct payload *payload)
{
        struct local *local = channel_local(channel);

        link_was_heard(&channel->link);
        local->base.handlers.message(local->base.handlers.context, &channel->link, header, payload);
}

static const char *on_lent(struct channel *channel, const struct frame *frame, const struct wire_header *header,
                           const uint8_t *extents)
{
        struct payload payload = { .length = frame->size };
        const char *wrong;
        struct pull *pull = pull_of(channel, frame, extents, &wrong);

        if (!pull)
                return wrong;
        pull->channel = channel;
        pull->length = frame->size;
        pull->lease = &channel->peer_page[frame->slot];
        pull->number = frame->number;
        pull->slot = frame->slot;
        channel->pulling[frame->slot] = true;
        payload.descriptor = pull;
        hand_over(channel, header, &payload);
        if (!payload.taken) {
                release(channel, pull);
                pull_free(pull, &channel->mappings);
        }
        return NULL;
}

static const char *on_message(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        const uint8_t *rest = datagram->bytes + FRAME_PAYLOAD;
        struct payload payload = { .length = frame->size, .bytes = rest };
        char detail[TRANSPORT_DETAIL_SIZE];
        struct wire_header header;
        uint8_t version;

        switch (wire_decode(datagram->bytes + sizeof(*frame), WIRE_SIZE, &header, &version)) {
        case WIRE_OK:
                break;
        case WIRE_FOREIGN:
                return "its message is not of this protocol";
        case WIRE_OTHER_VERSION:
                (void)snprintf(detail, sizeof(detail), "it speaks version %u of the protocol, this worker version %d",
                               version, WIRE_VERSION);
                channel_fail(channel, FERRY_E_PEER_UNREACHABLE, detail);
                return NULL;
        }
        if (frame->number != 0)
                return on_lent(channel, frame, &header, rest);
        datagram->urgent = true;
        hand_over(channel, &header, &payload);
        return NULL;
}

static const char *on_lend(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        switch (mappings_add(&channel->mappings, frame->id, frame->size, datagram->fds[0])) {
        case 0:
                return NULL;
        case -EBADMSG:
                return "it lent what cannot be lent";
        case -ENOSPC:
                return "it lent too much";
        default:
                return "its memory cannot be mapped";
        }
}

static const char *on_release(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        (void)datagram;
        return outgoing_released(channel, frame->slot, frame->number) ? NULL : "it released what it was not lent";
}

static const char *on_forget(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        (void)datagram;
        return mappings_forget(&channel->mappings, frame->id) == 0 ? NULL : "it took back what it had not lent";
}

static const char *(*const handlers[FRAME_TYPE_END])(struct channel *channel, const struct frame *frame,
                                                     struct datagram *datagram) = {
        [FRAME_HELLO] = on_hello,     [FRAME_MESSAGE] = on_message, [FRAME_LEND] = on_lend,
        [FRAME_RELEASE] = on_release, [FRAME_FORGET] = on_forget,
};

static const char *handle(struct channel *channel, struct datagram *datagram)
{
        char detail[TRANSPORT_DETAIL_SIZE];
        struct frame frame;

        switch (frame_decode(datagram->bytes, datagram->size, datagram->n_fds, &frame)) {
        case FRAME_OK:
                break;
        case FRAME_FOREIGN:
                return datagram->cut ? "its message was cut: too long, or no descriptors are left here"
                                     : "it sent what is not of this framing";
        case FRAME_OTHER_VERSION:
                (void)snprintf(detail, sizeof(detail), "it speaks version %u of the local framing, this worker %d",
                               frame.version, FRAME_VERSION);
                (void)channel_greet(channel); /* so that the peer can say the same */
                channel_fail(channel, FERRY_E_PEER_UNREACHABLE, detail);
                log_event(LOG_WARN, "a local peer has another version", LOG_S("detail", detail));
                return NULL;
        }
        if (datagram->cut)
                return "its message was cut: too long, or no descriptors are left here";
        if (!channel->was_greeted && frame.type != FRAME_HELLO)
                return "it did not greet";
        return handlers[frame.type](channel, &frame, datagram);
}

static void refuse(struct channel *channel, const char *wrong)
{
        if (!link_is_usable(&channel->link))
                return;
        log_event(LOG_WARN, "a local peer broke the protocol", LOG_U("peer_epoch", channel->link.peer_epoch),
                  LOG_S("detail", wrong));
        channel_fail(channel, FERRY_E_PEER_LOST, wrong);
}

bool incoming_read(struct channel *channel)
{
        struct datagram datagram;
        int n = 0, r = 0;

        while (n < READ_MAX && link_is_usable(&channel->link) && (r = channel_read(channel, &datagram)) > 0) {
                const char *wrong = handle(channel, &datagram);

                datagram_clear(&datagram);
                if (wrong)
                        refuse(channel, wrong);
                n++;
                if (datagram.urgent)
                        break;
        }
        if (n > 0) {
                channel_local(channel)->recent = channel;
                outgoing_tell_room(channel);
        }
        if (r < 0)
                channel_is_gone(channel);
        return n > 0 || r < 0;
}
