/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The first bytes of a connection, judged before libmicrohttpd sees them. libmicrohttpd 0.9.75 gives no answer when a
 * head leaves it no memory, two answers to a malformed Content-Length, and reads "10\0zz" as 10. Pure; any thread.
 */

enum {
        /* Bytes for each connection in libmicrohttpd: the head, its parsed form, the head of the answer. */
        HEAD_MEMORY = 16 << 10,
        /* Bytes of a head that is read at all. */
        HEAD_MAX = HEAD_MEMORY,
};

enum head_verdict {
        HEAD_PARTIAL, /* more must come */
        HEAD_WHOLE,   /* libmicrohttpd may have it */
        HEAD_REFUSED, /* answered with an error, and the connection closed */
        HEAD_FOREIGN, /* not what the listener speaks: the connection is closed */
};

/* Judges the n bytes that have come; HEAD_REFUSED sets *ret_error (FERRY_E_*) and *ret_detail (a sentence). */
enum head_verdict head_classify(const char *bytes, size_t n, int *ret_error, const char **ret_detail);

/*
 * The same of the heads that only libmicrohttpd sees: later ones of a connection, and all within TLS. Version 0.9 cuts
 * a head up in its buffer. It ends a line's text at a NUL, whatever follows, and adds a folded line to the *name* of
 * the header before. In both cases the parts that it hands out do not lie one right behind the other. Versions from 1.0
 * on refuse such heads by themselves.
 */
struct head_parts {
        const char *at; /* the end of the last part */
        bool broken;
};

/* Whether the version of libmicrohttpd (MHD_get_version) needs that. */
bool head_parts_needed(const char *library_version);
/* target: as MHD_OPTION_URI_LOG_CALLBACK has it. Whether the protocol's version follows. */
bool head_target_whole(const char *target);
/* version: what the request line ends with. */
void head_parts_begin(struct head_parts *parts, const char *version);
/* The headers in their order. */
void head_parts_add(struct head_parts *parts, const char *name, const char *value);
/* end: behind the head. Whether the head was nothing but these parts. */
bool head_parts_end(const struct head_parts *parts, const char *end);

/* The first bytes of a connection with TLS, which must be a whole handshake record. Never HEAD_REFUSED. */
enum head_verdict head_classify_tls(const char *bytes, size_t n);

#endif
