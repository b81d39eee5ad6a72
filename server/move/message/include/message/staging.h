/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_STAGING_H
#define MESSAGE_STAGING_H

#include "base/pool.h"
#include "message/transport.h"

/*
 * Staging: payloads off the host (in GPU memory) are copied through pinned buffers in host memory, of which there are
 * at most STAGING_BYTES, shared fairly by the GPUs and kept for reuse. Each copy is a task of the pool (POOL_WORK),
 * which waits for the device; so several are under way at once, and neither the progress thread nor transfers between
 * host memories wait.
 *
 * All functions: the progress thread.
 */

/* Of all buffers; beyond it each GPU that uses none may get one. Also of the payloads that wait inline for one GPU. */
enum { STAGING_BYTES = 256 << 20 };

/* The steps of a task, in this order. */
enum staging_step {
        STAGING_CHECK = 1,    /* checks that the program has not freed the memory of the stream */
        STAGING_LOAD = 2,     /* from the stream into the stage's bytes */
        STAGING_STORE = 4,    /* from the stage's bytes into the stream */
        STAGING_CHECKSUM = 8, /* makes those of a send, compares that of a receive; for message->verify */
};

struct staging;
struct staging_buffer;
struct staging_gpu;

/*
 * notify: a task has run; called on the pool's thread that ran it. room: staging_has_room, which was false, may be true
 * now; NULL where nothing asks for that. width: so many threads of the pool make the checksums of one message in host
 * memory. 0 or -errno.
 */
int staging_new(void (*notify)(void *context), void (*room)(void *context), void *context, unsigned width,
                struct staging **ret_staging);
/* Waits for its tasks, which make and free buffers: no stage may have one. Nothing can be staged afterwards. */
void staging_stop(struct staging *staging);
/* No stage may be left. Takes NULL; returns NULL. */
struct staging *staging_free(struct staging *staging);
struct pool_user *staging_tasks(struct staging *staging);
/* Whether a message of so many bytes at offset can be staged now. false: room will be called. */
bool staging_has_room(struct staging *staging, const struct stream *stream, uint64_t offset, uint64_t length);

/* A message's stage (message->stage). */
struct stage {
        uint8_t *bytes;             /* the payload in host memory; NULL = it is not copied */
        bool running;               /* the task is queued or running */
        enum message_result result; /* of a cancelled message, which ends once the task has run; else MESSAGE_OK */
        int fault;                  /* of the task: 0, or -errno as of space_copy */
        struct gpu_pin *pin;        /* of the memory that bytes are in; NULL = none */
        uint64_t *place;            /* the caller's note that bytes are in use; 0 with the stage's end; NULL = none */
        uint64_t *digests;          /* checksums of a send's pieces; NULL = its header has one of all */
        /* staging.c's */
        struct staging *staging;
        struct message *message;
        struct staging_gpu *gpu;       /* NULL = bytes are the caller's */
        struct staging_buffer *buffer; /* that bytes are of; NULL = they are from malloc */
        unsigned steps;
        bool receives;
        uint64_t digest_piece;
        _Atomic uint64_t digested; /* bytes whose digests a thread has taken */
        void (*ran)(struct link *link);
        struct pool_task task;
};

/* Makes a stage with the caller's buffer; NULL = the payload is not copied. false: no memory. */
bool stage_new(struct staging *staging, struct message *message, uint8_t *bytes);
/* Makes a stage with a pinned buffer, or ordinary memory if the payload is short or staging_has_room was not asked. */
bool stage_new_buffer(struct staging *staging, struct message *message);
/* Has the checksums of a send made of pieces of so many bytes each. false: no memory. */
bool stage_digest_pieces(struct message *message, uint64_t piece);
/* Frees the stage, if any; its task must not be running. */
void stage_free(struct message *message);

/* Makes the checksum of all of a send, and compares that of a receive. 0; -EILSEQ; other -errno as of space_copy, which
 * cannot come of host memory. Any thread. */
int message_seal(struct message *message);
int message_check(const struct message *message);

/* Calls done, and frees the message, which must be in no list, with its stage, whose task must not be running. */
void message_end(struct message *message, enum message_result result);

/* Enters a send with a stage into link->loading, and starts the task; pool_collect calls loaded afterwards. */
void stage_load(struct message *message, unsigned steps, void (*loaded)(struct link *link));
/*
 * Takes the next send off link->loading: the first whose task has run, and that follows no other message of its
 * transfer, so that order is kept within each transfer. Ends those that were cancelled, whose memory cannot be copied,
 * or whose link has failed. NULL = none.
 */
struct message *stage_take_loaded(struct link *link);
/* Enters a receive with a stage into link->storing, and starts the task; pool_collect ends it afterwards. */
void stage_store(struct message *message, unsigned steps);
/*
 * Takes over a receive without a stage, whose bytes came inline: stores them at once, or, into memory off the host,
 * through a stage. While STAGING_BYTES wait for a GPU, which may stand still, further ones end with MESSAGE_NO_MEMORY:
 * only so has what a peer may send unasked a bound.
 */
void stage_store_inline(struct staging *staging, struct message *message, const void *bytes);
/*
 * Cancels the messages of link->loading and link->storing that belong to a transfer (NULL = all). One without a running
 * task ends at once; the others end with that result after it.
 */
void stage_cancel(struct link *link, const uint64_t *transfer, enum message_result result);

#endif
