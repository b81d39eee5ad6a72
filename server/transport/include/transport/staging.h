/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSPORT_STAGING_H
#define TRANSPORT_STAGING_H

#include "transport/copier.h"
#include "transport/transport.h"

/*
 * What a transport does with payloads that are not host memory, away from the progress thread: threads (copier.h) queue
 * the copies and wait for the device, so that several are under way at once, and neither the progress thread nor a
 * transfer between host memories waits for it. The bytes go by way of buffers in host memory that the
 * driver has pinned; there are as many as STAGING_BYTES allow, and they are kept.
 *
 * The progress thread calls everything here.
 */

enum { STAGING_BYTES = 128 << 20 }; /* of all buffers, unless one alone is larger */

/* What a task does, in this order. */
enum staging_step {
        STAGING_CHECK = 1,    /* the program still has the memory of the stream? */
        STAGING_LOAD = 2,     /* from the stream into the stage's bytes */
        STAGING_STORE = 4,    /* from the stage's bytes into the stream */
        STAGING_CHECKSUM = 8, /* of the stream, for message->verify */
};

struct staging;
struct staging_buffer;

/* notify: a task has run; on its thread. room: staging_has_room was false, and is worth another try. 0 or -errno. */
int staging_new(void (*notify)(void *context), void (*room)(void *context), void *context,
                struct staging **ret_staging);
/* Ends the threads; no task may be left. Nothing can be staged afterwards. */
void staging_stop(struct staging *staging);
/* No stage may be left. Takes NULL; returns NULL. */
struct staging *staging_free(struct staging *staging);
struct copier *staging_copier(struct staging *staging);
/* Whether a message of so many bytes can be staged now. false: room will be called. */
bool staging_has_room(struct staging *staging, uint64_t length);

/* A message's part in it: message->stage. */
struct staged {
        uint8_t *bytes; /* of the payload, in host memory; NULL = they stay where they are */
        bool running;   /* the task is under way */
        bool abandoned; /* it ends once the task has run, with result */
        enum message_result result;
        int fault;           /* of the task: 0, or -errno as of space_copy */
        struct gpu_pin *pin; /* of the memory that bytes are in; NULL = none */
        bool *place;         /* cleared with the stage: the caller's note that bytes are in use; NULL = none */
        /* staging.c's */
        struct staging *staging;
        struct message *message;
        struct staging_buffer *buffer;
        bool owned;
        unsigned steps;
        void (*ran)(struct message *message);
        struct copier_task task;
};

/* The message's bytes are at the caller's address; NULL = they stay where they are. false when memory is short. */
bool stage_new(struct staging *staging, struct message *message, uint8_t *bytes);
/* They get a place here: a buffer, or ordinary memory where they are few or staging_has_room was not asked. */
bool stage_new_buffer(struct staging *staging, struct message *message);
/* Of which nothing runs. Takes a message without one. */
void stage_free(struct message *message);

/* Starts the task; ran follows, in copier_collect. */
void stage_run(struct message *message, unsigned steps, void (*ran)(struct message *message));
/*
 * Gives up the messages of a list that belong to a transfer; NULL = all. end is called for each of which nothing runs
 * any more, after it has left the list; the others end with that result after ran.
 */
void stage_abandon(struct message **list, const uint64_t *transfer, enum message_result result,
                   void (*end)(struct message *message, enum message_result result));

/*
 * Sends leave in the order in which they came, within their transfer, and no transfer waits for another: the first of
 * the list that has run, and that follows no other message of its transfer. NULL = none.
 */
struct message *stage_first(struct message *list);

#endif
