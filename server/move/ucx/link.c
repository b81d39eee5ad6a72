/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * A link is a UCX endpoint with peer error handling. Usable links are hashed by endpoint, since that is what UCX gives
 * with a message. A failed link leaves the hash at once, and enters close.c's list.
 */

/* UCX's callback for a peer that died or does not answer. */
static void on_endpoint_error(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
        ucx_link_fail_status(context, status);
}

struct ucx_link *ucx_link_new(struct ucx *ucx, bool accepted)
{
        struct ucx_link *link = calloc(1, sizeof(*link));

        if (!link)
                return NULL;
        link_init(&link->base, &ucx->base, accepted);
        link->chunk = ucx->chunk_first;
        return link;
}

ucs_status_t ucx_link_connect(struct ucx_link *link, ucp_ep_params_t *params)
{
        struct ucx *ucx = ucx_of_link(link);
        ucs_status_t status;

        params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params->err_handler.cb = on_endpoint_error;
        params->err_handler.arg = link;
        status = ucp.ep_create(ucx->worker, params, &link->endpoint);
        if (status != UCS_OK) {
                link->endpoint = NULL;
                return status;
        }
        HASH_ADD(hh, ucx->by_endpoint, endpoint, sizeof(link->endpoint), link);
        return link->hh.tbl ? UCS_OK : UCS_ERR_NO_MEMORY;
}

struct ucx_link *ucx_link_find(struct ucx *ucx, ucp_ep_h endpoint)
{
        struct ucx_link *link;

        HASH_FIND(hh, ucx->by_endpoint, &endpoint, sizeof(endpoint), link);
        return link;
}

void ucx_link_ready(struct ucx_link *link)
{
        if (link->ready_prev || !link_is_usable(&link->base))
                return;
        DL_APPEND2(ucx_of_link(link)->ready, link, ready_prev, ready_next);
}

void ucx_link_fail(struct link *base, int error, const char *detail)
{
        struct ucx_link *link = ucx_link_of(base);
        struct ucx *ucx = ucx_of_link(link);

        if (!link_fail(base, error, detail))
                return;
        log_event(LOG_DEBUG, "link failed", LOG_S("transport", ucx->base.name), LOG_S("error", ferry_error_code(error)),
                  LOG_S("reason", detail));
        if (link->hh.tbl)
                HASH_DEL(ucx->by_endpoint, link);
        if (link->ready_prev)
                DL_DELETE2(ucx->ready, link, ready_prev, ready_next);
        link->ready_prev = NULL;
        DL_APPEND2(ucx->failing, link, failing_prev, failing_next);
        ucx->sweep_wanted = true;
}

void ucx_link_fail_status(struct ucx_link *link, ucs_status_t status)
{
        const char *reason = ucs.status_string(status);
        char address[64], detail[TRANSPORT_DETAIL_SIZE]; /* an IPv6 address with zone and port has 63 */

        if (link->base.state == LINK_UP) {
                (void)snprintf(detail, sizeof(detail), "the connection broke (%s)", reason);
                ucx_link_fail(&link->base, FERRY_E_PEER_LOST, detail);
        } else if (link->base.accepted || ucx_address_format(&link->peer, address, sizeof(address)) < 0) {
                ucx_link_fail(&link->base, FERRY_E_PEER_UNREACHABLE, reason);
        } else {
                (void)snprintf(detail, sizeof(detail),
                               "no connection to the peer's data port %s: check its worker, route and firewall (%s)",
                               address, reason);
                ucx_link_fail(&link->base, FERRY_E_PEER_UNREACHABLE, detail);
        }
}

/* ---- the UCX transport that carries bulk ---- */

/*
 * UCX names the lanes of an endpoint only in its printed form (ucp_ep_query learned it after 1.13):
 *
 *   #   lane[1]:  1:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup
 *
 * Bulk takes the first lane for RMA bandwidth, else the first for bandwidth of active messages, else that for any
 * active message.
 */
static const char *const bulk_marks[] = { "rma_bw#0", "am_bw#0", " am" };

const char *ucx_carrier(struct link *base)
{
        const struct ucx_link *link = ucx_link_of(base);
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0, best = FERRY_ARRAY_SIZE(bulk_marks);
        FILE *out;
        char *save = NULL;

        /* Only while the link is up: before the first message lanes may be missing, and after a failure UCX cannot
         * tell. */
        if (base->carrier[0] || !link->endpoint || base->state != LINK_UP)
                return base->carrier;
        out = open_memstream(&text, &size);
        if (!out)
                return "";
        ucp.ep_print_info(link->endpoint, out);
        (void)fclose(out);
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                const char *lane = strstr(line, "lane[");

                for (size_t i = 0; lane && i < best; i++)
                        if (strstr(lane, bulk_marks[i]) &&
                            sscanf(lane, "lane[%*u]: %*u:%31[^/]", base->carrier) == 1) /* TRANSPORT_NAME_SIZE */
                                best = i;
        }
        return base->carrier;
}

bool ucx_link_is_tcp(struct ucx_link *link)
{
        const char *name = ucx_carrier(&link->base);

        return name[0] == '\0' || strcmp(name, "tcp") == 0;
}
