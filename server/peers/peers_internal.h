/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_PEERS_INTERNAL_H
#define PEERS_PEERS_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "easy/easy.h"
#include "easy/thread.h"
#include "peers/peers.h"

struct ferry_json_errors;

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

/* ---- fetch.c ---- */

/* One GET of a peer's document: the request, the body, and what it means. */

/* A kind of document. */
struct fetch_document {
        const char *name; /* in sentences */
        /* Turns the given URL, whose path is path, into the one to fetch. 0; -ENOMEM; FERRY_E_* with why. */
        int (*locate)(CURLU *url, const char *path, const char **ret_why);
        /* Classifies a status other than 200: FERRY_E_* and a sentence. */
        int (*classify_status)(long status, char detail[EASY_DETAIL_SIZE]);
        /* Reads a body, which may be any bytes: 0 with *ret_metadata; FERRY_E_* with complaints; -ENOMEM. */
        int (*classify_body)(const char *text, size_t size, struct ferry_metadata **ret_metadata,
                             struct ferry_json_errors *errors);
};
extern const struct fetch_document fetch_metadata, fetch_worker;

/* Made by any thread, then handed over to libcurl's thread. */
struct fetch {
        struct fetch *prev, *next; /* the peers' */
        struct peers *peers;
        struct easy easy;
        const struct fetch_document *document;
        struct curl_slist *headers; /* its own, owned; NULL = those of documents */

        peers_fetched fetched;
        peers_wanted wanted;
        void *context;
};

/*
 * Makes a fetch and sends nothing. 0; FERRY_E_INVALID_PARAMETER or FERRY_E_FORBIDDEN with a sentence in detail;
 * -ENOMEM.
 */
int fetch_new(const struct easy_settings *settings, const struct fetch_document *document, const char *url,
              struct fetch **ret_fetch, char *detail, size_t detail_size);
struct fetch *fetch_free(struct fetch *fetch);

/* ---- those that are queued and run ---- */

/* The functions of struct easy_user. */
uint64_t peers_run(struct easy_user *user, uint64_t now_us);
void peers_stop(struct easy_user *user);

/*
 * Queues the fetch of a document by an http(s) URL. Returns 0: fetched will be called once; FERRY_E_INVALID_PARAMETER,
 * FERRY_E_FORBIDDEN or FERRY_E_LIMIT_REACHED, with a sentence in detail; -ENOMEM; another -errno: the thread does not
 * start.
 */
int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                peers_wanted wanted, void *context, char *detail, size_t detail_size);
/* Queues a fetch that has been made, and owns it in any case. Returns 0; FERRY_E_LIMIT_REACHED with a sentence. */
int peers_fetch_queue(struct peers *peers, struct fetch *fetch, peers_fetched fetched, peers_wanted wanted,
                      void *context, char *detail, size_t detail_size);

/* ---- name_url.c ---- */

/*
 * URLs that name a worker by its name in the registry: ferry://NAME for the worker itself, ferry://NAME/op_ID and
 * ferry://NAME/v1/operations/op_ID/metadata for an operation. Any thread.
 */

/* Whether the URL begins with ferry://. */
bool name_url_is(const char *url);

/*
 * Checks a URL without asking the registry. worker: it must name the worker itself. Returns 0, or
 * FERRY_E_INVALID_PARAMETER with a sentence in detail.
 */
int name_url_check(const struct registry *registry, const char *url, bool worker, char *detail, size_t detail_size);

/*
 * Resolves the URL by the registry (NULL = there is none), then fetches the metadata or, with worker, the description,
 * as peers_fetch_metadata and peers_fetch_worker. Of a worker, http of the metadata is set.
 */
int name_url_fetch(struct peers *peers, struct registry *registry, bool worker, const char *url, peers_fetched fetched,
                   peers_wanted wanted, void *context, char *detail, size_t detail_size);

#endif
