/* SPDX-License-Identifier: Apache-2.0 */
#include "swarm.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <ferry/error.h>

#include "area.h"
#include "base/clock.h"
#include "base/util.h"
#include "message/ranges.h"
#include "offered.h"

enum {
        AT_ONCE = 12,
        PIECES_MAX = 6,
        TOTAL_MAX = 400 << 10, /* several chunks */
        AREA = TOTAL_MAX + 64 * PIECES_MAX,
        CHUNK = 160 << 10, /* of several parts over TCP */
        CONNECT_MS = SANITIZED ? 4000 : 400,
        PATIENCE_MS = 20000, /* beyond all limits: it hangs */
};

enum { ACTIVE, PASSIVE };

/* Who ends it before its limit. */
enum interruption { NOBODY, CANCEL, REVOKE };

struct flight {
        struct swarm *swarm;
        enum engine_direction direction;
        bool verify;
        enum interruption interruption;
        uint64_t id, operation, total, seed;
        uint64_t begun_us, interrupt_us, limit_us; /* 0 = it was done, or not begun */
        uint8_t key[FERRY_KEY_SIZE];
        uint8_t *area[2];
        struct segment segments[2][PIECES_MAX];
        size_t n_segments[2];
        struct segment offer; /* with parts: what the passive side offers, its whole area */
        struct ranges *parts; /* of it, that move: the segments of that side; NULL = they are the offer */
        /* Guarded by the swarm's lock. */
        bool closed, claimed;
        bool ended[2];
        int error[2];
        uint64_t digest; /* of the destination's area when its side ended */
        bool over;
};

struct swarm {
        struct engine *engine[2];
        uint64_t epoch[2];
        uint64_t random;
        const struct swarm_rules *rules;
        unsigned n;
        struct flight *flights;
        uint8_t *memory[2];
        int file[2];
        struct memory *registered[2];
        pthread_mutex_t lock;
        pthread_cond_t changed;
};

static uint64_t draw(struct swarm *s)
{
        s->random ^= s->random << 13;
        s->random ^= s->random >> 7;
        s->random ^= s->random << 17;
        return s->random;
}

static int destination(const struct flight *f)
{
        return f->direction == ENGINE_READ ? ACTIVE : PASSIVE;
}

/* ---- what the engines call ---- */

static void flight_ended(struct flight *f, int side, const struct engine_outcome *outcome)
{
        struct swarm *s = f->swarm;

        if (side == destination(f))
                f->digest = area_digest(f->area[side], AREA);
        else
                area_scribble(f->segments[side], f->n_segments[side]);
        pthread_mutex_lock(&s->lock);
        assert_false(f->ended[side]);
        f->ended[side] = true;
        f->error[side] = outcome->error;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
}

static void active_ended(void *context, const struct engine_outcome *outcome)
{
        flight_ended(context, ACTIVE, outcome);
}

static void passive_ended(void *context, const struct engine_outcome *outcome)
{
        flight_ended(context, PASSIVE, outcome);
}

static void ignore_progress(void *context, uint64_t bytes)
{
        const struct flight *f = context;

        assert_true(bytes <= f->total);
}

/* Bytes of the offer. */
static uint64_t whole_of(const struct flight *f)
{
        return f->parts ? AREA : f->total;
}

static int grant(struct flight *f, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        int r = offered_check(&(struct offered){ f->key, f->direction, f->total, whole_of(f), f->closed, f->claimed },
                              request);

        if (r)
                return r;
        f->claimed = true;
        *ret_claim = (struct engine_claim){ .segments = f->parts ? &f->offer : f->segments[PASSIVE],
                                            .n_segments = f->parts ? 1 : f->n_segments[PASSIVE],
                                            .total = whole_of(f),
                                            .progress = ignore_progress,
                                            .context = f,
                                            .ended = passive_ended };
        return 0;
}

static int claim(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        struct swarm *s = context;
        int r = FERRY_E_STALE_METADATA;

        pthread_mutex_lock(&s->lock);
        if (request->operation > 0 && request->operation <= s->n)
                r = grant(&s->flights[request->operation - 1], request, ret_claim);
        pthread_mutex_unlock(&s->lock);
        return r;
}

static int claim_nothing(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        return FERRY_E_STALE_METADATA;
}

/* ---- a transfer ---- */

/* A random list of memory in an area. */
static void lay_out(struct flight *f, int side)
{
        struct swarm *s = f->swarm;
        uint64_t rest = f->total, at = draw(s) % 32;
        size_t n = 1 + draw(s) % PIECES_MAX;

        f->area[side] = s->memory[side] + (size_t)(f - s->flights) * AREA;
        memset(f->area[side], AREA_GAP, AREA);
        for (size_t i = 0; rest > 0; i++) {
                uint64_t size = i + 1 >= n ? rest : 1 + draw(s) % rest;

                f->segments[side][i] = (struct segment){ f->area[side] + at, size, s->registered[side] };
                f->n_segments[side] = i + 1;
                at += size + draw(s) % 32;
                rest -= size;
        }
        if (side != destination(f))
                area_fill(f->segments[side], f->n_segments[side], f->seed);
}

/* The passive side offers all of its area, and the active side moves parts of that: whatever else is there must stay.
 */
static void take_parts(struct flight *f)
{
        struct range given[PIECES_MAX];
        const char *why;
        size_t bad;

        for (size_t i = 0; i < f->n_segments[PASSIVE]; i++)
                given[i] = (struct range){ (uint64_t)(f->segments[PASSIVE][i].address - f->area[PASSIVE]),
                                           f->segments[PASSIVE][i].size };
        f->offer = (struct segment){ f->area[PASSIVE], AREA, f->swarm->registered[PASSIVE] };
        assert_int_equal(ranges_new(given, f->n_segments[PASSIVE], &f->parts, &bad, &why), 0);
        (void)test_keep(f->parts, free);
}

static uint64_t draw_total(struct swarm *s)
{
        static const uint64_t limits[] = { 64, 4096, 4096, 20000, 64 << 10, 100 << 10, CHUNK, TOTAL_MAX };

        return 1 + draw(s) % limits[draw(s) % FERRY_ARRAY_SIZE(limits)];
}

static void flight_prepare(struct flight *f, struct swarm *s)
{
        f->swarm = s;
        f->seed = draw(s);
        f->total = draw_total(s);
        f->direction = draw(s) % 2 ? ENGINE_READ : ENGINE_WRITE;
        f->verify = draw(s) % 3 != 0;
        f->interruption = draw(s) % 6 == 0 ? CANCEL : draw(s) % 6 == 0 ? REVOKE : NOBODY;
        f->operation = (uint64_t)(f - s->flights) + 1;
        random_bytes(f->key, sizeof(f->key));
        lay_out(f, ACTIVE);
        lay_out(f, PASSIVE);
        if (draw(s) % 2)
                take_parts(f);
}

static void flight_begin(struct flight *f)
{
        struct swarm *s = f->swarm;
        struct engine_transfer transfer = {
                .id = f->id = random_id(),
                .direction = f->direction,
                .peer = { .epoch = s->epoch[PASSIVE], .data = engine_get_facts(s->engine[PASSIVE])->data_address },
                .remote_operation = f->operation,
                .segments = f->segments[ACTIVE],
                .n_segments = f->n_segments[ACTIVE],
                .total = f->total,
                .remote = f->parts,
                .remote_total = whole_of(f),
                .verify = f->verify,
                .context = f,
                .progress = ignore_progress,
                .ended = active_ended,
        };

        memcpy(transfer.key, f->key, sizeof(transfer.key));
        f->begun_us = clock_now_us();
        f->limit_us = f->begun_us + s->rules->limit_ms * 1000;
        f->interrupt_us = f->interruption == NOBODY ? 0 : f->begun_us + draw(s) % 3000;
        assert_int_equal(engine_transfer_start(s->engine[ACTIVE], &transfer), 0);
}

static void flight_close(struct flight *f)
{
        pthread_mutex_lock(&f->swarm->lock);
        f->closed = true;
        pthread_mutex_unlock(&f->swarm->lock);
}

/* Both sides' limits, as the operations above an engine keep them. */
static void flight_expire(struct flight *f)
{
        struct swarm *s = f->swarm;

        flight_close(f);
        engine_transfer_cancel(s->engine[ACTIVE], f->id, FERRY_E_STALLED);
        engine_claims_revoke(s->engine[PASSIVE], f->operation, FERRY_E_STALLED, FERRY_E_STALLED);
        f->limit_us = 0;
}

static void flight_interrupt(struct flight *f)
{
        struct swarm *s = f->swarm;

        if (f->interruption == CANCEL) {
                engine_transfer_cancel(s->engine[ACTIVE], f->id, FERRY_E_CANCELLED);
        } else {
                flight_close(f);
                engine_claims_revoke(s->engine[PASSIVE], f->operation, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        }
        f->interrupt_us = 0;
}

static bool is_over(struct flight *f)
{
        bool over;

        pthread_mutex_lock(&f->swarm->lock);
        over = f->ended[ACTIVE] && (!f->claimed || f->ended[PASSIVE]);
        f->closed |= over; /* it was not claimed: nor will it be */
        pthread_mutex_unlock(&f->swarm->lock);
        return over;
}

static void flight_look(struct flight *f, uint64_t now_us)
{
        if (is_over(f)) {
                f->over = true;
                return;
        }
        if (f->interrupt_us && now_us >= f->interrupt_us)
                flight_interrupt(f);
        if (f->limit_us && now_us >= f->limit_us)
                flight_expire(f);
        if (now_us > f->begun_us + (f->swarm->rules->limit_ms + PATIENCE_MS) * 1000)
                fail_msg("a %s of %llu bytes hangs; active ended %d (%s), passive claimed %d ended %d (%s)",
                         f->direction == ENGINE_READ ? "read" : "write", (unsigned long long)f->total, f->ended[ACTIVE],
                         ferry_error_code(f->error[ACTIVE]), f->claimed, f->ended[PASSIVE],
                         ferry_error_code(f->error[PASSIVE]));
}

/* ---- what must hold ---- */

static void check_bytes(const struct flight *f)
{
        int side = destination(f);
        uint64_t arrived = area_arrived(f->segments[side], f->n_segments[side], f->seed);

        if (arrived < f->total)
                fail_msg("byte %llu of %llu of a %s that is complete (verify %d) is not the source's",
                         (unsigned long long)arrived, (unsigned long long)f->total,
                         f->direction == ENGINE_READ ? "read" : "write", f->verify);
}

static void check_gaps(const struct flight *f, int side)
{
        assert_true(area_has_gaps(f->area[side], AREA, f->segments[side], f->n_segments[side]));
}

static void disagree(const struct flight *f)
{
        fail_msg("a %s of %llu bytes (verify %d): active %s, passive %s%s",
                 f->direction == ENGINE_READ ? "read" : "write", (unsigned long long)f->total, f->verify,
                 ferry_error_code(f->error[ACTIVE]), ferry_error_code(f->error[PASSIVE]),
                 f->claimed ? "" : " (never claimed)");
}

static void check_agreement(const struct flight *f)
{
        enum agreement agreement = f->swarm->rules->agreement;
        int active = f->error[ACTIVE], passive = f->claimed ? f->error[PASSIVE] : FERRY_E_STALE_METADATA;

        if (agreement == AGREE_NEVER || (active == 0) == (passive == 0))
                return;
        if (agreement == AGREE_ALWAYS || (active == 0 && f->direction == ENGINE_WRITE))
                disagree(f);
        if (agreement == AGREE_UNLESS_LOST && active + passive != FERRY_E_PEER_LOST &&
            active + passive != FERRY_E_PEER_UNREACHABLE)
                disagree(f);
}

static void flight_check(const struct flight *f)
{
        const struct swarm_rules *rules = f->swarm->rules;
        int side = destination(f);

        if (f->ended[side])
                assert_int_equal(area_digest(f->area[side], AREA), f->digest);
        check_gaps(f, ACTIVE);
        /* A forged WRITE may name other bytes of the offer than the transfer's parts; its ACK tells. */
        if (!f->parts || f->direction == ENGINE_READ || f->swarm->rules->agreement != AGREE_NEVER)
                check_gaps(f, PASSIVE);
        if (f->ended[side] && f->error[side] == 0 && (f->verify || !rules->bytes_differ))
                check_bytes(f);
        check_agreement(f);
        if (rules->all_complete && f->interruption == NOBODY && f->error[ACTIVE] != 0)
                disagree(f);
}

/* ---- the swarm ---- */

static void memory_new(struct swarm *s, enum carrier way, int side)
{
        size_t size = (size_t)s->n * AREA;

        s->file[side] = -1;
        if (way == MAPPED) {
                s->file[side] = memfd_create("swarm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                assert_true(s->file[side] >= 0);
                assert_int_equal(ftruncate(s->file[side], (off_t)size), 0);
                assert_int_equal(fcntl(s->file[side], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        }
        s->memory[side] = mmap(NULL, size, PROT_READ | PROT_WRITE,
                               way == MAPPED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, s->file[side], 0);
        assert_true(s->memory[side] != MAP_FAILED);
        assert_int_equal(engine_memory_register(s->engine[side],
                                                &(struct engine_memory){ .address = s->memory[side],
                                                                         .size = size,
                                                                         .fd = s->file[side],
                                                                         .id = MEMORY_ID },
                                                &s->registered[side]),
                         0);
}

static void swarm_open(struct swarm *s, enum carrier way)
{
        bool network = way == NETWORK;

        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        for (int side = 0; side < 2; side++) {
                const struct engine_config config = {
                        .epoch = s->epoch[side] = random_id(),
                        .local = network ? NULL : local_directory(),
                        .data_listen = network ? "127.0.0.1:0" : NULL,
                        .ucx_tls = network ? "tcp,self" : NULL,
                        .chunk_size = CHUNK,
                        .grace_ms = s->rules->grace_ms,
                        .connect_ms = CONNECT_MS,
                        .operations = { .claim = side == PASSIVE ? claim : claim_nothing, .context = s },
                };

                assert_int_equal(engine_new(&config, &s->engine[side]), 0);
                memory_new(s, way, side);
        }
        s->flights = calloc(s->n, sizeof(*s->flights));
        for (unsigned i = 0; i < s->n; i++)
                flight_prepare(&s->flights[i], s);
}

static void swarm_close(struct swarm *s)
{
        for (int side = 0; side < 2; side++) {
                engine_stop(s->engine[side]);
                engine_memory_deregister(s->engine[side], s->registered[side]);
                engine_free(s->engine[side]);
        }
        for (unsigned i = 0; i < s->n; i++)
                flight_check(&s->flights[i]);
        for (int side = 0; side < 2; side++) {
                (void)munmap(s->memory[side], (size_t)s->n * AREA);
                cleanup_close(&s->file[side]);
        }
        free(s->flights);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
}

/* A moment, or less if one ends. */
static void await_change(struct swarm *s)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
                until.tv_sec++;
                until.tv_nsec -= 1000000000;
        }
        pthread_mutex_lock(&s->lock);
        (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
        pthread_mutex_unlock(&s->lock);
}

void swarm_run(enum carrier way, const struct faulty_plan *plan, const struct swarm_rules *rules, unsigned n)
{
        struct swarm s = { .n = n, .rules = rules, .random = plan->seed * 2 + 1 };
        unsigned begun = 0, over = 0;

        faulty_set_plan(plan);
        swarm_open(&s, way);
        while (over < n) {
                uint64_t now_us = clock_now_us();

                over = 0;
                for (unsigned i = 0; i < begun; i++) {
                        if (!s.flights[i].over)
                                flight_look(&s.flights[i], now_us);
                        over += s.flights[i].over;
                }
                for (; begun < n && begun < over + AT_ONCE; begun++)
                        flight_begin(&s.flights[begun]);
                if (over < n)
                        await_change(&s);
        }
        swarm_close(&s);
}
