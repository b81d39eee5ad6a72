/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx_internal.h"

/* The threads and buffers that copy payloads in device memory. */

/* Runs on a staging thread. These threads end before UCX's worker does. */
static void notify(void *context)
{
        const struct ucx *ucx = context;

        (void)ucp_worker_signal(ucx->worker);
}

static void on_room(void *context)
{
        struct ucx *ucx = context;
        struct link *base;

        DL_FOREACH (ucx->base.links, base) {
                struct ucx_link *link = ucx_link_of(base);

                link->room |= link->wants_stage;
                link->wants_stage = false;
                if (link->room)
                        ucx_link_ready(link);
        }
}

int ucx_staging_new(struct ucx *ucx)
{
        return staging_new(notify, on_room, ucx, &ucx->staging);
}

bool ucx_staging_has_room(struct ucx_link *link, const struct stream *stream, uint64_t offset, uint64_t length)
{
        bool has = staging_has_room(ucx_of_link(link)->staging, stream, offset, length);

        link->wants_stage |= !has;
        return has;
}

static bool any_is_staged(const struct ucx *ucx)
{
        struct link *link;

        DL_FOREACH (ucx->base.links, link)
                if (ucx_link_is_staging(ucx_link_of(link)))
                        return true;
        return false;
}

void ucx_staging_stop(struct ucx *ucx)
{
        while (any_is_staged(ucx)) {
                copier_wait(staging_copier(ucx->staging));
                (void)copier_collect(staging_copier(ucx->staging));
        }
        staging_stop(ucx->staging);
}
