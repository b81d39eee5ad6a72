/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "content.h"
#include "fetch.h"
#include "named.h"
#include "peers/peers.h"
#include "registry_internal.h"

enum {
        DEFAULT_CONNECT_MS = 3000,
        DEFAULT_TIMEOUT_MS = 10000,
        DEFAULT_BODY = 8 << 20,
        CONNECTIONS_KEPT = 64,
};

/* Headers with a token: running fetches may still use those that were replaced. */
struct headers_kept {
        struct curl_slist *headers;
        struct headers_kept *next;
};

struct peers {
        /* fixed after peers_new */
        struct easy_settings settings;
        char *strings[5];
        size_t max_fetches;
        struct registry *registry; /* borrowed; NULL = none */
        struct metric_family *fetches;

        pthread_mutex_t start_lock; /* before lock; guards what follows until the thread is there */
        pthread_t thread;
        bool started;
        struct headers_kept *kept; /* all that settings.headers has been */
        CURLM *multi;              /* the thread's, but for curl_multi_wakeup */

        struct fetch *running;            /* the thread's */
        struct content *running_contents; /* the thread's */

        pthread_mutex_t lock; /* a leaf; guards what follows */
        struct fetch *queued;
        size_t count; /* queued and running */
        struct content *queued_contents;
        struct content *live_contents; /* all that are not over */
        bool stopping;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void curl_start(void)
{
        curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Thread: the peers'. Ends a fetch that is in neither list any more. */
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

/* Starts what was queued. false: the thread is to stop. */
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
        error = fetch_judge(fetch, result, &metadata, detail);
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

static void take_contents(struct peers *peers)
{
        struct content *queued, *content, *next;

        pthread_mutex_lock(&peers->lock);
        queued = FERRY_STEAL(peers->queued_contents);
        pthread_mutex_unlock(&peers->lock);
        DL_FOREACH_SAFE (queued, content, next) {
                DL_DELETE(queued, content);
                DL_APPEND(peers->running_contents, content);
                content_start(content, peers->multi);
        }
}

static int stop_reason(struct peers *peers, const struct content *content)
{
        int reason;

        pthread_mutex_lock(&peers->lock);
        reason = content->stop_reason;
        pthread_mutex_unlock(&peers->lock);
        return reason;
}

static void content_forget(struct peers *peers, struct content *content)
{
        DL_DELETE(peers->running_contents, content);
        pthread_mutex_lock(&peers->lock);
        DL_DELETE2(peers->live_contents, content, live_prev, live_next);
        pthread_mutex_unlock(&peers->lock);
        (void)content_free(content);
}

/* Returns when there is more to do by time; UINT64_MAX = never. */
static uint64_t run_contents(struct peers *peers, uint64_t now)
{
        uint64_t until = UINT64_MAX;
        struct content *content, *next;

        DL_FOREACH_SAFE (peers->running_contents, content, next) {
                int reason = stop_reason(peers, content);
                uint64_t due;

                if (reason)
                        content_stop(content, reason, "");
                due = content_run(content, now);
                if (due < until)
                        until = due;
                if (content_is_over(content))
                        content_forget(peers, content);
        }
        return until;
}

/* Does what is due. How many milliseconds from now there is more to do by time. */
static int run_due(struct peers *peers)
{
        uint64_t now = clock_now_us(), until = run_contents(peers, now);

        if (peers->registry) {
                uint64_t due = registry_run(peers->registry, peers->multi, now);

                if (due < until)
                        until = due;
        }
        if (until == UINT64_MAX)
                return INT_MAX;
        return until <= now ? 0 : (int)((until - now + 999) / 1000);
}

static void drop_contents(struct peers *peers)
{
        struct content *content, *next;

        take_contents(peers);
        DL_FOREACH_SAFE (peers->running_contents, content, next) {
                content_stop(content, FERRY_E_CANCELLED, "the worker is shutting down");
                content_forget(peers, content);
        }
}

static void *peers_run(void *argument)
{
        struct peers *peers = argument;
        struct fetch *fetch, *next;
        int running = 0;

        while (take_queued(peers)) {
                take_contents(peers);
                (void)curl_multi_perform(peers->multi, &running);
                finish_done(peers);
                /* curl shortens this to its own timers; with nothing to do it has none. */
                (void)curl_multi_poll(peers->multi, NULL, 0, run_due(peers), NULL);
        }
        DL_FOREACH_SAFE (peers->running, fetch, next) {
                DL_DELETE(peers->running, fetch);
                (void)curl_multi_remove_handle(peers->multi, fetch->easy.curl);
                fetch_cancel(peers, fetch);
        }
        drop_contents(peers);
        if (peers->registry)
                registry_stop(peers->registry);
        return NULL;
}

/* Signals belong to the program, SIGPIPE of a TLS connection included, not to this thread. */
static int thread_start(struct peers *peers)
{
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&peers->thread, NULL, peers_run, peers);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r)
                return -r;
        (void)pthread_setname_np(peers->thread, "ferry-peers");
        peers->started = true;
        return 0;
}

/*
 * libcurl, with its library for TLS, takes several milliseconds and 3 MiB, and many a worker never asks another one by
 * HTTP: so with the first fetch. Any thread.
 */
static int start_once(struct peers *peers)
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
                        r = thread_start(peers);
                }
        }
        pthread_mutex_unlock(&peers->start_lock);
        return r;
}

/* Thread: any. */
static int on_registry_wake(void *context)
{
        struct peers *peers = context;
        int r = start_once(peers);

        if (r == 0)
                (void)curl_multi_wakeup(peers->multi);
        return r;
}

static bool add_header(struct curl_slist **headers, const char *header)
{
        struct curl_slist *longer = curl_slist_append(*headers, header);

        if (longer)
                *headers = longer;
        return longer != NULL;
}

static bool headers_make(const char *token, struct curl_slist **headers)
{
        FERRY_CLEANUP(cleanup_free) char *authorization = NULL;

        if (!add_header(headers, "Accept: application/json"))
                return false;
        if (!token)
                return true;
        if (asprintf(&authorization, "Authorization: Bearer %s", token) < 0) {
                authorization = NULL;
                return false;
        }
        bool added = add_header(headers, authorization);
        explicit_bzero(authorization, strlen(authorization));
        return added;
}

int peers_set_token(struct peers *peers, const char *token)
{
        struct headers_kept *kept = calloc(1, sizeof(*kept));

        if (!kept)
                return -ENOMEM;
        bool made = headers_make(token, &kept->headers);
        kept->next = peers->kept;
        peers->kept = kept;
        if (!made)
                return -ENOMEM;
        peers->settings.headers = kept->headers;
        return 0;
}

static int settings_make(struct peers *peers, const struct peers_config *config)
{
        struct easy_settings *settings = &peers->settings;
        const struct {
                const char *from;
                const char **to;
        } strings[] = {
                { config->ca_file, &settings->ca_file },   { config->cert_file, &settings->cert_file },
                { config->key_file, &settings->key_file }, { config->user_agent, &settings->user_agent },
                { config->worker, &settings->worker },
        };

        _Static_assert(FERRY_ARRAY_SIZE(strings) == FERRY_ARRAY_SIZE(peers->strings), "a place for each");
        settings->allowlist = config->allowlist;
        settings->connect_timeout_ms = (long)(config->connect_timeout_ms ?: DEFAULT_CONNECT_MS);
        settings->timeout_ms = (long)(config->timeout_ms ?: DEFAULT_TIMEOUT_MS);
        settings->max_body = config->max_body ?: DEFAULT_BODY;
        peers->max_fetches = config->max_fetches ?: PEERS_FETCHES_MAX;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(strings); i++) {
                if (!strings[i].from)
                        continue;
                *strings[i].to = peers->strings[i] = strdup(strings[i].from);
                if (!peers->strings[i])
                        return -ENOMEM;
        }
        return peers_set_token(peers, config->token);
}

static void cleanup_peers(struct peers **peers)
{
        *peers = peers_free(*peers);
}

int peers_new(const struct peers_config *config, struct peers **ret_peers)
{
        static const char *const labels[] = { "result" };
        FERRY_CLEANUP(cleanup_peers) struct peers *peers = calloc(1, sizeof(*peers));
        int r;

        if (!peers)
                return -ENOMEM;
        pthread_mutex_init(&peers->lock, NULL);
        pthread_mutex_init(&peers->start_lock, NULL);
        r = settings_make(peers, config);
        if (r < 0)
                return r;
        peers->fetches = metrics_family(config->metrics, METRIC_COUNTER, "ferry_peer_fetches_total",
                                        "Documents fetched from other workers, by result.", 1, labels, NULL, 0);
        peers->registry = config->registry;
        if (peers->registry)
                registry_attach(peers->registry, on_registry_wake, peers);
        *ret_peers = FERRY_STEAL(peers);
        return 0;
}

struct peers *peers_free(struct peers *peers)
{
        if (!peers)
                return NULL;
        if (peers->started) {
                pthread_mutex_lock(&peers->lock);
                peers->stopping = true;
                pthread_mutex_unlock(&peers->lock);
                (void)curl_multi_wakeup(peers->multi);
                (void)pthread_join(peers->thread, NULL);
        }
        if (peers->multi)
                (void)curl_multi_cleanup(peers->multi);
        while (peers->kept) {
                struct headers_kept *kept = peers->kept;
                for (struct curl_slist *header = kept->headers; header; header = header->next)
                        explicit_bzero(header->data, strlen(header->data)); /* one of them is a token */
                curl_slist_free_all(kept->headers);
                peers->kept = kept->next;
                free(kept);
        }
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(peers->strings); i++)
                free(peers->strings[i]);
        pthread_mutex_destroy(&peers->start_lock);
        pthread_mutex_destroy(&peers->lock);
        free(peers);
        return NULL;
}

int peers_check_url(struct peers *peers, const char *url, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        int r;

        if (named_is(url))
                return named_check(peers->registry, url, false, detail, detail_size);
        r = start_once(peers);
        if (!r)
                r = fetch_new(&peers->settings, &fetch_metadata, url, &fetch, detail, detail_size);
        if (!r)
                fetch_free(fetch);
        return r;
}

static int fetch_start(struct peers *peers, const struct fetch_document *document, const char *url,
                       peers_fetched fetched, void *context, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        bool full;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = start_once(peers);
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

int peers_fetch_metadata(struct peers *peers, const char *url, peers_fetched fetched, void *context, char *detail,
                         size_t detail_size)
{
        if (named_is(url))
                return named_fetch(peers, peers->registry, false, url, fetched, context, detail, detail_size);
        return fetch_start(peers, &fetch_metadata, url, fetched, context, detail, detail_size);
}

int peers_fetch_worker(struct peers *peers, const char *url, peers_fetched fetched, void *context, char *detail,
                       size_t detail_size)
{
        if (named_is(url))
                return named_fetch(peers, peers->registry, true, url, fetched, context, detail, detail_size);
        return fetch_start(peers, &fetch_worker, url, fetched, context, detail, detail_size);
}

int peers_transfer_start(struct peers *peers, const struct engine_transfer *transfer, char *detail, size_t detail_size)
{
        struct content *content;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = start_once(peers);
        if (!r)
                r = content_new(&peers->settings, transfer, &content, detail, detail_size);
        if (r)
                return r;
        pthread_mutex_lock(&peers->lock);
        DL_APPEND(peers->queued_contents, content);
        DL_APPEND2(peers->live_contents, content, live_prev, live_next);
        pthread_mutex_unlock(&peers->lock);
        (void)curl_multi_wakeup(peers->multi);
        return 0;
}

void peers_transfer_cancel(struct peers *peers, uint64_t id, int reason)
{
        struct content *content;
        bool found = false;

        pthread_mutex_lock(&peers->lock);
        DL_FOREACH2(peers->live_contents, content, live_next)
        if (content->transfer.id == id && !content->stop_reason) {
                content->stop_reason = reason;
                found = true;
        }
        pthread_mutex_unlock(&peers->lock);
        if (found) /* else there may be no thread */
                (void)curl_multi_wakeup(peers->multi);
}
