/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "wire/header.h"

/* Any bytes as the header of a message: what is accepted is within the protocol, and encodes to the same bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t again[WIRE_SIZE], version;
        struct wire_header h;
        uint64_t end;

        if (wire_decode(data, size, &h, &version) != WIRE_OK)
                return 0;
        FUZZ_CHECK(size == WIRE_SIZE);
        FUZZ_CHECK(h.type >= WIRE_READ && h.type < WIRE_TYPE_END);
        FUZZ_CHECK((h.flags & ~(uint32_t)WIRE_FLAGS_KNOWN) == 0);
        FUZZ_CHECK(h.to_epoch && h.from_epoch && h.operation && h.transfer);
        if (h.type == WIRE_READ || h.type == WIRE_WRITE) {
                FUZZ_CHECK(h.length > 0 && h.total <= h.whole);
                FUZZ_CHECK(!__builtin_add_overflow(h.offset, h.length, &end) && end <= h.total);
        }
        wire_encode(&h, again);
        FUZZ_CHECK(memcmp(again, data, WIRE_SIZE) == 0);
        return 0;
}
