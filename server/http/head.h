/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

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
enum head_verdict head_judge(const char *bytes, size_t n, int *ret_error, const char **ret_detail);

/* The same of TLS, whose first record must be a whole handshake record. Never HEAD_REFUSED. */
enum head_verdict head_judge_tls(const char *bytes, size_t n);

#endif
