/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ucx_internal.h"

/*
 * Payloads off the host. A send is loaded into host memory before it waits for its turn with UCX, and a receive is
 * stored when UCX is done with it, both by threads (transport/staging.h), while UCX goes on with others. So with a
 * window of chunks, the device copies one, while UCX moves another.
 *
 *   send:     link->loading → ucx_send → … → end
 *   receive:  … → finished by UCX → link->storing → end
 */

/* Thread: the staging's. Its threads end before UCX's worker does. */
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

bool ucx_staging_has_room(struct ucx_link *link, uint64_t length)
{
        bool has = staging_has_room(ucx_of_link(link)->staging, length);

        link->wants_stage |= !has;
        return has;
}

/* Nothing of it is under way any more; a failed link may be able to end. */
static void end(struct ucx_message *m, enum message_result result)
{
        struct ucx_link *link = ucx_link_of(m->base.link);

        if (link->base.state == LINK_FAILED)
                ucx_of_link(link)->sweep_wanted = true;
        link->room |= link->base.state == LINK_CONNECTING; /* another message may open it (ucx_fit) */
        if (link->room)
                ucx_link_ready(link);
        ucx_message_end(m, result);
}

/* ---- sends ---- */

static void loaded(struct message *message)
{
        struct ucx_link *link = ucx_link_of(message->link);
        struct message *m;

        while ((m = stage_first(link->loading))) {
                DL_DELETE(link->loading, m);
                m->fault = m->stage->fault;
                if (m->stage->abandoned) {
                        end(ucx_message_of(m), m->stage->result);
                } else if (m->fault < 0) {
                        end(ucx_message_of(m), MESSAGE_FAULT);
                } else {
                        if (m->verify)
                                m->header.checksum = m->checksum;
                        ucx_send(&link->base, m);
                }
        }
}

void ucx_staged_send(struct ucx_link *link, struct ucx_message *m)
{
        if (!ucx_message_begin(m)) {
                ucx_message_end(m, MESSAGE_CANCELLED);
        } else if (!stage_new_buffer(ucx_of_link(link)->staging, &m->base)) {
                ucx_message_end(m, MESSAGE_NO_MEMORY);
        } else {
                m->base.way = TRANSPORT_WAY_STAGED;
                DL_APPEND(link->loading, &m->base);
                stage_run(&m->base, STAGING_LOAD, loaded);
        }
}

/* ---- receives ---- */

static void stored(struct message *message)
{
        struct ucx_link *link = ucx_link_of(message->link);
        struct message *m;

        while ((m = stage_first(link->storing))) {
                DL_DELETE(link->storing, m);
                m->fault = m->stage->fault;
                if (m->stage->abandoned)
                        end(ucx_message_of(m), m->stage->result);
                else
                        end(ucx_message_of(m), m->fault < 0 ? MESSAGE_FAULT : MESSAGE_OK);
        }
}

bool ucx_staged_post(struct ucx_message *m)
{
        m->base.way = TRANSPORT_WAY_STAGED;
        return stage_new_buffer(ucx_of_link(ucx_link_of(m->base.link))->staging, &m->base);
}

void ucx_staged_store(struct ucx_message *m)
{
        struct ucx_link *link = ucx_link_of(m->base.link);

        if (!staging_copier(ucx_of_link(link)->staging)) {
                end(m, MESSAGE_LOST);
                return;
        }
        DL_APPEND(link->storing, &m->base);
        stage_run(&m->base, STAGING_STORE, stored);
}

void ucx_staged_inside(struct ucx_message *m, const void *bytes)
{
        if (!ucx_message_begin(m)) {
                ucx_message_drop(ucx_of_link(ucx_link_of(m->base.link)), m);
        } else if (!ucx_staged_post(m)) {
                ucx_message_end(m, MESSAGE_NO_MEMORY);
        } else {
                memcpy(m->base.stage->bytes, bytes, m->base.length);
                ucx_staged_store(m);
        }
}

/* ---- their end ---- */

/* Of a transfer; NULL = of all. What a device is at work on ends after that. */
static void abandon(struct message **list, const uint64_t *transfer, enum message_result result)
{
        struct message *m = *list, *next;

        while (m) {
                next = m->next;
                if ((!transfer || m->transfer == *transfer) && !m->stage->abandoned && stage_abandon(m, result)) {
                        DL_DELETE(*list, m);
                        end(ucx_message_of(m), result);
                        next = *list; /* done may have changed it */
                }
                m = next;
        }
}

void ucx_staged_cancel(struct ucx_link *link, uint64_t transfer)
{
        abandon(&link->loading, &transfer, MESSAGE_CANCELLED);
        abandon(&link->storing, &transfer, MESSAGE_CANCELLED);
}

void ucx_staged_drop(struct ucx_link *link)
{
        abandon(&link->loading, NULL, MESSAGE_LOST);
        abandon(&link->storing, NULL, MESSAGE_LOST);
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
