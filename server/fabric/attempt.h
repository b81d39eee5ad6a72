/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_ATTEMPT_H
#define FABRIC_ATTEMPT_H

#include "lease.h"
#include "message.h"
#include "peer.h"
#include "stream.h"

struct fabric_memory;

/* The passive side. See fabric_internal.h for who may. */

/* The passive side of one transfer: a claim of an operation. */
struct attempt {
        struct fabric *fabric;
        struct peer *peer;
        uint64_t number; /* of this fabric's attempts; no other has it, whatever the peer says */
        uint64_t transfer, operation, peer_epoch;
        enum fabric_direction direction;
        uint8_t key[FERRY_KEY_SIZE];
        struct fabric_offer offer;
        struct stream stream;
        struct lease lease; /* the peer copies by itself; or none */
        bool by_message;    /* bytes came or went by messages */
        uint64_t bytes;     /* moved, as far as this side knows */
        unsigned in_flight; /* sends and receives that UCX works on */
        bool final_served;  /* the whole transfer was answered by one eager message; DONE is on its way */
        bool peer_done;     /* DONE came; the attempt ends when nothing is in flight */
        bool ack_wanted;
        int error;      /* why it is being ended */
        int wire_error; /* what the peer is told */
        char detail[128];
        uint64_t grace_deadline_us;
        UT_hash_handle hh; /* attempts_by_transfer */
        struct attempt *peer_prev, *peer_next;
};

/* What a late message of an ended attempt is answered. */
struct epitaph {
        uint64_t transfer;
        int wire_error;
};

/* ---- serve.c: the passive side's bytes ---- */

ucs_status_t attempt_on_read(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
ucs_status_t attempt_on_write(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                              const struct payload *payload);

/* ---- attempt.c: the passive side ---- */

/* Notes why the attempt has to end; the first reason counts, and none counts after the peer's DONE. */
void attempt_note_error(struct attempt *attempt, int error, int wire_error, const char *detail);
/* The same, and ends it when it is quiet; it may be gone afterwards. */
void attempt_fail(struct attempt *attempt, int error, int wire_error, const char *detail);
void attempt_on_done(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
void attempt_revoke(struct attempt *attempt, int reason, int wire_reason, const char *detail);
void attempt_lost(struct attempt *attempt, int error, const char *detail);
/* The same, and UCX has forgotten it: its callbacks will not run. */
void attempt_abandon(struct attempt *attempt, int error, const char *detail);
void attempt_tick(struct attempt *attempt, uint64_t now_us);
/* The last of the process: whatever still holds the attempt up is left behind. */
void attempt_forsake(struct attempt *attempt);

/* The attempt that a request belongs to, claimed when it is the first of its transfer. 0, or the FERRY_E_* to answer.
 */
int attempt_of_request(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                       struct attempt **ret_attempt);
struct wire_header attempt_answer(const struct fabric *fabric, const struct wire_header *request, enum wire_type type,
                                  int status);
void attempt_refuse(struct fabric *fabric, struct peer *peer, const struct wire_header *request, enum wire_type type,
                    int status);
/* Ends the attempt when its end is decided and nobody touches the memory any more. It may be gone afterwards. */
void attempt_end_when_quiet(struct attempt *attempt);

/* ---- grant.c: bulk on one host ---- */

/* What a GRANT carries, in the byte order of the host, which it never leaves. */
struct grant_extent {
        uint64_t file, offset, size;
};

struct grant {
        uint64_t slot, lease; /* lease.h */
        uint64_t n;
        struct grant_extent extents[];
};

enum {
        GRANT_EXTENTS_MAX = 1 << 20,
        GRANT_SIZE_MAX = sizeof(struct grant) + GRANT_EXTENTS_MAX * sizeof(struct grant_extent),
};

/* Answers a short READ by a GRANT. false: it has to be DATA. */
bool attempt_lend(struct attempt *attempt, const struct wire_header *header);
void attempt_on_attach(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
void attempt_on_progress(struct fabric *fabric, struct peer *peer, const struct wire_header *header);
/* Takes the lease back. Whether the peer has let go; if not, the attempt is looked at again. */
bool attempt_lease_is_quiet(struct attempt *attempt);
/* The memory's file is going: tells the peers that may have mapped it. */
void memory_forget(struct fabric *fabric, const struct fabric_memory *memory);

#endif
