/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric_internal.h"

/* stream_pieces makes iovecs; UCX wants its own struct of the same shape. */
_Static_assert(sizeof(struct iovec) == sizeof(ucp_dt_iov_t) &&
                       offsetof(struct iovec, iov_base) == offsetof(ucp_dt_iov_t, buffer) &&
                       offsetof(struct iovec, iov_len) == offsetof(ucp_dt_iov_t, length),
               "iovec and ucp_dt_iov_t have one layout");

struct message *message_new(struct fabric *fabric)
{
        struct message *message = fabric->free_messages;

        if (message)
                LL_DELETE(fabric->free_messages, message);
        else
                message = malloc(sizeof(*message));
        if (message)
                *message = (struct message){ .fabric = fabric };
        return message;
}

void message_free(struct message *message)
{
        free(message->pieces);
        free(message->buffer);
        message->pieces = NULL;
        message->buffer = NULL;
        LL_PREPEND(message->fabric->free_messages, message);
}

void messages_clear(struct fabric *fabric)
{
        struct message *message, *next;

        LL_FOREACH_SAFE (fabric->free_messages, message, next)
                free(message);
        fabric->free_messages = NULL;
}

void message_done(struct message *message, ucs_status_t status)
{
        struct peer *peer = message->counted ? message->peer : NULL; /* an uncounted message may outlive its peer */

        if (peer)
                queue_done(message);
        if (message->done)
                message->done(message, status);
        message_free(message);
        if (peer)
                queue_pump(peer);
}

static void send_callback(void *request, ucs_status_t status, void *user_data)
{
        ucp_request_free(request);
        message_done(user_data, status);
}

static void receive_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
        ucp_request_free(request);
        message_done(user_data, status);
}

/* The three results of an _nbx call meet here: done, failed, or a request whose callback will run. */
static void message_started(struct message *message, ucs_status_ptr_t result)
{
        if (result == NULL)
                message_done(message, UCS_OK);
        else if (UCS_PTR_IS_ERR(result))
                message_done(message, UCS_PTR_STATUS(result));
}

static size_t count_pieces(const struct message *message, uint64_t length)
{
        size_t n = 0;

        if (!message->pieces)
                return 0;
        for (uint64_t sum = 0; sum < length; n++)
                sum += message->pieces[n].iov_len;
        return n;
}

/* Buffer, count and datatype of a contiguous or scattered payload, as UCX takes them. */
static void *payload_buffer(struct message *message, ucp_request_param_t *param, size_t *ret_count)
{
        if (message->pieces) {
                param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
                param->datatype = ucp_dt_make_iov();
                *ret_count = count_pieces(message, message->length);
                return message->pieces;
        }
        *ret_count = message->length;
        return message->address;
}

static bool is_rendezvous(const struct message *message)
{
        return message->length > WIRE_EAGER_MAX && !message->eager;
}

/*
 * UCX takes PUT for what is contiguous, which must not fit into the buffer that TCP receives into (side.c says why); a
 * list of pieces, if only of one, travels as active messages.
 */
static bool avoids_put(const struct message *message)
{
        return message->peer->side->put && !message->pieces && is_rendezvous(message) &&
               message->length <= FABRIC_PUT_ABOVE;
}

/*
 * Pieces in a message that carries its bytes. UCX sends up to 15 of them and our header at once, and more in several
 * messages, except that 1.13 aborts when they are just 16: it counts the header twice in the first of those, which then
 * finds that it has taken all (ucp_do_am_zcopy_multi; UCP_MAX_IOV is 16, TCP's own limit is above it). So many are so
 * short that packing them is quicker anyway. false when memory is short.
 */
static bool pack_pieces(struct message *message)
{
        size_t n = count_pieces(message, message->length);
        char *at;

        if (n <= FABRIC_PART_PIECES || is_rendezvous(message))
                return true;
        at = message->buffer = malloc(message->length);
        if (!at)
                return false;
        for (size_t i = 0; i < n; i++) {
                memcpy(at, message->pieces[i].iov_base, message->pieces[i].iov_len);
                at += message->pieces[i].iov_len;
        }
        free(message->pieces);
        message->pieces = NULL;
        message->address = message->buffer;
        return true;
}

static void note_bulk(const struct message *message)
{
        if (message->length > WIRE_EAGER_MAX)
                message->fabric->bulk_us = clock_now_us();
}

void message_send_now(struct message *message)
{
        ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
                .flags = UCP_AM_SEND_FLAG_REPLY |
                         (is_rendezvous(message) ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER),
                .cb.send = send_callback,
                .user_data = message,
        };
        size_t count;
        void *buffer;

        if (!pack_pieces(message)) {
                message_done(message, UCS_ERR_NO_MEMORY);
                return;
        }
        note_bulk(message);
        if (avoids_put(message)) {
                message->piece = (struct iovec){ .iov_base = message->address, .iov_len = message->length };
                param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
                param.datatype = ucp_dt_make_iov();
                buffer = &message->piece;
                count = 1;
        } else {
                buffer = payload_buffer(message, &param, &count);
        }
        message_started(message, ucp_am_send_nbx(message->peer->endpoint, WIRE_AM_ID, message->header, WIRE_SIZE,
                                                 buffer, count, &param));
}

void message_send(struct peer *peer, struct message *message, const struct wire_header *header, void *address,
                  uint64_t length)
{
        message->peer = peer;
        message->address = address;
        message->length = length;
        if (peer->failed) {
                message_done(message, UCS_ERR_CONNECTION_RESET);
                return;
        }
        wire_encode(header, message->header);
        queue_send(message);
}

void message_send_header(struct peer *peer, const struct wire_header *header)
{
        struct message *message = message_new(peer->side->fabric);

        if (!message) {
                peer_fail(peer, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        message_send(peer, message, header, NULL, 0);
}

void message_receive_now(struct message *message)
{
        ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                .cb.recv_am = receive_callback,
                .user_data = message,
        };
        size_t count;
        void *buffer = payload_buffer(message, &param, &count);

        note_bulk(message);
        message_started(message,
                        ucp_am_recv_data_nbx(message->peer->side->worker, message->descriptor, buffer, count, &param));
}

void message_receive(struct peer *peer, struct message *message, void *descriptor, void *address, uint64_t length)
{
        message->peer = peer;
        message->descriptor = descriptor;
        message->address = address;
        message->length = length;
        queue_receive(message);
}

static bool is_request(const struct wire_header *header)
{
        return header->type == WIRE_READ || header->type == WIRE_WRITE || header->type == WIRE_DONE ||
               header->type == WIRE_ATTACH || header->type == WIRE_HELLO;
}

static enum wire_type answer_type(enum wire_type request)
{
        switch (request) {
        case WIRE_READ:
                return WIRE_DATA;
        case WIRE_WRITE:
                return WIRE_ACK;
        case WIRE_ATTACH:
                return WIRE_GRANT;
        case WIRE_HELLO:
                return WIRE_HELLO_ACK;
        default:
                return WIRE_DONE_ACK;
        }
}

/* A request that was meant for another worker, most likely for an earlier one at the same address. */
static void refuse_stale(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct wire_header answer = {
                .type = answer_type(header->type),
                .to_epoch = header->from_epoch,
                .from_epoch = fabric->epoch,
                .operation = header->operation,
                .transfer = header->transfer,
                .seq = header->seq,
                .status = FERRY_E_STALE_METADATA,
        };

        message_send_header(peer, &answer);
}

/* UCS_INPROGRESS when the payload's descriptor was taken over, else UCS_OK. */
static ucs_status_t handle(struct side *side, const void *bytes, size_t size, ucp_ep_h reply,
                           const struct payload *payload)
{
        struct fabric *fabric = side->fabric;
        struct wire_header header;
        struct peer *peer;

        if (!wire_decode(bytes, size, &header)) {
                log_event(LOG_WARN, "message of no known form dropped", LOG_S("side", side->name), LOG_U("size", size));
                return UCS_OK;
        }
        if (header.type >= WIRE_ATTACH && side != &fabric->sides[SIDE_LOCAL])
                return UCS_OK; /* for workers of this user on this host alone */
        if (header.type == WIRE_RESET) {
                if (side == &fabric->sides[SIDE_LOCAL] && header.to_epoch == fabric->epoch)
                        peer_was_reset(fabric, header.from_epoch, reply);
                return UCS_OK;
        }
        if (header.type == WIRE_PING) {
                if (header.from_epoch == fabric->epoch)
                        side->pong = header.transfer;
                return UCS_OK;
        }
        peer = peer_of_message(side, reply, &header);
        if (!peer)
                return UCS_OK;
        peer_was_heard(peer);
        if (header.to_epoch != fabric->epoch) {
                if (is_request(&header))
                        refuse_stale(fabric, peer, &header);
                return UCS_OK;
        }

        switch (header.type) {
        case WIRE_READ:
                return attempt_on_read(fabric, peer, &header);
        case WIRE_WRITE:
                return attempt_on_write(fabric, peer, &header, payload);
        case WIRE_DATA:
                return transfer_on_data(fabric, peer, &header, payload);
        case WIRE_ACK:
                transfer_on_ack(fabric, peer, &header);
                break;
        case WIRE_DONE:
                attempt_on_done(fabric, peer, &header);
                break;
        case WIRE_DONE_ACK:
                transfer_on_done_ack(fabric, peer, &header);
                break;
        case WIRE_ATTACH:
                attempt_on_attach(fabric, peer, &header);
                break;
        case WIRE_GRANT:
                return direct_on_grant(fabric, peer, &header, payload);
        case WIRE_PROGRESS:
                attempt_on_progress(fabric, peer, &header);
                break;
        case WIRE_FORGET:
                mappings_forget(&fabric->mappings, header.from_epoch, header.operation);
                break;
        case WIRE_HELLO:
                connect_on_hello(fabric, peer, &header);
                break;
        case WIRE_HELLO_ACK:
                connect_on_hello_ack(fabric, peer, &header);
                break;
        case WIRE_RESET:
        case WIRE_PING:
        case WIRE_TYPE_END:
                break;
        }
        return UCS_OK;
}

ucs_status_t message_arrived(void *context, const void *bytes, size_t size, void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
        struct side *side = context;
        struct payload payload = {
                .data = data,
                .length = length,
                .rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0,
        };
        ucp_ep_h reply = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ? param->reply_ep : NULL;
        ucs_status_t status = handle(side, bytes, size, reply, &payload);

        /* UCX would tell the sender from inside this callback. */
        if (status == UCS_OK && payload.rendezvous && queue_refuse(side, data))
                return UCS_INPROGRESS;
        return status;
}
