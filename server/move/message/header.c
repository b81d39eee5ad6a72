/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "message/header.h"
#include "message/ranges.h"

/*
 * The header of messages, as bytes. wire_decode() is the only way in: what it accepts is of this protocol, has known
 * flags, and in requests numbers that do not contradict each other. Whether they fit the operation is the responder's
 * to check.
 */

/* From this processor's byte order to that of the wire, or back. */
static void convert(struct wire_header *h)
{
        h->magic = htole32(h->magic);
        h->flags = htole16(h->flags);
        h->to_epoch = htole64(h->to_epoch);
        h->from_epoch = htole64(h->from_epoch);
        h->operation = htole64(h->operation);
        h->transfer = htole64(h->transfer);
        h->seq = htole32(h->seq);
        h->status = htole32(h->status);
        h->offset = htole64(h->offset);
        h->length = htole64(h->length);
        h->total = htole64(h->total);
        h->whole = htole64(h->whole);
        h->checksum = htole64(h->checksum);
}

void wire_encode(const struct wire_header *header, uint8_t bytes[WIRE_SIZE])
{
        struct wire_header h = *header;

        h.magic = WIRE_MAGIC;
        h.protocol = FERRY_PROTOCOL;
        convert(&h);
        memcpy(bytes, &h, sizeof(h));
}

/* Whether ids are not 0, and whether offset, length, total and whole go together for this type. */
static bool numbers_are_sane(const struct wire_header *h)
{
        uint64_t end;

        if (h->to_epoch == 0 || h->from_epoch == 0 || h->operation == 0 || h->transfer == 0)
                return false;
        if (h->type == WIRE_PARTS)
                return (h->flags & WIRE_VERIFY) && h->length > 0 && h->length % RANGE_SIZE == 0 && h->total > 0 &&
                       h->total <= h->whole;
        if (h->type != WIRE_READ && h->type != WIRE_WRITE)
                return true;
        if (h->length == 0)
                return false;
        if (h->total > h->whole)
                return false;
        return !__builtin_add_overflow(h->offset, h->length, &end) && end <= h->total;
}

enum wire_verdict wire_decode(const void *bytes, size_t size, struct wire_header *ret_header, uint8_t *ret_protocol)
{
        struct wire_header h = { 0 };

        if (size < offsetof(struct wire_header, type))
                return WIRE_INVALID;
        memcpy(&h, bytes, size < WIRE_SIZE ? size : WIRE_SIZE);
        convert(&h);
        if (h.magic != WIRE_MAGIC)
                return WIRE_INVALID;
        if (h.protocol != FERRY_PROTOCOL) {
                *ret_protocol = h.protocol;
                return WIRE_OTHER_PROTOCOL;
        }
        if (size != WIRE_SIZE || h.type < WIRE_READ || h.type >= WIRE_TYPE_END || (h.flags & ~WIRE_FLAGS_KNOWN) ||
            !numbers_are_sane(&h))
                return WIRE_INVALID;
        *ret_header = h;
        return WIRE_OK;
}
