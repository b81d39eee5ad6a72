/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_HTTP_TRY_H
#define CLIENT_HTTP_TRY_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

struct ferry;
struct request;
struct reply;

/* One try under way, between http_try_begin and http_try_end. */
struct http_try {
        struct ferry *f;
        const struct request *request;
        struct reply *reply;
        uint64_t source_left; /* FERRY_SIZE_UNKNOWN = until its end */
        curl_off_t moved;     /* bytes both ways */
        uint64_t moved_ms;    /* when the last of them was seen */
        int abort;            /* -errno of a callback that ended the transfer */
        int socket_error;     /* errno of the last socket that could not be made */
        uint64_t start_ms;
        char *target;
        struct curl_slist *headers;
};

/* Callbacks of libcurl; context is the handle (struct ferry) of the try. */
curl_socket_t http_try_on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address);
size_t http_try_on_header(char *line, size_t one, size_t length, void *context);
size_t http_try_on_body(char *data, size_t one, size_t size, void *context);
size_t http_try_on_source(char *data, size_t one, size_t size, void *context);
int http_try_on_progress(void *context, curl_off_t dl_total, curl_off_t dl_now, curl_off_t ul_total, curl_off_t ul_now);

#endif
