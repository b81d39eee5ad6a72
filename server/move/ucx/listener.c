/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "ucx_internal.h"

/*
 * The listener, to which peers connect, at a fixed port that a firewall can admit. A link exists for the engine from
 * the connection request on, and comes up with the peer's first message. Thread: the holder of the progress lock;
 * on_connection is called inside ucp_worker_progress().
 */

/* Makes a link and its endpoint, but sends nothing. A peer that the engine does not take is rejected. */
static void on_connection(ucp_conn_request_h request, void *context)
{
        struct ucx *ucx = context;
        ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };
        ucp_conn_request_attr_t attr = { .field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR };
        struct ucx_link *link = ucx->stopping ? NULL : ucx_link_new(ucx, true);
        ucs_status_t status;

        if (link && !ucx->base.handlers.accepted(ucx->base.handlers.context, &link->base)) {
                link_free(&link->base);
                link = NULL;
        }
        if (!link) {
                (void)ucp.listener_reject(ucx->listener, request);
                return;
        }
        if (ucp.conn_request_query(request, &attr) == UCS_OK)
                link->peer = attr.client_address;
        ucx_watch_wake(ucx);
        status = ucx_link_connect(link, &params);
        if (status != UCS_OK)
                ucx_link_fail_status(link, status); /* the engine has the link: it must end like any other */
}

int ucx_listener_open(struct ucx *ucx, const struct ucx_config *config)
{
        ucp_listener_params_t params = {
                .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                .sockaddr = { .addr = (const struct sockaddr *)&ucx->listen.address, .addrlen = ucx->listen.length },
                .conn_handler = { .cb = on_connection, .arg = ucx },
        };
        ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
        ucs_status_t status = ucp.listener_create(ucx->worker, &params, &ucx->listener);

        if (status != UCS_OK)
                return ucx_failed(config, "listener", status);
        status = ucp.listener_query(ucx->listener, &attr);
        if (status != UCS_OK)
                return ucx_failed(config, "listener address", status);
        return ucx_address_format(&attr.sockaddr, ucx->facts.data_address, sizeof(ucx->facts.data_address));
}

void ucx_listener_close(struct ucx *ucx)
{
        if (ucx->listener)
                ucp.listener_destroy(ucx->listener);
        if (ucx->worker)
                ucp.worker_destroy(ucx->worker);
        ucx->listener = NULL;
        ucx->worker = NULL;
}
