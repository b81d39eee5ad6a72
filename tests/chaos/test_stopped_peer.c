/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

/*
 * SIGSTOP of a worker in the middle of four transfers at once (both directions, active and passive): what the other one
 * waits for does not move, but does not die either. The stall limit or a cancel ends the operations, no byte moves
 * after that, also when the peer goes on, and both serve again.
 */

enum { MIB = 1 << 20, SIZE = 128 * MIB, TRIES = 50, END_MS = 5000, TICK_MS = 20, QUIET_MS = 50, LANES = 4 };

/* Small chunks, one by one: the transfers take longer than it takes to stop a process. */
static const char *const slow_flags[] = { "--stall-limit", LIMIT_MS(2000), "--grace", LIMIT_MS(300), "--chunk-size",
                                          "64KiB",         "--window",     "1",       NULL };

/* One transfer; the survivor is pair.a, the stopped worker pair.b. */
struct lane {
        bool survivor_offers;
        enum ferry_kind passive_kind;
        const char *other;
        const char *kept; /* regions of the survivor and of the stopped one */
        const char *kept_operation, *other_operation;
        struct ferry_operation passive, active;
        const uint8_t *memory; /* of kept */
        uint8_t *copy;
};

struct scene {
        struct pair pair;
        struct lane lanes[LANES];
};

static bool survivor_receives(const struct lane *lane)
{
        return lane->survivor_offers == (lane->passive_kind == FERRY_WRITABLE);
}

static void lane_make(struct scene *s, size_t i)
{
        struct lane *lane = &s->lanes[i];

        lane->survivor_offers = i % 2 == 0;
        lane->passive_kind = i / 2 == 0 ? FERRY_READABLE : FERRY_WRITABLE;
        lane->kept = region_make(&s->pair.a, SIZE, survivor_receives(lane) ? 0 : i + 1);
        lane->other = region_make(&s->pair.b, SIZE, survivor_receives(lane) ? i + 1 : 0);
        lane->memory = region_map(&s->pair.a, lane->kept);
        lane->copy = malloc(SIZE);
}

static void lane_drop(struct scene *s, struct lane *lane)
{
        (void)munmap((void *)(uintptr_t)lane->memory, SIZE);
        free(lane->copy);
        ferry_operation_clear(&lane->passive);
        ferry_operation_clear(&lane->active);
        region_drop(&s->pair.a, lane->kept);
        region_drop(&s->pair.b, lane->other);
        *lane = (struct lane){ 0 };
}

static void lane_begin(struct scene *s, struct lane *lane)
{
        struct worker *survivor = &s->pair.a, *other = &s->pair.b;
        bool offers = lane->survivor_offers;

        ferry_operation_clear(&lane->passive);
        ferry_operation_clear(&lane->active);
        offer_in_rows(offers ? survivor : other, lane->passive_kind, offers ? lane->kept : lane->other, SIZE,
                      &lane->passive);
        begin_in_rows(offers ? other : survivor, kind_of_peer(lane->passive_kind), offers ? lane->other : lane->kept,
                      SIZE, lane->passive.metadata, &lane->active);
        lane->kept_operation = offers ? lane->passive.id : lane->active.id;
        lane->other_operation = offers ? lane->active.id : lane->passive.id;
}

static struct ferry_operation lane_look(struct scene *s, const struct lane *lane)
{
        struct ferry_operation now;

        assert_int_equal(ferry_get_operation(s->pair.a.client, lane->kept_operation, 0, 0, &now), 0);
        return now;
}

static uint64_t bytes_of_all(struct scene *s)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < LANES; i++) {
                OPERATION now = lane_look(s, &s->lanes[i]);

                sum += now.bytes_done;
        }
        return sum;
}

/*
 * Until the survivor has taken all that the peer said before it was stopped: of what is lent the peer may have copied
 * more than the survivor has heard, up to the end.
 */
static void await_rest(struct scene *s)
{
        uint64_t before;

        do {
                before = bytes_of_all(s);
                pass_time(QUIET_MS);
        } while (bytes_of_all(s) != before);
}

static bool is_before_its_end(struct scene *s, const struct lane *lane)
{
        OPERATION now = lane_look(s, lane);

        return !now.done && now.bytes_done > 0 && now.bytes_done < SIZE;
}

/* Stops the peer while every lane moves. */
static void stop_in_the_middle(struct scene *s)
{
        bool middle;
        int tries = 0;

        for (size_t i = 0; i < LANES; i++)
                lane_make(s, i);
        do {
                assert_true(tries++ < TRIES);
                for (size_t i = 0; i < LANES; i++)
                        lane_begin(s, &s->lanes[i]);
                middle = true;
                for (size_t i = 0; i < LANES; i++)
                        middle = operation_await_middle(&s->pair.a, s->lanes[i].kept_operation) && middle;
                assert_int_equal(kill(s->pair.b.pid, SIGSTOP), 0);
                await_rest(s);
                for (size_t i = 0; i < LANES; i++)
                        middle = is_before_its_end(s, &s->lanes[i]) && middle;
                if (middle)
                        break;
                assert_int_equal(kill(s->pair.b.pid, SIGCONT), 0);
                for (size_t i = 0; i < LANES; i++) {
                        operation_assert_end(&s->pair.a, s->lanes[i].kept_operation, FERRY_COMPLETE, NULL);
                        operation_assert_end(&s->pair.b, s->lanes[i].other_operation, FERRY_COMPLETE, NULL);
                }
        } while (!middle);
}

/* The survivor's operations end as told; then the peer goes on, and no byte of the survivor changes any more. */
static void end_and_go_on(struct scene *s, enum ferry_status status, const char *code)
{
        uint64_t started_ms = now_ms(), processor = worker_processor_ms(&s->pair.a), ended_ms;
        struct ferry_operation end;

        for (size_t i = 0; i < LANES; i++) {
                const struct lane *lane = &s->lanes[i];

                test_row(text_format("%s %s", lane->survivor_offers ? "the offer of a" : "the peer of a",
                                     lane->passive_kind == FERRY_READABLE ? "readable" : "writable"));
                assert_int_equal(ferry_wait_operation(s->pair.a.client, lane->kept_operation, WAIT_MS, &end), 0);
                assert_int_equal(end.status, status);
                assert_string_equal(end.error_code, code);
                ferry_operation_clear(&end);
        }
        test_row(NULL);
        ended_ms = now_ms() - started_ms;
        processor = worker_processor_ms(&s->pair.a) - processor;
        print_message("%s side: %s after %d ms with %d ms of processor time\n", side_names[s->pair.network], code,
                      (int)ended_ms, (int)processor);
        assert_true(ended_ms < END_MS * SLOWNESS);
        /* A peer that stands still is no reason to run: a worker that looked for it all the time would use it all. */
        assert_true(processor <= ended_ms / 2 + TICK_MS);

        for (size_t i = 0; i < LANES; i++)
                memcpy(s->lanes[i].copy, s->lanes[i].memory, SIZE);
        assert_int_equal(kill(s->pair.b.pid, SIGCONT), 0);
        for (size_t i = 0; i < LANES; i++) {
                assert_int_equal(ferry_wait_operation(s->pair.b.client, s->lanes[i].other_operation, WAIT_MS, &end), 0);
                assert_true(end.status == FERRY_ERRORED || end.status == FERRY_CANCELLED);
                assert_int_not_equal(end.error, 0);
                ferry_operation_clear(&end);
        }
        pair_assert_serving(&s->pair);
        for (size_t i = 0; i < LANES; i++) {
                assert_memory_equal(s->lanes[i].copy, s->lanes[i].memory, SIZE);
                lane_drop(s, &s->lanes[i]);
        }
}

static void start(struct scene *s, bool network)
{
        pair_start_with(&s->pair, network, slow_flags);
        worker_expect(&s->pair.a, "error=stalled");
        worker_expect(&s->pair.b, "msg=\"operation ended\"");
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(the_stall_limit_ends_operations_with_a_stopped_peer)
{
        for (int network = 0; network < 2; network++) {
                start(s, network);
                stop_in_the_middle(s);
                end_and_go_on(s, FERRY_ERRORED, "stalled");
                pair_stop(&s->pair);
        }
}

WITH_SCENE(a_cancel_ends_operations_with_a_stopped_peer_within_the_grace_time)
{
        struct ferry_operation operation;

        for (int network = 0; network < 2; network++) {
                start(s, network);
                stop_in_the_middle(s);
                for (size_t i = 0; i < LANES; i++) {
                        assert_int_equal(
                                ferry_cancel_operation(s->pair.a.client, s->lanes[i].kept_operation, &operation), 0);
                        assert_true(operation.cancel_requested || operation.done);
                        ferry_operation_clear(&operation);
                }
                end_and_go_on(s, FERRY_CANCELLED, "cancelled");
                pair_stop(&s->pair);
        }
}
