/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_ENGINE_INTERNAL_H
#define MOVE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>
#include <utlist.h>

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/clock.h"
#include "message/transport.h"
#include "move/engine.h"

/*
 * The engine's own state. Everything here belongs to the thread that holds the progress lock (progress_lock.c), unless
 * a field or function says otherwise. That is mostly the engine's own thread, for a moment another one.
 *
 * Requesters and responders are driven by their state: what happens (a message, the end of a send, a cancel) changes
 * the state and marks them; the next round takes the step that the state asks for. So nothing ends inside a callback,
 * but for a new claim, which ends finished ones first (responder.c).
 */

struct command;
struct connect_request;
struct peer;
struct session;
struct requester;
struct resolution;
struct responder;

/* Sizes and times of the engine. Chosen by measurement where tests/bench/NOTES.md says so. */

enum {
        ENGINE_CLOSE_MS = 5000, /* for a local peer to close GPU memory */
        ENGINE_GRACE_MS = 2000,
        ENGINE_CONNECT_MS = 5000,
        ENGINE_RECONNECT_MS = 500, /* left of it at least, when a name or an idle link has taken most of it */
        ENGINE_CROWDED_US = 20,    /* if another thread had the core for so long, sleep rather than spin */
        ENGINE_BLOCKED_US = 1000,  /* after so long without progress, a thread that cannot sleep … */
        ENGINE_BLOCKED_MS = 1,     /* … polls at this interval, ms */
        ENGINE_TICK_MS = 1000,
        ENGINE_IDLE_US = 60 * 1000 * 1000,      /* an unused link of UCX is closed after this */
        ENGINE_HTTP_PEER_US = 60 * 1000 * 1000, /* how long a peer counts as connected after a transfer by HTTP */
        /* Bytes of a transfer with checksums under way, so that the first leave before all checksums are made. */
        ENGINE_VERIFIED_MAX = 2 * WIRE_VERIFY_MAX,
        ENGINE_PEERS_UNLINKED = 1024,       /* workers without a link kept, with their paths … */
        ENGINE_PEER_US = 600 * 1000 * 1000, /* … and for how long */
        /* Tombstones: lists by transfer id, and the length of each. */
        ENGINE_TOMBSTONE_LISTS = 128,
        ENGINE_TOMBSTONE_LIST = 8,
};

/* Commands in order (command.c). */
struct command_queue {
        struct command *all;
        size_t n, room;
};

/* A transfer that is over, and how its late messages are answered. */
struct tombstone {
        uint64_t transfer;
        int wire_error; /* 0 = it is complete */
};

struct engine {
        /*
         * The worker, and the limits of the engine. Fixed after engine_new(), but for facts, whose network part may
         * come later, and http.
         */
        uint64_t epoch;
        char name[FERRY_METADATA_NAME_SIZE]; /* which peers are told; "" = none */
        struct segment name_segment;
        struct stream name_stream;
        uint64_t spin_us; /* how long the thread polls, after something moved, before it sleeps */
        uint64_t grace_us, connect_us;
        const struct allowlist *allowlist; /* borrowed; NULL = every host */
        struct engine_operations operations;
        struct engine_observer observer;
        struct engine_facts facts;
        pthread_rwlock_t http_lock; /* read while http is used; before all but the progress lock */
        struct engine_http http;    /* start NULL = nothing goes over HTTP. Any thread */

        struct transport *transports[TRANSPORTS_MAX]; /* all that are open */
        size_t n_transports;
        struct transport *local, *ucx; /* the same by kind; NULL = off */
        int epoll_fd;
        pthread_t thread;
        struct pool_user *tasks; /* resolutions */

        /* Guarded by command_lock; any thread. wake_fd is an eventfd. */
        pthread_mutex_t command_lock;
        pthread_cond_t command_done;
        struct command_queue commands;
        bool closed; /* no more commands: the thread is ending or has ended */
        atomic_bool commands_waiting;
        atomic_bool commands_told; /* wake_fd was written for some of them */
        int wake_fd;
        atomic_bool held_reads_due; /* engine_held_reads_retry was called. Any thread */

        pthread_mutex_t progress_lock; /* guards all that follows. Before every other lock */
        struct command_queue taken_commands;
        bool listening;           /* epoll_fd reports events, once the transports are armed */
        bool ended;               /* the engine's thread has ended */
        uint64_t sleep_until_us;  /* of the engine's thread; 0 = it does not sleep, UINT64_MAX = until an event */
        uint64_t woke_us;         /* when it did last */
        atomic_uint inline_skips; /* so many transfers do not run inline. Any thread */

        /* Work of the next round. */
        bool stopping;    /* a STOP was taken: nothing new … */
        bool stop_forced; /* … and what had not ended by the first deadline has lost its links */
        uint64_t stop_deadline_us;
        bool wake_due;       /* a transfer started or ended in this round */
        uint64_t tick_us;    /* when deadlines are checked next */
        uint64_t traffic_us; /* when something last moved */
        uint64_t bulk_us;    /* when bulk last moved */
        bool core_contended; /* another thread wants the core of the thread that polls */

        /*
         * The objects of the engine: each file has its own (session.c, peer.c, requester.c, responder.c, connect.c,
         * resolver.c).
         */
        struct session *all_sessions;
        struct session *sessions_by_address;
        struct session *ready_sessions; /* utlist */
        bool sessions_ended;            /* some have ended and may be freed */
        size_t n_accepted, max_links, max_claims;
        struct peer *peers, *peers_by_epoch; /* peer.c */
        struct peer *peers_unlinked;
        size_t n_peers_unlinked;
        uint64_t n_peers; /* so far */
        struct requester *requesters_by_id, *marked_requesters;
        struct responder *responders_by_transfer, *marked_responders;
        struct responder *held_responders; /* utlist; the first of their READs waits for bytes */
        uint64_t n_responders;             /* so far */
        struct connect_request *connect_requests;
        struct resolution *resolutions;
        struct tombstone tombstones[ENGINE_TOMBSTONE_LISTS][ENGINE_TOMBSTONE_LIST]; /* the newest first */

        struct metric *metric_links[TRANSPORTS_MAX], *metric_failures, *metric_refused, *metric_claims;
        struct metric *metric_wakes;
};

/* Has deadlines checked no later than at deadline_us. */
static inline void engine_tick_before(struct engine *engine, uint64_t deadline_us)
{
        if (deadline_us && deadline_us < engine->tick_us)
                engine->tick_us = deadline_us;
}

/* The deadline by which a transfer that is being ended now must be quiet. */
static inline uint64_t engine_grace(struct engine *engine)
{
        uint64_t deadline_us = clock_now_us() + engine->grace_us;

        engine_tick_before(engine, deadline_us);
        return deadline_us;
}

/* ---- http.c: any thread ---- */

/*
 * Call the functions of struct engine_http and return what they do, or -ESHUTDOWN with a sentence in detail where HTTP
 * is not there. http.c cancels nothing then.
 */
int engine_http_start(struct engine *engine, const struct engine_transfer *transfer, char *detail, size_t detail_size);
void engine_http_cancel(struct engine *engine, uint64_t id, int reason);
int engine_http_notice(struct engine *engine, const struct engine_connect *spec, char *detail, size_t detail_size);

/* ---- responder_state.c: tombstones ---- */

void tombstone_add(struct engine *engine, uint64_t transfer, int wire_error);
/* NULL = not known (any more). */
const struct tombstone *tombstone_find(struct engine *engine, uint64_t transfer);

/* ---- messages.c ---- */

/* The transports' callbacks: messages, links opened by peers, ended links. */
struct transport_handlers message_handlers(struct engine *engine);

/* ---- round.c: one round of the engine ---- */

/* Runs one round. Whether anything moved. */
bool round_run(struct engine *engine, uint64_t *ret_now_us);
/* Whether the engine has a requester, a responder or a connect request. */
bool round_is_moving(const struct engine *engine);
/* Next deadline, if no event comes; UINT64_MAX = none. */
uint64_t round_deadline(const struct engine *engine, uint64_t now_us);
/* Whether the next round has work already. */
bool round_is_pending(const struct engine *engine);
/* Ends peers' access to memory. */
void round_deregister_memory(struct engine *engine, struct memory *memory);

/* ---- progress_lock.c ---- */

/*
 * The holder of the progress lock may run the engine and call its transports. It is the engine's own thread, which
 * releases the lock while it sleeps and after rounds in which nothing moved; or a thread that starts a short transfer
 * and would have to wait for its end (inline progress). Handing a transfer of 4 KiB over and waiting for its end takes
 * two thread switches, 10 to 40 us where cores are short; the transfer itself takes 5 us.
 *
 * After inline progress, whatever would have woken the sleeping engine's thread still does.
 */

/* Any thread. */
void progress_lock(struct engine *engine);
void progress_unlock(struct engine *engine);
/* Arms every transport. true: all are armed. Thread: the holder of the progress lock. */
bool progress_arm(struct engine *engine);
/*
 * Posts a START whose caller waits for the end: the transfer runs inline for a moment if the lock is free, on the
 * engine's thread otherwise. id and total, in bytes, are the transfer's. Returns 0; -ESHUTDOWN or -ENOMEM: it was not
 * started. Any thread that holds no lock.
 */
int progress_start_inline(struct engine *engine, const struct command *command, uint64_t id, uint64_t total);

/* ---- thread.c ---- */

/* The engine's own thread. 0 or -errno. It ends after a STOP. */
int thread_start(struct engine *engine);

#endif
