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
        enum message_result result;
        struct message *m;

        while ((m = stage_take(&channel->loading, &result))) {
                if (result == MESSAGE_OK && !link_is_usable(&channel->link))
                        result = MESSAGE_LOST;
                if (result != MESSAGE_OK) {
                        message_finish(m, result);
                        continue;
                }
                if (!local->may_leave(channel, m)) {
                        DL_PREPEND(channel->loading, m);
                        return; /* a release will make room */
                }
                if (m->verify)
                        m->header.checksum = m->checksum;
                local->leave(channel, m);
        }
}

/* ---- receives ---- */

static void stored(struct message *message)
{
        struct channel *channel = channel_of(message->link);
        enum message_result result;
        struct message *m;

        while ((m = stage_take(&channel->storing, &result)))
                message_finish(m, result);
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

void staged_end(struct channel *channel, const uint64_t *transfer, enum message_result result)
{
        stage_cancel(&channel->loading, transfer, result, message_finish);
        stage_cancel(&channel->storing, transfer, result, message_finish);
}
