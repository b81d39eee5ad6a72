/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_ENGINE_INTERNAL_H
#define TRANSFER_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>
#include <utlist.h>

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/clock.h"
#include "engine_limits.h"
#include "transfer/engine.h"
#include "transport/transport.h"

/*
 * The engine's own state. Everything here belongs to the thread that holds the progress lock (progress_lock.c), unless
 * a field or function says otherwise. That is mostly the engine's own thread, for a moment another one.
 *
 * Requesters and responders are driven by their state: what happens (a message, the end of a send, a cancel) changes
 * the state and marks them; the next pass takes the step that the state asks for. So nothing ends inside a callback,
 * but for a new claim, which ends finished ones first (responder_claim.c).
 */

struct command;
struct connect_request;
struct contact;
struct peer;
struct requester;
struct resolution;
struct responder;

/* A transfer that is over, and how its late messages are answered. */
struct tombstone {
        uint64_t transfer;
        int wire_error; /* 0 = it is complete */
};

struct tombstones {
        unsigned newest;
        struct tombstone all[ENGINE_TOMBSTONE_LIST];
};

struct engine {
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

        struct transport *transports[TRANSPORTS_MAX]; /* all that are open */
        size_t n_transports;
        struct transport *local, *ucx; /* the same by kind; NULL = off */
        int epoll_fd;
        pthread_t thread;

        /* Guarded by command_lock; any thread. wake_fd is an eventfd. */
        pthread_mutex_t command_lock;
        pthread_cond_t command_done;
        struct command *commands, *commands_last;
        struct command *reserve; /* for commands that must not fail when memory is short */
        bool closed;             /* no more commands: the thread is ending or has ended */
        atomic_bool commands_waiting;
        atomic_bool commands_told; /* wake_fd was written for some of them */
        int wake_fd;
        atomic_bool held_reads_due; /* engine_held_reads_retry was called. Any thread */

        pthread_mutex_t progress_lock; /* guards all that follows. Before every other lock */
        bool listening;                /* epoll_fd reports events, once the transports are armed */
        bool ended;                    /* the engine's thread has ended */
        uint64_t sleep_until_us;       /* of the engine's thread; 0 = it does not sleep, UINT64_MAX = until an event */
        uint64_t woke_us;              /* when it did last */
        atomic_uint inline_skips;      /* so many transfers do not run inline. Any thread */

        bool stopping;       /* a STOP was taken: nothing new */
        bool wake_due;       /* something ended in this pass */
        uint64_t tick_us;    /* when deadlines are checked next */
        uint64_t traffic_us; /* when something last moved */
        uint64_t bulk_us;    /* when bulk last moved */
        bool core_contended; /* another thread wants the core of the thread that polls */

        struct peer *all_peers;
        struct peer *peers_by_epoch, *peers_by_address;
        struct peer *ready_peers; /* utlist */
        bool peers_ended;         /* some have ended and may be freed */
        size_t n_accepted, max_links, max_claims;
        struct contact *contacts, *contacts_by_epoch; /* contact.c */
        struct contact *contacts_unlinked;
        size_t n_contacts_unlinked;
        uint64_t n_contacts; /* so far */
        struct requester *requesters_by_id, *marked_requesters;
        struct responder *responders_by_transfer, *marked_responders;
        struct responder *held_responders; /* utlist; the first of their READs waits for bytes */
        uint64_t n_responders;             /* so far */
        struct connect_request *connect_requests;
        struct resolution *resolutions;
        struct tombstones tombstones[ENGINE_TOMBSTONE_LISTS];

        struct metric *metric_links[TRANSPORTS_MAX], *metric_failures, *metric_refused, *metric_claims;
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

#endif
