/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_FETCH_H
#define PEERS_FETCH_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include "peers/peers.h"

/* One GET of a peer's metadata: what is asked, what came, what that means. */

struct admission;

/* What all fetches share; never changes while there are fetches. */
struct fetch_settings {
        const struct admission *admission;
        struct curl_slist *headers;
        const char *ca_file, *cert_file, *key_file, *user_agent; /* NULL = none */
        long connect_timeout_ms, timeout_ms;
        size_t max_body;
};

enum { FETCH_DETAIL_SIZE = 256 };

/* Made by any thread, then handed over to the peers' thread. */
struct fetch {
        struct fetch *prev, *next; /* the peers' */
        const struct fetch_settings *settings;
        CURL *easy;
        CURLU *url;
        bool trusted; /* the host is a listed name: any address will do */

        char *body;
        size_t size, capacity;
        size_t header_bytes;

        /* why curl failed, which its own codes do not tell */
        bool address_refused, address_tried, connected, too_large, no_memory;

        peers_fetched fetched;
        void *context;
};

/* 0; FERRY_E_INVALID_PARAMETER or FERRY_E_FORBIDDEN with a sentence in detail; -ENOMEM. Sends nothing. */
int fetch_new(const struct fetch_settings *settings, const char *url, struct fetch **ret_fetch, char *detail,
              size_t detail_size);
struct fetch *fetch_free(struct fetch *fetch);

/* Judges what came: 0 with *ret_metadata, or FERRY_E_* and a sentence. */
int fetch_judge(const struct fetch *fetch, CURLcode result, struct ferry_metadata **ret_metadata,
                char detail[FETCH_DETAIL_SIZE]);

#endif
