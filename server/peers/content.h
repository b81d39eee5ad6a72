/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_CONTENT_H
#define PEERS_CONTENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "content_lane.h"
#include "transfer/engine.h"

/*
 * The active side of a transfer over HTTP: ranges of the peer's /v1/operations/{id}/content, GET or PUT over a few
 * connections, then a DELETE, which says that all has arrived. What fails is asked for again for a second; the DELETE
 * may be repeated, too. Thread: the peers', but for content_new.
 */

enum { CONTENT_LANES = 4 };

struct content {
        struct content *prev, *next;           /* the peers' thread's */
        struct content *live_prev, *live_next; /* with stop_reason, guarded by the peers' lock */
        int stop_reason;                       /* it is to end; 0 = it is not */
        struct engine_transfer transfer;
        char key_header[64 + 44], transfer_header[48];
        CURLM *multi;
        struct stream stream;
        uint64_t next_offset; /* what no lane has taken yet */
        uint64_t bytes;       /* in ranges that are done */
        uint64_t retry_us;    /* when waiting lanes try again */
        uint64_t failing_us;  /* since when nothing but failures; 0 = it goes well */
        int memory_error;     /* -errno: its memory cannot be copied; 0 = it can */
        bool claimed;         /* the peer has answered a range */
        bool contacted;       /* a request has left */
        bool ended;           /* transfer.ended was called; what still runs is the DELETE */
        bool secure;
        size_t n_lanes;
        struct content_lane lanes[CONTENT_LANES];
};

/* Bytes of a read are in place, and checked if they are to be. */
static inline void content_arrived(const struct content *content, uint64_t offset, uint64_t length)
{
        if (content->transfer.arrived)
                content->transfer.arrived(content->transfer.context, offset, length);
}

/*
 * Checks the peer's URL as easy_locate does and makes a transfer, whose key and strings are copied. 0; FERRY_E_* with a
 * sentence; -ENOMEM. Sends nothing. Any thread.
 */
int content_new(const struct easy_settings *settings, const struct engine_transfer *transfer,
                struct content **ret_content, char *detail, size_t detail_size);

/* Starts the first range. */
void content_start(struct content *content, CURLM *multi);

/* Ends it with reason, at once: nothing touches the memory any more. The peer is told afterwards. */
void content_stop(struct content *content, int reason, const char *detail);

/* Asks again for what is due. Returns the CLOCK_MONOTONIC microseconds at which it wants to be called again; UINT64_MAX
 * = not by time. */
uint64_t content_run(struct content *content, uint64_t now_us);

/* Nothing runs any more and ended was called: free it. */
bool content_is_over(const struct content *content);

/* Takes its handles out of the multi handle. ended was called. Takes NULL; returns NULL. */
struct content *content_free(struct content *content);

#endif
