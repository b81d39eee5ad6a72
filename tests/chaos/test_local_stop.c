/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

/*
 * SIGSTOP of either worker of one host at a random moment of a read or a write: the other one's operation ends, by a
 * cancel or by the stall limit, and memory whose operation was terminal never changes any more, whatever the stopped
 * one does when it goes on. A source may be used anew then: a target is complete with the right bytes or not at all.
 * FERRY_CHAOS_ROUNDS, times five, says how often.
 */

enum {
        MIB = 1 << 20,
        SIZE_LONG = 256 * MIB,
        SIZE_SHORT = 64 * MIB,
        TIMES = 6,
        TIMES_A_ROUND = 5,
        END_MS = 4000, /* of the survivor's operation, from the stop on */
};

/* One end of the transfer. */
struct end {
        struct worker *w;
        const char *region;
        uint64_t *memory; /* of the region */
        const char *operation;
        int status;
};

struct scene {
        struct pair pair;
        size_t size;
        struct end ends[2]; /* of pair.a, which offers, and of pair.b */
        struct ferry_operation passive, active;
        uint64_t *copy;
        uint64_t usual_us[2]; /* that a transfer takes, without and with checksums */
        uint64_t random;
        unsigned in_the_middle;
};

static const char *const flags[] = { "--stall-limit", LIMIT_MS(500), "--grace", LIMIT_MS(300), NULL };

static unsigned times(const struct scene *s)
{
        return s->size == SIZE_SHORT ? TIMES : TIMES_A_ROUND * (unsigned)atoi(getenv("FERRY_CHAOS_ROUNDS"));
}

/* xorshift64*; the seed is told, so that a round can be had again. */
static uint64_t draw(struct scene *s, uint64_t below)
{
        s->random ^= s->random >> 12;
        s->random ^= s->random << 25;
        s->random ^= s->random >> 27;
        return (s->random * UINT64_C(2685821657736338717) >> 16) % below;
}

static void fill(struct scene *s, uint64_t *memory, uint64_t seed)
{
        for (size_t i = 0; i < s->size / 8; i++)
                memory[i] = seed + i;
}

static bool is_filled(const struct scene *s, const uint64_t *memory, uint64_t seed)
{
        for (size_t i = 0; i < s->size / 8; i++)
                if (memory[i] != seed + i)
                        return false;
        return true;
}

static void begin(struct scene *s, enum ferry_kind kind, bool verify)
{
        offer_make(&s->pair.a, kind, s->ends[0].region, &s->passive);
        if (verify)
                begin_verified(&s->pair.b, kind_of_peer(kind), s->ends[1].region, s->passive.metadata, &s->active);
        else
                begin_make(&s->pair.b, kind_of_peer(kind), s->ends[1].region, s->passive.metadata, &s->active);
        s->ends[0].operation = s->passive.id;
        s->ends[1].operation = s->active.id;
}

static void await_end(struct end *e)
{
        OPERATION end;

        assert_int_equal(ferry_wait_operation(e->w->client, e->operation, WAIT_MS, &end), 0);
        assert_true(end.done);
        e->status = end.status;
}

static void cancel(struct end *e)
{
        OPERATION now;

        assert_int_equal(ferry_cancel_operation(e->w->client, e->operation, &now), 0);
}

static bool is_claimed(struct end *e)
{
        OPERATION now;
        bool claimed;

        assert_int_equal(ferry_get_operation(e->w->client, e->operation, 0, 0, &now), 0);
        claimed = now.status != FERRY_INITIALIZED;
        return claimed;
}

static void pass_us(uint64_t us)
{
        struct timespec time = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 };

        (void)nanosleep(&time, NULL);
}

/* The survivor's operation is over although its peer stands still. */
static void end_of_survivor(struct end *survivor, bool by_cancel)
{
        uint64_t since_ms = now_ms();

        if (by_cancel || !is_claimed(survivor)) /* an offer that nobody took stands */
                cancel(survivor);
        await_end(survivor);
        assert_true(now_ms() - since_ms < END_MS * SLOWNESS);
}

static void stop_once(struct scene *s, unsigned i)
{
        enum ferry_kind kind = i & 1 ? FERRY_READABLE : FERRY_WRITABLE;
        struct end *source = &s->ends[kind == FERRY_READABLE ? 0 : 1], *target = &s->ends[source == s->ends];
        struct end *stopped = &s->ends[i >> 1 & 1], *survivor = &s->ends[stopped == s->ends];
        uint64_t seed = draw(s, UINT64_MAX >> 1);

        fill(s, source->memory, seed);
        fill(s, target->memory, ~seed);
        begin(s, kind, i >> 3 & 1);
        pass_us(draw(s, s->usual_us[i >> 3 & 1]));
        worker_pause(stopped->w);
        end_of_survivor(survivor, i >> 2 & 1);
        s->in_the_middle += survivor->status != FERRY_COMPLETE;
        /* Its memory is the program's again, which may use it; nobody else may. */
        if (survivor == source)
                fill(s, survivor->memory, ~seed);
        memcpy(s->copy, survivor->memory, s->size);
        worker_resume(stopped->w);
        if (!is_claimed(stopped)) /* the survivor had not asked it yet */
                cancel(stopped);
        await_end(stopped);
        if (target->status == FERRY_COMPLETE)
                assert_true(is_filled(s, target->memory, seed));
        assert_memory_equal(s->copy, survivor->memory, s->size);
        memcpy(s->copy, stopped->memory, s->size);
        pair_assert_serving(&s->pair);
        assert_memory_equal(s->copy, stopped->memory, s->size);
        ferry_operation_clear(&s->passive);
        ferry_operation_clear(&s->active);
}

/* How long a transfer takes that nobody stops. */
static void measure(struct scene *s)
{
        for (int i = 0; i < 8; i++) {
                OPERATION end;
                int verify = i & 1;

                begin(s, i & 2 ? FERRY_READABLE : FERRY_WRITABLE, verify);
                operation_assert_end(&s->pair.b, s->active.id, FERRY_COMPLETE, &end);
                operation_assert_end(&s->pair.a, s->passive.id, FERRY_COMPLETE, NULL);
                assert_string_equal(end.transport, "shm");
                if (!s->usual_us[verify] || end.duration_us < s->usual_us[verify])
                        s->usual_us[verify] = end.duration_us;
                ferry_operation_clear(&s->passive);
                ferry_operation_clear(&s->active);
        }
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, s->size = getenv("FERRY_CHAOS_ROUNDS") ? SIZE_LONG : SIZE_SHORT)

WITH_SCENE(a_stop_at_any_moment_ends_the_other_side_and_leaves_its_memory_alone)
{
        unsigned first;

        pair_start_with(&s->pair, false, flags);
        pair_expect_failures(&s->pair);
        s->ends[0].w = &s->pair.a;
        s->ends[1].w = &s->pair.b;
        for (int i = 0; i < 2; i++) {
                s->ends[i].region = region_make(s->ends[i].w, s->size, 0);
                s->ends[i].memory = region_map(s->ends[i].w, s->ends[i].region);
        }
        s->copy = malloc(s->size);
        assert_non_null(s->copy);
        measure(s);
        s->random = now_ms() | 1;
        print_message("seed %llu, a transfer takes %d us, with checksums %d\n", (unsigned long long)s->random,
                      (int)s->usual_us[0], (int)s->usual_us[1]);
        first = (unsigned)draw(s, 16);
        for (unsigned i = 0; i < times(s); i++)
                stop_once(s, first + 5 * i); /* 5: each of the 16 carriers once before any comes again */
        print_message("%u of %u were stopped before their end\n", s->in_the_middle, times(s));
        for (int i = 0; i < 2; i++)
                (void)munmap(s->ends[i].memory, s->size);
        free(s->copy);
}
