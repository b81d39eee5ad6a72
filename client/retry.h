/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_RETRY_H
#define CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum {
        RETRY_FIRST_MS = 50,
        RETRY_LONGEST_MS = 2000,
        RETRY_AFTER_LONGEST_MS = 10000, /* a worker that asks for more is handed to the caller */
        RETRY_GATEWAY_FIRST_MS = 100,
        RETRY_GATEWAY_MS = 60000, /* of nothing but answers of a gateway, where the caller has no deadline */
};

/* What is known after a try. */
struct retry_facts {
        int result;          /* 0 = an answer came; -errno */
        int status;          /* of the answer */
        bool allowed;        /* the request may be repeated without harm, and nothing of it was given away yet */
        bool by_status;      /* 429 and 503 count as well, and a gateway's answer */
        bool gateway;        /* a gateway has answered in the worker's place: the worker itself may be fine */
        uint64_t gateway_ms; /* time since the first of such answers */
        unsigned tries;      /* how many were made, 1 after the first */
        unsigned retries;    /* how many more than one may be made */
        bool has_retry_after;
        uint64_t retry_after_ms;
        uint32_t random; /* spreads the callers of a worker that comes back */
};

/* The pause after n answers of a gateway, from 1. Pure. */
uint64_t retry_gateway_pause(unsigned n);

/* Whether to repeat, and after how long. Pure. */
bool retry_decide(const struct retry_facts *facts, uint64_t *ret_delay_ms);

#endif
