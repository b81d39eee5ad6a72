/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"
#include "peers_internal.h"
#include "registry_internal.h"

/* The peers' thread: it fetches documents, moves transfers over HTTP, and runs the registry. */

enum { CONNECTIONS_KEPT = 64 };

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void curl_start(void)
{
        curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Ends a fetch that is in neither list any more. */
static void fetch_finish(struct peers *peers, struct fetch *fetch, int error, const char *detail,
                         struct ferry_metadata *metadata)
{
        const char *result = error ? ferry_error_code(error) : "ok";

        metric_add(metric_get(peers->fetches, &result), 1);
        pthread_mutex_lock(&peers->lock);
        peers->count--;
        pthread_mutex_unlock(&peers->lock);
        fetch->fetched(fetch->context, error, detail, metadata);
        fetch_free(fetch);
}

static void fetch_cancel(struct peers *peers, struct fetch *fetch)
{
        fetch_finish(peers, fetch, FERRY_E_CANCELLED, "the worker is shutting down", NULL);
}

/* Starts queued fetches. false: the thread is to stop. */
static bool take_queued(struct peers *peers)
{
        struct fetch *queued, *fetch, *next;
        bool stopping;

        pthread_mutex_lock(&peers->lock);
        queued = FERRY_STEAL(peers->queued);
        stopping = peers->stopping;
        pthread_mutex_unlock(&peers->lock);
        DL_FOREACH_SAFE (queued, fetch, next) {
                DL_DELETE(queued, fetch);
                if (stopping) {
                        fetch_cancel(peers, fetch);
                } else if (curl_multi_add_handle(peers->multi, fetch->easy.curl) != CURLM_OK) {
                        fetch_finish(peers, fetch, FERRY_E_TRANSFER_FAILED, "memory is short", NULL);
                } else {
                        DL_APPEND(peers->running, fetch);
                }
        }
        return !stopping;
}

static void on_fetch_done(struct easy *easy, CURLcode result)
{
        struct fetch *fetch = FERRY_CONTAINER_OF(easy, struct fetch, easy);
        struct peers *peers = fetch->peers;
        struct ferry_metadata *metadata = NULL;
        char detail[FETCH_DETAIL_SIZE];
        int error;

        DL_DELETE(peers->running, fetch);
        error = fetch_classify(fetch, result, &metadata, detail);
        fetch_finish(peers, fetch, error, detail, metadata);
}

static void finish_done(struct peers *peers)
{
        CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(peers->multi, &left))) {
                CURLcode result = message->data.result;
                char *private = NULL;
                struct easy *easy;

                if (message->msg != CURLMSG_DONE)
                        continue;
                (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
                easy = (struct easy *)(void *)private;
                (void)curl_multi_remove_handle(peers->multi, easy->curl);
                easy->done(easy, result);
        }
}

/* ---- transfers over HTTP ---- */

static void take_transfers(struct peers *peers)
{
        struct http_transfer *queued, *transfer, *next;

        pthread_mutex_lock(&peers->lock);
        queued = FERRY_STEAL(peers->queued_transfers);
        pthread_mutex_unlock(&peers->lock);
        DL_FOREACH_SAFE (queued, transfer, next) {
                DL_DELETE(queued, transfer);
                DL_APPEND(peers->running_transfers, transfer);
                http_transfer_start(transfer, peers->multi);
        }
}

static int stop_reason(struct peers *peers, const struct http_transfer *transfer)
{
        int reason;

        pthread_mutex_lock(&peers->lock);
        reason = transfer->stop_reason;
        pthread_mutex_unlock(&peers->lock);
        return reason;
}

static void http_transfer_forget(struct peers *peers, struct http_transfer *transfer)
{
        DL_DELETE(peers->running_transfers, transfer);
        pthread_mutex_lock(&peers->lock);
        DL_DELETE2(peers->live_transfers, transfer, live_prev, live_next);
        pthread_mutex_unlock(&peers->lock);
        (void)http_transfer_free(transfer);
}

/* Returns the time of the next retry; UINT64_MAX = none. */
static uint64_t run_transfers(struct peers *peers, uint64_t now)
{
        uint64_t until = UINT64_MAX;
        struct http_transfer *transfer, *next;

        DL_FOREACH_SAFE (peers->running_transfers, transfer, next) {
                int reason = stop_reason(peers, transfer);
                uint64_t due;

                if (reason)
                        http_transfer_stop(transfer, reason, "");
                due = http_transfer_run(transfer, now);
                if (due < until)
                        until = due;
                if (http_transfer_is_over(transfer))
                        http_transfer_forget(peers, transfer);
        }
        return until;
}

/* Runs due work. Returns the milliseconds until the next deadline. */
static int run_due(struct peers *peers)
{
        uint64_t now = clock_now_us(), until = run_transfers(peers, now);

        if (peers->registry) {
                uint64_t due = registry_run(peers->registry, peers->multi, now);

                if (due < until)
                        until = due;
        }
        if (until == UINT64_MAX)
                return INT_MAX;
        return until <= now ? 0 : (int)((until - now + 999) / 1000);
}

static void drop_transfers(struct peers *peers)
{
        struct http_transfer *transfer, *next;

        take_transfers(peers);
        DL_FOREACH_SAFE (peers->running_transfers, transfer, next) {
                http_transfer_stop(transfer, FERRY_E_CANCELLED, "the worker is shutting down");
                http_transfer_forget(peers, transfer);
        }
}

static void *peers_run(void *argument)
{
        struct peers *peers = argument;
        struct fetch *fetch, *next;
        int running = 0;

        while (take_queued(peers)) {
                take_transfers(peers);
                (void)curl_multi_perform(peers->multi, &running);
                finish_done(peers);
                /* libcurl shortens the wait to its own timers. */
                (void)curl_multi_poll(peers->multi, NULL, 0, run_due(peers), NULL);
        }
        DL_FOREACH_SAFE (peers->running, fetch, next) {
                DL_DELETE(peers->running, fetch);
                (void)curl_multi_remove_handle(peers->multi, fetch->easy.curl);
                fetch_cancel(peers, fetch);
        }
        drop_transfers(peers);
        if (peers->registry)
                registry_stop(peers->registry);
        return NULL;
}

/*
 * On the first request, because libcurl with its TLS library takes several milliseconds and 3 MiB, and many workers
 * never send one. Any thread.
 */
int peers_thread_start(struct peers *peers)
{
        int r = 0;

        pthread_mutex_lock(&peers->start_lock);
        if (!peers->started) {
                (void)pthread_once(&curl_once, curl_start);
                if (curl_state != CURLE_OK) {
                        log_event(LOG_ERROR, "libcurl failed", LOG_S("reason", curl_easy_strerror(curl_state)));
                        r = -EIO;
                } else if (!peers->multi && !(peers->multi = curl_multi_init())) {
                        r = -ENOMEM;
                } else {
                        (void)curl_multi_setopt(peers->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
                        r = thread_new("ferry-peers", peers_run, peers, &peers->thread);
                        peers->started = r == 0;
                }
        }
        pthread_mutex_unlock(&peers->start_lock);
        return r;
}

void peers_thread_stop(struct peers *peers)
{
        if (peers->started) {
                pthread_mutex_lock(&peers->lock);
                peers->stopping = true;
                pthread_mutex_unlock(&peers->lock);
                (void)curl_multi_wakeup(peers->multi);
                (void)pthread_join(peers->thread, NULL);
        }
        if (peers->multi)
                (void)curl_multi_cleanup(peers->multi);
}

/* ---- queueing ---- */

int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                void *context, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        bool full;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = peers_thread_start(peers);
        if (!r)
                r = fetch_new(&peers->settings, document, url, &fetch, detail, detail_size);
        if (r)
                return r;
        fetch->peers = peers;
        fetch->easy.done = on_fetch_done;
        fetch->fetched = fetched;
        fetch->context = context;
        pthread_mutex_lock(&peers->lock);
        full = peers->count >= peers->max_fetches;
        if (!full) {
                peers->count++;
                DL_APPEND(peers->queued, fetch);
        }
        pthread_mutex_unlock(&peers->lock);
        if (full) {
                fetch_free(fetch);
                (void)snprintf(detail, detail_size, "%zu documents are being fetched from peers, the most at once",
                               peers->max_fetches);
                return FERRY_E_LIMIT_REACHED;
        }
        (void)curl_multi_wakeup(peers->multi);
        return 0;
}

int peers_transfer_start(struct peers *peers, const struct engine_transfer *spec, char *detail, size_t detail_size)
{
        struct http_transfer *transfer;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = peers_thread_start(peers);
        if (!r)
                r = http_transfer_new(&peers->settings, spec, &transfer, detail, detail_size);
        if (r)
                return r;
        pthread_mutex_lock(&peers->lock);
        DL_APPEND(peers->queued_transfers, transfer);
        DL_APPEND2(peers->live_transfers, transfer, live_prev, live_next);
        pthread_mutex_unlock(&peers->lock);
        (void)curl_multi_wakeup(peers->multi);
        return 0;
}

void peers_transfer_cancel(struct peers *peers, uint64_t id, int reason)
{
        struct http_transfer *transfer;
        bool found = false;

        pthread_mutex_lock(&peers->lock);
        DL_FOREACH2(peers->live_transfers, transfer, live_next)
        if (transfer->spec.id == id && !transfer->stop_reason) {
                transfer->stop_reason = reason;
                found = true;
        }
        pthread_mutex_unlock(&peers->lock);
        if (found) /* else the thread may not exist */
                (void)curl_multi_wakeup(peers->multi);
}
