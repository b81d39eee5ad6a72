/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_HTTP_REQUESTER_H
#define MOVE_HTTP_REQUESTER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "lane.h"
#include "transfer/engine.h"

/*
 * The active side of a transfer over HTTP: ranges of the peer's /v1/operations/{id}/content, by GET or PUT over a few
 * connections, then a DELETE, which reports that all has arrived. A failed request is retried for a second, the DELETE
 * too. Thread: the one that moves it, but for http_requester_new.
 */

/*
 * Checks the peer's URL as easy_locate does and makes a transfer, which borrows config; key and strings are copied.
 * Sends nothing. 0; FERRY_E_* with a sentence; -ENOMEM. Any thread.
 */
int http_requester_new(const struct http_mover_config *config, const struct engine_transfer *spec,
                       struct http_requester **ret_requester, char *detail, size_t detail_size);

/* Starts the first range. */
void http_requester_start(struct http_requester *requester, struct easy_multi *multi);

/* Ends it with reason, at once: the memory is not touched any more. The peer is told afterwards. */
void http_requester_stop(struct http_requester *requester, int reason, const char *detail);

/*
 * The same, unless the DELETE after the last range is under way: the peer's answer decides then. May be repeated.
 */
void http_requester_cancel(struct http_requester *requester, int reason);

/* Retries due requests. Returns when to be called again, in microseconds of CLOCK_MONOTONIC; UINT64_MAX = no need. */
uint64_t http_requester_run(struct http_requester *requester, uint64_t now_us);

/* No request runs and ended was called: it can be freed. */
bool http_requester_is_over(const struct http_requester *requester);

/* Aborts running requests. After ended was called. Takes NULL; returns NULL. */
struct http_requester *http_requester_free(struct http_requester *requester);

#endif
