/* SPDX-License-Identifier: Apache-2.0 */
#include "quota.h"

#include "events.h"
#include "http_internal.h"

enum { OTHERS_PART = 8 /* of the connections, which one address cannot have */ };

void quota_enter(struct http_quota *quota)
{
        struct http_server *server = quota->server;

        quota->n++;
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, atomic_fetch_add(&server->n_connections, 1) + 1);
}

void quota_leave(struct http_quota *quota)
{
        struct http_server *server = quota->server;

        quota->n--;
        quota->full_us = 0;
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, atomic_fetch_sub(&server->n_connections, 1) - 1);
}

bool quota_has_room(const struct http_quota *quota)
{
        return quota->n - quota->n_ending < quota->max;
}

size_t quota_share(size_t connections)
{
        return connections - (connections + OTHERS_PART - 1) / OTHERS_PART;
}
