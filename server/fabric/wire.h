/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_WIRE_H
#define FABRIC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>

/* The header of every message between two fabrics, and its bytes (PROTOCOL.md). Pure; any thread. */

enum {
        WIRE_MAGIC = 0x59525246, /* "FRRY" in memory order */
        WIRE_VERSION = 1,
        WIRE_SIZE = 112,
        WIRE_AM_ID = 17,                 /* UCX active message id; the type is in the header */
        WIRE_CHUNK_MAX = 64 << 20,       /* bytes of one READ or WRITE; a larger request is refused */
        WIRE_EAGER_MAX = 8192 - 2 * 128, /* payloads up to this travel inside the message */
};

enum wire_type {
        WIRE_READ = 1,  /* active → passive: send me [offset, offset + length) */
        WIRE_DATA,      /* passive → active: here it is, or status says why not */
        WIRE_WRITE,     /* active → passive, with payload: store this at offset */
        WIRE_ACK,       /* passive → active: stored, or status says why not */
        WIRE_DONE,      /* active → passive: the transfer is over, with status and the bytes moved in length */
        WIRE_DONE_ACK,  /* passive → active: the operation took note; status 0 = it is complete on this side */
        WIRE_RESET,     /* local side: I closed my endpoint to you by force and opened this one; close yours */
        WIRE_PING,      /* local side, to oneself: does the queue still work? */
        WIRE_HELLO,     /* active → passive: does the connection stand? */
        WIRE_HELLO_ACK, /* passive → active: it does, or status says that another worker was meant */
        /* The local side's own way for bulk, see direct.c. */
        WIRE_ATTACH,   /* active → passive: may I copy the bytes myself? Claims */
        WIRE_GRANT,    /* passive → active: a lease and where they are, or status says why not */
        WIRE_PROGRESS, /* active → passive: length bytes are copied */
        WIRE_FORGET,   /* passive → every local peer: the file named in operation is gone */
        WIRE_TYPE_END
};

enum wire_flag {
        WIRE_FINAL = 1,  /* READ, WRITE: this chunk is the whole transfer. DATA, GRANT, ACK: no DONE_ACK will follow */
        WIRE_VERIFY = 2, /* READ: send a checksum. DATA, WRITE: checksum is valid */
        WIRE_QUIET = 4,  /* DONE: no DONE_ACK is wanted */
        WIRE_STORE = 8,  /* ATTACH: the active side writes */
        WIRE_LEND = 16,  /* READ with FINAL, local side: a GRANT will do as well */
        WIRE_MORE = 32,  /* WRITE: a part of the chunk, and not its last; confirmed with that */
        WIRE_FLAGS_KNOWN = 63,
};

struct wire_header {
        enum wire_type type;
        uint32_t flags;
        uint64_t to_epoch;   /* worker that is meant; another one answers STALE_METADATA */
        uint64_t from_epoch; /* worker that sends */
        uint64_t operation;  /* the passive operation */
        uint64_t transfer;   /* drawn by the active side for one attempt */
        uint32_t seq;        /* names the chunk; echoed */
        uint32_t status;     /* 0 or a FERRY_E_* */
        uint64_t offset;     /* in the logical stream */
        uint64_t length;
        uint64_t total;              /* of the whole transfer */
        uint64_t checksum;           /* XXH3-64 of the payload */
        uint8_t key[FERRY_KEY_SIZE]; /* in READ, WRITE, DONE; zero in answers */
};

/* Header to WIRE_SIZE bytes, little-endian. */
void wire_encode(const struct wire_header *header, uint8_t bytes[WIRE_SIZE]);

/*
 * Bytes of a foreign message to a header. false when it is not one of this protocol: size, magic, version, type,
 * unknown flags, zero ids, or numbers that cannot be (length over WIRE_CHUNK_MAX in READ and WRITE, offset + length
 * over total).
 */
bool wire_decode(const void *bytes, size_t size, struct wire_header *ret_header);

#endif
