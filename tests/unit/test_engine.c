/* SPDX-License-Identifier: Apache-2.0 */
#include <semaphore.h>
#include <time.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine_fixture.h"
#include "faulty_transport.h"
#include "unit.h"

static const char *transport_of(enum carrier carrier)
{
        return carrier == NETWORK ? "tcp" : "shm";
}

static void end_both(struct world *w, const char *transport)
{
        world_ends(w, 1, 0, 0);
        assert_string_equal(w->active.outcome.transport, transport);
        assert_string_equal(w->passive.outcome.transport, transport);
}

static void transfer_and_compare(enum carrier carrier, size_t size, enum engine_direction direction, bool verify)
{
        struct world *w = world_new(carrier, size);

        world_offer(w, direction);
        world_start(w, direction, verify);
        end_both(w, transport_of(carrier));
        assert_int_equal(w->active.outcome.bytes, size);
        assert_int_equal(w->passive.outcome.bytes, size);
        assert_int_equal(w->active.started, 1);
        assert_int_equal(w->passive.claims, 1);
        world_assert_streams_equal(w);
        world_free(w); /* each world has two engines, and there are many sizes */
}

TEST(moves_every_size_both_ways_on_both_sides)
{
        for (int carrier = 0; carrier < CARRIERS; carrier++)
                FOR_EACH (size_t, size, 1, 511, 512, 4095, 4096, 4097, 7936, 7937, 8193, (256 << 10) - 1, 256 << 10,
                          (256 << 10) + 1, 5 << 20, (20 << 20) + 3)
                        for (int direction = ENGINE_READ; direction <= ENGINE_WRITE; direction++) {
                                transfer_and_compare((enum carrier)carrier, size, (enum engine_direction)direction,
                                                     false);
                                transfer_and_compare((enum carrier)carrier, size, (enum engine_direction)direction,
                                                     true);
                        }
}

TEST(moves_scattered_memory)
{
        static const struct {
                size_t n[2], piece[2];
        } cases[] = {
                { { 2, 2 }, { 5000, 5000 } },         { { 1000, 1000 }, { 1, 1 } },
                { { 1000, 1000 }, { 16384, 16384 } }, { { 1, 1000 }, { 9000000, 9000 } },
                { { 1000, 1 }, { 9000, 9000000 } },   { { 500, 1000 }, { 3002, 1501 } },
                { { 300, 100 }, { 10000, 30000 } },
        };

        for (int carrier = 0; carrier < CARRIERS; carrier++) {
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                        for (int direction = ENGINE_READ; direction <= ENGINE_WRITE; direction++) {
                                struct world *w = world_new((enum carrier)carrier, 20 << 20);

                                for (int side = 0; side < 2; side++)
                                        world_scatter(w, side, cases[i].n[side], cases[i].piece[side],
                                                      cases[i].piece[side] + 3);
                                world_offer(w, (enum engine_direction)direction);
                                world_start(w, (enum engine_direction)direction, carrier != MAPPED);
                                world_ends(w, 1, 0, 0);
                                world_assert_streams_equal(w);
                                world_free(w);
                        }
                }
        }
}

/* One end of a mapped pair has other memory than files. */
TEST(memory_without_a_file_is_moved_as_well)
{
        for (int side = 0; side < 2; side++) {
                for (int direction = ENGINE_READ; direction <= ENGINE_WRITE; direction++) {
                        struct world *w = world_new(MAPPED, 3 << 20);
                        struct memory *registered;
                        uint8_t *memory = malloc(w->size);

                        memset(memory, 3 + side, w->size);
                        assert_int_equal(
                                engine_memory_register(w->engine[side],
                                                       &(struct engine_memory){
                                                               .address = memory, .size = w->size, .fd = -1, .id = 5 },
                                                       &registered),
                                0);
                        w->segments[side][0] = (struct segment){ memory, w->size, registered };
                        world_offer(w, (enum engine_direction)direction);
                        world_start(w, (enum engine_direction)direction, false);
                        end_both(w, "shm");
                        world_assert_streams_equal(w);
                        engine_memory_deregister(w->engine[side], registered);
                        world_free(w);
                        free(memory);
                }
        }
}

TEST(small_pieces_travel_together)
{
        /* The first and the last chunk may be short; the network answers a READ of one in parts of up to 60 KiB. */
        enum { N = 1000, PIECE = 16 << 10, CHUNKS_MAX = 66, PARTS = 5 };

        FOR_EACH_WORLD (w, MAPPED, 20 << 20) {
                bool in_parts = w->carrier == NETWORK && w->direction == ENGINE_READ;

                world_scatter_both(w, N, PIECE, PIECE + 3);
                world_offer(w, w->direction);
                world_start(w, w->direction, false);
                end_wait(&w->active, 1);
                assert_int_equal(w->active.outcome.error, 0);
                if (!messages_are_late()) /* of those, each half tells progress */
                        assert_true(w->active.steps <= CHUNKS_MAX * (in_parts ? PARTS : 1));
        }
}

/* Over TCP pieces go out inside messages, from where they are. */
TEST(pieces_travel_in_parts_over_tcp)
{
        enum { N = 1000, PIECE = 16 << 10, MESSAGE_MAX = 64 << 10 };

        FOR_EACH_WORLD (w, MAPPED, 20 << 20) {
                int from = w->direction == ENGINE_READ;

                world_scatter(w, from, N, PIECE, PIECE + 3);
                w->segments[!from][0].size = N * PIECE;
                world_offer(w, w->direction);
                world_start(w, w->direction, false);
                world_ends(w, 1, 0, 0);
                world_assert_streams_equal(w);
                assert_int_equal(w->passive.steps >= N * PIECE / MESSAGE_MAX, w->carrier == NETWORK);
        }
}

static int claims_at_first; /* when the first bytes are there */

static void note_claims(struct world *w, uint64_t bytes)
{
        if (!claims_at_first)
                claims_at_first = w->passive.claims;
}

/* Over the network. */
TEST(transfers_to_one_peer_share_a_window)
{
        enum { N = 32, WINDOW = 4, WINDOWS = 4 };
        struct world *w = world_new(NETWORK, 16 << 20);

        world_offer(w, ENGINE_READ);
        w->many = true;
        w->on_progress = note_claims;
        claims_at_first = 0;
        for (int i = 0; i < N; i++)
                world_start(w, ENGINE_READ, true); /* unverified ones would ask for a grant first, all at once */
        end_wait(&w->active, N);
        end_wait(&w->passive, N);
        assert_in_range(claims_at_first, 1, WINDOW * WINDOWS);
        world_assert_streams_equal(w);
        world_free(w);
}

/* ---- progress ---- */

static uint64_t arrived_to;
static unsigned n_arrivals;

static void note_arrival(void *context, uint64_t offset, uint64_t length)
{
        assert_int_equal(offset, arrived_to);
        arrived_to += length;
        n_arrivals++;
}

static uint64_t a_megabyte(void *context)
{
        return 1 << 20;
}

/* Of one request, so that what follows the read need not wait for its end. */
TEST(bytes_arrive_while_others_are_copied)
{
        struct world *w = world_new(MAPPED, 32 << 20);
        struct engine_transfer transfer;

        arrived_to = n_arrivals = 0;
        world_offer(w, ENGINE_READ);
        transfer = world_transfer(w, ENGINE_READ, false);
        transfer.arrived = note_arrival;
        transfer.request_max = a_megabyte;
        assert_int_equal(engine_transfer_start(w->engine[0], &transfer), 0);
        world_ends(w, 1, 0, 0);
        assert_int_equal(arrived_to, w->size);
        assert_in_range(n_arrivals, 2, 32);
}

static atomic_bool source_was_told;

static void note_source(struct world *w, uint64_t bytes)
{
        if (bytes > 0 && bytes < w->size)
                atomic_store(&source_was_told, true);
}

/*
 * Copies on only then. A message that the test keeps for later was fetched as a whole before, perhaps between two looks
 * of the source: then it need not be told.
 */
static void await_source(struct world *w, uint64_t bytes)
{
        uint64_t until_us = clock_now_us() + TIMEOUT_S * UINT64_C(1000000);

        while (!messages_are_late() && bytes < w->size && !atomic_load(&source_was_told) && clock_now_us() < until_us)
                (void)sched_yield();
}

/* The side that the bytes come from, which copies nothing, sees them move. */
TEST(the_source_is_told_what_was_copied)
{
        for (int direction = ENGINE_READ; direction <= ENGINE_WRITE; direction++) {
                struct world *w = world_new(MAPPED, 32 << 20);

                atomic_store(&source_was_told, false);
                world_offer(w, (enum engine_direction)direction);
                *(direction == ENGINE_READ ? &w->on_passive_progress : &w->on_progress) = note_source;
                *(direction == ENGINE_READ ? &w->on_progress : &w->on_passive_progress) = await_source;
                world_start(w, (enum engine_direction)direction, false);
                world_ends(w, 1, 0, 0);
                assert_true(atomic_load(&source_was_told) || messages_are_late());
                world_assert_streams_equal(w);
                world_free(w);
        }
}

static sem_t has_started;

static void post_started(struct world *w)
{
        assert_int_equal(sem_post(&has_started), 0);
}

/* The first one over a local link asks before the link is up, and its peer copies for long before it answers. */
TEST(a_transfer_has_started_before_its_first_answer)
{
        for (int i = 0; i < 4; i++) {
                enum engine_direction direction = i % 2 ? ENGINE_WRITE : ENGINE_READ;
                struct world *w = world_new(i / 2 ? MAPPED : BOUNCED, 1 << 20);
                struct timespec limit;

                assert_int_equal(sem_init(&has_started, 0, 0), 0);
                world_offer(w, direction);
                w->on_started = post_started;
                pthread_mutex_lock(&w->gate);
                world_start(w, direction, false);
                clock_gettime(CLOCK_REALTIME, &limit);
                limit.tv_sec += TIMEOUT_S;
                assert_int_equal(sem_timedwait(&has_started, &limit), 0);
                pthread_mutex_unlock(&w->gate);
                world_ends(w, 1, 0, 0);
                world_free(w);
                (void)sem_destroy(&has_started);
        }
}

static _Atomic int starts, starts_at_claim;

static void count_start(struct world *w)
{
        starts++;
}

static void note_starts(struct world *w)
{
        starts_at_claim = starts;
}

/* Its duration is that of its bytes, which a WRITE of one chunk sends at once. */
TEST(a_transfer_over_a_connection_that_stands_starts_when_it_asks)
{
        FOR_EACH_WORLD (w, MAPPED, 1 << 20) {
                starts = 0;
                w->many = true;
                w->on_started = count_start;
                w->on_claim = note_starts;
                world_offer(w, w->direction);
                for (int i = 1; i <= 2; i++) {
                        world_start(w, w->direction, false);
                        end_wait(&w->active, i);
                        end_wait(&w->passive, i);
                }
                assert_int_equal(starts_at_claim, 2);
        }
}

static atomic_bool peer_was_told;

static void await_peer(struct world *w)
{
        if (w->passive.ended)
                peer_was_told = end_comes(&w->active, 1);
}

/* Who is woken then may take the core; the peer waits for the last answer no longer than it must. */
TEST(an_engine_wakes_waiters_when_the_peer_was_told)
{
        FOR_EACH_WORLD (w, CARRIERS, 1 << 20) {
                peer_was_told = false;
                w->on_wake_waiters[1] = await_peer;
                world_offer(w, w->direction);
                world_start(w, w->direction, false);
                end_wait(&w->active, 1);
                end_wait(&w->passive, 1);
                engine_stop(w->engine[1]); /* its thread is done */
                assert_true(peer_was_told);
        }
}

static int steps_at_end, steps_at_wake, error_at_end;

static void note_steps_at_end(void *context, const struct engine_outcome *outcome)
{
        struct world *w = context;

        error_at_end = outcome->error;
        steps_at_end = w->active.steps;
        end_note(&w->active, NULL);
}

static void note_steps_at_wake(struct world *w)
{
        if (steps_at_end && !steps_at_wake)
                steps_at_wake = w->active.steps;
}

/* Beside a copy under way, one that the peer refuses. */
static void start_another(struct world *w, uint64_t bytes)
{
        struct engine_transfer another = world_transfer(w, ENGINE_READ, false);

        w->on_progress = NULL;
        another.total = w->segments[0][1].size;
        another.segments = &w->segments[0][1];
        another.n_segments = 1;
        another.started = NULL;
        another.ended = note_steps_at_end;
        assert_int_equal(engine_transfer_start(w->engine[0], &another), 0);
}

TEST(an_engine_wakes_waiters_before_it_copies_the_next_piece)
{
        struct world *w = world_new(MAPPED, 32 << 20);

        w->segments[0][1] = (struct segment){ w->memory[0], 4096, w->registered[0] };
        w->on_progress = start_another;
        w->on_wake_waiters[0] = note_steps_at_wake;
        world_offer(w, ENGINE_READ);
        world_start(w, ENGINE_READ, false);
        end_wait(&w->active, 2); /* where messages are late, the refusal may come after the copy */
        end_wait(&w->passive, 1);
        world_free(w);
        assert_int_equal(error_at_end, FERRY_E_SIZE_MISMATCH);
        assert_int_not_equal(steps_at_end, 0);
        assert_int_equal(steps_at_wake, steps_at_end);
}

TEST(a_refused_claim_leaves_the_memory_as_it_was)
{
        FOR_EACH_WORLD (w, CARRIERS, 4 << 20) {
                uint8_t *before = malloc(w->size);

                memcpy(before, w->memory[1], w->size);
                w->refuse = FERRY_E_ALREADY_CLAIMED;
                world_offer(w, w->direction);
                world_start(w, w->direction, false);
                end_wait(&w->active, 1);
                assert_int_equal(w->active.outcome.error, FERRY_E_ALREADY_CLAIMED);
                if (!messages_are_late()) /* whoever keeps a message for later fetches its bytes, which counts */
                        assert_int_equal(w->active.outcome.bytes, 0);
                assert_int_equal(w->passive.claims, 0);
                assert_memory_equal(before, w->memory[1], w->size);
                free(before);
        }
}
