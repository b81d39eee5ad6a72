/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "registry_internal.h"

/*
 * This worker's own name, for other threads: they join, leave, wait, and look at the status. registry_member.c does
 * what they ask for.
 */

enum {
        JOIN_MS = 5000,           /* an unreachable registry delays a worker's start no longer than this */
        CONTESTED_MS = 15 * 1000, /* nor does a name with a longer lease than this */
};

void registry_set_status(struct registry *registry, enum registry_status status)
{
        pthread_mutex_lock(&registry->lock);
        registry->status = status;
        pthread_cond_broadcast(&registry->changed);
        pthread_mutex_unlock(&registry->lock);
}

const char *registry_status_name(enum registry_status status)
{
        static const char *const names[] = {
                [REGISTRY_REGISTERING] = "registering",
                [REGISTRY_REGISTERED] = "registered",
                [REGISTRY_NAME_TAKEN] = "name-taken",
                [REGISTRY_UNREACHABLE] = "unreachable",
                [REGISTRY_LEFT] = "left",
        };

        return names[status];
}

static struct timespec deadline(unsigned ms)
{
        const uint64_t us = clock_now_us() + (uint64_t)ms * 1000;

        return (struct timespec){ .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 };
}

static void say_taken(const struct registry *registry, char *message, size_t message_size)
{
        const struct registry_entry *rival = &registry->rival;

        (void)snprintf(message, message_size,
                       "the name %s is taken in the registry, by a worker that lives%s%s; give this one another by "
                       "--name",
                       registry->self.name, *rival->http ? " at " : "", rival->http);
}

int registry_join(struct registry *registry, const struct registry_entry *self, char *message, size_t message_size)
{
        const struct timespec answered = deadline(JOIN_MS), decided = deadline(CONTESTED_MS);
        int r = 0;

        pthread_mutex_lock(&registry->lock);
        registry->self = *self;
        registry->joined = registry->joining = true;
        pthread_mutex_unlock(&registry->lock);
        r = registry->wake(registry->wake_context);
        if (r < 0)
                return r;
        pthread_mutex_lock(&registry->lock);
        while (registry->status == REGISTRY_REGISTERING && !registry->stopped)
                if (pthread_cond_timedwait(&registry->changed, &registry->lock,
                                           registry->contested ? &decided : &answered) == ETIMEDOUT)
                        break;
        registry->joining = false;
        if (registry->status == REGISTRY_NAME_TAKEN) {
                say_taken(registry, message, message_size);
                r = -EADDRINUSE;
        }
        pthread_mutex_unlock(&registry->lock);
        return r;
}

void registry_leave(struct registry *registry)
{
        bool joined;

        pthread_mutex_lock(&registry->lock);
        joined = registry->joined;
        registry->leaving = true;
        pthread_mutex_unlock(&registry->lock);
        if (joined)
                (void)registry->wake(registry->wake_context);
}

void registry_await_left(struct registry *registry, unsigned timeout_ms)
{
        const struct timespec until = deadline(timeout_ms);

        pthread_mutex_lock(&registry->lock);
        while (registry->joined && registry->status != REGISTRY_LEFT && !registry->stopped)
                if (pthread_cond_timedwait(&registry->changed, &registry->lock, &until) == ETIMEDOUT)
                        break;
        pthread_mutex_unlock(&registry->lock);
}

void registry_get_view(struct registry *registry, struct registry_view *ret_view)
{
        pthread_mutex_lock(&registry->lock);
        ret_view->status = registry->status;
        etcd_key(registry->prefix, registry->self.name, ret_view->key);
        pthread_mutex_unlock(&registry->lock);
        ret_view->ttl_ms = registry->ttl_ms;
}
