/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What goes wrong with a GPU, and what that does not hold up. */

static void begin(struct gpu_scene *s, enum ferry_kind kind, const char **ret_offered, const char **ret_local,
                  struct ferry_operation *passive, struct ferry_operation *active)
{
        *ret_offered = device_region(&s->pair.a, "cuda:0", 20 * MIB, kind == FERRY_READABLE ? SEED : 0);
        *ret_local = device_region(&s->pair.b, "cuda:0", 20 * MIB, kind == FERRY_READABLE ? 0 : SEED);
        offer_make(&s->pair.a, kind, *ret_offered, passive);
        gpu_set_faults(s, "stuck");
        begin_make(&s->pair.b, kind_of_peer(kind), *ret_local, passive->metadata, active);
}

/* Until the active side has asked for bytes, and the passive side knows of it. */
static void await_running(struct worker *w, const char *id)
{
        OPERATION now;

        do {
                assert_int_equal(ferry_get_operation(w->client, id, 1000, 1, &now), 0);
                if (now.status == FERRY_IN_PROGRESS)
                        break;
                ferry_operation_clear(&now);
        } while (true);
}

WITH_GPUS(a_cancel_waits_for_the_copy_that_the_gpu_has_begun)
{
        for (int kind = 0; kind < 2; kind++) {
                const char *offered, *local;
                OPERATION passive, active, now;

                pair_start(&s->pair, false);
                pair_expect_failures(&s->pair);
                begin(s, kind ? FERRY_READABLE : FERRY_WRITABLE, &offered, &local, &passive, &active);
                await_running(&s->pair.a, passive.id);
                assert_int_equal(ferry_cancel_operation(s->pair.b.client, active.id, &now), 0);
                gpu_set_faults(s, "");
                operation_assert_end(&s->pair.b, active.id, FERRY_CANCELLED, NULL);
                operation_assert_end(&s->pair.a, passive.id, FERRY_CANCELLED, NULL);
                region_drop(&s->pair.a, offered);
                region_drop(&s->pair.b, local);
                pair_assert_serving(&s->pair);
                pair_stop(&s->pair);
        }
}

/* Processor time of the worker in ns. */
static int64_t cpu_time(const struct worker *w)
{
        struct timespec used;
        clockid_t clock;

        assert_int_equal(clock_getcpuclockid(w->pid, &clock), 0);
        assert_int_equal(clock_gettime(clock, &used), 0);
        return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* While the operation, which does not move, is waited for. */
static void assert_sleeps(struct worker *w, const char *id)
{
        enum { QUIET_MS = 200 };
        int64_t before = cpu_time(w);
        OPERATION now;

        assert_int_equal(ferry_get_operation(w->client, id, QUIET_MS, 0, &now), 0);
        assert_false(now.done);
        assert_in_range(cpu_time(w) - before, 0, QUIET_MS * 1000000 / 4);
}

WITH_GPUS(a_peer_that_is_killed_ends_the_transfer)
{
        const char *offered, *local;
        OPERATION passive, active;

        pair_start(&s->pair, false);
        pair_expect_failures(&s->pair);
        begin(s, FERRY_READABLE, &offered, &local, &passive, &active);
        while (s->counts->in_flight == 0) /* b's */
                (void)sched_yield();
        worker_kill(&s->pair.a);
        assert_sleeps(&s->pair.b, active.id);
        gpu_set_faults(s, "");
        operation_assert_error(&s->pair.b, active.id, FERRY_ERRORED, FERRY_E_PEER_LOST);
        region_drop(&s->pair.b, local);
}

/* On the side that offers, and on the other one, as source and as target. */
WITH_GPUS(a_gpu_that_falls_off_the_bus_ends_its_operations_and_nothing_else)
{
        static const struct {
                const char *word;
                struct course course;
        } rows[] = { { "gone", { FERRY_READABLE, "cuda:0", "cuda:0", 3 * MIB, NULL } },
                     { "reset", { FERRY_READABLE, "cuda:0", "cpu", 3 * MIB, NULL } },
                     { "gone", { FERRY_READABLE, "cpu", "cuda:0", 3 * MIB, NULL } },
                     { "reset", { FERRY_WRITABLE, "cuda:0", "cpu", 3 * MIB, NULL } } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (int network = 0; network < 2; network++) {
                        const struct course *c = &rows[i].course;
                        struct course_state begun;

                        pair_start(&s->pair, network);
                        pair_expect_failures(&s->pair);
                        worker_expect(&s->pair.a, "CUDA call failed");
                        worker_expect(&s->pair.b, "CUDA call failed");
                        course_prepare(&s->pair, c, &begun);
                        gpu_set_faults(s, rows[i].word);
                        course_begin(&s->pair, c, &begun);
                        operation_assert_error(&s->pair.b, begun.active, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                        operation_assert_error(&s->pair.a, begun.passive.id, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                        assert_problem(&s->pair.a, "POST", "/v1/regions", "{\"size\":4096,\"device\":\"cuda:0\"}", 400,
                                       "unknown-device", NULL);
                        pair_assert_serving(&s->pair);
                        course_clear(&s->pair, &begun);
                        pair_stop(&s->pair);
                        gpu_set_faults(s, "");
                }
}

/* Nothing was asked for or sent, so the offer stands. */
WITH_GPUS(a_write_from_a_gpu_that_is_gone_leaves_the_offer_as_it_is)
{
        for (int network = 0; network < 2; network++) {
                const struct course c = { FERRY_WRITABLE, "cpu", "cuda:0", 3 * MIB, NULL };
                struct course_state begun;

                pair_start(&s->pair, network);
                pair_expect_failures(&s->pair);
                worker_expect(&s->pair.b, "CUDA call failed");
                course_prepare(&s->pair, &c, &begun);
                gpu_set_faults(s, "gone");
                course_begin(&s->pair, &c, &begun);
                operation_assert_error(&s->pair.b, begun.active, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                gpu_set_faults(s, "");
                course_begin(&s->pair, &c, &begun);
                /* The other side could not open the memory, and does not try again. */
                course_end(&s->pair, &c, &begun, network ? "tcp" : "shm+staged", network ? "tcp+staged" : "shm+staged");
                pair_stop(&s->pair);
        }
}

/* While its copies run. */
WITH_GPUS(a_gpu_that_falls_off_the_bus_in_the_middle_ends_both_sides)
{
        static const struct {
                enum ferry_kind kind;
                bool network;
        } rows[] = { { FERRY_READABLE, true }, { FERRY_READABLE, false }, { FERRY_WRITABLE, false } };

        for (size_t i = 0; i < 3; i++) {
                OPERATION passive, active;
                const char *offered, *local;

                pair_start(&s->pair, rows[i].network);
                pair_expect_failures(&s->pair);
                worker_expect(&s->pair.a, "CUDA call failed");
                worker_expect(&s->pair.b, "CUDA call failed");
                begin(s, rows[i].kind, &offered, &local, &passive, &active);
                await_running(&s->pair.a, passive.id);
                gpu_set_faults(s, "gone");
                operation_assert_error(&s->pair.b, active.id, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                operation_assert_error(&s->pair.a, passive.id, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                pair_assert_serving(&s->pair);
                region_drop(&s->pair.a, offered);
                region_drop(&s->pair.b, local);
                pair_stop(&s->pair);
                gpu_set_faults(s, "");
        }
}

/* ---- memory that goes ---- */

WITH_GPUS(memory_is_freed_after_its_peers_have_closed_it)
{
        const struct course c = { FERRY_READABLE, "cuda:0", "cuda:0", 1 * MIB, NULL };

        pair_start(&s->pair, false);
        for (int i = 0; i < 5; i++)
                course_run(&s->pair, &c, "shm+cuda_ipc", "shm+cuda_ipc");
        pair_stop(&s->pair);
        assert_int_equal(s->counts->freed_while_open, 0);
}

/* Its owner frees it as soon as the link is closed. */
WITH_GPUS(a_worker_that_ends_closes_its_peers_memory_before_its_link)
{
        const struct course c = { FERRY_READABLE, "cuda:0", "cuda:0", 1 * MIB, NULL };
        struct course_state state;

        gpu_set_faults(s, "lingers");
        pair_start(&s->pair, false);
        course_prepare(&s->pair, &c, &state);
        course_begin(&s->pair, &c, &state);
        operation_assert_end(&s->pair.b, state.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&s->pair.a, state.passive.id, FERRY_COMPLETE, NULL);
        ferry_operation_clear(&state.passive);
        kill(s->pair.b.pid, SIGTERM);
        worker_await_metric(&s->pair.a, "ferry_links{transport=\"local\"}", 0);
        region_drop(&s->pair.a, state.offered);
        assert_int_equal(worker_reap(&s->pair.b), 0);
        worker_stop(&s->pair.a);
        assert_int_equal(s->counts->freed_while_open, 0);
        worker_clean(&s->pair.b);
}

/* ---- what a GPU does not hold up ---- */

/* A transfer between GPUs that stand still, at first. */
struct standing {
        bool network;
        const char *faults; /* beside the standstill */
        enum ferry_kind kind;
        uint64_t size;
        const char *more, *transport;
};

static void standing_run(struct gpu_scene *s, const struct standing *t)
{
        const struct course beside = { t->kind, "cpu", "cpu", 3 * MIB, NULL };
        const struct course c = { t->kind, "cuda:0", "cuda:1", t->size, t->more };
        struct course_state begun;

        gpu_set_faults(s, t->faults);
        const char *stuck = text_format("stuck %s", t->faults);
        pair_start(&s->pair, t->network);
        course_prepare(&s->pair, &c, &begun);
        gpu_set_faults(s, stuck);
        course_begin(&s->pair, &c, &begun);
        course_run(&s->pair, &beside, t->network ? "tcp" : "shm", t->network ? "tcp" : "shm");
        pair_assert_serving(&s->pair);
        assert_not_done(&s->pair.b, begun.active);
        gpu_set_faults(s, t->faults);
        course_end(&s->pair, &c, &begun, t->transport, t->transport);
        gpu_set_faults(s, "");
        pair_stop(&s->pair);
}

/* More copies, openings and bytes stand still than one GPU has threads for, and one link has buffers for. */
WITH_GPUS(a_gpu_that_stands_still_holds_up_no_other_gpu)
{
        static const struct {
                bool network;
                const char *faults, *stands, *local, *transport;
        } ways[] = {
                { true, "", "stuck0", "cuda:0", "tcp+staged" },      { true, "", "hung0", "cuda:0", "tcp+staged" },
                { false, "open", "stuck0", "cuda:0", "shm+staged" }, { false, "", "stuck0", "cuda:0", "shm+cuda_ipc" },
                { false, "", "stuck0", "cuda:1", "shm+cuda_ipc" },   { false, "", "hung0", "cuda:0", "shm+cuda_ipc" }
        };
        enum { STANDING = 6 };

        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
                const struct course standing = { FERRY_READABLE, "cuda:0", ways[i].local, 3 * MIB, NULL };
                const struct course moving = { FERRY_READABLE, "cuda:1", "cuda:1", 9 * MIB, NULL };
                struct course_state begun[STANDING];

                gpu_set_faults(s, ways[i].faults);
                pair_start(&s->pair, ways[i].network);
                for (size_t k = 0; k < STANDING; k++)
                        course_prepare(&s->pair, &standing, &begun[k]);
                gpu_set_faults(s, text_format("%s %s", ways[i].stands, ways[i].faults));
                for (size_t k = 0; k < STANDING; k++)
                        course_begin(&s->pair, &standing, &begun[k]);
                course_run(&s->pair, &moving, ways[i].transport, ways[i].transport);
                for (size_t k = 0; k < STANDING; k++)
                        assert_not_done(&s->pair.b, begun[k].active);
                gpu_set_faults(s, ways[i].faults);
                for (size_t k = 0; k < STANDING; k++)
                        course_end(&s->pair, &standing, &begun[k], ways[i].transport, ways[i].transport);
                pair_stop(&s->pair);
        }
}

/* The same as it goes between hosts, and on one host by every way that there is. */
WITH_GPUS(a_gpu_that_stands_still_holds_up_no_other_transfer)
{
        static const struct {
                bool network;
                const char *faults, *transport;
        } ways[] = { { true, "", "tcp+staged" }, { false, "open", "shm+staged" }, { false, "", "shm+cuda_ipc" } };
        static const uint64_t lengths[] = { 4 * KIB, 5 * MIB + 7 };

        for (size_t i = 0; i < 3; i++)
                for (size_t k = 0; k < 2; k++)
                        for (int read = 0; read < 2; read++) {
                                const struct standing t = {
                                        .network = ways[i].network,
                                        .faults = ways[i].faults,
                                        .kind = read ? FERRY_READABLE : FERRY_WRITABLE,
                                        .size = lengths[k],
                                        .more = i == 0 && read ? ",\"verify\":true" : NULL,
                                        .transport = lengths[k] > 8 * KIB || ways[i].network ? ways[i].transport
                                                                                             : "shm+staged",
                                };

                                standing_run(s, &t);
                        }
}

/*
 * More bytes stand still than may be in flight to a peer, on either side and in both directions: transfers of host
 * memory over the same link go on.
 */
WITH_GPUS(a_gpu_that_stands_still_leaves_room_on_its_link)
{
        static const struct {
                bool network;
                const char *faults, *transport;
        } ways[] = { { true, "", "tcp" }, { false, "open", "shm" }, { false, "", "shm" } };
        enum { STANDING = 3 };

        for (size_t i = 0; i < 3; i++) {
                gpu_set_faults(s, ways[i].faults);
                pair_start_with(&s->pair, ways[i].network, STRINGS("--chunk-size", "1M", "--window", "4"));
                for (int k = 0; k < 4; k++) {
                        enum ferry_kind kind = k % 2 ? FERRY_READABLE : FERRY_WRITABLE;
                        const struct course beside = { kind, "cpu", "cpu", 5 * MIB, NULL };
                        const struct course c = {
                                kind, k < 2 ? "cuda:0" : "cpu", k < 2 ? "cpu" : "cuda:0", 3 * MIB, NULL,
                        };
                        struct course_state begun[STANDING];

                        for (size_t n = 0; n < STANDING; n++)
                                course_prepare(&s->pair, &c, &begun[n]);
                        gpu_set_faults(s, text_format("stuck %s", ways[i].faults));
                        for (size_t n = 0; n < STANDING; n++)
                                course_begin(&s->pair, &c, &begun[n]);
                        course_run(&s->pair, &beside, ways[i].transport, ways[i].transport);
                        for (size_t n = 0; n < STANDING; n++)
                                assert_not_done(&s->pair.b, begun[n].active);
                        gpu_set_faults(s, ways[i].faults);
                        for (size_t n = 0; n < STANDING; n++) {
                                operation_assert_end(&s->pair.b, begun[n].active, FERRY_COMPLETE, NULL);
                                course_clear(&s->pair, &begun[n]);
                        }
                }
                pair_stop(&s->pair);
        }
}

/* In scripts/faults alone: it takes 70 s. */
WITH_GPUS(a_worker_that_a_gpu_keeps_from_ending_gives_up)
{
        struct pair *p = &s->pair;

        if (!getenv("FERRY_SWEEP"))
                skip();
        for (size_t i = 0; i < 2; i++) {
                struct worker *w = i ? &p->b : &p->a;

                worker_start(w, i ? "b" : "a", STRINGS("--drain-timeout", "0s"));
                worker_expect(w, "drain timeout");
                worker_expect(w, "did not end in time");
                worker_expect(w, "not stopped in time");
        }
        const char *offered, *local;
        OPERATION passive, active;

        begin(s, FERRY_READABLE, &offered, &local, &passive, &active);
        await_running(&p->a, passive.id);
        kill(p->a.pid, SIGTERM);
        kill(p->b.pid, SIGTERM);
        assert_int_equal(worker_reap(&p->a), 1);
        assert_int_equal(worker_reap(&p->b), 1);
        worker_clean(&p->a);
        worker_clean(&p->b);
}
