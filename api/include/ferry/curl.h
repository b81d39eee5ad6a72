/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_CURL_H
#define FERRY_CURL_H

#include <curl/curl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Adds a header of a request, which may be a token or a key: only the list keeps it. false: memory is short. */
__attribute__((format(printf, 2, 3))) static inline bool ferry_header_add(struct curl_slist **headers,
                                                                          const char *format, ...)
{
        struct curl_slist *longer;
        va_list arguments;
        char *line;
        int length;

        va_start(arguments, format);
        length = vasprintf(&line, format, arguments);
        va_end(arguments);
        if (length < 0)
                return false;
        longer = curl_slist_append(*headers, line);
        explicit_bzero(line, (size_t)length);
        free(line);
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
