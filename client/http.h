/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_HTTP_H
#define CLIENT_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One request and its answer by libcurl, which keeps the connections in a multi handle: of a handle that blocks, for
 * one request at a time, or of a ferry_aio.
 */

struct ferry;
struct ferry_options;
struct request;
struct reply;

/* One try under way, between http_try_begin and http_try_end. Must not move. */
struct http_try {
        struct ferry *f; /* whose settings and multi handle it uses */
        CURL *easy;      /* that no other try uses; of http_handle_new or a copy */
        const struct request *request;
        struct reply *reply;

        struct curl_slist *headers;
        uint64_t wait_ms;  /* how long it asks the worker to wait */
        uint64_t start_ms; /* times are those of ferry_clock_ms */
        uint64_t moved_ms; /* when a byte of a body was last sent or received */
        curl_off_t moved;  /* bytes of both bodies until then */
        uint64_t source_left;
        bool source_ended;
        bool in_head;         /* the lines that come are of an answer's head, not trailers */
        size_t head_size;     /* bytes of all lines so far */
        unsigned connections; /* over which the request went; libcurl repeats it where a kept one was dead */
        int socket_error;     /* errno of the last socket that could not be made */
        int abort;            /* -errno of a callback that ended the transfer */
};

/* A multi handle that keeps so many connections. NULL when memory is short. */
CURLM *http_multi_new(long connections);

/* A handle with what all requests have in common. NULL when memory is short. */
CURL *http_handle_new(const struct ferry_options *options, const char *unix_socket);

/* Starts a try, whose f, easy, request and reply are set and all else is zero. 0; -ENOMEM: it has ended. */
int http_try_begin(struct http_try *t);

/* Ends a try with libcurl's code, or early with another one. 0 when an answer came, of any status; -errno as in
 * ferry.h, reply->fault says why. */
int http_try_end(struct http_try *t, CURLcode code);

/* How many ms a try may go on without a byte; UINT64_MAX: libcurl itself knows when it has to end. */
uint64_t http_time_left(struct http_try *t);

#endif
