/* SPDX-License-Identifier: Apache-2.0 */
#include "swarm.h"
#include "unit.h"

#include <stdatomic.h>

#include <ferry/error.h>

#include "base/util.h"

/* What holds of transfers whatever the transports below do to their messages. */

enum { DELAY_US = 3000, TRANSFERS = 150, LIMIT_MS = 60, GRACE_MS = 40, PATIENT_MS = 20000, ROUNDS_MAX = 8 };

/* FERRY_FAULTS_ROUNDS in the environment: so many times as many transfers, with other seeds. */
static unsigned rounds(void)
{
        const char *text = getenv("FERRY_FAULTS_ROUNDS");
        int n = text ? atoi(text) : 1;

        return n > 0 ? (unsigned)n : 1;
}

static bool all_met(const struct faulty_plan *plan, const unsigned long met[FAULTS])
{
        for (enum fault fault = FAULT_NONE; fault < FAULTS; fault++)
                if (plan->per_mille[fault] && !met[fault])
                        return false;
        return true;
}

/* As many rounds as are asked for, and more while chance has left out a fault of the plan. */
static void run(struct faulty_plan plan, struct swarm_rules rules)
{
        unsigned long met[FAULTS] = { 0 };

        plan.delay_us = DELAY_US;
        rules.limit_ms = rules.agreement == AGREE_ALWAYS ? PATIENT_MS : LIMIT_MS;
        rules.grace_ms = rules.agreement <= AGREE_UNLESS_LOST ? PATIENT_MS : GRACE_MS;
        for (unsigned round = 0; round < rounds() || (!all_met(&plan, met) && round < ROUNDS_MAX); round++)
                for (int carrier = 0; carrier < CARRIERS; carrier++) {
                        plan.seed = round * CARRIERS + (unsigned)carrier + 1;
                        swarm_run((enum carrier)carrier, &plan, &rules, TRANSFERS);
                        for (enum fault fault = FAULT_NONE; fault < FAULTS; fault++)
                                met[fault] += faulty_count(fault);
                }
        for (enum fault fault = FAULT_NONE; fault < FAULTS; fault++)
                assert_int_equal(met[fault] > 0, plan.per_mille[fault] > 0);
}

/* The seam promises order within a transfer alone. */
static const struct {
        const char *what;
        unsigned per_mille[FAULTS];
        struct swarm_rules rules;
} storms[] = {
        { "nothing: all is complete", { 0 }, { .all_complete = true } },
        { "late messages change nothing", { [FAULT_DELAY] = 300 }, { .all_complete = true } },
        { "links that end end both sides",
          { [FAULT_END] = 5, [FAULT_DELAY] = 200 },
          { .agreement = AGREE_UNLESS_LOST } },
        { "lost messages hang nothing", { [FAULT_SWALLOW] = 20, [FAULT_DROP] = 20 }, { .agreement = AGREE_ON_BYTES } },
        { "repeated messages", { [FAULT_REPEAT] = 100 }, { .agreement = AGREE_ON_BYTES } },
        { "messages in another order", { [FAULT_REORDER] = 150 }, { .agreement = AGREE_ON_BYTES } },
        { "a repeated message does not stand for a lost one",
          { [FAULT_REPEAT] = 200, [FAULT_DROP] = 20, [FAULT_REORDER] = 50 },
          { .agreement = AGREE_ON_BYTES } },
        { "other bytes are never complete with verify",
          { [FAULT_FLIP] = 100 },
          { .agreement = AGREE_ON_BYTES, .bytes_differ = true } },
        { "payloads that are cut short are never complete",
          { [FAULT_TRUNCATE] = 50 },
          { .agreement = AGREE_ON_BYTES } },
        { "forged headers move no byte to another place", { [FAULT_FLIP_HEADER] = 60 }, { .agreement = AGREE_NEVER } },
        { "all at once",
          { 0, 10, 10, 10, 30, 100, 50, 20, 20, 10, 3 },
          { .agreement = AGREE_NEVER, .bytes_differ = true } },
};

TEST(transfers_hold_whatever_becomes_of_their_messages)
{
        for (size_t i = 0; i < UNIT_COUNT(storms); i++) {
                struct faulty_plan plan = { 0 };

                test_row(storms[i].what);
                memcpy(plan.per_mille, storms[i].per_mille, sizeof(plan.per_mille));
                run(plan, storms[i].rules);
        }
        test_row(NULL);
}

/* The message of one transfer that is lost, and the one that is repeated. */
static uint64_t lost_offset;
static atomic_bool last_came;

static enum fault repeat_one_and_lose_one(void *context, const struct wire_header *header)
{
        if (header->type != WIRE_WRITE || !(header->flags & WIRE_MORE)) {
                last_came |= header->type == WIRE_WRITE && header->length > 0 && header->offset > lost_offset;
                return FAULT_NONE;
        }
        return header->offset == lost_offset ? FAULT_DROP : FAULT_REPEAT;
}

TEST(a_repeated_part_does_not_stand_for_a_lost_one)
{
        static const uint64_t parts[] = { 0, 60 << 10, 120 << 10 };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(parts); i++) {
                const struct faulty_plan plan = { .script = repeat_one_and_lose_one };
                struct world *w;
                uint64_t id;

                faulty_set_plan(&plan);
                w = world_new(NETWORK, 200 << 10);
                lost_offset = parts[i];
                last_came = false;
                w->segments[0][0].size = w->segments[1][0].size = 64; /* connects: parts are for links that are up */
                world_offer(w, ENGINE_WRITE);
                world_start(w, ENGINE_WRITE, true);
                end_wait(&w->active, 1);
                w->segments[0][0].size = w->segments[1][0].size = w->size;
                w->active.progress = 0;
                world_offer(w, ENGINE_WRITE);
                id = world_start(w, ENGINE_WRITE, true);
                WAIT_UNTIL(last_came);
                engine_transfer_cancel(w->engine[0], id, FERRY_E_STALLED);
                end_wait(&w->active, 2);
                assert_int_not_equal(w->active.outcome.error, 0);
                if (w->passive.claims == 2) { /* not without the first part */
                        end_wait(&w->passive, 2);
                        assert_int_not_equal(w->passive.outcome.error, 0);
                }
                assert_int_equal(faulty_count(FAULT_DROP), 1);
                assert_true(faulty_count(FAULT_REPEAT) > 0);
                world_free(w);
        }
}

static struct world *cancelled;

static enum fault cancel_twice_before_the_answer(void *context, const struct wire_header *header)
{
        if (header->type != WIRE_DONE_ACK)
                return FAULT_NONE;
        engine_transfer_cancel(cancelled->engine[0], header->transfer, FERRY_E_CANCELLED);
        engine_transfer_cancel(cancelled->engine[0], header->transfer, FERRY_E_TIMEOUT);
        return FAULT_DELAY;
}

/* It decides. A second cancel, as of a worker that shuts down, must not end the wait for its answer. */
TEST(two_cancels_do_not_take_back_what_the_peer_has_been_told)
{
        const struct faulty_plan plan = { .delay_us = 30000, .seed = 1, .script = cancel_twice_before_the_answer };

        faulty_set_plan(&plan);
        FOR_EACH_CARRIER (w, CARRIERS, 200 << 10) {
                world_offer(w, ENGINE_READ);
                cancelled = w;
                (void)world_start(w, ENGINE_READ, true);
                end_wait(&w->active, 1);
                end_wait(&w->passive, 1);
                assert_int_equal(w->passive.outcome.error, 0);
                assert_int_equal(w->active.outcome.error, 0);
        }
        assert_int_equal(faulty_count(FAULT_DELAY), CARRIERS);
}
