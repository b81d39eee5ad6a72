/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_ENGINES_H
#define TESTS_FUZZ_ENGINES_H

#include <stdbool.h>

#include <ferry/encoding.h>

#include "fuzz.h"
#include "message/stream.h"
#include "move/engine.h"

/*
 * Two engines joined by the local transport, without threads, on a clock that stands still until it is moved: what
 * happens depends on the input alone. Each may be active, passive or both (a worker pairs with itself). Links with
 * --wrap=thread_start and --wrap=clock_now_us.
 */

enum { FLIGHTS_MAX = 6, FLIGHT_TOTAL_MAX = 140 << 10, FLIGHT_SEGMENTS_MAX = 3, ENGINES = 2 };

/* The sides of a transfer. */
enum { ACTIVE, PASSIVE };

/* A transfer. One side of it may be played by the target: then its engine is FLIGHT_FOREIGN. */
enum { FLIGHT_FOREIGN = -1, FUZZ_PEER_EPOCH = 0xf0 };

struct flight {
        struct fuzz_engines *engines;
        int engine[2];
        enum engine_direction direction;
        bool verify;
        uint64_t id, operation, total;
        uint8_t key[FERRY_KEY_SIZE];
        uint8_t *area[2]; /* of the side's memory, which is all GAP but for the segments of the source */
        struct segment segments[2][FLIGHT_SEGMENTS_MAX];
        size_t n_segments[2];
        bool closed, claimed, cancelled, ended[2];
        int error[2];
        uint64_t digest; /* of the destination's area when its side ended */
};

struct fuzz_engines {
        struct engine *engine[ENGINES];
        uint64_t epoch[ENGINES];
        struct memory *memory[ENGINES];
        struct flight flights[FLIGHTS_MAX];
        size_t n;
};

/* mapped: memory that peers can map; else its bytes go through the transport's bounce buffers. */
void engines_open(struct fuzz_engines *engines, bool mapped);

/*
 * A transfer between two engines, of which either may be FLIGHT_FOREIGN. An active one is begun; what a passive one
 * offers can be claimed. layout: how its memory is cut. NULL: there are too many.
 */
struct flight *flight_begin(struct fuzz_engines *engines, int active, int passive, enum engine_direction direction,
                            uint64_t total, bool verify, unsigned layout);
/* What an operation's cancel does on its side. */
void flight_cancel(struct flight *flight, int side);
/* Whether each side that an engine plays has ended, or was never asked. */
bool flight_is_over(const struct flight *flight);
/* Whether the bytes of the source are at the destination. */
bool flight_has_arrived(const struct flight *flight);

/* One pass of an engine, or of all so often. */
void engines_pass(struct fuzz_engines *engines, int which);
void engines_run(struct fuzz_engines *engines, unsigned passes);
void engines_advance(uint64_t us);

/* Revokes and cancels everything; every side ends within the engines' grace. */
void engines_end_flights(struct fuzz_engines *engines);

/*
 * Ends the engines as a worker does. Checks that everything has ended once, that memory is as it was when its side
 * ended, and that nothing was stored outside of a transfer's memory.
 */
void engines_close(struct fuzz_engines *engines);

/* The directory of the engines' sockets. */
const char *engines_directory(void);

/* Open descriptors of this process. */
size_t fuzz_descriptors(void);

#endif
