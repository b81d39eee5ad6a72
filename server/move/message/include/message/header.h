/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_HEADER_H
#define MESSAGE_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>
#include <ferry/protocol.h>

/* The header of every message between two engines, and its bytes (server/move/PROTOCOL.md). Pure; any thread. */

enum {
        WIRE_MAGIC = 0x59525246, /* "FRRY" in memory order */
        WIRE_SIZE = 120,
        WIRE_CHUNK_MAX = 64 << 20,        /* bytes of one message over the network … */
        WIRE_VERIFY_MAX = 512 << 20,      /* … and of one with checksums between workers of this host */
        WIRE_FINAL_MAX = 16 << 20,        /* of a WRITE that says FINAL: a cancel waits for its ACK */
        WIRE_INLINE_MAX = 8192 - 2 * 128, /* payloads of at most so many bytes travel inside the message */
};

enum __attribute__((packed)) wire_type {
        WIRE_READ = 1,   /* requester to responder: send [offset, offset + length) */
        WIRE_DATA,       /* responder to requester, with payload: the bytes, or status says why not */
        WIRE_WRITE,      /* requester to responder, with payload: store this at offset */
        WIRE_ACK,        /* responder to requester: stored, or status says why not */
        WIRE_DONE,       /* requester to responder: the transfer is over, with status and the bytes moved in length */
        WIRE_DONE_ACK,   /* responder to requester: DONE was applied; status 0 = the operation is complete. Unasked: it
                            has failed */
        WIRE_HELLO,      /* requester to responder, with its worker's name as payload: checks the connection */
        WIRE_HELLO_ACK,  /* responder to requester: confirms it; status: another worker was meant. Unasked: a READ is
                            held */
        WIRE_DECLINE,    /* of the holder of the metadata, who has no transfer: the operation will not be used */
        WIRE_RENEW,      /* the same: it will be used later; length = milliseconds from now, 0 = as at its creation */
        WIRE_NOTICE_ACK, /* the answer to both: status, or seq = the operation's enum ferry_status, and length =
                            milliseconds until it expires */
        WIRE_PARTS,      /* requester to responder, with ranges of the offer as payload: the transfer's stream, from its
                            byte at offset on. Before its first READ or WRITE */
        WIRE_TYPE_END
};

enum wire_flag {
        WIRE_FINAL = 1,   /* READ, WRITE: this chunk is the whole transfer. DATA, ACK: no DONE_ACK will follow */
        WIRE_VERIFY = 2,  /* READ: send a checksum. DATA, WRITE: checksum is valid */
        WIRE_QUIET = 4,   /* DONE: no DONE_ACK is wanted */
        WIRE_MORE = 8,    /* WRITE: a fragment of the chunk, and not its last; confirmed with that */
        WIRE_PARTED = 16, /* READ, WRITE: of the parts that PARTS have named */
        WIRE_WRITES = 32, /* PARTS: WRITEs will follow */
        WIRE_FLAGS_KNOWN = 63,
};

/* Also the layout on the wire, where numbers are little-endian: each lies at a multiple of its size. */
struct wire_header {
        uint32_t magic; /* this and the next are wire_encode's */
        uint8_t protocol;
        enum wire_type type;
        uint16_t flags;
        uint64_t to_epoch;   /* of the receiver; another worker answers STALE_METADATA */
        uint64_t from_epoch; /* of the sender */
        uint64_t operation;  /* the passive operation */
        uint64_t transfer;   /* drawn by the requester; names the transfer */
        uint32_t seq;        /* names the chunk; echoed */
        uint32_t status;     /* 0 or a FERRY_E_* */
        uint64_t offset;     /* in the stream of the transfer, which has total bytes */
        uint64_t length;
        uint64_t total;
        uint64_t whole;              /* bytes of the offer */
        uint64_t checksum;           /* XXH3-64 of the payload, unless that is mapped (move/local/frame.h) */
        uint8_t key[FERRY_KEY_SIZE]; /* in requests but HELLO; zero in answers */
};
_Static_assert(sizeof(struct wire_header) == WIRE_SIZE, "the header has no padding");

/* Encodes a header into WIRE_SIZE bytes, little-endian. */
void wire_encode(const struct wire_header *header, uint8_t bytes[WIRE_SIZE]);

enum wire_verdict {
        WIRE_OK,
        WIRE_INVALID,        /* not a message of this protocol */
        WIRE_OTHER_PROTOCOL, /* another FERRY_PROTOCOL; only *ret_protocol is set */
};

/*
 * Decodes the header of an untrusted message. WIRE_INVALID: wrong size, magic or type, unknown flags, ids of 0, or, in
 * READ, WRITE and PARTS, invalid numbers: see header.c.
 */
enum wire_verdict wire_decode(const void *bytes, size_t size, struct wire_header *ret_header, uint8_t *ret_protocol);

#endif
