/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * The end of a link:
 *
 *   ucx_link_fail   marks it, anywhere
 *   close           ucp_ep_close_nbx outside UCX's callbacks, by force unless another build is to be told our protocol
 *   drain_lanes     rounds of progress until its lanes are gone
 *   drop            waiting sends are lost, waiting receives refused
 *   end             calls handlers->ended, once UCX has closed it and every message is done
 */

static void close_done(void *request, ucs_status_t status, void *user_data)
{
        struct ucx_link *link = user_data;

        if (link->close_request) /* else ucx_shut_down has freed it */
                ucp.request_free(link->close_request);
        link->close_request = NULL;
        ucx_of_link(link)->sweep_wanted = true;
}

/* Has UCX close the endpoint. Unless it is done at once, close_done() follows. */
static void close_endpoint(struct ucx_link *link, unsigned flags)
{
        ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                .flags = flags,
                .cb.send = close_done,
                .user_data = link,
        };
        ucs_status_ptr_t request;

        request = ucp.ep_close_nbx(link->endpoint, &param);
        link->endpoint = NULL;
        if (UCS_PTR_IS_PTR(request))
                link->close_request = request;
}

/*
 * UCX completes the requests of an endpoint closed by force before it destroys its lanes in the next rounds of progress
 * (ucp_worker_discard_uct_ep); until then a TCP lane may still store what it reads from its socket. So run these rounds
 * before anything ends.
 */
static void drain_lanes(struct ucx *ucx)
{
        for (int i = 0; i < UCX_DRAIN_ROUNDS; i++)
                if (ucx_worker_progress(ucx) == 0 && i > 1)
                        break;
}

/* Whether another build opened the link, and knows nothing of this worker's protocol yet. */
static bool is_foreign(const struct ucx_link *link)
{
        return link->base.error == FERRY_E_PROTOCOL_MISMATCH && link->base.accepted && link->base.connect_us == 0;
}

/* Sends a header of our protocol, of which a peer of another reads nothing but the number, and flushes it. */
static void close_foreign(struct ucx_link *link)
{
        static const struct wire_header answer = {
                .type = WIRE_HELLO_ACK, .to_epoch = 1, .from_epoch = 1, .operation = 1, .transfer = 1
        };
        static uint8_t bytes[WIRE_SIZE]; /* until UCX has sent it */
        ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY };
        ucs_status_ptr_t request;

        wire_encode(&answer, bytes);
        request = ucp.am_send_nbx(link->endpoint, UCX_AM_ID, bytes, sizeof(bytes), NULL, 0, &param);
        if (UCS_PTR_IS_PTR(request))
                ucp.request_free(request);
        close_endpoint(link, 0);
}

/* Closes the endpoints of failed links. Returns whether there was any; then no lane of theirs is left. */
static bool close_failing(struct ucx *ucx)
{
        struct ucx_link *link, *closed = NULL;

        DL_FOREACH2 (ucx->failing, link, failing_next) {
                if (!link->endpoint)
                        continue;
                if (is_foreign(link))
                        close_foreign(link);
                else
                        close_endpoint(link, UCP_EP_CLOSE_FLAG_FORCE);
                closed = link;
        }
        if (closed)
                drain_lanes(ucx);
        return closed != NULL;
}

/* Drops what failed links still have queued, also what drain_lanes has queued. */
static void drop_failing(struct ucx *ucx)
{
        struct ucx_link *link;

        DL_FOREACH2 (ucx->failing, link, failing_next)
                if (!link->endpoint)
                        ucx_queue_drop(link);
}

static bool is_busy(const struct ucx_link *link)
{
        return link->under_way || ucx_link_is_staging(link);
}

/* A failed link that UCX has closed and of which no message is under way; NULL = none. */
static struct ucx_link *find_ended(struct ucx *ucx)
{
        struct ucx_link *link;

        DL_FOREACH2 (ucx->failing, link, failing_next)
                if (!link->endpoint && !link->close_request && !is_busy(link))
                        return link;
        return NULL;
}

/* May free the link. */
static void end(struct ucx *ucx, struct ucx_link *link)
{
        DL_DELETE2(ucx->failing, link, failing_prev, failing_next);
        link_set_state(&link->base, LINK_ENDED);
        ucx->base.handlers.ended(ucx->base.handlers.context, &link->base);
}

bool ucx_sweep(struct ucx *ucx)
{
        struct ucx_link *link;
        bool any = false;

        while (ucx->sweep_wanted) {
                ucx->sweep_wanted = false;
                any |= close_failing(ucx);
                drop_failing(ucx);
                while ((link = find_ended(ucx))) {
                        end(ucx, link);
                        any = true;
                }
        }
        return any;
}

/* ---- the engine stops ---- */

static bool is_idle(const struct ucx_link *link)
{
        return !is_busy(link) && !link->fragments && !link->receives;
}

/* Closes links without messages in flight; UCX flushes their sent data. */
static void close_idle(struct ucx *ucx)
{
        struct link *base;

        DL_FOREACH (ucx->base.links, base) {
                struct ucx_link *link = ucx_link_of(base);

                if (!link_is_usable(base) || !is_idle(link))
                        continue;
                ucx_link_fail(base, FERRY_E_PEER_LOST, "the worker is shutting down");
                /* By force if no message ever came: UCX would wait to flush, and in the end abort. */
                close_endpoint(link, base->connect_us == 0 ? UCP_EP_CLOSE_FLAG_FORCE : 0);
        }
}

static bool is_open(const struct ucx_link *link)
{
        return link->base.state != LINK_ENDED;
}

static bool any(const struct ucx *ucx, bool (*is)(const struct ucx_link *link))
{
        struct link *link;

        DL_FOREACH (ucx->base.links, link)
                if (is(ucx_link_of(link)))
                        return true;
        return false;
}

/* One round while the transport shuts down, without the watch and without new links. */
static void run(struct ucx *ucx)
{
        (void)ucx_worker_progress(ucx);
        (void)ucx_collect_copies(ucx);
        (void)ucx_queue_flush(ucx);
        (void)ucx_sweep(ucx);
}

static void fail_all(struct ucx *ucx)
{
        struct link *link;

        DL_FOREACH (ucx->base.links, link)
                ucx_link_fail(link, FERRY_E_PEER_LOST, "the worker is shutting down");
}

/* UCX's worker is destroyed, and with it every lane and every pending callback. */
static void end_rest(struct ucx *ucx)
{
        struct ucx_link *link;

        while ((link = ucx->failing)) {
                while (link->under_way)
                        ucx_message_finished(ucx_message_of(link->under_way), UCS_ERR_CANCELED);
                end(ucx, link);
        }
}

/*
 * The order counts: links without messages are closed so that UCX flushes what was sent; at the deadline the rest is
 * closed by force; then the tasks that copy are waited for, and UCX's worker, which they signal, is destroyed last.
 */
void ucx_shut_down(struct transport *transport, uint64_t deadline_us)
{
        struct ucx *ucx = ucx_of(transport);
        struct ucx_link *link;

        if (!ucx->worker)
                return;
        ucx->stopping = true;
        while (any(ucx, is_open) && clock_now_us() < deadline_us) {
                run(ucx);
                close_idle(ucx);
        }
        fail_all(ucx);
        run(ucx);
        deadline_us = clock_now_us() + UCX_CLOSE_MS * UINT64_C(1000);
        while (any(ucx, is_busy) && clock_now_us() < deadline_us)
                run(ucx);
        (void)ucx_queue_flush(ucx);
        /* UCX aborts the process if its worker is destroyed before such a request is freed. */
        DL_FOREACH2 (ucx->failing, link, failing_next) {
                ucx_queue_drop(link);
                if (link->close_request)
                        ucp.request_free(link->close_request);
                link->close_request = NULL;
        }
        while (any(ucx, ucx_link_is_staging)) { /* before UCX's worker is destroyed */
                pool_wait(staging_tasks(ucx->staging));
                (void)pool_collect(staging_tasks(ucx->staging));
        }
        staging_stop(ucx->staging);
        ucx_listener_close(ucx);
        end_rest(ucx);
}
