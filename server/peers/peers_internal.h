/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_PEERS_INTERNAL_H
#define PEERS_PEERS_INTERNAL_H

#include <pthread.h>

#include "fetch.h"
#include "http_transfer.h"
#include "peers/peers.h"

/* Headers that a fetch may still use after peers_set_token has replaced them. */
struct headers_kept {
        struct curl_slist *headers;
        struct headers_kept *next;
};

struct peers {
        /* fixed after peers_new */
        struct easy_settings settings;
        char *worker; /* settings.worker */
        size_t max_fetches;
        struct registry *registry; /* borrowed; NULL = none */
        struct metric_family *fetches;

        pthread_mutex_t start_lock; /* before lock; guards what follows until the thread is there */
        pthread_t thread;
        bool started;
        struct headers_kept *kept; /* all values that settings.headers has had */
        CURLM *multi;              /* the thread's, but for curl_multi_wakeup */

        struct fetch *running;                   /* the thread's */
        struct http_transfer *running_transfers; /* the thread's */

        pthread_mutex_t lock; /* a leaf; guards what follows */
        struct fetch *queued;
        size_t count; /* queued and running */
        struct http_transfer *queued_transfers;
        struct http_transfer *live_transfers; /* those that are not over */
        bool stopping;
};

/* ---- peers_thread.c ---- */

/* Starts the thread unless it runs. 0 or -errno. Any thread. */
int peers_thread_start(struct peers *peers);

/* Ends running fetches and transfers, then the thread; frees the multi handle. */
void peers_thread_stop(struct peers *peers);

/* Queues the fetch of a document by an http(s) URL. As peers_fetch_metadata. */
int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                void *context, char *detail, size_t detail_size);

#endif
