/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_TRANSFER_H
#define FABRIC_TRANSFER_H

#include "fabric_limits.h"
#include "message.h"
#include "peer.h"
#include "stream.h"

/* The active side. See fabric_internal.h for who may. */

enum chunk_state { CHUNK_FREE, CHUNK_ASKED, CHUNK_MOVING };

struct chunk {
        enum chunk_state state;
        bool owned; /* UCX may touch the memory: a posted receive, or a send that is not done */
        bool acked; /* WRITE: the peer's ACK came */
        uint32_t seq;
        uint32_t sends; /* WRITE: messages that are not done, and one while they are being made */
        uint64_t offset, length;
        uint64_t arrived;  /* READ: bytes that came in parts, from the start on */
        uint64_t checksum; /* READ with verify: what the peer says */
};

/* The active side of one operation. */
struct transfer {
        struct fabric_transfer spec;
        struct way way; /* has spec.peer_data */
        struct fabric *fabric;
        struct peer *peer; /* NULL = not connected */
        bool cold;         /* the peer had not been heard when the transfer came to it */
        struct stream stream;
        uint64_t next;        /* everything before was asked for */
        uint64_t done;        /* bytes moved and checked */
        uint64_t in_flight;   /* bytes asked for and not done */
        unsigned outstanding; /* chunks not free */
        unsigned owned;       /* chunks that UCX may touch */
        uint32_t generation;  /* of the next chunk's seq */
        bool started;
        bool finishing;    /* DONE was sent; DONE_ACK decides */
        bool committed;    /* the passive side is complete and said so */
        bool attaching;    /* ATTACH was sent, GRANT is awaited */
        bool mapped;       /* bytes were copied under a lease */
        bool unmapped;     /* the peer's memory cannot be mapped */
        struct copy *copy; /* direct.c; NULL = messages carry the bytes */
        int error;         /* 0, or why it is being ended */
        char detail[128];
        uint64_t connect_deadline_us; /* the peer must have been heard by then */
        uint64_t grace_deadline_us;   /* 0 = none */
        struct chunk chunks[FABRIC_WINDOW_MAX];
        UT_hash_handle hh; /* transfers_by_id */
        bool hungry;       /* in the peer's list */
        struct transfer *hungry_prev, *hungry_next;
        struct transfer *peer_prev, *peer_next;
};

/* ---- transfer.c: the active side ---- */

int transfer_new(struct fabric *fabric, const struct fabric_transfer *spec, struct transfer **ret_transfer);
void transfer_free(struct transfer *transfer);
/* Connects and asks for the first chunks, or ends it. */
void transfer_run(struct fabric *fabric, struct transfer *transfer);
void transfer_cancel(struct transfer *transfer, int reason, const char *detail);
/* The peer is closed: nothing more will come. */
void transfer_lost(struct transfer *transfer, int error, const char *detail);
/* The same, and UCX has forgotten it: its callbacks will not run. */
void transfer_abandon(struct transfer *transfer, int error, const char *detail);
void transfer_tick(struct transfer *transfer, uint64_t now_us);
void transfer_on_done_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header);

/* The header of a message about the transfer. */
struct wire_header transfer_header(const struct transfer *transfer, enum wire_type type);
/* The transfer that an answer belongs to; NULL when it is over, or the answer comes from somebody else. */
struct transfer *transfer_of_answer(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
/* Connected, and the first chunk is asked for: tells once. */
void transfer_note_started(struct transfer *transfer);
/* The same where the connection stands: the first chunk is asked for now. */
void transfer_note_asked(struct transfer *transfer);
/* Ends a transfer whose end is decided as soon as it is quiet, and tells the peer. It may be gone afterwards. */
void transfer_end_when_quiet(struct transfer *transfer);
/* Notes why the transfer has to end; the first reason counts. The transfer may be gone afterwards. */
void transfer_fail(struct transfer *transfer, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with the reason that the peer's answer gives. */
void transfer_refused(struct transfer *transfer, const struct wire_header *header);

/* ---- chunk.c: the active side's window ---- */

/* Asks for as much as the window allows, then for the end. The transfer may be gone afterwards. */
void chunks_pump(struct transfer *transfer);
/* Whether a READ's chunk of that name was asked for and nothing of it has come. */
bool chunk_is_asked(struct transfer *transfer, uint32_t seq);
/* Its bytes are in place, and those were all. The transfer is gone afterwards. */
void chunk_borrowed(struct transfer *transfer, uint32_t seq);
/* Asks once more, for a message with the bytes. The transfer may be gone afterwards. */
void chunk_ask_again(struct transfer *transfer, uint32_t seq);
/* The peer's transfers ask in turn, while the window that they share has room. Not inside UCX callbacks. */
void chunks_serve(struct peer *peer);
/* The transfer leaves the peer: it holds nothing of the window any more. */
void chunks_leave(struct transfer *transfer);
/* Frees the chunks that UCX does not touch: the data of a READ that was only asked for are refused when they come. */
void chunks_drop_asked(struct transfer *transfer);
/* UCS_INPROGRESS when the payload's descriptor was taken over, else UCS_OK. */
ucs_status_t transfer_on_data(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                              const struct payload *payload);
void transfer_on_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header);

/* ---- direct.c: bulk on one host ---- */

/* Whether we could copy a short READ's bytes ourselves. */
bool direct_may_borrow(const struct transfer *transfer);
/* Asks the peer to let us copy. false: that is not for this transfer. */
bool direct_attach(struct transfer *transfer);
/* As transfer_on_data. */
ucs_status_t direct_on_grant(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                             const struct payload *payload);
/* Copies one piece of one transfer. false: there is nothing to copy. */
bool direct_pump(struct fabric *fabric);
/* The transfer copies no more. */
void direct_end(struct transfer *transfer);

#endif
