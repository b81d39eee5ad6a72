/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/util.h"
#include "engine_internal.h"

/*
 * The mover of HTTP, as the engine sees it. It lives above the engine (move/http/) and is handed down when it is ready;
 * the worker takes it away before it ends. http_lock is held for reading during each call, so that engine_set_http()
 * returns when no call is under way any more.
 */

void engine_set_http(struct engine *engine, const struct engine_http *http)
{
        (void)pthread_rwlock_wrlock(&engine->http_lock);
        engine->http = http ? *http : (struct engine_http){ 0 };
        (void)pthread_rwlock_unlock(&engine->http_lock);
}

static int unlock(struct engine *engine, int r)
{
        (void)pthread_rwlock_unlock(&engine->http_lock);
        return r;
}

/* Takes the lock, to read. 0; -ESHUTDOWN with a sentence: it is not there. */
static int lock(struct engine *engine, char *detail, size_t detail_size)
{
        (void)pthread_rwlock_rdlock(&engine->http_lock);
        if (engine->http.start)
                return 0;
        (void)snprintf(detail, detail_size, "the worker is shutting down");
        return unlock(engine, -ESHUTDOWN);
}

int engine_http_start(struct engine *engine, const struct engine_transfer *transfer, char *detail, size_t detail_size)
{
        int r = lock(engine, detail, detail_size);

        return r ? r : unlock(engine, engine->http.start(engine->http.mover, transfer, detail, detail_size));
}

void engine_http_cancel(struct engine *engine, uint64_t id, int reason)
{
        if (lock(engine, NULL, 0) < 0)
                return;
        engine->http.cancel(engine->http.mover, id, reason);
        (void)unlock(engine, 0);
}

int engine_http_notice(struct engine *engine, const struct engine_connect *spec, char *detail, size_t detail_size)
{
        int r = lock(engine, detail, detail_size);

        return r ? r : unlock(engine, engine->http.notice(engine->http.teller, spec, detail, detail_size));
}
