/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/encoding.h>

#include "local_directory.h"
#include "move/engine.h"

/*
 * Two engines in one process, joined by the local transport or by UCX over TCP on loopback. The operations of the
 * passive one are faked: a single offer with a key, which the test arms.
 */

/* How the bytes go: local out of memory that is no file (the bounce buffers), by TCP, or local out of memfds. */
enum carrier { BOUNCED, NETWORK, MAPPED, CARRIERS };

enum { TIMEOUT_S = 20, OPERATION = 0x4242, MEMORY_ID = 0x77, SEGMENTS_MAX = 1024 };

struct end {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        _Atomic int claims;
        int started, ended, steps; /* steps: how often progress was told */
        pthread_t thread;          /* on which the last one ended */
        uint64_t progress;
        struct engine_outcome outcome;
};

struct world {
        enum carrier carrier;
        uint64_t epoch[2];
        struct engine *engine[2];
        struct memory *registered[2];
        uint8_t *memory[2];
        int file[2]; /* -1 = none */
        size_t size;
        struct segment segments[2][SEGMENTS_MAX];
        size_t n_segments[2];
        uint8_t key[FERRY_KEY_SIZE], given[FERRY_KEY_SIZE]; /* the offer's; what the active side has */
        bool many;                                          /* transfers at once, whose progress mixes */
        int refuse;                                         /* what claim answers; 0 = it grants */
        enum engine_direction direction;
        bool second; /* of the two directions: world_next's own */
        uint64_t total;
        struct end active, passive;
        void (*on_progress)(struct world *world, uint64_t bytes);         /* of the active side */
        void (*on_passive_progress)(struct world *world, uint64_t bytes); /* of the passive side */
        bool may_run_inline;                             /* what the active side says of its transfers */
        void (*on_started)(struct world *world);         /* the same */
        void (*on_claim)(struct world *world);           /* of the passive side, before it grants */
        void (*on_wake_waiters[2])(struct world *world); /* of the active side, of the passive side */
        pthread_mutex_t gate;                            /* the passive side's thread passes it at each claim */
};

/* The test's, which frees it in its end. */
struct world *world_new(enum carrier carrier, size_t size);
/* 0 = the default; of chunk_size, 256 KiB. */
struct world_knobs {
        uint32_t spin_us, chunk_size, max_claims;
};
struct world *world_new_with(enum carrier carrier, size_t size, struct world_knobs knobs);
/* Now; stops both engines. */
void world_free(struct world *world);
/* Each of the first n carriers, in a world of its own, which a failure names. w->direction is READ until it is set. */
#define FOR_EACH_CARRIER(w, n, size) for (struct world *w = NULL; (w = world_next(w, n, false, size));)
/* The same in both directions. */
#define FOR_EACH_WORLD(w, n, size) for (struct world *w = NULL; (w = world_next(w, n, true, size));)
struct world *world_next(struct world *world, enum carrier n, bool both_directions, size_t size);
/* What the passive side grants from now on: all its segments. */
void world_offer(struct world *world, enum engine_direction direction);
/* A transfer of all segments of the active side, with an id of its own. */
struct engine_transfer world_transfer(struct world *world, enum engine_direction direction, bool verify);
/* Starts one. Returns its id. */
uint64_t world_start(struct world *world, enum engine_direction direction, bool verify);
void end_init(struct end *end);
/* One more has ended; outcome may be NULL. */
void end_note(struct end *end, const struct engine_outcome *outcome);
/* Until so many have ended there. false: they do not. Any thread. */
bool end_comes(struct end *end, int ended);
/* Until so many have ended there; fails when they do not. */
void end_wait(struct end *end, int ended);
/* Until n have ended on each side, the last with these errors. */
void world_ends(struct world *world, int n, int active_error, int passive_error);
/* Cuts the memory of one side, or of both, into n pieces in a scrambled order with gaps. */
void world_scatter(struct world *world, int side, size_t n, size_t piece, size_t stride);
void world_scatter_both(struct world *world, size_t n, size_t piece, size_t stride);
/* Compares the two sides as logical streams. */
void world_assert_streams_equal(const struct world *world);

#endif
