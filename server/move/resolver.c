/* SPDX-License-Identifier: Apache-2.0 */
#include "resolver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>

#include "base/address.h"
#include "base/allowlist.h"
#include "base/pool.h"
#include "base/util.h"
#include "command.h"
#include "engine_internal.h"

/*
 * Host names of other workers, resolved by getaddrinfo() on threads of the pool (POOL_NAME), since a name server may
 * not answer for minutes. A resolution lives from the first question until COMMAND_RESOLVED has told all that asked;
 * the result is not kept. An address that --allow-peer does not admit is refused after the resolution, so that a name
 * cannot lead past the list.
 *
 * Thread: the holder of the progress lock, but for run() and resolver_parse(). Lock: the resolution's own: the engine
 * clears its pointer there when it ends, and a task that comes back later frees alone.
 */

enum { RESOLUTIONS_MAX = 16 }; /* at once */

/*
 * The resolution of one name. The engine and the task each have a reference, so that the engine can end while a name
 * server does not answer.
 */
struct resolution {
        struct pool_task task;
        char text[ENGINE_ADDRESS_SIZE];
        int family; /* preferred */
        atomic_uint references;
        pthread_mutex_t lock;  /* guards engine */
        struct engine *engine; /* NULL = the engine has ended */
        /* The task's, until it posts COMMAND_RESOLVED: */
        int result;
        struct resolved resolved;
        /* Guarded by the progress lock: */
        bool done;                      /* that command has come */
        struct resolution *prev, *next; /* the engine's */
};

/* Drops a reference. The last one frees, on whatever thread. */
static void unref(struct resolution *resolution)
{
        if (atomic_fetch_sub(&resolution->references, 1) > 1)
                return;
        (void)pthread_mutex_destroy(&resolution->lock);
        free(resolution);
}

/* Picks one address, since UCX takes one: of the preferred family if there is one. 0 or -ENOENT. */
static int look_up(const char *host, uint16_t port, int family, int flags, struct resolved *ret_resolved)
{
        char service[FERRY_UINT_TEXT_SIZE];
        struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags };
        struct addrinfo *list, *best;

        (void)ferry_uint_format(port, service);
        if (getaddrinfo(host, service, &hints, &list) != 0)
                return -ENOENT;
        for (best = list; best && best->ai_family != family; best = best->ai_next)
                ;
        if (!best)
                best = list;
        memcpy(&ret_resolved->address, best->ai_addr, best->ai_addrlen);
        ret_resolved->length = best->ai_addrlen;
        freeaddrinfo(list);
        return 0;
}

/* Checks the address that a name resolved to, unless the name itself is listed. 0 or -EACCES. */
static int screen(const struct allowlist *allowlist, const char *host, const struct resolved *resolved)
{
        if (!allowlist || allowlist_names(allowlist, host) ||
            allowlist_admits_address(allowlist, (const struct sockaddr *)&resolved->address))
                return 0;
        return -EACCES;
}

int resolver_parse(const struct allowlist *allowlist, const char *text, int family, struct resolved *ret_resolved)
{
        char host[ADDRESS_HOST_SIZE];
        uint16_t port;
        struct resolved resolved;
        int r;

        if (strlen(text) >= ENGINE_ADDRESS_SIZE || !address_split(text, host, &port))
                return -EINVAL;
        r = look_up(host, port, family, AI_NUMERICHOST, &resolved);
        if (r < 0)
                return allowlist && !allowlist_admits(allowlist, host) ? -EACCES : r;
        r = screen(allowlist, host, &resolved);
        if (r == 0)
                *ret_resolved = resolved;
        return r;
}

/* On a thread of the pool. The lock is held while the command is posted, so that the engine cannot end in between. */
static enum pool_verdict run(struct pool_task *task)
{
        struct resolution *resolution = FERRY_CONTAINER_OF(task, struct resolution, task);
        struct command command = { .type = COMMAND_RESOLVED, .resolution = resolution };
        char host[ADDRESS_HOST_SIZE];
        uint16_t port = 0;
        int r = address_split(resolution->text, host, &port)
                        ? look_up(host, port, resolution->family, 0, &resolution->resolved)
                        : -ENOENT;

        (void)pthread_mutex_lock(&resolution->lock);
        if (resolution->engine) { /* the allowlist outlives it */
                resolution->result = r < 0 ? r : screen(resolution->engine->allowlist, host, &resolution->resolved);
                (void)command_post(resolution->engine, &command);
        }
        (void)pthread_mutex_unlock(&resolution->lock);
        return POOL_DONE;
}

static void ran(struct pool_task *task)
{
        unref(FERRY_CONTAINER_OF(task, struct resolution, task));
}

/* Adds a task. Returns -EINPROGRESS; -EAGAIN when RESOLUTIONS_MAX are under way or the pool has no thread; -ENOMEM. */
static int start(struct engine *engine, const char *text, int family)
{
        struct resolution *resolution;
        int n;

        DL_COUNT(engine->resolutions, resolution, n);
        if (n >= RESOLUTIONS_MAX)
                return -EAGAIN;
        resolution = calloc(1, sizeof(*resolution));
        if (!resolution)
                return -ENOMEM;
        strcpy(resolution->text, text); /* fits: it was parsed */
        resolution->family = family;
        (void)pthread_mutex_init(&resolution->lock, NULL);
        atomic_init(&resolution->references, 2);
        resolution->engine = engine;
        resolution->task = (struct pool_task){ .run = run, .done = ran, .class = POOL_NAME };
        if (!pool_add(engine->tasks, &resolution->task)) {
                (void)pthread_mutex_destroy(&resolution->lock);
                free(resolution);
                return -EAGAIN;
        }
        DL_APPEND(engine->resolutions, resolution);
        return -EINPROGRESS;
}

int resolver_ask(struct engine *engine, const char *text, int family, struct resolved *ret_resolved)
{
        const struct resolution *resolution;
        int r;

        DL_FOREACH (engine->resolutions, resolution)
                if (strcmp(resolution->text, text) == 0)
                        break;
        if (!resolution) {
                r = resolver_parse(engine->allowlist, text, family, ret_resolved);
                return r == -ENOENT ? start(engine, text, family) : r;
        }
        if (!resolution->done)
                return -EINPROGRESS;
        if (resolution->result == 0)
                *ret_resolved = resolution->resolved;
        return resolution->result;
}

void resolution_begin(struct resolution *resolution)
{
        resolution->done = true;
}

void resolution_end(struct engine *engine, struct resolution *resolution)
{
        DL_DELETE(engine->resolutions, resolution);
        (void)pthread_mutex_lock(&resolution->lock);
        resolution->engine = NULL;
        (void)pthread_mutex_unlock(&resolution->lock);
        if (!resolution->done && pool_remove(&resolution->task))
                unref(resolution); /* the task's */
        unref(resolution);
}

void resolver_stop(struct engine *engine)
{
        while (engine->resolutions)
                resolution_end(engine, engine->resolutions);
}
