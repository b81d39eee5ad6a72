/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/util.h"
#include "engine_internal.h"

/* The mover of HTTP, which is above the engine, and may go before it. */

void engine_set_http(struct engine *engine, const struct engine_http *http)
{
        (void)pthread_rwlock_wrlock(&engine->http_lock);
        engine->http = http ? *http : (struct engine_http){ 0 };
        (void)pthread_rwlock_unlock(&engine->http_lock);
}

/* Takes the lock, to read, if it is there. */
static bool lock(struct engine *engine)
{
        (void)pthread_rwlock_rdlock(&engine->http_lock);
        if (engine->http.start)
                return true;
        (void)pthread_rwlock_unlock(&engine->http_lock);
        return false;
}

static int unlock(struct engine *engine, int r)
{
        (void)pthread_rwlock_unlock(&engine->http_lock);
        return r;
}

static int say_shut_down(char *detail, size_t detail_size)
{
        (void)snprintf(detail, detail_size, "the worker is shutting down");
        return -ESHUTDOWN;
}

int engine_http_start(struct engine *engine, const struct engine_transfer *transfer, char *detail, size_t detail_size)
{
        if (!lock(engine))
                return say_shut_down(detail, detail_size);
        return unlock(engine, engine->http.start(engine->http.context, transfer, detail, detail_size));
}

void engine_http_cancel(struct engine *engine, uint64_t id, int reason)
{
        if (!lock(engine))
                return;
        engine->http.cancel(engine->http.context, id, reason);
        (void)unlock(engine, 0);
}

int engine_http_notice(struct engine *engine, const struct engine_connect *spec, char *detail, size_t detail_size)
{
        if (!lock(engine))
                return say_shut_down(detail, detail_size);
        return unlock(engine, engine->http.notice(engine->http.context, spec, detail, detail_size));
}
