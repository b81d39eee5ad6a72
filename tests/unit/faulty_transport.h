/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAULTY_TRANSPORT_H
#define TESTS_FAULTY_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "message/header.h"

/*
 * A transport for tests: it wraps another one at the seam (move/message/transport.h) and does to messages what a
 * network, a peer or a bug below may do. A program that links it and has a plan wraps every transport that its engines
 * open. At most one fault a message.
 *
 * Without a plan, FERRY_FAULTS in the environment says how many of 1,000 messages are delayed; without both, transports
 * are left alone.
 */

enum fault {
        FAULT_NONE,
        FAULT_SWALLOW,     /* it is taken as sent, and is not */
        FAULT_NO_MEMORY,   /* it is not sent, and its sender is told so */
        FAULT_DROP,        /* it arrives, and is not handed over; its payload is refused */
        FAULT_REPEAT,      /* it is handed over twice */
        FAULT_DELAY,       /* it comes later, and so do those of its transfer behind it; other transfers overtake it */
        FAULT_REORDER,     /* it comes later, also than those of its transfer behind it */
        FAULT_FLIP,        /* a byte of its payload differs */
        FAULT_FLIP_HEADER, /* a byte of its header differs; it is dropped where that makes it foreign */
        FAULT_TRUNCATE,    /* the end of its payload is missing; without a payload, it is dropped */
        FAULT_END,         /* its link fails, and it is lost */
        FAULTS,
};

struct faulty_plan {
        uint64_t seed;
        unsigned per_mille[FAULTS]; /* of the messages; together at most 1,000 */
        unsigned delay_us;          /* of a message that comes later: at most so much */
        /* Asked for each message that arrives; its answer counts before chance. On the engine's thread. NULL = none */
        enum fault (*script)(void *context, const struct wire_header *header);
        void *context;
};

/* For the transports that are opened from now on; copied. NULL: as before the first call. */
void faulty_set_plan(const struct faulty_plan *plan);
/* How many messages met a fault since the last faulty_set_plan. Any thread. */
unsigned long faulty_count(enum fault fault);

/* Whether FERRY_FAULTS delays messages. */
static inline bool messages_are_late(void)
{
        return getenv("FERRY_FAULTS") != NULL;
}

#endif
