/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "local_internal.h"

/*
 * Messages that arrive over a link, from its mailbox and its socket, in the order in which the peer sent it. Any fault
 * in it, or a message before HELLO, ends the link, since a peer that errs once cannot be trusted with a lease. What
 * this process is short of is told apart (run_short): then the log blames nobody.
 *
 * At most DATAGRAMS_MAX datagrams of a link are read before the other links have their turn. Thread: the progress
 * thread.
 */

enum { DATAGRAMS_MAX = 32 }; /* datagrams to read of one link before the others */

/* ---- datagrams; each function returns NULL, or the fault in the datagram ---- */

/* Ends the link for want of something that this process has not got; the peer is not at fault. */
static void run_short(struct channel *channel, int error)
{
        char detail[TRANSPORT_DETAIL_SIZE];

        (void)snprintf(detail, sizeof(detail), "this worker cannot map memory of the peer: %s", strerror(-error));
        channel_fail(channel, FERRY_E_PEER_LOST, detail);
}

/* Maps the peer's link page, and learns the peer's epoch. */
static const char *read_greeting(struct channel *channel, const struct frame *frame, const struct datagram *datagram)
{
        void *page;
        int r;

        if (channel->peer_page)
                return "it greeted twice";
        r = memfd_map(datagram->fd, sizeof(*channel->peer_page), &page);
        if (r == -EBADMSG)
                return "its link page cannot be mapped: not sealed, or another user's";
        if (r < 0) {
                run_short(channel, r);
                return NULL;
        }
        channel->peer_page = page;
        channel->mail.peer = &channel->peer_page->mailbox;
        return NULL;
}

/* The peer's HELLO has come: hands the link to the engine. */
static void accept_link(struct channel *channel, uint64_t epoch)
{
        struct local *local = channel_local(channel);

        channel->link.peer_epoch = epoch;

        local->n_pending--;
        link_init(&channel->link, &local->base, true);
        channel->known = local->base.handlers.accepted(local->base.handlers.context, &channel->link);
        if (!channel->known) {
                DL_DELETE(local->base.links, &channel->link);
                channel_fail(channel, FERRY_E_LIMIT_REACHED, "this worker takes no further links");
        } else if (channel_greet(channel) < 0) {
                channel_fail(channel, FERRY_E_PEER_LOST, "no memory for its leases");
        }
}

static const char *on_hello(struct channel *channel, const struct frame *frame, const struct datagram *datagram)
{
        const char *wrong = read_greeting(channel, frame, datagram);

        if (wrong || !channel->peer_page)
                return wrong;
        if (channel->link.accepted)
                accept_link(channel, frame->id);
        else if (channel->link.peer_epoch != frame->id)
                channel_fail(channel, FERRY_E_PEER_UNREACHABLE, "another worker answered");
        if (!link_is_usable(&channel->link))
                return NULL;
        link_note_message(&channel->link);
        channel_local(channel)->base.handlers.room(channel_local(channel)->base.handlers.context, &channel->link);
        return NULL;
}

/* Gives the message to the engine, which may call pulls_receive() inside. */
static void hand_over(struct channel *channel, const struct wire_header *header, struct payload *payload)
{
        struct local *local = channel_local(channel);

        local->base.handlers.message(local->base.handlers.context, &channel->link, header, payload);
}

/* The payload is in the peer's memory. Its lease is released at once if the engine does not want it. */
static const char *on_mapped_message(struct channel *channel, const struct frame *frame,
                                     const struct wire_header *header, const uint8_t *bytes)
{
        struct payload payload = { .length = frame->size };
        const char *wrong = NULL;
        struct pull *pull;

        if ((frame->id != 0) != ((header->flags & WIRE_VERIFY) != 0))
                return "its message has digests and does not say so, or says so and has none";
        pull = pull_arrived(channel, frame, bytes, &wrong);
        if (!pull && !wrong)
                run_short(channel, -ENOMEM);
        if (!pull)
                return wrong;
        payload.descriptor = pull;
        hand_over(channel, header, &payload);
        if (!payload.taken)
                pull_refuse(pull);
        return NULL;
}

static const char *on_message(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        const uint8_t *rest = datagram->bytes + FRAME_PAYLOAD;
        struct payload payload = { .length = frame->size, .bytes = rest };
        struct wire_header header;
        uint8_t protocol;

        switch (wire_decode(datagram->bytes + sizeof(*frame), WIRE_SIZE, &header, &protocol)) {
        case WIRE_OK:
                break;
        case WIRE_INVALID:
                return "its message does not follow the protocol";
        case WIRE_OTHER_PROTOCOL:
                link_fail_protocol(&channel->link, protocol);
                return NULL;
        }
        if (frame->number != 0)
                return on_mapped_message(channel, frame, &header, rest);
        datagram->urgent = true;
        hand_over(channel, &header, &payload);
        return NULL;
}

/* Of a mapping that has not been made, or has been (0). */
static const char *judge_mapping(struct channel *channel, int r)
{
        if (r == -ENOSPC)
                return "it offers more memory than one link may map";
        if (r < 0)
                run_short(channel, r);
        return NULL;
}

/* The mapping takes a duplicate of the descriptor if it needs one: the datagram's own are closed. */
static const char *on_map(struct channel *channel, const struct frame *frame, const struct datagram *datagram)
{
        int r = mapping_add(channel, frame->id, frame->size, datagram->fd);

        return r == -EBADMSG ? "its memory cannot be mapped: known already, or not sealed" : judge_mapping(channel, r);
}

static const char *on_map_gpu(struct channel *channel, const struct frame *frame, const struct datagram *datagram)
{
        int r = gpu_mapping_open(channel, frame->id, frame->size, datagram->bytes + sizeof(*frame));

        return r == -EBADMSG ? "its GPU memory is mapped already" : judge_mapping(channel, r);
}

/* Handles a frame. Returns NULL, or what is wrong with it. */
static const char *handle_frame(struct channel *channel, const struct frame *frame, struct datagram *datagram)
{
        switch ((enum frame_type)frame->type) {
        case FRAME_HELLO:
                return on_hello(channel, frame, datagram);
        case FRAME_MESSAGE:
                return on_message(channel, frame, datagram);
        case FRAME_MAP:
                return on_map(channel, frame, datagram);
        case FRAME_RELEASE:
                return outgoing_released(channel, frame->slot, frame->number, (enum gpu_path)frame->gpu_path)
                               ? NULL
                               : "it released a lease that it does not hold";
        case FRAME_UNMAP:
                return mapping_remove(channel, frame->id) == 0 ? NULL : "it unmapped memory that is not mapped";
        case FRAME_MAP_GPU:
                return on_map_gpu(channel, frame, datagram);
        case FRAME_MAPPED:
                export_answered(channel, frame->id, frame->n == 1);
                break;
        case FRAME_UNMAPPED:
                export_unmapped(channel, frame->id);
                break;
        case FRAME_IDLE:
                export_idle(channel, frame->id);
                break;
        case FRAME_WAKE: /* its mailbox was read before */
        case FRAME_TYPE_END:
                break;
        }
        return NULL;
}

/* Handles a datagram. Returns NULL, or what is wrong with it. */
static const char *handle(struct channel *channel, struct datagram *datagram)
{
        struct frame frame;
        enum frame_verdict verdict = frame_decode(datagram->bytes, datagram->size, datagram->n_fds, &frame);

        if (verdict == FRAME_OTHER_PROTOCOL) {
                (void)channel_greet(channel); /* so that the peer can tell the same to its user */
                link_fail_protocol(&channel->link, frame.protocol);
                return NULL;
        }
        if (datagram->cut)
                return "its message was cut: too long, or no descriptors are left here";
        if (verdict == FRAME_INVALID)
                return "its datagram does not follow the framing";
        if (!channel->peer_page && frame.type != FRAME_HELLO)
                return "it did not greet";
        if (frame.type != FRAME_WAKE) /* which is no message of its own */
                metric_add(channel_local(channel)->metric_received, 1);
        return handle_frame(channel, &frame, datagram);
}

/* Ends the link of a peer that has broken the protocol. */
static void refuse(struct channel *channel, const char *wrong)
{
        if (!link_is_usable(&channel->link))
                return;
        log_event(LOG_WARN, "local peer broke the protocol",
                  LOG_S("peer_epoch", channel_peer_epoch(channel, (char[FERRY_ID_TEXT_SIZE]){ 0 })),
                  LOG_S("reason", wrong));
        channel_fail(channel, FERRY_E_PEER_LOST, wrong);
}

/* Whether to read on: it needs no answer first. */
static bool handle_next(struct channel *channel, struct datagram *datagram)
{
        /* What came before it may have ended the link. */
        const char *wrong = link_is_usable(&channel->link) ? handle(channel, datagram) : NULL;

        datagram_clear(channel_local(channel), datagram);
        if (wrong)
                refuse(channel, wrong);
        return !datagram->urgent;
}

/* Takes messages out of the mailbox; all: also those behind one to answer. Returns how many. */
static unsigned take(struct channel *channel, unsigned max, bool all)
{
        struct datagram datagram = { .bytes = channel_local(channel)->mail };
        unsigned n = 0;
        bool more = true;

        while (more && n < max && link_is_usable(&channel->link)) {
                int r = mail_is_open(&channel->mail) ? mail_take(&channel->mail, channel_local(channel)->mail) : 0;

                if (r < 0)
                        refuse(channel, "its mailbox does not follow the framing");
                if (r <= 0)
                        break;
                n++;
                datagram.size = (size_t)r;
                datagram.urgent = false;
                more = handle_next(channel, &datagram) || all;
        }
        return n;
}

bool incoming_take(struct channel *channel)
{
        bool any = take(channel, DATAGRAMS_MAX, false) > 0;

        if (any)
                outgoing_tell_room(channel);
        return any;
}

/* The datagram says nothing of the mailbox: what was put there before it was sent is taken first. */
bool incoming_read(struct channel *channel)
{
        struct datagram datagram;
        unsigned n = 0;
        bool more = true;
        int r = 0;

        while (more && n < DATAGRAMS_MAX && link_is_usable(&channel->link) &&
               (r = channel_read(channel, &datagram)) > 0) {
                n += 1 + take(channel, MAILBOX_MESSAGES_MAX, true); /* what was sent before it */
                channel->mail.n_read++;
                more = handle_next(channel, &datagram);
        }
        if (n > 0)
                channel_watch(channel);
        if (r < 0 || channel->is_closing || !channel->is_watched) /* no later look finds what is there */
                n += take(channel, MAILBOX_MESSAGES_MAX, true);
        if (n > 0)
                outgoing_tell_room(channel);
        if (r < 0)
                channel_peer_closed(channel);
        return n > 0 || r < 0;
}
