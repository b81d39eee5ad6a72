/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

/*
 * Six workers, of which each moves bytes with each by shared memory, TCP, HTTP and HTTPS, while they are killed,
 * stopped, ended and started again under the same name, operations are cancelled and deleted, memory is full, and
 * clients die. FERRY_CHAOS_SECONDS says how long, FERRY_CHAOS_SEED with which numbers.
 */

enum {
        SECONDS = 3,
        STOP_MS = 1500,
        LOOK_MS = 10,
        FAULT_MS = 30,         /* between two on average */
        SURVIVOR = 0,          /* lives from the start to the end */
        RSS_GROWTH_KB = 24000, /* of the survivor, whose tables fill up */
        MEMORY_LIMIT_MIB = 160,
        KEPT = 80, /* descriptors that the survivor may keep: 64 connections of libcurl, some to itself, and their like
                    */
};

enum fault { FAULT_KILL, FAULT_RESTART, FAULT_STOP, FAULT_CANCEL, FAULT_DELETE, FAULT_FULL, FAULT_CLIENT, FAULTS };

static const struct {
        const char *name;
        unsigned weight;
} faults[FAULTS] = {
        [FAULT_KILL] = { "kills", 3 },
        [FAULT_RESTART] = { "restarts", 1 },
        [FAULT_STOP] = { "stops", 3 },
        [FAULT_CANCEL] = { "cancels", 20 },
        [FAULT_DELETE] = { "deletes", 10 },
        [FAULT_FULL] = { "full memories", 2 },
        [FAULT_CLIENT] = { "clients' deaths", 10 },
};

struct scene {
        struct storm storm;
        uint64_t met[FAULTS], started_ms, seed;
        size_t descriptors;
        uint64_t rss_kb;
};

static uint64_t number_of(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- workers ---- */

static const char *tls_file(size_t which)
{
        static const char *const names[] = { "ca.pem", "server.pem", "server-key.pem" };
        static char paths[3][256];

        (void)snprintf(paths[which], sizeof(paths[which]), "%s/%s", getenv("FERRY_TEST_TLS"), names[which]);
        return paths[which];
}

static void place_fill(struct place *p, size_t number)
{
        static const char *const expected[] = { "msg=\"operation ended\"", "msg=\"a local peer", "msg=\"connection" };
        const char *const flags[] = { "--listen",
                                      "127.0.0.1:0",
                                      "--peer-ca",
                                      tls_file(0),
                                      "--data-listen",
                                      "127.0.0.1:0",
                                      "--transports",
                                      "tcp,self",
                                      "--stall-limit",
                                      LIMIT_MS(2000),
                                      "--grace",
                                      LIMIT_MS(500),
                                      "--memory-limit",
                                      "160MiB",
                                      "--retention",
                                      "60s",
                                      place_has_tls(number) ? "--tls-cert" : NULL,
                                      tls_file(1),
                                      "--tls-key",
                                      tls_file(2),
                                      NULL };
        const char *name = text_format("storm-%zu", number);

        worker_start_plain(&p->w, name, flags);
        worker_connect(&p->w, NULL, &(struct ferry_options){ .ca_file = tls_file(0) });
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                worker_expect(&p->w, expected[i]);
        p->resume_ms = 0;
}

/* One that has ended by itself has failed. */
static void assert_alive(const struct worker *w)
{
        int status;

        if (waitpid(w->pid, &status, WNOHANG) == 0)
                return;
        const char *log = worker_log(w);
        print_error("worker %s ended by itself with status %#x; log:\n", w->name, status);
        (void)fputs(log, stderr); /* cmocka would cut it */
        fail();
}

static void resume_if_due(struct place *p, uint64_t at_ms)
{
        if (p->resume_ms == 0 || at_ms < p->resume_ms)
                return;
        worker_resume(&p->w);
        p->resume_ms = 0;
}

/* ---- faults ---- */

static void kill_or_end(struct scene *s, size_t number, bool kill)
{
        struct place *p = &s->storm.places[number];

        assert_alive(&p->w);
        if (kill) {
                worker_assert_quiet(&p->w);
                worker_kill(&p->w);
        } else {
                worker_stop(&p->w);
        }
        p->life++;
        storm_mourn(&s->storm, number);
        place_fill(p, number);
}

static void stop(struct scene *s, struct place *p)
{
        worker_pause(&p->w);
        p->resume_ms = now_ms() + 1 + storm_draw(&s->storm, STOP_MS);
}

/* Regions until there is no room, which is given back at once. */
static void fill_memory(struct place *p)
{
        char ids[MEMORY_LIMIT_MIB / 16 + 1][FERRY_ID_SIZE];
        struct ferry_region region;
        size_t n = 0;

        while (n < sizeof(ids) / sizeof(ids[0]) &&
               ferry_create_region(p->w.client, &(struct ferry_region_spec){ .size = 16 << 20 }, &region) == 0)
                memcpy(ids[n++], region.id, sizeof(region.id));
        assert_true(n < sizeof(ids) / sizeof(ids[0]));
        assert_int_equal(ferry_last_problem(p->w.client)->http_status, 507);
        while (n > 0)
                region_drop(&p->w, ids[--n]);
}

/* One that leaves in the middle of what it says, with a reset or without. */
static void lose_client(struct scene *s, const struct place *p)
{
        static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
        const struct linger at_once = { .l_onoff = 1 };
        int fd = raw_connect(&p->w);

        (void)send(fd, hello, 1 + storm_draw(&s->storm, sizeof(hello) - 1), MSG_NOSIGNAL);
        if (storm_draw(&s->storm, 2))
                (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        (void)close(fd);
}

static enum fault draw_fault(struct scene *s)
{
        unsigned sum = 0, number;
        size_t i = 0;

        for (size_t j = 0; j < FAULTS; j++)
                sum += faults[j].weight;
        for (number = (unsigned)storm_draw(&s->storm, sum); number >= faults[i].weight; i++)
                number -= faults[i].weight;
        return (enum fault)i;
}

static void strike(struct scene *s)
{
        struct storm *storm = &s->storm;
        enum fault fault = draw_fault(s);
        size_t number = storm_draw(storm, STORM_WORKERS);
        struct place *p = &storm->places[number];

        if (!place_listens(p) || (number == SURVIVOR && (fault == FAULT_KILL || fault == FAULT_RESTART)))
                return;
        s->met[fault]++;
        switch (fault) {
        case FAULT_KILL:
        case FAULT_RESTART:
                kill_or_end(s, number, fault == FAULT_KILL);
                break;
        case FAULT_STOP:
                stop(s, p);
                break;
        case FAULT_CANCEL:
        case FAULT_DELETE:
                storm_disturb(storm, fault == FAULT_DELETE);
                break;
        case FAULT_FULL:
                fill_memory(p);
                break;
        case FAULT_CLIENT:
                lose_client(s, p);
                break;
        case FAULTS:
                break;
        }
}

/* ---- the trial ---- */

/* Whether something runs, or a worker is stopped. */
static bool look_at_all(struct scene *s, bool begin)
{
        uint64_t at_ms = now_ms();
        bool any = false;

        for (size_t i = 0; i < STORM_WORKERS; i++) {
                resume_if_due(&s->storm.places[i], at_ms);
                any |= s->storm.places[i].resume_ms != 0;
        }
        for (size_t i = 0; i < STORM_TRANSFERS; i++) {
                struct transfer *t = &s->storm.transfers[i];

                if (!t->begun && begin)
                        transfer_begin(&s->storm, t);
                transfer_look(&s->storm, t);
                any |= t->begun;
        }
        return any;
}

static void report(const struct scene *s)
{
        const struct storm_sums *sums = &s->storm.sums;
        uint64_t met = 0;

        for (size_t i = 0; i < FAULTS; i++)
                met += s->met[i];
        print_message("seed %llu, %d s: %llu operations (%llu complete, %llu not; shm %llu, tcp %llu, http %llu, "
                      "https %llu), %llu MiB, %llu canaries, lost: none; %llu faults:",
                      (unsigned long long)s->seed, (int)((now_ms() - s->started_ms) / 1000),
                      (unsigned long long)sums->operations, (unsigned long long)sums->complete,
                      (unsigned long long)sums->failed, (unsigned long long)sums->by_transport[STORM_SHM],
                      (unsigned long long)sums->by_transport[STORM_TCP],
                      (unsigned long long)sums->by_transport[STORM_HTTP],
                      (unsigned long long)sums->by_transport[STORM_HTTPS], (unsigned long long)sums->bytes >> 20,
                      (unsigned long long)sums->canaries, (unsigned long long)met);
        for (size_t i = 0; i < FAULTS; i++)
                print_message(" %llu %s%s", (unsigned long long)s->met[i], faults[i].name, i + 1 < FAULTS ? "," : "\n");
}

/* It has no peer, no client and no operation any more. */
static void assert_survivor_is_as_before(struct scene *s)
{
        struct worker *w = &s->storm.places[SURVIVOR].w;
        struct ferry_region_list regions;
        uint64_t rss_kb;

        worker_connect(w, NULL, &(struct ferry_options){ .ca_file = tls_file(0) });
        assert_int_equal(ferry_list_regions(w->client, 0, NULL, &regions), 0);
        assert_int_equal(regions.n, 0);
        ferry_region_list_clear(&regions);
        WAIT_UNTIL_OR(worker_descriptors(w) <= s->descriptors + KEPT,
                      "the survivor has %zu descriptors, at the start %zu", worker_descriptors(w), s->descriptors);
        rss_kb = worker_status_kb(w, "RssAnon");
        print_message("the survivor: %d → %d kB, %zu → %zu descriptors\n", (int)s->rss_kb, (int)rss_kb, s->descriptors,
                      worker_descriptors(w));
        if (!SANITIZED)
                assert_true(rss_kb < s->rss_kb + RSS_GROWTH_KB);
}

#define WITH_SCENE(name) SCENE(struct scene, s, name, (void)0)

WITH_SCENE(whatever_happens_every_operation_ends_and_is_quiet)
{
        uint64_t end_ms, strike_ms;

        s->seed = number_of("FERRY_CHAOS_SEED", (uint64_t)getpid());
        s->storm.random = s->seed * 2 + 1;
        for (size_t i = 0; i < STORM_WORKERS; i++)
                place_fill(&s->storm.places[i], i);
        s->descriptors = worker_descriptors(&s->storm.places[SURVIVOR].w);
        s->rss_kb = worker_status_kb(&s->storm.places[SURVIVOR].w, "RssAnon");
        s->started_ms = now_ms();
        end_ms = s->started_ms + number_of("FERRY_CHAOS_SECONDS", SECONDS) * 1000;
        for (strike_ms = s->started_ms; now_ms() < end_ms; pass_time(LOOK_MS)) {
                (void)look_at_all(s, true);
                for (; strike_ms <= now_ms(); strike_ms += storm_draw(&s->storm, 2 * FAULT_MS))
                        strike(s);
        }
        for (; look_at_all(s, false); pass_time(LOOK_MS))
                storm_disturb(&s->storm, false); /* offers that nobody took end by that alone, or late */
        report(s);
        for (size_t i = 0; i < STORM_WORKERS; i++)
                if (i != SURVIVOR)
                        worker_stop(&s->storm.places[i].w);
        assert_survivor_is_as_before(s);
        worker_stop(&s->storm.places[SURVIVOR].w);
        assert_true(s->storm.sums.complete > 0);
}
