/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/metrics.h"
#include "base/util.h"
#include "peers_internal.h"

/* The fetches of documents that are queued and run, on libcurl's thread. */

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
                } else if (!easy_start(&peers->thread->multi, &fetch->easy)) {
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

uint64_t peers_run(struct easy_user *user, uint64_t now_us)
{
        struct peers *peers = FERRY_CONTAINER_OF(user, struct peers, user);

        take_fetches(peers);
        abort_unwanted(peers);
        return UINT64_MAX;
}

void peers_stop(struct easy_user *user)
{
        struct peers *peers = FERRY_CONTAINER_OF(user, struct peers, user);
        struct fetch *fetch, *next;

        pthread_mutex_lock(&peers->lock);
        peers->stopping = true;
        pthread_mutex_unlock(&peers->lock);
        take_fetches(peers);
        DL_FOREACH_SAFE (peers->running, fetch, next)
                fetch_abort(peers, fetch);
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
        easy_thread_wake(peers->thread);
        return 0;
}

int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                peers_wanted wanted, void *context, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = easy_thread_start(peers->thread);
        if (!r)
                r = fetch_new(&peers->settings, document, url, &fetch, detail, detail_size);
        return r ? r : peers_fetch_queue(peers, fetch, fetched, wanted, context, detail, detail_size);
}
