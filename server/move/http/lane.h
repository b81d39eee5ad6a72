/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_HTTP_LANE_H
#define MOVE_HTTP_LANE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "easy/easy.h"
#include "transfer.h"

enum { HTTP_LANES = 4 };

struct http_requester;
struct http_thread;

/* A connection, which moves one range after the other. */
struct http_lane {
        struct easy easy;
        struct http_requester *requester;
        void (*moved)(struct http_lane *lane); /* called when bytes of the range have moved */
        struct curl_slist *headers;            /* of the current request */
        bool busy;                             /* its handle is in the multi handle */
        bool waiting;                          /* it retries the range at requester->retry_us */
        bool closing;                          /* the request is the DELETE */
        uint64_t first, position, end;         /* of the range; the first byte is at place of the offer */
        uint64_t place;
        bool in_range;     /* the answer is of the range that was asked for */
        const char *fault; /* why the bytes of the request could not be moved; NULL = none */
        bool has_digest;
        uint64_t digest; /* of the range, from the peer */
        size_t n_text;
        char text[2048]; /* body of an answer that is not bytes of the range */
};

/* A transfer and its connections. See requester.h. */
struct http_requester {
        struct http_thread *thread;                   /* that moves it; fixed once it is queued */
        struct http_requester *prev, *next;           /* the thread's */
        struct http_requester *live_prev, *live_next; /* with stop_reason, guarded by the mover's lock */
        int stop_reason;                              /* why the transfer is to end; 0 = it is not */
        struct http_transfer base;
        struct engine_transfer spec; /* as given to http_requester_new, without peer; its key is wiped */
        char url[FERRY_METADATA_URL_SIZE];
        char key_header[64 + 44], transfer_header[48], bytes_header[64];
        struct easy_multi *multi;
        uint64_t next_offset; /* first byte that no lane has taken */
        uint64_t bytes;       /* of finished ranges */
        uint64_t retry_us;    /* when waiting lanes retry */
        uint64_t failing_us;  /* time of the first failure since bytes last moved; 0 = none */
        bool contacted;       /* a request was sent */
        bool broken;          /* a connection broke after that: the peer may have the request */
        int error;            /* once it has ended: why; 0 = it is complete */
        size_t n_lanes;
        struct http_lane lanes[HTTP_LANES];
};

/* Whether the peer has answered a range. */
static inline bool requester_is_claimed(const struct http_requester *requester)
{
        return requester->base.state != HTTP_CLAIMING;
}

/* Reports bytes of a read that are in place, and verified if asked for. */
static inline void http_requester_arrived(const struct http_requester *requester, uint64_t offset, uint64_t length)
{
        if (requester->spec.arrived)
                requester->spec.arrived(requester->spec.context, offset, length);
}

/* Makes the handle, after easy_admit of lane->easy. false: memory is short. */
bool lane_prepare(struct http_lane *lane);

/* Requests [first, end) from position on, or sends the DELETE when closing. false: memory is short. */
bool lane_send(struct http_lane *lane);

/* Aborts the request: the memory is not touched any more. */
void lane_stop(struct http_lane *lane);

/* The HTTP status of the answer. */
long lane_status(const struct http_lane *lane);

/*
 * Copies a string member of the answer's JSON; "" = there is none. Returns the number of an error code of that name, or
 * -1.
 */
int lane_answer(const struct http_lane *lane, const char *member, char text[64]);

/* Classifies a status other than success: FERRY_E_* and a sentence. */
int lane_classify(const struct http_lane *lane, long status, char detail[EASY_DETAIL_SIZE]);

/* Aborts the request and frees handle and headers. */
void lane_clear(struct http_lane *lane);

#endif
