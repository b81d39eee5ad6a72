/* SPDX-License-Identifier: Apache-2.0 */
#include "local_internal.h"

void channel_leave_watched(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (!channel->is_watched)
                return;
        DL_DELETE2(local->watched, channel, watched_prev, watched_next);
        local->n_watched--;
        channel->is_watched = false;
}

void channel_watch(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (channel->is_watched || !mail_is_open(&channel->mail))
                return;
        if (local->n_watched >= CHANNELS_WATCHED_MAX) {
                local->crowded = true;
                return;
        }
        DL_APPEND2(local->watched, channel, watched_prev, watched_next);
        local->n_watched++;
        channel->is_watched = true;
        mail_set_watched(&channel->mail, true);
}

static bool has_mail(const struct local *local)
{
        const struct channel *channel;

        DL_FOREACH2 (local->watched, channel, watched_next)
                if (link_is_usable(&channel->link) && mail_is_there(&channel->mail))
                        return true;
        return false;
}

bool channels_unwatch(struct local *local)
{
        struct channel *channel, *next;

        DL_FOREACH2 (local->watched, channel, watched_next)
                mail_set_watched(&channel->mail, false);
        if (has_mail(local)) {
                DL_FOREACH2 (local->watched, channel, watched_next)
                        mail_set_watched(&channel->mail, true);
                return false;
        }
        DL_FOREACH_SAFE2 (local->watched, channel, next, watched_next)
                channel_leave_watched(channel);
        local->crowded = false;
        return true;
}

int channel_take(struct channel *channel, struct datagram *ret_datagram)
{
        uint8_t *bytes = channel_local(channel)->mail;
        int n = mail_is_open(&channel->mail) ? mail_take(&channel->mail, bytes) : 0;

        if (n <= 0)
                return n;
        *ret_datagram = (struct datagram){ .bytes = bytes, .size = (size_t)n };
        return 1;
}
