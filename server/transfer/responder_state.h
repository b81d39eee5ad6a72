/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_RESPONDER_STATE_H
#define TRANSFER_RESPONDER_STATE_H

#include "peer.h"
#include "transfer/engine.h"
#include "transport/transport.h"
#include "wire/header.h"
#include "wire/stream.h"

/*
 * The passive side of one transfer, a claim of an operation, and what its parts share: claim.c begins it, serve.c
 * answers READs, store.c takes WRITEs, responder.c ends it. It answers out of the operation's own list of memory; an
 * address never comes from the wire. Each request carries the whole authority (operation, key), so there is no session;
 * the first one claims. Thread: who holds the progress lock.
 */

enum responder_state {
        RESPONDER_SERVING,
        RESPONDER_SERVED,   /* the whole transfer was answered by one message; DONE is on its way */
        RESPONDER_COMPLETE, /* the requester has, or has confirmed, every byte */
        RESPONDER_FAILING,  /* its end is decided; nothing new is served */
        RESPONDER_ENDED,
};

/* A READ that is to be answered. */
struct responder_read {
        uint32_t seq;
        bool verify;
        uint64_t offset, length, sent;
};

struct responder {
        struct engine *engine;
        struct peer *peer;
        enum responder_state state; /* responder_set_state */
        uint64_t number;            /* of this engine's responders; no other has it, whatever the peer says */
        uint64_t transfer, operation, peer_epoch;
        enum engine_direction direction;
        uint8_t key[FERRY_KEY_SIZE];
        struct engine_offer offer;
        struct stream stream;
        uint64_t bytes;                /* moved, as far as this side knows */
        uint64_t copying;              /* of what arrives: bytes that are in place and not yet in bytes */
        bool moved;                    /* progress was told, be it of bytes that do not count in the end */
        uint32_t part_seq;             /* of the WRITE of which parts are in place: [part_start, part_end), … */
        uint64_t part_start, part_end; /* … and more follow; part_end 0 = none */
        unsigned in_flight;            /* sends and receives whose memory a transport may touch */
        struct responder_read *reads;  /* ENGINE_READS_MAX of them, a ring; NULL = none had to wait yet */
        unsigned first_read, n_reads;
        bool pending;               /* in the peer's list of those that have READs to answer */
        bool held;                  /* in the engine's list of those whose next READ waits for bytes to be there */
        bool done_came, ack_wanted; /* the requester's DONE, and what it asked for */
        enum gpu_path gpu_path;     /* the worst of its messages */
        int error;                  /* why it is being ended */
        int wire_error;             /* what the peer is told */
        char detail[128];
        uint64_t grace_deadline_us; /* 0 = none */
        bool marked;
        struct responder *marked_prev, *marked_next;
        struct responder *pending_prev, *pending_next;
        struct responder *held_prev, *held_next;
        struct responder *peer_prev, *peer_next;
        UT_hash_handle hh; /* responders_by_transfer */
};

/* The only way to change the state; a step that the table does not allow aborts. */
void responder_set_state(struct responder *responder, enum responder_state state);
/* The next pass takes the step that its state asks for. */
void responder_mark(struct responder *responder);
/* NULL = none of that transfer. */
struct responder *responder_find(struct engine *engine, uint64_t transfer);

/* The header of what answers a request, whether there is a responder or not. */
struct wire_header responder_answer_to(const struct engine *engine, const struct wire_header *request,
                                       enum wire_type type, int status);
/* Answers a request with a reason: FERRY_E_*. */
void responder_refuse(struct engine *engine, struct peer *peer, const struct wire_header *request, enum wire_type type,
                      int status);
/* The header of a message that answers no request by itself. */
struct wire_header responder_header(const struct responder *responder, enum wire_type type);

void responder_tell_progress(struct responder *responder);
/* How a message of it moved its bytes. */
void responder_note_gpu_path(struct responder *responder, enum gpu_path path);
/* This side's memory cannot be copied: fault is -errno. */
void responder_fault(struct responder *responder, int fault);
/* So many bytes more have moved. */
void responder_add_progress(struct responder *responder, uint64_t bytes);
/* It has no READ left to answer. */
void responder_stop_pending(struct responder *responder);
/* Whether its next READ waits for bytes that are not there yet. */
void responder_set_held(struct responder *responder, bool held);
/* Tells the requester that its READ is held, and is not forgotten. */
void responder_tell_held(const struct responder *responder, uint32_t seq);

/* Ends it as soon as it is quiet; the first reason counts, and none counts when the requester has every byte. */
void responder_fail(struct responder *responder, int error, int wire_error, const char *detail);

#endif
