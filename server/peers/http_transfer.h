/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_HTTP_TRANSFER_H
#define PEERS_HTTP_TRANSFER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "http_lane.h"
#include "transfer/engine.h"

/*
 * The active side of a transfer over HTTP: ranges of the peer's /v1/operations/{id}/content, GET or PUT over a few
 * connections, then a DELETE, which says that all has arrived. What fails is asked for again for a second; the DELETE
 * may be repeated, too. Thread: the peers', but for http_transfer_new.
 */

/*
 * Checks the peer's URL as easy_locate does and makes a transfer, whose key and strings are copied. 0; FERRY_E_* with a
 * sentence; -ENOMEM. Sends nothing. Any thread.
 */
int http_transfer_new(const struct easy_settings *settings, const struct engine_transfer *spec,
                      struct http_transfer **ret_transfer, char *detail, size_t detail_size);

/* Starts the first range. */
void http_transfer_start(struct http_transfer *transfer, CURLM *multi);

/* Ends it with reason, at once: nothing touches the memory any more. The peer is told afterwards. */
void http_transfer_stop(struct http_transfer *transfer, int reason, const char *detail);

/* Asks again for what is due. Returns the CLOCK_MONOTONIC microseconds at which it wants to be called again; UINT64_MAX
 * = not by time. */
uint64_t http_transfer_run(struct http_transfer *transfer, uint64_t now_us);

/* Nothing runs any more and ended was called: free it. */
bool http_transfer_is_over(const struct http_transfer *transfer);

/* Takes its handles out of the multi handle. ended was called. Takes NULL; returns NULL. */
struct http_transfer *http_transfer_free(struct http_transfer *transfer);

#endif
