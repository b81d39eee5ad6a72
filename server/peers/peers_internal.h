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

/* A thread that runs libcurl's multi interface. */
struct peers_thread {
        struct peers *peers;
        pthread_t thread; /* the start lock guards it, and the next two until the thread is there */
        bool started;
        struct easy_multi multi;       /* the thread's, but for curl_multi_wakeup */
        struct http_transfer *running; /* the thread's */
        struct http_transfer *queued;  /* the lock guards it */
};

enum { PEERS_GPUS = 16 };

struct peers {
        /* fixed after peers_new */
        struct easy_settings settings;
        char *worker; /* settings.worker */
        size_t max_fetches;
        struct registry *registry; /* borrowed; NULL = none */
        struct metric_family *fetches;

        struct headers_kept *kept; /* all values that settings.headers has had */

        pthread_mutex_t start_lock; /* before lock */
        /*
         * The first fetches documents, runs the registry, and moves transfers of host memory. Each other one moves
         * those of a GPU, and waits for it: one that stands still holds up nothing else.
         */
        struct peers_thread threads[1 + PEERS_GPUS];
        struct fetch *running; /* the first thread's */

        pthread_mutex_t lock; /* a leaf; guards what follows */
        struct fetch *queued;
        size_t count;                         /* queued and running */
        struct http_transfer *live_transfers; /* those that are not over */
        bool stopping;
};

/* ---- peers_thread.c ---- */

/* Starts the first thread unless it runs. 0 or -errno. Any thread. */
int peers_thread_start(struct peers *peers);
/* Has the first thread, which has been started, look at its work. Any thread. */
void peers_thread_wake(struct peers *peers);

/* Ends running fetches and transfers, then the threads. */
void peers_threads_stop(struct peers *peers);

/* Queues the fetch of a document by an http(s) URL. As peers_fetch_metadata. */
int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                peers_wanted wanted, void *context, char *detail, size_t detail_size);

/* ---- name_url.c ---- */

/*
 * URLs that name a worker by its name in the registry: ferry://NAME for the worker itself, ferry://NAME/op_ID and
 * ferry://NAME/v1/operations/op_ID/metadata for an operation. Any thread.
 */

bool name_url_is(const char *url);

/* Checks a URL without asking the registry. worker: it must name the worker itself. As peers_check_url. */
int name_url_check(const struct registry *registry, const char *url, bool worker, char *detail, size_t detail_size);

/*
 * Resolves the URL by the registry (NULL = there is none), then fetches the metadata or, with worker, the description,
 * as peers_fetch_metadata and peers_fetch_worker. Of a worker, http of the metadata is set.
 */
int name_url_fetch(struct peers *peers, struct registry *registry, bool worker, const char *url, peers_fetched fetched,
                   peers_wanted wanted, void *context, char *detail, size_t detail_size);

#endif
