/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/protocol.h>

#include <inttypes.h>
#include <stdio.h>

bool ferry_protocol_differs(uint64_t own, uint64_t peer, char *ret_detail, size_t size)
{
        char number[32] = "no numbered protocol";

        if (own == peer)
                return false;
        if (peer)
                (void)snprintf(number, sizeof(number), "protocol %" PRIu64, peer);
        (void)snprintf(ret_detail, size,
                       "the peer speaks %s, this worker protocol %" PRIu64 ": upgrade %s, which is older", number, own,
                       peer < own ? "the peer" : "this worker");
        return true;
}
