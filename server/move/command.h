/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_COMMAND_H
#define MOVE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

struct connect_request;
struct command_queue; /* engine_internal.h */
struct peers_page;
struct engine;
struct memory;
struct requester;
struct resolution;
struct engine_http_note;

/* Commands of other threads to the engine, run in order by the holder of the progress lock. */

enum command_type {
        COMMAND_START,
        COMMAND_CONNECT,
        COMMAND_CANCEL,
        COMMAND_REVOKE,
        COMMAND_DEREGISTER,
        COMMAND_RESOLVED,
        COMMAND_LIST_PEERS,
        COMMAND_NOTE_HTTP,
        COMMAND_STOP,
};

struct command {
        enum command_type type;
        union {
                struct requester *requester;     /* START: owned by the engine from then on */
                struct connect_request *connect; /* CONNECT: owned by the engine from then on */
                uint64_t id;                     /* CANCEL: transfer, REVOKE: operation */
                struct memory *memory;           /* DEREGISTER: the caller waits */
                struct resolution *resolution;   /* RESOLVED: the engine's */
                struct peers_page *page;         /* LIST_PEERS: the caller waits */
                struct engine_http_note *note;   /* NOTE_HTTP: owned by the engine from then on */
        };
        int reason, wire_reason; /* CANCEL, REVOKE */
        bool *finished;          /* of a caller that waits; guarded by the engine's command lock */
};

/* Makes the queues. Returns 0 or -ENOMEM. */
int commands_init(struct engine *engine);

/*
 * Queues a command (copied) and wakes the thread. -ESHUTDOWN when it is stopping; -ENOMEM, but for CANCEL, REVOKE,
 * RESOLVED and STOP. Any thread.
 */
int command_post(struct engine *engine, const struct command *command);
/* Queues a command without waking the thread: the caller takes the progress lock, or calls engine_wake. */
int command_post_unwoken(struct engine *engine, const struct command *command);
/*
 * Posts a command and waits until it has run. Returns 0; -ESHUTDOWN or -ENOMEM: it did not run. Any thread that does
 * not hold the progress lock.
 */
int command_call(struct engine *engine, const struct command *command);
/* Wakes the engine's thread. Any thread. */
void engine_wake(struct engine *engine);

/* Takes the queued commands, which stay until the next call. Thread: the holder of the progress lock. */
const struct command_queue *commands_take(struct engine *engine);
/* Wakes the caller of a command that has run, if it waits. */
void command_finish(struct engine *engine, const struct command *command);

#endif
