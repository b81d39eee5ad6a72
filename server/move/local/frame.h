/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_FRAME_H
#define MOVE_LOCAL_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "message/header.h"

/* The head of every message between two local transports, in the host's byte order. Pure; any thread. */

enum {
        FRAME_MAGIC = 0x4c435246,    /* "FRCL" in memory order */
        FRAME_LEASES = 256,          /* lease slots of a link */
        FRAME_EXTENTS_MAX = 256,     /* of one message */
        FRAME_MEMORIES_MAX = 4096,   /* mapped over one link at a time */
        FRAME_INLINE_MAX = 64 << 10, /* bytes of a payload inside the datagram */
        FRAME_DIGEST_PIECE = 1 << 20,
        FRAME_DIGESTS_MAX = WIRE_VERIFY_MAX / FRAME_DIGEST_PIECE, /* of one message */
};

enum frame_type {
        FRAME_HELLO = 1, /* each worker's first. id: epoch. Carries the sender's link page */
        FRAME_MESSAGE,   /* a wire header; then the payload (number 0), or n extents under the lease slot, number, and
                            with WIRE_VERIFY id digests, the XXH3-64 of each FRAME_DIGEST_PIECE bytes of the payload */
        FRAME_MAP,       /* id, size: of a memory, whose descriptor it carries; before its first use */
        FRAME_RELEASE,   /* slot, number: the receiver is done with that lease, or refused it; once for each */
        FRAME_UNMAP,     /* id: of a memory that the sender takes back */
        FRAME_MAP_GPU,   /* id, size: of a memory on a GPU; a struct gpu_share follows. Used only after its FRAME_MAPPED
                          */
        FRAME_MAPPED,    /* id; n: 1 = the receiver has opened that memory, 0 = it cannot; once for each MAP_GPU */
        FRAME_UNMAPPED, /* id: answers the UNMAP of a GPU's memory, which is not open any more; once for each MAP_GPU */
        FRAME_WAKE,     /* a message is in the mailbox */
        FRAME_IDLE,     /* id: of a memory that the receiver of its MAP maps and has not used for long; UNMAP answers */
        FRAME_TYPE_END
};

struct frame {
        uint32_t magic; /* magic and protocol keep their offsets in every protocol */
        uint16_t protocol;
        uint8_t type;
        uint8_t gpu_path; /* enum gpu_path. MESSAGE: of the sender. RELEASE: of the receiver */
        /* HELLO: the sender's epoch. MESSAGE: the number of its digests (frame_digests), 0 = it has none. All others
         * that have one: the id of a memory. */
        uint64_t id;
        uint64_t size; /* MESSAGE: of the payload. MAP: of the memory */
        uint64_t number;
        uint32_t slot;
        uint32_t n;
};

/* The id of a link's bounce buffers; registered memory has smaller ids. */
#define FRAME_BOUNCE_ID UINT64_MAX

/* A run of bytes in a memory that the receiver maps. */
struct frame_extent {
        uint64_t memory, offset, size;
};

enum {
        FRAME_PAYLOAD = sizeof(struct frame) + WIRE_SIZE, /* offset of the payload or the extents */
        FRAME_DATAGRAM_MAX = FRAME_PAYLOAD + FRAME_INLINE_MAX,
};

/* A frame of a type, with other fields by name: FRAME_OF(FRAME_UNMAP, .id = id). */
#define FRAME_OF(its_type, ...)                                                                                        \
        ((struct frame){ .magic = FRAME_MAGIC, .protocol = FERRY_PROTOCOL, .type = (uint8_t)(its_type), __VA_ARGS__ })

enum frame_verdict {
        FRAME_OK,
        FRAME_INVALID,        /* not this framing, or invalid numbers */
        FRAME_OTHER_PROTOCOL, /* only *ret_frame's protocol is set */
};

/* How many digests a payload of size bytes has. */
static inline uint64_t frame_digests(uint64_t size)
{
        return (size + FRAME_DIGEST_PIECE - 1) / FRAME_DIGEST_PIECE;
}

/* Decodes the frame of a datagram of so many bytes and descriptors. Does not check the extents. */
enum frame_verdict frame_decode(const void *bytes, size_t size, size_t n_descriptors, struct frame *ret_frame);

#endif
