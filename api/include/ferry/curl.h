/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_CURL_H
#define FERRY_CURL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <string.h>

/* What the worker and libferry both ask of libcurl. */

/* Forbids a handle every protocol but HTTP and HTTPS. libcurl before 7.85 has only the option that later ones
 * deprecate. */
static inline CURLcode ferry_http_only(CURL *easy)
{
#if CURL_AT_LEAST_VERSION(7, 85, 0)
        return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
        return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

/* Adds a header of a request (copied). false: memory is short. */
static inline bool ferry_header_add(struct curl_slist **headers, const char *header)
{
        struct curl_slist *longer = curl_slist_append(*headers, header);

        if (longer)
                *headers = longer;
        return longer != NULL;
}

/* Frees headers of a request and wipes them: one of them may be a token or a key. Takes NULL. */
static inline void ferry_headers_free(struct curl_slist *headers)
{
        for (struct curl_slist *header = headers; header; header = header->next)
                explicit_bzero(header->data, strlen(header->data));
        curl_slist_free_all(headers);
}

#endif
