/* SPDX-License-Identifier: Apache-2.0 */
#include "threads.h"

#include <malloc.h>

#include "base/pool.h"

enum {
        OTHERS_PART = 8,  /* of the connections, which one address cannot have */
        TRIM_LEAST = 256, /* connections, of 16 KiB each, whose memory is worth giving back */
};

void quota_enter(struct http_quota *quota)
{
        struct http_server *server = quota->server;
        size_t n = atomic_fetch_add(&server->n_connections, 1) + 1;

        quota->n++;
        if (n > atomic_load_explicit(&server->most_connections, memory_order_relaxed))
                atomic_store_explicit(&server->most_connections, n, memory_order_relaxed);
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, n);
}

/* A thread of the pool. */
static void give_memory_back(void *context)
{
        (void)context;
#ifdef __GLIBC__
        (void)malloc_trim(0);
#endif
}

/*
 * malloc keeps what was freed below anything that is still in use: without this, the memory of many connections would
 * stay with the process. Done when half of them have gone, and again when half of the rest have.
 */
static void trim(struct http_server *server, size_t n)
{
        size_t most = atomic_load_explicit(&server->most_connections, memory_order_relaxed);

        if (most < n + TRIM_LEAST || n > most / 2 ||
            !atomic_compare_exchange_strong(&server->most_connections, &most, n))
                return;
        pool_run(server->tasks, POOL_WORK, (struct pool_devices){ 0 }, give_memory_back, NULL);
}

void quota_leave(struct http_quota *quota)
{
        struct http_server *server = quota->server;
        size_t n = atomic_fetch_sub(&server->n_connections, 1) - 1;

        quota->n--;
        quota->full_us = 0;
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, n);
        trim(server, n);
}

bool quota_has_room(const struct http_quota *quota)
{
        return quota->n - quota->n_ending < quota->max;
}

size_t quota_share(size_t connections)
{
        return connections - (connections + OTHERS_PART - 1) / OTHERS_PART;
}
