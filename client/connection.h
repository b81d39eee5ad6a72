/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include <curl/curl.h>
#include <stdbool.h>

/*
 * The connection of a handle. libcurl makes it (names, addresses, Unix sockets, TLS; CURLOPT_CONNECT_ONLY) and carries
 * bytes by TLS; HTTP is spoken in http_try.c. libcurl's own takes 9 us more a request, four times what the bytes take
 * (tests/bench/NOTES.md).
 */

struct ferry;

/* A multi handle, in which connections are made. NULL when memory is short. */
CURLM *connection_multi_new(void);

/* Makes the libcurl handles of a handle whose other fields are set; multi only where none is. 0; -EINVAL; -ENOMEM. */
int connection_init(struct ferry *f);

/* Begins to connect, anew; libcurl's multi handle then tells of the end. fault gets libcurl's words. 0; -ENOMEM. */
int connection_begin(struct ferry *f, char *fault);

/* What the multi handle told: the connection is open with CURLE_OK, else closed. Returns the code. */
CURLcode connection_made(struct ferry *f, CURLcode code);

/* Whether an open connection can be used again: it has not been idle for long, nothing has come, it is not closed. */
bool connection_is_idle(struct ferry *f);

/* Some bytes of an open connection, without waiting: CURLE_OK; CURLE_AGAIN; another code. Received none: its end. */
CURLcode connection_send(struct ferry *f, const void *data, size_t size, size_t *ret_n);
CURLcode connection_receive(struct ferry *f, void *data, size_t size, size_t *ret_n);

/* Idempotent. */
void connection_close(struct ferry *f);

/* The result of a connection that was not made: -errno as in ferry.h. */
int connection_errno(const struct ferry *f);

/* The end of a handle. foreign: it is its parent's, which may go on using the connection. */
void connection_free(struct ferry *f, bool foreign);

#endif
