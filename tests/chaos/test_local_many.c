/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/mman.h>

#include <ferry/worker.h>

#include "steps.h"

/*
 * Six workers serve one that reads from all of them, and that is killed or stopped in the middle. Every operation of
 * the survivors ends, whatever the memory is and whether checksums are made, and others notice nothing.
 * FERRY_CHAOS_ROUNDS says how often.
 */

enum {
        MIB = 1 << 20,
        SIZE = 128 * MIB,
        SERVERS = 6,
        ROUNDS = 2,
        TRIES = 20,
        KILL_END_MS = 1000,   /* after the death of the peer */
        CANCEL_END_MS = 500,  /* after the request; the peer stands still */
        STALL_END_MS = 3000,  /* the operations that only the limit ends */
        OTHERS_END_MS = 1000, /* a small transfer between others */
};

/* A worker that serves: a process with regions, or one inside this process with memory of its own. */
struct server {
        struct worker w;
        struct ferry_worker *inside; /* NULL = a process */
        void *memory;
        const char *region;
        struct ferry_operation offer, read;
};

struct scene {
        struct server servers[SERVERS];
        struct worker reader;
        const char *target;
        struct pair others; /* have nothing to do with the reader */
        bool own_pointers;
        uint64_t slowest_ms;
};

static unsigned rounds(void)
{
        const char *text = getenv("FERRY_CHAOS_ROUNDS");

        return text ? (unsigned)atoi(text) : ROUNDS;
}

/* ---- workers ---- */

static void process_start(struct server *s, const char *name)
{
        worker_start(&s->w, name, STRINGS("--stall-limit", LIMIT_MS(1000)));
        worker_expect(&s->w, "error=peer-lost");
        worker_expect(&s->w, "error=stalled");
        s->region = region_make(&s->w, SIZE, 0);
}

static void inside_start(struct server *s, const char *name)
{
        struct ferry_worker_options *options = ferry_worker_options_new();
        char region[FERRY_ID_SIZE];

        assert_non_null(options);
        assert_int_equal(ferry_worker_options_set(options, "listen", "127.0.0.1:0"), 0);
        assert_int_equal(ferry_worker_options_set(options, "name", name), 0);
        assert_int_equal(ferry_worker_options_set(options, "stall-limit", LIMIT_MS(1000)), 0);
        if (ferry_worker_new(options, &s->inside) != 0)
                fail_msg("%s", ferry_worker_error());
        ferry_worker_options_free(options);
        s->memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        assert_true(s->memory != MAP_FAILED);
        assert_int_equal(ferry_worker_region_add(s->inside, s->memory, SIZE, NULL, NULL, region), 0);
        s->region = text_format("%s", region);
        (void)snprintf(s->w.name, sizeof(s->w.name), "%s", name);
        worker_connect(&s->w, ferry_worker_url(s->inside, 0), NULL);
}

static void server_stop(struct server *s)
{
        if (s->inside) {
                assert_int_equal(ferry_worker_region_remove(s->inside, s->region), 0);
                s->w.client = ferry_free(s->w.client);
                s->inside = ferry_worker_free(s->inside);
                (void)munmap(s->memory, SIZE);
        } else {
                worker_stop(&s->w);
        }
}

static void scene_start(struct scene *s, bool own_pointers)
{
        s->own_pointers = own_pointers;
        for (int i = 0; i < SERVERS; i++) {
                const char *name = text_format("server-%d", i);

                if (own_pointers)
                        inside_start(&s->servers[i], name);
                else
                        process_start(&s->servers[i], name);
        }
        pair_start(&s->others, false);
        pair_assert_serving(&s->others); /* they are connected */
}

static void scene_stop(struct scene *s)
{
        for (int i = 0; i < SERVERS; i++)
                server_stop(&s->servers[i]);
        pair_stop(&s->others);
        print_message("%s: the slowest end after a death came after %d ms\n",
                      s->own_pointers ? "own pointers" : "regions", (int)s->slowest_ms);
}

/* ---- six reads ---- */

static void reader_start(struct scene *s)
{
        worker_start(&s->reader, "reader", NULL);
        worker_expect(&s->reader, "msg=\"operation ended\"");
        s->target = region_make(&s->reader, SIZE, 0);
        for (int i = 0; i < SERVERS; i++) /* they are connected */
                pair_assert_serving(&(struct pair){ .a = s->servers[i].w, .b = s->reader });
}

static void reads_clear(struct scene *s)
{
        for (int i = 0; i < SERVERS; i++) {
                ferry_operation_clear(&s->servers[i].offer);
                ferry_operation_clear(&s->servers[i].read);
        }
}

static void reads_begin(struct scene *s, bool verify)
{
        for (int i = 0; i < SERVERS; i++)
                offer_make(&s->servers[i].w, FERRY_READABLE, s->servers[i].region, &s->servers[i].offer);
        for (int i = 0; i < SERVERS; i++) {
                struct server *from = &s->servers[i];

                if (verify)
                        begin_verified(&s->reader, FERRY_READ, s->target, from->offer.metadata, &from->read);
                else
                        begin_make(&s->reader, FERRY_READ, s->target, from->offer.metadata, &from->read);
        }
}

/* Each was claimed, which some need not have been: an offer that nobody took stands. */
static bool all_are_claimed(struct scene *s)
{
        bool claimed = true;

        for (int i = 0; i < SERVERS; i++) {
                OPERATION now;

                assert_int_equal(ferry_get_operation(s->servers[i].w.client, s->servers[i].offer.id, 0, 0, &now), 0);
                claimed = claimed && now.status != FERRY_INITIALIZED;
        }
        return claimed;
}

static int count_moving(struct scene *s)
{
        int n = 0;

        for (int i = 0; i < SERVERS; i++) {
                OPERATION now;

                assert_int_equal(ferry_get_operation(s->servers[i].w.client, s->servers[i].offer.id, 0, 0, &now), 0);
                n += !now.done;
        }
        return n;
}

/* Waits for all to end within limit_ms of since_ms, each as told or complete. How many were not complete. */
static int assert_ends(struct scene *s, uint64_t since_ms, unsigned limit_ms, int error, int from, int step)
{
        int n = 0;

        for (int i = from; i < SERVERS; i += step) {
                OPERATION end;
                uint64_t took_ms;

                assert_int_equal(ferry_wait_operation(s->servers[i].w.client, s->servers[i].offer.id, WAIT_MS, &end),
                                 0);
                took_ms = now_ms() - since_ms;
                if (!end.done || took_ms > limit_ms * SLOWNESS || (end.status != FERRY_COMPLETE && end.error != error))
                        print_error("%s: %s %s after %d ms\n", s->servers[i].w.name, ferry_status_name(end.status),
                                    end.error_code, (int)took_ms);
                assert_true(end.done);
                assert_true(took_ms <= limit_ms * SLOWNESS);
                if (end.status != FERRY_COMPLETE) {
                        assert_int_equal(end.error, error);
                        n++;
                }
                if (error == FERRY_E_PEER_LOST && took_ms > s->slowest_ms)
                        s->slowest_ms = took_ms;
        }
        return n;
}

/* ---- others, meanwhile ---- */

static void assert_others_notice_nothing(struct scene *s)
{
        struct pair survivors = { .a = s->servers[0].w, .b = s->servers[1].w };
        struct pair *pairs[] = { &s->others, &survivors };

        for (size_t i = 0; i < 2; i++) {
                uint64_t started_ms = now_ms();

                pair_assert_serving(pairs[i]);
                assert_true(now_ms() - started_ms <= OTHERS_END_MS * SLOWNESS);
        }
}

/* ---- stories ---- */

static void kill_the_reader(struct scene *s, bool verify)
{
        int n = 0;

        for (int tries = 0; n < SERVERS / 2; tries++) { /* the others were faster */
                uint64_t killed_ms;

                assert_true(tries < TRIES);
                reader_start(s);
                reads_begin(s, verify);
                while (!all_are_claimed(s))
                        ;
                killed_ms = now_ms();
                worker_kill(&s->reader);
                n = assert_ends(s, killed_ms, KILL_END_MS, FERRY_E_PEER_LOST, 0, 1);
                assert_others_notice_nothing(s);
                reads_clear(s);
        }
}

/* Half of them are cancelled; the stall limit ends the others. */
static void stop_the_reader(struct scene *s, bool verify)
{
        uint64_t stopped_ms;
        int tries = 0;

        reader_start(s);
        for (;;) {
                assert_true(tries++ < TRIES);
                reads_begin(s, verify);
                while (!all_are_claimed(s))
                        ;
                worker_pause(&s->reader);
                stopped_ms = now_ms();
                if (count_moving(s) == SERVERS)
                        break;
                worker_resume(&s->reader);
                for (int i = 0; i < SERVERS; i++) {
                        operation_assert_end(&s->servers[i].w, s->servers[i].offer.id, FERRY_COMPLETE, NULL);
                        operation_assert_end(&s->reader, s->servers[i].read.id, FERRY_COMPLETE, NULL);
                }
                reads_clear(s);
        }
        for (int i = 0; i < SERVERS; i += 2) {
                OPERATION now;
                uint64_t asked_ms = now_ms();

                assert_int_equal(ferry_cancel_operation(s->servers[i].w.client, s->servers[i].offer.id, &now), 0);
                (void)assert_ends(s, asked_ms, CANCEL_END_MS, FERRY_E_CANCELLED, i, SERVERS);
        }
        assert_others_notice_nothing(s);
        (void)assert_ends(s, stopped_ms, STALL_END_MS, FERRY_E_STALLED, 1, 2);
        assert_others_notice_nothing(s);
        worker_resume(&s->reader);
        for (int i = 0; i < SERVERS; i++) {
                OPERATION end;

                assert_int_equal(ferry_wait_operation(s->reader.client, s->servers[i].read.id, WAIT_MS, &end), 0);
                assert_true(end.done);
                pair_assert_serving(&(struct pair){ .a = s->servers[i].w, .b = s->reader });
        }
        reads_clear(s);
        worker_stop(&s->reader);
}

static void run(struct scene *s, bool own_pointers)
{
        scene_start(s, own_pointers);
        for (unsigned i = 0; i < rounds(); i++)
                for (int verify = 0; verify < 2; verify++) {
                        kill_the_reader(s, verify);
                        stop_the_reader(s, verify);
                }
        scene_stop(s);
}

static int setup(void **state)
{
        *state = calloc(1, sizeof(struct scene));
        return 0;
}

static int teardown(void **state)
{
        struct scene *s = *state;

        worker_clean(&s->reader);
        for (int i = 0; i < SERVERS; i++) {
                s->servers[i].w.client = ferry_free(s->servers[i].w.client);
                s->servers[i].inside = ferry_worker_free(s->servers[i].inside);
                worker_clean(&s->servers[i].w);
        }
        pair_clean(&s->others);
        free(s);
        return 0;
}

#define WITH_SCENE(name) TEST_OF(struct scene *s, name, setup, teardown)

WITH_SCENE(those_who_serve_regions_end)
{
        run(s, false);
}

WITH_SCENE(those_who_serve_own_pointers_end)
{
        run(s, true);
}
