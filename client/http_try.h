/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_HTTP_TRY_H
#define CLIENT_HTTP_TRY_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

#include "answer.h"

struct ferry;
struct request;
struct reply;

enum { HTTP_TRY_PIECE = 512 * 1024 }; /* bytes sent or received at once */

/* What a try waits for. */
enum http_try_need {
        HTTP_TRY_NOTHING,    /* it has ended, with its code */
        HTTP_TRY_CONNECTION, /* that libcurl's multi handle tells of the end: http_try_connected */
        HTTP_TRY_SOCKET,     /* its events at the handle's socket: http_try_step */
        HTTP_TRY_ANEW,       /* nothing: the kept connection was dead, and is closed by http_try_anew */
};

/* One try under way, between http_try_begin and http_try_end. */
struct http_try {
        struct ferry *f;
        const struct request *request;
        struct reply *reply;

        enum http_try_need need;
        CURLcode code;
        short events; /* POLLIN, POLLOUT */
        bool reused;  /* the connection is of an earlier request */

        /* the request */
        struct ferry_buffer head; /* a short body stands behind it */
        const char *out;          /* what goes out now, of out_left bytes; NULL = all has gone */
        size_t out_left;
        bool body_is_next; /* it goes out by itself */
        char *piece;       /* of the source, or of a long answer */
        uint64_t source_left;
        bool source_ended;
        uint64_t consent_ms; /* until then the source waits for "100 Continue"; 0 = it does not wait */

        struct answer answer;
        bool answered; /* a byte of it came */
        bool looked;   /* for it, before the first sleep */
        int abort;     /* -errno of a callback that ended the transfer */
        uint64_t start_ms;
        uint64_t moved_ms; /* when a byte was last sent or received */
};

/*
 * Begins a try, whose f, request and reply are set and all else is zero, and goes as far as it can without waiting. 0,
 * with need; a failed one has ended: -errno.
 */
int http_try_begin(struct http_try *t);

/* libcurl has connected, or not. Goes on as far as it can without waiting: need tells for what. */
void http_try_connected(struct http_try *t, CURLcode code);

/* The socket is ready. As above. */
void http_try_step(struct http_try *t);

/* Starts again, on a new connection. As above. */
void http_try_anew(struct http_try *t);

/* Ends a try with its code, or early with another one. 0 or -errno. */
int http_try_end(struct http_try *t, CURLcode code);

/* ferry_clock_ms() at which a try times out. */
uint64_t http_try_deadline(const struct http_try *t);

/* ---- http_try_answer.c ---- */

/* Where an answer goes: the reply and the sink of a try. Context: the try. */
extern const struct answer_ops http_try_answer;

/* ---- http_try_source.c ---- */

/* The next piece of the source goes out, in a chunk of its own where its size is not known. CURLE_OK; the try's code.
 */
CURLcode http_try_source_next(struct http_try *t);

#endif
