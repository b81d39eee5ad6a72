/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_FETCH_H
#define PEERS_FETCH_H

#include <stdbool.h>
#include <stddef.h>

#include "easy/easy.h"
#include "peers/peers.h"

/* One GET of a peer's document: the request, the body, and what it means. */

struct ferry_json_errors;
struct json_object;

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

/* Made by any thread, then handed over to the thread of libcurl. */
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

/* Classifies the result: 0 with *ret_metadata, or FERRY_E_* and a sentence. */
int fetch_classify(const struct fetch *fetch, CURLcode result, struct ferry_metadata **ret_metadata,
                   char detail[EASY_DETAIL_SIZE]);

#endif
