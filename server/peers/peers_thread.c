/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/space.h"
#include "base/thread.h"
#include "base/util.h"
#include "peers_internal.h"
#include "registry_internal.h"

/* The peers' threads: they fetch documents, move transfers over HTTP, and run the registry. */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void curl_start(void)
{
        curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool is_first(const struct peers_thread *thread)
{
        return thread == &thread->peers->threads[0];
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

/* Ends a running fetch. */
static void fetch_abort(struct peers *peers, struct fetch *fetch)
{
        DL_DELETE(peers->running, fetch);
        easy_stop(&fetch->easy);
        fetch_cancel(peers, fetch);
}

/* Not while a name is resolved: libcurl would wait for the resolver. */
static void abort_unwanted(struct peers *peers)
{
        struct fetch *fetch, *next;

        DL_FOREACH_SAFE (peers->running, fetch, next)
                if ((fetch->easy.address_tried || fetch->easy.connected) && fetch->wanted &&
                    !fetch->wanted(fetch->context))
                        fetch_abort(peers, fetch);
}

/* Starts queued fetches. */
static void take_fetches(struct peers *peers)
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
                } else if (!easy_start(&peers->threads[0].multi, &fetch->easy)) {
                        fetch_finish(peers, fetch, FERRY_E_TRANSFER_FAILED, "memory is short", NULL);
                } else {
                        DL_APPEND(peers->running, fetch);
                }
        }
}

static void on_fetch_done(struct easy *easy, CURLcode result)
{
        struct fetch *fetch = FERRY_CONTAINER_OF(easy, struct fetch, easy);
        struct peers *peers = fetch->peers;
        struct ferry_metadata *metadata = NULL;
        char detail[EASY_DETAIL_SIZE];
        int error;

        DL_DELETE(peers->running, fetch);
        error = fetch_classify(fetch, result, &metadata, detail);
        fetch_finish(peers, fetch, error, detail, metadata);
}

/* ---- transfers over HTTP ---- */

static void take_transfers(struct peers_thread *thread)
{
        struct http_transfer *queued, *transfer, *next;

        pthread_mutex_lock(&thread->peers->lock);
        queued = FERRY_STEAL(thread->queued);
        pthread_mutex_unlock(&thread->peers->lock);
        DL_FOREACH_SAFE (queued, transfer, next) {
                DL_DELETE(queued, transfer);
                DL_APPEND(thread->running, transfer);
                http_transfer_start(transfer, &thread->multi);
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

static void http_transfer_forget(struct http_transfer *transfer)
{
        struct peers *peers = transfer->thread->peers;

        DL_DELETE(transfer->thread->running, transfer);
        pthread_mutex_lock(&peers->lock);
        DL_DELETE2(peers->live_transfers, transfer, live_prev, live_next);
        pthread_mutex_unlock(&peers->lock);
        (void)http_transfer_free(transfer);
}

/* Returns the time of the next retry; UINT64_MAX = none. */
static uint64_t run_transfers(struct peers_thread *thread, uint64_t now)
{
        uint64_t until = UINT64_MAX;
        struct http_transfer *transfer, *next;

        DL_FOREACH_SAFE (thread->running, transfer, next) {
                int reason = stop_reason(thread->peers, transfer);
                uint64_t due;

                if (reason)
                        http_transfer_cancel(transfer, reason);
                due = http_transfer_run(transfer, now);
                if (due < until)
                        until = due;
                if (http_transfer_is_over(transfer))
                        http_transfer_forget(transfer);
        }
        return until;
}

/* Runs due work. Returns the milliseconds until the next deadline. */
static int run_due(struct peers_thread *thread)
{
        uint64_t now = clock_now_us(), until = run_transfers(thread, now);

        if (is_first(thread) && thread->peers->registry) {
                uint64_t due = registry_run(thread->peers->registry, &thread->multi, now);

                if (due < until)
                        until = due;
        }
        return until == UINT64_MAX ? INT_MAX : clock_ms_until(until, now);
}

static void drop_transfers(struct peers_thread *thread)
{
        struct http_transfer *transfer, *next;

        take_transfers(thread);
        DL_FOREACH_SAFE (thread->running, transfer, next) {
                http_transfer_stop(transfer, FERRY_E_CANCELLED, "the worker is shutting down");
                http_transfer_forget(transfer);
        }
}

static void drop_fetches(struct peers *peers)
{
        struct fetch *fetch, *next;

        take_fetches(peers);
        DL_FOREACH_SAFE (peers->running, fetch, next)
                fetch_abort(peers, fetch);
}

static bool is_stopping(struct peers *peers)
{
        bool stopping;

        pthread_mutex_lock(&peers->lock);
        stopping = peers->stopping;
        pthread_mutex_unlock(&peers->lock);
        return stopping;
}

static void *peers_run(void *argument)
{
        struct peers_thread *thread = argument;
        struct peers *peers = thread->peers;

        while (!is_stopping(peers)) {
                if (is_first(thread))
                        take_fetches(peers);
                take_transfers(thread);
                easy_multi_run(&thread->multi);
                if (is_first(thread))
                        abort_unwanted(peers);
                /* libcurl shortens the wait to its own timers. */
                (void)curl_multi_poll(thread->multi.curl, NULL, 0, run_due(thread), NULL);
        }
        if (is_first(thread))
                drop_fetches(peers);
        drop_transfers(thread);
        if (is_first(thread) && peers->registry)
                registry_stop(peers->registry);
        return NULL;
}

/*
 * On the first request, because libcurl with its TLS library takes several milliseconds and 3 MiB, and many workers
 * never send one. Any thread.
 */
static int thread_start(struct peers_thread *thread)
{
        struct peers *peers = thread->peers;
        int r = 0;

        pthread_mutex_lock(&peers->start_lock);
        if (!thread->started) {
                (void)pthread_once(&curl_once, curl_start);
                if (curl_state != CURLE_OK) {
                        log_event(LOG_ERROR, "libcurl failed", LOG_S("reason", curl_easy_strerror(curl_state)));
                        r = -EIO;
                } else if (!thread->multi.curl && !easy_multi_init(&thread->multi)) {
                        r = -ENOMEM;
                } else {
                        r = thread_new("ferry-peers", peers_run, thread, &thread->thread);
                        thread->started = r == 0;
                }
        }
        pthread_mutex_unlock(&peers->start_lock);
        return r;
}

int peers_thread_start(struct peers *peers)
{
        return thread_start(&peers->threads[0]);
}

void peers_thread_wake(struct peers *peers)
{
        (void)curl_multi_wakeup(peers->threads[0].multi.curl);
}

void peers_threads_stop(struct peers *peers)
{
        pthread_mutex_lock(&peers->lock);
        peers->stopping = true;
        pthread_mutex_unlock(&peers->lock);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(peers->threads); i++)
                if (peers->threads[i].started)
                        (void)curl_multi_wakeup(peers->threads[i].multi.curl);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(peers->threads); i++) {
                struct peers_thread *thread = &peers->threads[i];

                if (thread->started)
                        (void)pthread_join(thread->thread, NULL);
                easy_multi_clear(&thread->multi);
        }
}

/* ---- queueing ---- */

int peers_fetch_queue(struct peers *peers, struct fetch *fetch, peers_fetched fetched, peers_wanted wanted,
                      void *context, char *detail, size_t detail_size)
{
        bool full;

        fetch->peers = peers;
        fetch->easy.done = on_fetch_done;
        fetch->fetched = fetched;
        fetch->wanted = wanted;
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
                (void)snprintf(detail, detail_size, "%zu documents are being fetched from peers, which is the limit",
                               peers->max_fetches);
                return FERRY_E_LIMIT_REACHED;
        }
        peers_thread_wake(peers);
        return 0;
}

int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                peers_wanted wanted, void *context, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = peers_thread_start(peers);
        if (!r)
                r = fetch_new(&peers->settings, document, url, &fetch, detail, detail_size);
        return r ? r : peers_fetch_queue(peers, fetch, fetched, wanted, context, detail, detail_size);
}

/* That moves the bytes of a stream. */
static struct peers_thread *thread_of(struct peers *peers, const struct stream *stream)
{
        const struct space *gpu = stream_next_space(stream, 0);

        return &peers->threads[gpu ? 1 + gpu->device % PEERS_GPUS : 0];
}

int peers_transfer_start(struct peers *peers, const struct engine_transfer *spec, char *detail, size_t detail_size)
{
        struct http_transfer *transfer;
        struct peers_thread *thread;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = peers_thread_start(peers); /* libcurl is ready then */
        if (!r)
                r = http_transfer_new(&peers->settings, spec, &transfer, detail, detail_size);
        if (r)
                return r;
        thread = thread_of(peers, &transfer->stream);
        r = thread_start(thread);
        if (r) {
                (void)http_transfer_free(transfer);
                return r;
        }
        transfer->thread = thread;
        pthread_mutex_lock(&peers->lock);
        DL_APPEND(thread->queued, transfer);
        DL_APPEND2(peers->live_transfers, transfer, live_prev, live_next);
        pthread_mutex_unlock(&peers->lock);
        (void)curl_multi_wakeup(thread->multi.curl);
        return 0;
}

void peers_transfer_cancel(struct peers *peers, uint64_t id, int reason)
{
        struct http_transfer *transfer;
        struct peers_thread *thread = NULL;

        pthread_mutex_lock(&peers->lock);
        DL_FOREACH2 (peers->live_transfers, transfer, live_next)
                if (transfer->spec.id == id && !transfer->stop_reason) {
                        transfer->stop_reason = reason;
                        thread = transfer->thread;
                }
        if (!thread && peers->count)
                thread = &peers->threads[0];
        pthread_mutex_unlock(&peers->lock);
        if (thread)
                (void)curl_multi_wakeup(thread->multi.curl);
}
