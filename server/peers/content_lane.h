/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_CONTENT_LANE_H
#define PEERS_CONTENT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "easy.h"

struct content;

/* One connection, which moves one range after the other. */
struct content_lane {
        struct easy easy;
        struct content *content;
        void (*moved)(struct content_lane *lane); /* bytes of the range have come */
        struct curl_slist *headers;               /* of the request that runs */
        bool busy;                                /* its handle is in the multi handle */
        bool waiting;                             /* the range is to be asked for again at content->retry_us */
        bool closing;                             /* the DELETE */
        uint64_t first, position, end;
        bool has_digest;
        uint64_t digest; /* that the peer has sent */
        size_t n_text;
        char text[2048]; /* of an answer that is not the range's bytes */
};

/* Makes the handle, after easy_admit of lane->easy. false: memory is short. */
bool lane_prepare(struct content_lane *lane);

/* Asks for [first, end), from position on, or sends the DELETE when closing. false: memory is short. */
bool lane_send(struct content_lane *lane);

/* Takes the handle out of the multi handle: nothing touches the memory any more. */
void lane_stop(struct content_lane *lane);

/* The answer's status. */
long lane_status(const struct content_lane *lane);

/* A member of the answer's document; "" = it has none. Returns the number of an error code of that name, or -1. */
int lane_answer(const struct content_lane *lane, const char *member, char text[64]);

/* What a status means that is not the one of success: FERRY_E_* and a sentence. */
int lane_judge(const struct content_lane *lane, long status, char detail[EASY_DETAIL_SIZE]);

/* Frees what it holds. */
void lane_clear(struct content_lane *lane);

#endif
