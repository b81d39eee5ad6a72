/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_COUNTERS_H
#define HTTP_COUNTERS_H

struct http_request;
struct http_server;

/* Registers the HTTP metrics. The server's routes are set; its end frees route_durations. */
void counters_init(struct http_server *server);

/* ---- any thread: */

/* Counts an answer, by route and status, and its time, by route. Once for each request. */
void counters_answered(const struct http_request *request, unsigned status);

/* Counts a problem (FERRY_E_*). */
void counters_problem(struct http_server *server, int error);

/* Counts a problem that the gate has answered. */
void counters_refused(struct http_server *server, int error);

#endif
