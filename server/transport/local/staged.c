/* SPDX-License-Identifier: Apache-2.0 */
#include "staged.h"

#include <string.h>
#include <utlist.h>

/* ---- sends ---- */

static void loaded(struct message *message)
{
        staged_flush(channel_of(message->link));
}

void staged_load(struct channel *channel, struct message *message, unsigned steps)
{
        DL_APPEND(channel->loading, message);
        stage_run(message, steps, loaded);
}

bool staged_has(const struct channel *channel, uint64_t transfer)
{
        const struct message *m;

        DL_FOREACH (channel->loading, m)
                if (m->transfer == transfer)
                        return true;
        return false;
}

void staged_flush(struct channel *channel)
{
        const struct local *local = channel_local(channel);
        struct message *m;

        while ((m = stage_first(channel->loading))) {
                bool sent = !m->stage->cancelled && m->stage->fault == 0;

                if (sent && link_is_usable(&channel->link) && !local->may_leave(channel, m))
                        return; /* a release will make room */
                DL_DELETE(channel->loading, m);
                m->fault = m->stage->fault;
                if (m->verify)
                        m->header.checksum = m->checksum;
                if (m->stage->cancelled)
                        message_finish(m, m->stage->result);
                else if (!sent)
                        message_finish(m, MESSAGE_FAULT);
                else if (link_is_usable(&channel->link))
                        local->leave(channel, m);
                else
                        message_finish(m, MESSAGE_LOST);
        }
}

/* ---- receives ---- */

static void stored(struct message *message)
{
        struct channel *channel = channel_of(message->link);
        struct message *m;

        while ((m = stage_first(channel->storing))) {
                enum message_result result = m->stage->fault < 0 ? MESSAGE_FAULT : MESSAGE_OK;

                DL_DELETE(channel->storing, m);
                m->fault = m->stage->fault;
                message_finish(m, m->stage->cancelled ? m->stage->result : result);
        }
}

void staged_store(struct channel *channel, struct message *message, const void *bytes)
{
        if (message->begin && !message->begin(message)) {
                message_free(message->link->transport, message);
                return;
        }
        if (!stage_new_buffer(channel_local(channel)->staging, message)) {
                message_finish(message, MESSAGE_NO_MEMORY);
                return;
        }
        message->gpu_path = GPU_PATH_STAGED;
        memcpy(message->stage->bytes, bytes, message->length);
        DL_APPEND(channel->storing, message);
        stage_run(message, STAGING_STORE, stored);
}

/* ---- their end ---- */

void staged_cancel(struct channel *channel, uint64_t transfer)
{
        stage_cancel(&channel->loading, &transfer, MESSAGE_CANCELLED, message_finish);
        stage_cancel(&channel->storing, &transfer, MESSAGE_CANCELLED, message_finish);
}

void staged_end(struct channel *channel)
{
        stage_cancel(&channel->loading, NULL, MESSAGE_LOST, message_finish);
        stage_cancel(&channel->storing, NULL, MESSAGE_LOST, message_finish);
}
