/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_PROTOCOL_H
#define FERRY_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        /*
         * The one number of all that two workers say to each other: the blob of the metadata, the messages between
         * engines, the frames and pages of a local link. Raise it when any of these changes. Below 256.
         */
        FERRY_PROTOCOL = 8,
};

/*
 * Whether two workers cannot talk; then ret_detail has a sentence without a full stop for the user of the worker that
 * speaks own: both numbers, and which worker is the older one. peer 0: the peer names none, as the first builds did.
 * Pure; any thread.
 */
bool ferry_protocol_differs(uint64_t own, uint64_t peer, char *ret_detail, size_t size);

#endif
