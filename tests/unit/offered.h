/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_OFFERED_H
#define TESTS_OFFERED_H

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "move/engine.h"

/* What a fake store of operations looks at when a peer claims one. */
struct offered {
        const uint8_t *key;
        enum engine_direction direction;
        uint64_t total, whole;
        bool closed, claimed;
};

/* 0, or why the claim is refused. */
static inline int offered_check(const struct offered *offered, const struct engine_claim_request *request)
{
        if (!ferry_key_equal(request->key, offered->key))
                return FERRY_E_PEER_REFUSED;
        if (request->direction != offered->direction)
                return FERRY_E_KIND_MISMATCH;
        if (request->total != offered->total || request->whole != offered->whole)
                return FERRY_E_SIZE_MISMATCH;
        if (offered->closed)
                return FERRY_E_EXPIRED;
        return offered->claimed ? FERRY_E_ALREADY_CLAIMED : 0;
}

#endif
