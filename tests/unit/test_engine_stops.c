/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>

#include <ferry/error.h>

#include "base/util.h"
#include "engine_fixture.h"
#include "faulty_transport.h"
#include "unit.h"

/* What ends transfers before their last byte: a cancel of the active side, a revoke of the passive one, a stop. */

static _Atomic uint64_t cancel_id; /* 0 = not known yet, or used */

static void cancel_at_a_quarter(struct world *w, uint64_t bytes)
{
        uint64_t id = bytes >= w->size / 4 ? atomic_exchange(&cancel_id, 0) : 0;

        if (id)
                engine_transfer_cancel(w->engine[0], id, FERRY_E_CANCELLED);
}

/* Moves for long enough to be stopped, whole and in pieces. */
static void over_long_moves(void (*stop)(struct world *w))
{
        FOR_EACH_WORLD (w, CARRIERS, 32 << 20)
                stop(w);
        FOR_EACH_WORLD (w, CARRIERS, 16 << 20) {
                world_scatter_both(w, 1000, 15 << 10, 16 << 10);
                stop(w);
        }
}

/* Metrics and the list of peers count the bytes that the operations show. */
static void assert_counted_as_reported(const struct world *w)
{
        assert_int_equal(w->active.outcome.bytes, w->active.progress);
        assert_true(w->passive.outcome.bytes >= w->passive.progress);
}

/* The side that copies knows first. */
static void cancel_active_side(struct world *w)
{
        world_offer(w, w->direction);
        *(w->direction == ENGINE_READ ? &w->on_progress : &w->on_passive_progress) = cancel_at_a_quarter;
        pthread_mutex_lock(&w->gate); /* nothing moves before the id is known */
        cancel_id = world_start(w, w->direction, false);
        pthread_mutex_unlock(&w->gate);
        world_ends(w, 1, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        assert_true(w->active.outcome.bytes < w->size);
        assert_counted_as_reported(w);
}

TEST(a_cancel_of_the_active_side_ends_both)
{
        over_long_moves(cancel_active_side);
}

/* Until it has done what it was told before. */
static void await_commands(struct engine *engine)
{
        static uint8_t page[4096] __attribute__((aligned(4096)));
        struct memory *memory;

        assert_int_equal(engine_memory_register(
                                 engine,
                                 &(struct engine_memory){ .address = page, .size = sizeof(page), .fd = -1, .id = 6 },
                                 &memory),
                         0);
        engine_memory_deregister(engine, memory);
}

static void cancel_at_once(struct world *w)
{
        engine_transfer_cancel(w->engine[0], cancel_id, FERRY_E_CANCELLED);
        await_commands(w->engine[0]);
}

/* In the passive side's thread, which copies on only then. */
static void cancel_here_at_a_quarter(struct world *w, uint64_t bytes)
{
        if (bytes >= w->size / 4)
                cancel_at_once(w);
}

/* Also those of a chunk that has not arrived whole. */
TEST(the_bytes_of_a_cancelled_transfer_are_counted_as_they_were_reported)
{
        for (int writes = 0; writes < 2; writes++) {
                struct world *w = world_new_with(MAPPED, 32 << 20, (struct world_knobs){ .chunk_size = 32 << 20 });

                if (writes) {
                        w->direction = ENGINE_WRITE;
                        w->on_passive_progress = cancel_here_at_a_quarter;
                }
                cancel_active_side(w);
                assert_true((writes ? w->passive : w->active).outcome.bytes > 0);
        }
}

/* What UCX does not have yet is not sent: on a slow network it would take longer than anybody waits. */
TEST(a_cancel_takes_back_the_parts_that_wait)
{
        enum { N = 1000, PIECE = 16 << 10, UNDER_WAY_MAX = 8 << 20 };
        struct world *w = world_new_with(NETWORK, 20 << 20, (struct world_knobs){ .chunk_size = 4 << 20 });

        world_scatter_both(w, N, PIECE, PIECE + 3);
        world_offer(w, ENGINE_WRITE);
        w->on_claim = cancel_at_once;
        pthread_mutex_lock(&w->gate);
        cancel_id = world_start(w, ENGINE_WRITE, false);
        pthread_mutex_unlock(&w->gate);
        world_ends(w, 1, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        assert_in_range(w->passive.outcome.bytes, 1, UNDER_WAY_MAX);
}

/* A copy that needs no message goes on only once the lease has ended. The passive side's own thread ends it later. */
static void revoke_at_a_quarter(struct world *w, uint64_t bytes)
{
        if (bytes < w->size / 4)
                return;
        engine_claims_revoke(w->engine[1], OPERATION, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        if (w->direction == ENGINE_READ)
                await_commands(w->engine[1]);
}

static void revoke_passive_side(struct world *w)
{
        world_offer(w, w->direction);
        *(w->direction == ENGINE_READ ? &w->on_progress : &w->on_passive_progress) = revoke_at_a_quarter;
        world_start(w, w->direction, false);
        world_ends(w, 1, FERRY_E_CANCELLED_BY_PEER, FERRY_E_CANCELLED);
        assert_true(w->active.outcome.bytes < w->size);
        assert_counted_as_reported(w);
}

TEST(a_revoke_of_the_passive_side_ends_both)
{
        over_long_moves(revoke_passive_side);
}

/* On the passive side's own thread: it does so as soon as it has answered what it was asked for. */
static void revoke_at_once(struct world *w)
{
        engine_claims_revoke(w->engine[1], OPERATION, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

/* A link's window, 16 MiB, may be under way already: only what is taken back before that is not sent. */
TEST(a_revoke_takes_back_the_parts_that_wait)
{
        enum { N = 1000, PIECE = 48 << 10, UNDER_WAY_MAX = 24 << 20 };
        struct world *w = world_new_with(NETWORK, N * (PIECE + 3), (struct world_knobs){ .chunk_size = 4 << 20 });

        world_scatter_both(w, N, PIECE, PIECE + 3);
        world_offer(w, ENGINE_READ);
        w->on_claim = revoke_at_once;
        world_start(w, ENGINE_READ, false);
        world_ends(w, 1, FERRY_E_CANCELLED_BY_PEER, FERRY_E_CANCELLED);
        assert_in_range(w->passive.outcome.bytes, 1, UNDER_WAY_MAX);
}

static pthread_t stopper;

static void *stop_passive(void *context)
{
        engine_stop(((struct world *)context)->engine[1]);
        return NULL;
}

/* Holds the active side up until the passive one has been told: on a busy machine it would be done by then. */
static void stop_at_a_quarter(struct world *w, uint64_t bytes)
{
        struct engine_peer_view view;
        uint64_t cursor = 0;

        if (bytes < w->size / 4 || stopper)
                return;
        pthread_create(&stopper, NULL, stop_passive, w);
        while (engine_peers_page(w->engine[1], &cursor, &view, 1) != -ESHUTDOWN)
                (void)sched_yield();
}

TEST(stopping_an_engine_ends_what_moves_over_it)
{
        FOR_EACH_CARRIER (w, CARRIERS, 48 << 20) {
                world_offer(w, ENGINE_READ);
                w->on_progress = stop_at_a_quarter;
                world_start(w, ENGINE_READ, false);
                end_wait(&w->active, 1);
                end_wait(&w->passive, 1);
                assert_int_equal(w->passive.outcome.error, FERRY_E_CANCELLED);
                if (!messages_are_late() ||
                    w->active.outcome.error != FERRY_E_PEER_LOST) /* the link's end is not late */
                        assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED_BY_PEER);
                pthread_join(stopper, NULL);
                stopper = 0;
        }
}

/* Bytes of a short transfer are all there: what the passive side hears before it hears of that must not count. */
static void revoke_in_between(struct world *w, uint64_t bytes)
{
        engine_claims_revoke(w->engine[1], OPERATION, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        await_commands(w->engine[1]);
}

TEST(a_revoke_after_a_short_reads_bytes_comes_too_late)
{
        FOR_EACH_CARRIER (w, CARRIERS, 4096) {
                world_offer(w, ENGINE_READ);
                w->on_progress = revoke_in_between;
                world_start(w, ENGINE_READ, false);
                world_ends(w, 1, 0, 0);
                world_assert_streams_equal(w);
        }
}
