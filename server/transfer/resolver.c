/* SPDX-License-Identifier: Apache-2.0 */
#include "resolver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>

#include "base/address.h"
#include "base/allowlist.h"
#include "base/thread.h"
#include "base/util.h"
#include "command.h"
#include "engine_internal.h"

enum { RESOLUTIONS_MAX = 16 }; /* threads at once */

/*
 * The resolution of one name. The engine and the thread each have a reference, so that the engine can end while a name
 * server does not answer.
 */
struct resolution {
        char text[ENGINE_ADDRESS_SIZE];
        int family; /* preferred */
        pthread_mutex_t lock;
        unsigned references;
        struct engine *engine; /* NULL = the engine has ended */
        bool done;
        struct resolved resolved;
        /* Guarded by the progress lock: */
        bool collected;                 /* resolver_collect has found it done */
        struct resolution *prev, *next; /* the engine's */
};

static void unref(struct resolution *resolution)
{
        bool last;

        (void)pthread_mutex_lock(&resolution->lock);
        last = --resolution->references == 0;
        (void)pthread_mutex_unlock(&resolution->lock);
        if (!last)
                return;
        (void)pthread_mutex_destroy(&resolution->lock);
        free(resolution);
}

/* Picks one address, since UCX takes one: of the preferred family if there is one. */
static int look_up(const char *host, uint16_t port, int family, int flags, struct resolved *ret_resolved)
{
        char service[FERRY_UINT_TEXT_SIZE];
        struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags };
        struct addrinfo *list, *best;

        (void)ferry_uint_format(port, service);
        if (getaddrinfo(host, service, &hints, &list) != 0)
                return -EAGAIN;
        for (best = list; best && best->ai_family != family; best = best->ai_next)
                ;
        if (!best)
                best = list;
        memcpy(&ret_resolved->address, best->ai_addr, best->ai_addrlen);
        ret_resolved->length = best->ai_addrlen;
        freeaddrinfo(list);
        return 0;
}

/* Checks the address that a name resolved to, unless the name itself is listed. */
static void screen(const struct allowlist *allowlist, const char *host, struct resolved *resolved)
{
        if (!allowlist || !resolved->length || allowlist_names(allowlist, host) ||
            allowlist_admits_address(allowlist, (const struct sockaddr *)&resolved->address))
                return;
        resolved->refused = true;
        resolved->length = 0;
}

int resolver_parse(const struct allowlist *allowlist, const char *text, int family, struct resolved *ret_resolved)
{
        char host[ADDRESS_HOST_SIZE];
        uint16_t port;
        int r;

        *ret_resolved = (struct resolved){ 0 };
        if (strlen(text) >= ENGINE_ADDRESS_SIZE || !address_split(text, host, &port))
                return -EINVAL;
        r = look_up(host, port, family, AI_NUMERICHOST, ret_resolved);
        if (r == 0) {
                screen(allowlist, host, ret_resolved);
        } else if (allowlist && !allowlist_admits(allowlist, host)) {
                ret_resolved->refused = true;
                r = 0;
        }
        return r;
}

static void *run(void *context)
{
        struct resolution *resolution = context;
        struct resolved resolved = { 0 };
        char host[ADDRESS_HOST_SIZE];
        uint16_t port;

        if (address_split(resolution->text, host, &port))
                (void)look_up(host, port, resolution->family, 0, &resolved);
        (void)pthread_mutex_lock(&resolution->lock);
        if (resolution->engine) { /* the allowlist outlives it */
                screen(resolution->engine->allowlist, host, &resolved);
                resolution->resolved = resolved;
                resolution->done = true;
                (void)command_post_reserved(resolution->engine, &(struct command){ .type = COMMAND_RESOLVED });
        }
        (void)pthread_mutex_unlock(&resolution->lock);
        unref(resolution);
        return NULL;
}

static struct resolution *find(const struct engine *engine, const char *text)
{
        struct resolution *resolution;

        DL_FOREACH (engine->resolutions, resolution)
                if (strcmp(resolution->text, text) == 0)
                        return resolution;
        return NULL;
}

int resolver_start(struct engine *engine, const char *text, int family)
{
        struct resolution *resolution = find(engine, text);
        pthread_t thread;
        int n, r;

        if (resolution)
                return 0;
        DL_COUNT(engine->resolutions, resolution, n);
        if (n >= RESOLUTIONS_MAX)
                return -EAGAIN;
        resolution = calloc(1, sizeof(*resolution));
        if (!resolution)
                return -ENOMEM;
        strcpy(resolution->text, text); /* fits: it is a route's */
        resolution->family = family;
        (void)pthread_mutex_init(&resolution->lock, NULL);
        resolution->references = 2;
        resolution->engine = engine;
        r = thread_new("ferry-resolver", run, resolution, &thread);
        if (r < 0) {
                (void)pthread_mutex_destroy(&resolution->lock);
                free(resolution);
                return r;
        }
        (void)pthread_detach(thread);
        DL_APPEND(engine->resolutions, resolution);
        return 0;
}

bool resolver_result(const struct engine *engine, const char *text, struct resolved *ret_resolved)
{
        const struct resolution *resolution = find(engine, text);

        if (!resolution || !resolution->collected)
                return false;
        *ret_resolved = resolution->resolved;
        return true;
}

static void forget(struct engine *engine, struct resolution *resolution)
{
        DL_DELETE(engine->resolutions, resolution);
        (void)pthread_mutex_lock(&resolution->lock);
        resolution->engine = NULL;
        (void)pthread_mutex_unlock(&resolution->lock);
        unref(resolution);
}

void resolver_collect(struct engine *engine)
{
        struct resolution *resolution;

        DL_FOREACH (engine->resolutions, resolution) {
                (void)pthread_mutex_lock(&resolution->lock);
                resolution->collected = resolution->done;
                (void)pthread_mutex_unlock(&resolution->lock);
        }
}

void resolver_sweep(struct engine *engine)
{
        struct resolution *resolution, *next;

        DL_FOREACH_SAFE (engine->resolutions, resolution, next)
                if (resolution->collected)
                        forget(engine, resolution);
}

void resolver_stop(struct engine *engine)
{
        while (engine->resolutions)
                forget(engine, engine->resolutions);
}
