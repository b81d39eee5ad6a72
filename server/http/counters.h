/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_COUNTERS_H
#define HTTP_COUNTERS_H

#include <stddef.h>

struct http_request;
struct http_server;

/* Registers the metrics of HTTP, for so many routes. 0 or -ENOMEM. */
int counters_init(struct http_server *server, size_t n_routes);
void counters_destroy(struct http_server *server);

/* ---- any thread: */

/* Counts an answer; request->usual has the series of its route. */
void counters_answered(const struct http_request *request, unsigned status);

/* Counts a problem (FERRY_E_*). */
void counters_problem(struct http_server *server, int error);

/* Counts a problem that answered a request which libmicrohttpd has not seen. */
void counters_refused(struct http_server *server, int error);

#endif
