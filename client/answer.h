/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_ANSWER_H
#define CLIENT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/buffer.h>

/* An HTTP/1.x answer as it comes in, in pieces of any size (RFC 9112). */

/* What is told of it. The texts are not NUL-terminated. */
struct answer_ops {
        /* A status line; what came before it belongs to an interim answer, and does not count. */
        void (*status)(void *context, int status);
        void (*header)(void *context, const char *name, size_t name_size, const char *value, size_t value_size);
        int (*body)(void *context, const char *data, size_t size); /* 0; -errno ends the answer */
};

enum answer_state {
        ANSWER_STATUS, /* its line is next */
        ANSWER_HEADERS,
        ANSWER_BODY,     /* left bytes of it */
        ANSWER_REST,     /* the body ends with the connection */
        ANSWER_SIZE,     /* the line with a chunk's size is next */
        ANSWER_CHUNK,    /* left bytes of it */
        ANSWER_BOUNDARY, /* the line end behind a chunk is next */
        ANSWER_TRAILERS,
        ANSWER_WHOLE,
};

/* Zero-initialise, but for what the caller sets. */
struct answer {
        const struct answer_ops *ops; /* the caller's */
        void *context;                /* the caller's */
        bool to_head;                 /* the caller's: the request was a HEAD, so no body follows */

        enum answer_state state;
        int status;
        bool keeps;  /* the connection can be used again once the answer is whole */
        bool closes; /* a header says so, which outweighs keep-alive */
        bool chunked, has_length;
        uint64_t left;
        size_t head_size;          /* bytes of lines so far */
        struct ferry_buffer begun; /* the first part of a line */
};

/*
 * Takes what came. *ret_used of the bytes belong to the answer; fewer than size only when it is whole. 0; -EPROTO: it
 * is not HTTP/1.x; -ENOMEM; what the body's function returned.
 */
int answer_take(struct answer *a, const char *data, size_t size, size_t *ret_used);

/* The connection has ended. 0: the answer is whole; -ECONNRESET. */
int answer_end(struct answer *a);

void answer_clear(struct answer *a);

#endif
