/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_HTTP_ONLY_H
#define FERRY_HTTP_ONLY_H

#include <curl/curl.h>

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

#endif
