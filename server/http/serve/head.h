/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Checks the first head of a connection before libmicrohttpd sees it. libmicrohttpd 0.9.75 gives no answer when a head
 * exhausts its memory, gives two answers to a malformed Content-Length, and reads "10\0zz" as 10; what it refuses by
 * itself gets a page of HTML without a Request-Id. Pure; any thread.
 */

enum {
        /* libmicrohttpd's memory for a connection, bytes: the head, its parsed form, the head of the answer. */
        HEAD_MEMORY = 16 << 10,
        /* Longest head, bytes. */
        HEAD_MAX = HEAD_MEMORY,
};

enum head_verdict {
        HEAD_PARTIAL, /* more must come */
        HEAD_WHOLE,   /* pass the connection to libmicrohttpd */
        HEAD_REFUSED, /* answer with the error, and close the connection */
        HEAD_FOREIGN, /* not TLS on a TLS listener: close the connection */
};

/*
 * Classifies the first n bytes: the head, and the lines of chunks that have come with it. HEAD_REFUSED sets *ret_error
 * (FERRY_E_*) and *ret_detail (a sentence). */
enum head_verdict head_classify(const char *bytes, size_t n, int *ret_error, const char **ret_detail);

/*
 * Checks the heads that only libmicrohttpd sees: later ones of a connection, and all within TLS. libmicrohttpd 0.9
 * splits a head where it lies: it ends a line's text at a NUL, whatever follows, and at an LF alone, and copies the
 * *name* of a header before a folded line, with that line, to another place. In all these cases the strings that it
 * hands out are not as far apart as those of a head without hidden parts. Their distances are all that this looks at,
 * no byte outside them. Versions from 1.0.0 on refuse such heads by themselves.
 *
 * Of chunks, 0.9 takes an LF alone for a line's end, too, and hands out nothing by which that could be seen. A request
 * with chunks is therefore the last one of its connection there: what hides in its body stays a body.
 */
struct head_parts {
        const char *at; /* the end of the last part */
        bool broken;
};

/* Whether this version of libmicrohttpd (MHD_get_version) needs the check. */
bool head_parts_needed(const char *library_version);
/* Starts with the request line. target_end: where the target ended in MHD_OPTION_URI_LOG_CALLBACK. */
void head_parts_begin(struct head_parts *parts, const char *target_end, const char *version);
/* Takes the headers in their order. */
void head_parts_add(struct head_parts *parts, const char *name, const char *value);
/* Whether the head, which ends at end, consists of these parts alone. */
bool head_parts_end(const struct head_parts *parts, const char *end);

/* Classifies the first bytes of a TLS connection: whole once they are a handshake record. Never HEAD_REFUSED. */
enum head_verdict head_classify_tls(const char *bytes, size_t n);

#endif
