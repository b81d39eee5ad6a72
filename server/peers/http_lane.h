/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_HTTP_LANE_H
#define PEERS_HTTP_LANE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "easy.h"
#include "transfer/engine.h"

enum { HTTP_LANES = 4 };

struct http_transfer;

/* One connection, which moves one range after the other. */
struct http_lane {
        struct easy easy;
        struct http_transfer *transfer;
        void (*moved)(struct http_lane *lane); /* bytes of the range have come */
        struct curl_slist *headers;            /* of the request that runs */
        bool busy;                             /* its handle is in the multi handle */
        bool waiting;                          /* the range is to be asked for again at transfer->retry_us */
        bool closing;                          /* the DELETE */
        uint64_t first, position, end;
        bool has_digest;
        uint64_t digest; /* that the peer has sent */
        size_t n_text;
        char text[2048]; /* of an answer that is not the range's bytes */
};

/* A transfer and its connections. See http_transfer.h. */
struct http_transfer {
        struct http_transfer *prev, *next;           /* the peers' thread's */
        struct http_transfer *live_prev, *live_next; /* with stop_reason, guarded by the peers' lock */
        int stop_reason;                             /* it is to end; 0 = it is not */
        struct engine_transfer spec;                 /* as asked for */
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
        bool ended;           /* spec.ended was called; what still runs is the DELETE */
        bool secure;
        size_t n_lanes;
        struct http_lane lanes[HTTP_LANES];
};

/* Bytes of a read are in place, and checked if they are to be. */
static inline void http_transfer_arrived(const struct http_transfer *transfer, uint64_t offset, uint64_t length)
{
        if (transfer->spec.arrived)
                transfer->spec.arrived(transfer->spec.context, offset, length);
}

/* Makes the handle, after easy_admit of lane->easy. false: memory is short. */
bool lane_prepare(struct http_lane *lane);

/* Asks for [first, end), from position on, or sends the DELETE when closing. false: memory is short. */
bool lane_send(struct http_lane *lane);

/* Takes the handle out of the multi handle: nothing touches the memory any more. */
void lane_stop(struct http_lane *lane);

/* The answer's status. */
long lane_status(const struct http_lane *lane);

/* A member of the answer's document; "" = it has none. Returns the number of an error code of that name, or -1. */
int lane_answer(const struct http_lane *lane, const char *member, char text[64]);

/* What a status means that is not the one of success: FERRY_E_* and a sentence. */
int lane_judge(const struct http_lane *lane, long status, char detail[EASY_DETAIL_SIZE]);

/* Frees what it holds. */
void lane_clear(struct http_lane *lane);

#endif
