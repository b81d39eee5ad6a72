/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "peers/peers.h"

/*
 * Messages of a program to another worker, by its own: that it connects, declines an offer, or keeps one. The calling
 * thread waits, at most as long as the program allows; the work goes on without it and ends within the times of the
 * engine and of libcurl's thread.
 *
 * Contract: ferry/worker.h. Thread: any, but not a callback.
 */

/*
 * One call. References: the caller's, and that of the work, which is bounded in time and goes on by itself when the
 * caller no longer waits. The worker outlives the work.
 */
struct calling {
        struct ferry_worker *worker;
        struct engine_connect spec; /* its peer has the texts below */
        char data[FERRY_METADATA_ADDRESS_SIZE], name[FERRY_METADATA_NAME_SIZE], url[FERRY_METADATA_URL_SIZE];

        atomic_uint references;
        pthread_mutex_t lock; /* a leaf; guards what follows */
        pthread_cond_t over_changed;
        bool over;
        struct engine_connection answer;
};

/* Gives a reference back. The last one wipes the key and frees. */
static void calling_unref(struct calling *calling)
{
        if (atomic_fetch_sub(&calling->references, 1) != 1)
                return;
        (void)pthread_cond_destroy(&calling->over_changed);
        (void)pthread_mutex_destroy(&calling->lock);
        explicit_bzero(calling->spec.notice.key, sizeof(calling->spec.notice.key));
        free(calling);
}

/* Thread: the holder of the progress lock, or the peers'. */
static void on_over(void *context, const struct engine_connection *answer)
{
        struct calling *calling = context;

        (void)pthread_mutex_lock(&calling->lock);
        calling->answer = *answer;
        calling->over = true;
        (void)pthread_cond_signal(&calling->over_changed);
        (void)pthread_mutex_unlock(&calling->lock);
        calling_unref(calling);
}

/* Ends a call that never reached the engine. */
static void end_with(struct calling *calling, int error, const char *detail)
{
        struct engine_connection answer = { .error = error };

        (void)snprintf(answer.detail, sizeof(answer.detail), "%s", detail ?: "");
        on_over(calling, &answer);
}

/* Makes a call with both of its references. NULL when memory is short. */
static struct calling *calling_new(struct ferry_worker *worker)
{
        struct calling *calling = calloc(1, sizeof(*calling));

        if (!calling)
                return NULL;
        calling->worker = worker;
        calling->spec.context = calling;
        calling->spec.connected = on_over;
        atomic_init(&calling->references, 2);
        (void)pthread_mutex_init(&calling->lock, NULL);
        condition_init(&calling->over_changed);
        return calling;
}

/* Copies where the peer is. The URL stays where metadata has none, as that of a worker's description. */
static void set_peer(struct calling *calling, const struct ferry_metadata *metadata)
{
        memcpy(calling->data, metadata->data, sizeof(calling->data));
        memcpy(calling->name, metadata->worker, sizeof(calling->name));
        if (*metadata->http)
                memcpy(calling->url, metadata->http, sizeof(calling->url));
        calling->spec.peer = (struct engine_peer){ metadata->epoch, calling->data, calling->name, calling->url };
}

/*
 * Hands the call to the engine. The work's reference is given back by on_over(), or here on an error, which is
 * returned.
 */
static int begin(struct calling *calling)
{
        int r = engine_connect(calling->worker->engine, &calling->spec);

        if (r == -ESHUTDOWN)
                r = FERRY_E_DRAINING;
        if (r)
                end_with(calling, r, "");
        return r;
}

/*
 * Waits until the work is over or the time is, and gives the caller's reference back. Returns 0 or an error, set by
 * worker_fail.
 */
static int finish(struct calling *calling, int timeout_ms, uint64_t *ret_left_ms)
{
        const uint64_t deadline_us = timeout_ms < 0 ? UINT64_MAX : clock_now_us() + (uint64_t)timeout_ms * 1000;
        int r = 0;

        (void)pthread_mutex_lock(&calling->lock);
        while (!calling->over && condition_wait(&calling->over_changed, &calling->lock, deadline_us))
                ;
        if (!calling->over)
                r = worker_fail(-ETIMEDOUT, "The peer has not answered within %d ms", timeout_ms);
        else if (calling->answer.error)
                r = worker_fail(calling->answer.error, *calling->answer.detail ? "%s" : NULL, calling->answer.detail);
        else if (ret_left_ms)
                *ret_left_ms = calling->answer.left_ms;
        (void)pthread_mutex_unlock(&calling->lock);
        calling_unref(calling);
        return r;
}

static int decode(const char *text, struct ferry_metadata **ret_metadata)
{
        struct ferry_json_errors errors = { 0 };
        int r = text ? ferry_metadata_decode(text, strlen(text), "", ret_metadata, &errors) : FERRY_E_INVALID_PARAMETER;

        if (r <= 0)
                return r ? worker_fail(r, NULL) : 0;
        return worker_fail(r, "The peer's metadata is not valid: %s %s", errors.items[0].pointer,
                           errors.items[0].detail);
}

/* ---- connecting ---- */

/* Thread: the peers'. */
static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct calling *calling = context;

        if (error) {
                end_with(calling, error, detail);
        } else if (metadata->epoch == calling->worker->epoch) {
                end_with(calling, FERRY_E_INVALID_PARAMETER, "This is the worker itself");
        } else {
                set_peer(calling, metadata);
                (void)begin(calling);
        }
        ferry_metadata_free(metadata);
}

/*
 * Has libcurl's thread fetch the description of the worker at the URL first. Returns 0 or the error, which finish()
 * tells.
 */
static int connect_to_url(struct calling *calling, const char *url)
{
        char detail[OPERATION_DETAIL_SIZE] = "";
        int r;

        (void)snprintf(calling->url, sizeof(calling->url), "%s", url);
        r = peers_fetch_worker(calling->worker->peers, url, on_fetched, calling, detail, sizeof(detail));
        if (r)
                end_with(calling, r, detail);
        return r;
}

int ferry_worker_connect(struct ferry_worker *worker, const char *remote, int timeout_ms)
{
        struct ferry_metadata *metadata = NULL;
        struct calling *calling;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        if (!remote)
                return worker_fail(FERRY_E_INVALID_PARAMETER, "There is no peer to connect to");
        bool is_url = strncmp(remote, "http", 4) == 0 || strncmp(remote, "ferry:", 6) == 0;
        r = is_url ? 0 : decode(remote, &metadata);
        if (r)
                return r;
        if (metadata && metadata->epoch == worker->epoch) {
                ferry_metadata_free(metadata);
                return worker_fail(FERRY_E_INVALID_PARAMETER, "This is the worker itself");
        }
        calling = calling_new(worker);
        if (!calling) {
                ferry_metadata_free(metadata);
                return worker_fail(-ENOMEM, NULL);
        }
        if (metadata)
                set_peer(calling, metadata);
        ferry_metadata_free(metadata);
        if (is_url)
                (void)connect_to_url(calling, remote);
        else
                (void)begin(calling);
        return finish(calling, timeout_ms, NULL);
}

/* ---- notices ---- */

/* Says a notice to the peer whose metadata text is, and waits. Returns 0 or an error, set by worker_fail. */
static int tell(struct ferry_worker *worker, const char *text, const struct engine_notice *notice, int timeout_ms,
                uint64_t *ret_left_ms)
{
        struct ferry_metadata *metadata;
        struct calling *calling;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        r = decode(text, &metadata);
        if (r)
                return r;
        calling = calling_new(worker);
        if (!calling) {
                ferry_metadata_free(metadata);
                return worker_fail(-ENOMEM, NULL);
        }
        set_peer(calling, metadata);
        calling->spec.notice = *notice;
        calling->spec.notice.operation = metadata->operation;
        calling->spec.notice.transfer = random_id();
        memcpy(calling->spec.notice.key, metadata->key, sizeof(metadata->key));
        ferry_metadata_free(metadata);
        (void)begin(calling);
        return finish(calling, timeout_ms, ret_left_ms);
}

int ferry_worker_decline(struct ferry_worker *worker, const char *metadata, int timeout_ms)
{
        return tell(worker, metadata, &(struct engine_notice){ .renews = false }, timeout_ms, NULL);
}

int ferry_worker_renew(struct ferry_worker *worker, const char *metadata, uint64_t ttl_ms, int timeout_ms,
                       uint64_t *ret_left_ms)
{
        return tell(worker, metadata, &(struct engine_notice){ .renews = true, .ttl_ms = ttl_ms }, timeout_ms,
                    ret_left_ms);
}
