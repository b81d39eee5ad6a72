/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "ucx_internal.h"

static void handle(struct ucx *ucx, struct ucx_link *link, const void *bytes, size_t size, struct payload *payload)
{
        struct wire_header header;
        uint8_t protocol;

        switch (wire_decode(bytes, size, &header, &protocol)) {
        case WIRE_INVALID:
                log_event(LOG_WARN, "unknown message dropped", LOG_S("transport", ucx->base.name), LOG_U("size", size));
                break;
        case WIRE_OTHER_PROTOCOL:
                link_fail_protocol(&link->base, protocol); /* close.c tells the peer */
                break;
        case WIRE_OK:
                if (link->base.state == LINK_CONNECTING) {
                        link->room = true;
                        ucx_link_ready(link);
                }
                link_note_message(&link->base);
                ucx_pace_received(link, &header);
                ucx->base.handlers.message(ucx->base.handlers.context, &link->base, &header, payload);
                break;
        }
}

ucs_status_t ucx_message_arrived(void *context, const void *bytes, size_t size, void *data, size_t length,
                                 const ucp_am_recv_param_t *param)
{
        struct ucx *ucx = context;
        bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
        bool replies = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
        struct ucx_link *link = replies ? ucx_link_find(ucx, param->reply_ep) : NULL;
        struct payload payload = { .length = length };

        if (rendezvous)
                payload.descriptor = data;
        else
                payload.bytes = data;
        ucx_watch_wake(ucx);
        if (link)
                handle(ucx, link, bytes, size, &payload);
        if (!rendezvous)
                return UCS_OK;
        /* Refuses later: UCX would send the refusal from inside this callback. */
        return payload.taken || ucx_queue_refuse(ucx, data) ? UCS_INPROGRESS : UCS_OK;
}
