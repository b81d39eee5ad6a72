/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include "harness.h"

/*
 * kill -9 of a worker in the middle of a transfer: the other one's operation ends within seconds, says peer-lost, and
 * its worker serves the next peer as if nothing had been. FERRY_CHAOS_ROUNDS says how often for each combination.
 */

enum {
        MIB = 1 << 20,
        SIZE = 512 * MIB,
        ROUNDS = 2,
        TRIES = 10,
        END_MS = 5000,
        IDLE_MS = 1000,
        IDLE_WAKEUPS = 20,
        AWAY_MS = 3
};

struct scene {
        struct pair pair; /* a survives, b is the victim */
        bool verify;      /* with checksums, which takes longer */

        const char *region;
        size_t descriptors, files; /* the most that the survivor may have when no peer is there */
        uint64_t slowest_ms;
};

static unsigned rounds(void)
{
        const char *text = getenv("FERRY_CHAOS_ROUNDS");

        return text ? (unsigned)atoi(text) : ROUNDS;
}

static const char *const network_flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off",
                                             "--transports",  "tcp,self",    NULL };

static bool survivor_is_as_before(const struct scene *s)
{
        return worker_descriptors(&s->pair.a) <= s->descriptors && worker_files(&s->pair.a) <= s->files;
}

static void assert_survivor_is_as_before(struct scene *s)
{
        worker_connect(&s->pair.a, NULL, NULL); /* leaves one connection, whatever there was */
        WAIT_UNTIL_OR(survivor_is_as_before(s), "descriptors %zu → %zu, files %zu → %zu", s->descriptors,
                      worker_descriptors(&s->pair.a), s->files, worker_files(&s->pair.a));
}

/*
 * Whoever looks away finds the victim's last messages together in its socket, and a connection that is reset already:
 * the case in which UCX's TCP may abort the process (server/transport/ucx/quirks.c).
 */
static void kill_while_away(struct worker *survivor, struct worker *victim)
{
        assert_int_equal(kill(survivor->pid, SIGSTOP), 0);
        pass_time(AWAY_MS);
        worker_kill(victim);
        assert_int_equal(kill(survivor->pid, SIGCONT), 0);
}

/* A fresh victim is served, and killed in the middle of a long transfer. false: that was over too soon. */
static bool kill_in_the_middle(struct scene *s, bool victim_is_active, enum ferry_kind passive_kind, bool away)
{
        struct worker *survivor = &s->pair.a, *victim = &s->pair.b;
        struct worker *passive_worker = victim_is_active ? survivor : victim,
                      *active_worker = victim_is_active ? victim : survivor;
        OPERATION passive, active, end;
        const char *watched;
        uint64_t killed_ms;
        bool middle;

        worker_start(victim, "victim", s->pair.network ? network_flags : NULL);
        pair_assert_serving(&s->pair);
        const char *region = region_make(victim, SIZE, 0);
        offer_make(passive_worker, passive_kind, victim_is_active ? s->region : region, &passive);
        (s->verify ? begin_verified : begin_make)(active_worker, kind_of_peer(passive_kind),
                                                  victim_is_active ? region : s->region, passive.metadata, &active);
        watched = victim_is_active ? passive.id : active.id;
        middle = operation_await_middle(survivor, watched);
        killed_ms = now_ms();
        if (away)
                kill_while_away(survivor, victim);
        else
                worker_kill(victim);
        assert_int_equal(ferry_wait_operation(survivor->client, watched, WAIT_MS, &end), 0);
        killed_ms = now_ms() - killed_ms;
        middle = middle && end.status != FERRY_COMPLETE && end.bytes_done < SIZE;
        if (middle) {
                if (killed_ms > s->slowest_ms)
                        s->slowest_ms = killed_ms;
                assert_true(killed_ms < END_MS * SLOWNESS);
                assert_int_equal(end.status, FERRY_ERRORED);
                assert_string_equal(end.error_code, "peer-lost");
                assert_true(end.bytes_done > 0);
                assert_string_equal(end.transport, s->pair.network ? "tcp" : "shm");
        }
        assert_int_equal(ferry_delete_operation(survivor->client, watched), 0);
        assert_survivor_is_as_before(s);
        return middle;
}

static void kill_each(struct scene *s, bool victim_is_active, enum ferry_kind passive_kind)
{
        for (unsigned i = 0; i < rounds(); i++) {
                int tries = 1;

                while (!kill_in_the_middle(s, victim_is_active, passive_kind, i % 2 == 1))
                        assert_true(tries++ < TRIES);
        }
}

/* A connection that could not be closed would be looked after for ever. */
static void assert_survivor_sleeps(struct scene *s)
{
        struct wakeups before;

        worker_wakeups(&s->pair.a, &before);
        pass_time(IDLE_MS);
        assert_true(worker_wakeups_since(&s->pair.a, &before) < IDLE_WAKEUPS);
}

static void survive(struct scene *s, bool network, bool verify)
{
        s->pair.network = network;
        s->verify = verify;
        worker_start(&s->pair.a, "survivor", network ? network_flags : NULL);
        worker_expect(&s->pair.a, "error=peer-lost");
        s->region = region_make(&s->pair.a, SIZE, 0);
        worker_connect(&s->pair.a, NULL, NULL);
        s->descriptors = worker_descriptors(&s->pair.a);
        s->files = worker_files(&s->pair.a);
        for (int active = 0; active < 2; active++)
                for (int readable = 0; readable < 2; readable++)
                        kill_each(s, active, readable ? FERRY_READABLE : FERRY_WRITABLE);
        worker_start(&s->pair.b, "last", network ? network_flags : NULL);
        pair_assert_serving(&s->pair);
        worker_stop(&s->pair.b);
        assert_survivor_is_as_before(s);
        assert_survivor_sleeps(s);
        worker_stop(&s->pair.a);
        print_message("%s side: the slowest end came after %d ms\n", side_names[network], (int)s->slowest_ms);
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(survivor_ends_and_serves_on_the_local_side)
{
        survive(s, false, false);
}

WITH_SCENE(survivor_ends_and_serves_on_the_local_side_with_checksums)
{
        survive(s, false, true);
}

WITH_SCENE(survivor_ends_and_serves_on_the_network_side)
{
        survive(s, true, true);
}
