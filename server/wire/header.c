/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "wire/header.h"

/* The layout on the wire. Every field lies at a multiple of its size, so there is no padding. */
struct wire_layout {
        uint32_t magic;
        uint8_t protocol;
        uint8_t type;
        uint16_t flags;
        uint64_t to_epoch, from_epoch;
        uint64_t operation, transfer;
        uint32_t seq, status;
        uint64_t offset, length, total;
        uint64_t whole;
        uint64_t checksum;
        uint8_t key[FERRY_KEY_SIZE];
};
_Static_assert(sizeof(struct wire_layout) == WIRE_SIZE, "the header has no padding");

void wire_encode(const struct wire_header *header, uint8_t bytes[WIRE_SIZE])
{
        struct wire_layout w = {
                .magic = htole32(WIRE_MAGIC),
                .protocol = FERRY_PROTOCOL,
                .type = (uint8_t)header->type,
                .flags = htole16((uint16_t)header->flags),
                .to_epoch = htole64(header->to_epoch),
                .from_epoch = htole64(header->from_epoch),
                .operation = htole64(header->operation),
                .transfer = htole64(header->transfer),
                .seq = htole32(header->seq),
                .status = htole32(header->status),
                .offset = htole64(header->offset),
                .length = htole64(header->length),
                .total = htole64(header->total),
                .whole = htole64(header->whole),
                .checksum = htole64(header->checksum),
        };
        memcpy(w.key, header->key, sizeof(w.key));
        memcpy(bytes, &w, sizeof(w));
}

static bool numbers_are_sane(const struct wire_header *h)
{
        uint64_t end;

        if (h->to_epoch == 0 || h->from_epoch == 0 || h->operation == 0 || h->transfer == 0)
                return false;
        if (h->type == WIRE_PARTS)
                return (h->flags & WIRE_VERIFY) && h->length > 0 && h->total > 0 && h->total <= h->whole;
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
        struct wire_layout w;

        if (size < offsetof(struct wire_layout, type))
                return WIRE_INVALID;
        memcpy(&w, bytes, offsetof(struct wire_layout, type));
        if (le32toh(w.magic) != WIRE_MAGIC)
                return WIRE_INVALID;
        if (w.protocol != FERRY_PROTOCOL) {
                *ret_protocol = w.protocol;
                return WIRE_OTHER_PROTOCOL;
        }
        if (size != WIRE_SIZE)
                return WIRE_INVALID;
        memcpy(&w, bytes, sizeof(w));
        if (w.type < WIRE_READ || w.type >= WIRE_TYPE_END || (le16toh(w.flags) & ~WIRE_FLAGS_KNOWN))
                return WIRE_INVALID;

        struct wire_header h = {
                .type = (enum wire_type)w.type,
                .flags = le16toh(w.flags),
                .to_epoch = le64toh(w.to_epoch),
                .from_epoch = le64toh(w.from_epoch),
                .operation = le64toh(w.operation),
                .transfer = le64toh(w.transfer),
                .seq = le32toh(w.seq),
                .status = le32toh(w.status),
                .offset = le64toh(w.offset),
                .length = le64toh(w.length),
                .total = le64toh(w.total),
                .whole = le64toh(w.whole),
                .checksum = le64toh(w.checksum),
        };
        memcpy(h.key, w.key, sizeof(h.key));
        if (!numbers_are_sane(&h))
                return WIRE_INVALID;
        *ret_header = h;
        return WIRE_OK;
}
