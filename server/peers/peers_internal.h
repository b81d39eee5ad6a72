/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_PEERS_INTERNAL_H
#define PEERS_PEERS_INTERNAL_H

#include <pthread.h>

#include "easy/thread.h"
#include "fetch.h"
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
        struct easy_thread *thread; /* borrowed */

        struct headers_kept *kept; /* all values that settings.headers has had */

        struct easy_user user; /* the thread's, and the next one */
        struct fetch *running;

        pthread_mutex_t lock; /* a leaf; guards what follows */
        struct fetch *queued;
        size_t count; /* queued and running */
        bool stopping;
};

/* ---- fetches.c ---- */

/* For struct easy_user. */
uint64_t peers_run(struct easy_user *user, uint64_t now_us);
void peers_stop(struct easy_user *user);

/* Queues the fetch of a document by an http(s) URL. As peers_fetch_metadata. */
int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                peers_wanted wanted, void *context, char *detail, size_t detail_size);
/* The same for one that has been made, which it owns in any case. 0; FERRY_E_LIMIT_REACHED. */
int peers_fetch_queue(struct peers *peers, struct fetch *fetch, peers_fetched fetched, peers_wanted wanted,
                      void *context, char *detail, size_t detail_size);

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
