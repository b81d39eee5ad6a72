/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_engines.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ferry/error.h>

#include "area.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "command.h"
#include "engine_internal.h"
#include "offered.h"
#include "peer.h"
#include "session.h"

enum {
        GAP_SIZE = 64,
        AREA = FLIGHT_TOTAL_MAX + (FLIGHT_SEGMENTS_MAX + 1) * GAP_SIZE,
        MEMORY = 2 * FLIGHTS_MAX * AREA, /* of an engine, which may be both sides of every flight */
        GRACE_MS = 50,
        CONNECT_MS = 400,
        PASSES_TO_END = 400,
        PASSES_BEFORE_GRACE = 200, /* so many bring what is under way to its end, within the grace */
        BEFORE_GRACE_US = 100,
        AFTER_GRACE_US = 10000,
};

static uint64_t now_us;
static char directory[] = "/tmp/ferry-fuzz-XXXXXX";
static uint8_t *memories[ENGINES];
static int files[ENGINES] = { -1, -1 };

/* ---- what is wrapped ---- */

uint64_t __wrap_clock_now_us(void);
int __wrap_thread_start(struct engine *engine);

uint64_t __wrap_clock_now_us(void)
{
        return now_us;
}

/* The target's thread is the engine's. */
int __wrap_thread_start(struct engine *engine)
{
        (void)engine;
        return 0;
}

/* ---- set-up, once for all inputs ---- */

static void remove_directory(void)
{
        (void)rmdir(directory);
}

static void prepare(void)
{
        if (memories[0])
                return;
        log_setup(LOG_ERROR, LOG_LOGFMT);
        FUZZ_CHECK(mkdtemp(directory));
        (void)atexit(remove_directory);
        for (int i = 0; i < ENGINES; i++) {
                files[i] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                FUZZ_CHECK(files[i] >= 0 && ftruncate(files[i], MEMORY) == 0);
                FUZZ_CHECK(fcntl(files[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
                memories[i] = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
                FUZZ_CHECK(memories[i] != MAP_FAILED);
        }
}

const char *engines_directory(void)
{
        prepare();
        return directory;
}

size_t fuzz_descriptors(void)
{
        DIR *folder = opendir("/proc/self/fd");
        size_t n = 0;

        FUZZ_CHECK(folder);
        while (readdir(folder))
                n++;
        (void)closedir(folder);
        return n;
}

/* ---- memory ---- */

/* Of its area, the bytes that a transfer may come near. */
static size_t area_used(const struct flight *f)
{
        return f->total + (FLIGHT_SEGMENTS_MAX + 1) * GAP_SIZE;
}

static int destination(const struct flight *f)
{
        return f->direction == ENGINE_READ ? ACTIVE : PASSIVE;
}

/* Cuts the memory of a side into up to three segments; its bytes are the pattern's, if it is the source. */
static void lay_out(struct flight *f, int side, unsigned layout)
{
        struct fuzz_engines *engines = f->engines;
        size_t n = layout % FLIGHT_SEGMENTS_MAX + 1;
        uint64_t rest = f->total;
        uint8_t *address;

        f->area[side] = memories[f->engine[side]] + (size_t)(f - engines->flights) * 2 * AREA + (size_t)side * AREA;
        memset(f->area[side], AREA_GAP, area_used(f));
        address = f->area[side] + GAP_SIZE;
        for (size_t i = 0; rest > 0; i++) {
                uint64_t size = i + 1 == n || rest < 4 ? rest : rest / (2 + layout / FLIGHT_SEGMENTS_MAX % 4) + 1;

                f->segments[side][i] = (struct segment){ address, size, engines->memory[f->engine[side]] };
                f->n_segments[side] = i + 1;
                rest -= size;
                address += size + GAP_SIZE;
        }
        if (side != destination(f))
                area_fill(f->segments[side], f->n_segments[side], f->operation);
}

bool flight_has_arrived(const struct flight *f)
{
        int side = destination(f);

        return area_arrived(f->segments[side], f->n_segments[side], f->operation) == f->total;
}

/* ---- what the engines call ---- */

static void flight_ended(struct flight *f, int side, const struct engine_outcome *outcome)
{
        FUZZ_CHECK(!f->ended[side] && outcome->bytes <= f->total);
        FUZZ_CHECK(outcome->error >= 0 && (outcome->error != 0 || outcome->bytes == f->total));
        f->ended[side] = true;
        f->error[side] = outcome->error;
        if (side == destination(f))
                f->digest = area_digest(f->area[side], area_used(f));
        else
                area_scribble(f->segments[side], f->n_segments[side]);
}

static void active_ended(void *context, const struct engine_outcome *outcome)
{
        flight_ended(context, ACTIVE, outcome);
}

static void passive_ended(void *context, const struct engine_outcome *outcome)
{
        flight_ended(context, PASSIVE, outcome);
}

static void active_progress(void *context, uint64_t bytes)
{
        const struct flight *f = context;

        FUZZ_CHECK(!f->ended[ACTIVE] && bytes <= f->total);
}

static void passive_progress(void *context, uint64_t bytes)
{
        const struct flight *f = context;

        FUZZ_CHECK(f->claimed && !f->ended[PASSIVE] && bytes <= f->total);
}

static struct flight *find_offer(struct fuzz_engines *engines, uint64_t operation)
{
        for (size_t i = 0; i < engines->n; i++)
                if (engines->flights[i].operation == operation)
                        return &engines->flights[i];
        return NULL;
}

static int claim(struct fuzz_engines *engines, int which, const struct engine_claim_request *request,
                 struct engine_claim *ret_claim)
{
        struct flight *f = find_offer(engines, request->operation);
        int r;

        if (!f || f->engine[PASSIVE] != which)
                return FERRY_E_STALE_METADATA;
        r = offered_check(&(struct offered){ f->key, f->direction, f->total, f->total, f->closed, f->claimed },
                          request);
        if (r)
                return r;
        f->claimed = true;
        *ret_claim = (struct engine_claim){ .segments = f->segments[PASSIVE],
                                            .n_segments = f->n_segments[PASSIVE],
                                            .total = f->total,
                                            .progress = passive_progress,
                                            .context = f,
                                            .ended = passive_ended };
        return 0;
}

static int claim_first(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        return claim(context, 0, request, ret_claim);
}

static int claim_second(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        return claim(context, 1, request, ret_claim);
}

/* ---- flights ---- */

static void flight_start(struct flight *f, uint64_t peer_epoch)
{
        struct engine_transfer transfer = {
                .id = f->id,
                .direction = f->direction,
                .peer = { .epoch = peer_epoch },
                .remote_operation = f->operation,
                .segments = f->segments[ACTIVE],
                .n_segments = f->n_segments[ACTIVE],
                .total = f->total,
                .verify = f->verify,
                .context = f,
                .progress = active_progress,
                .ended = active_ended,
        };

        memcpy(transfer.key, f->key, sizeof(transfer.key));
        FUZZ_CHECK(engine_transfer_start(f->engines->engine[f->engine[ACTIVE]], &transfer) == 0);
}

struct flight *flight_begin(struct fuzz_engines *engines, int active, int passive, enum engine_direction direction,
                            uint64_t total, bool verify, unsigned layout)
{
        struct flight *f;

        if (engines->n == FLIGHTS_MAX)
                return NULL;
        f = &engines->flights[engines->n++];
        *f = (struct flight){
                .engines = engines,
                .engine = { active, passive },
                .direction = direction,
                .verify = verify,
                .id = 0x1000 * engines->n, /* one that a hostile peer changes is no other's: they are random */
                .operation = 0x2000 + engines->n,
                .total = total,
        };
        memset(f->key, (int)engines->n, sizeof(f->key));
        for (int side = 0; side < 2; side++)
                if (f->engine[side] != FLIGHT_FOREIGN)
                        lay_out(f, side, side == ACTIVE ? layout : layout / 12);
        if (active != FLIGHT_FOREIGN)
                flight_start(f, passive == FLIGHT_FOREIGN ? FUZZ_PEER_EPOCH : engines->epoch[passive]);
        return f;
}

void flight_cancel(struct flight *f, int side)
{
        struct engine *engine;

        if (f->engine[side] == FLIGHT_FOREIGN)
                return;
        engine = f->engines->engine[f->engine[side]];
        if (side == ACTIVE) {
                engine_transfer_cancel(engine, f->id, FERRY_E_CANCELLED);
                return;
        }
        f->closed = true;
        engine_claims_revoke(engine, f->operation, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

bool flight_is_over(const struct flight *f)
{
        return (f->engine[ACTIVE] == FLIGHT_FOREIGN || f->ended[ACTIVE]) &&
               (f->engine[PASSIVE] == FLIGHT_FOREIGN || !f->claimed || f->ended[PASSIVE]);
}

static void flight_check(const struct flight *f)
{
        int side = destination(f);

        FUZZ_CHECK(flight_is_over(f));
        for (int i = 0; i < 2; i++)
                if (f->engine[i] != FLIGHT_FOREIGN)
                        FUZZ_CHECK(area_has_gaps(f->area[i], area_used(f), f->segments[i], f->n_segments[i]));
        if (f->engine[side] != FLIGHT_FOREIGN && f->ended[side])
                FUZZ_CHECK(area_digest(f->area[side], area_used(f)) == f->digest);
}

/* ---- engines ---- */

void engines_open(struct fuzz_engines *engines, bool mapped)
{
        prepare();
        now_us = UINT64_C(1000000000);
        engines->n = 0;
        for (int i = 0; i < ENGINES; i++) {
                const struct engine_config config = {
                        .epoch = engines->epoch[i] = 0xe0 + (uint64_t)i,
                        .name = "fuzzed",
                        .local = directory,
                        .chunk_size = ENGINE_CHUNK_MIN,
                        .grace_ms = GRACE_MS,
                        .connect_ms = CONNECT_MS,
                        .operations = { .claim = i ? claim_second : claim_first, .context = engines },
                };

                const struct engine_memory memory = {
                        .address = memories[i],
                        .size = MEMORY,
                        .fd = mapped ? files[i] : -1,
                        .id = 1 + (uint64_t)i,
                };

                FUZZ_CHECK(engine_new(&config, &engines->engine[i]) == 0);
                FUZZ_CHECK(engine_memory_register(engines->engine[i], &memory, &engines->memory[i]) == 0);
        }
}

void engines_pass(struct fuzz_engines *engines, int which)
{
        uint64_t passed_us;

        if (engines->engine[which])
                (void)round_run(engines->engine[which], &passed_us);
}

void engines_run(struct fuzz_engines *engines, unsigned passes)
{
        while (passes-- > 0)
                for (int i = 0; i < ENGINES; i++)
                        engines_pass(engines, i);
}

void engines_advance(uint64_t us)
{
        now_us += us;
}

static bool all_are_over(const struct fuzz_engines *engines)
{
        for (size_t i = 0; i < engines->n; i++)
                if (!flight_is_over(&engines->flights[i]))
                        return false;
        return true;
}

void engines_end_flights(struct fuzz_engines *engines)
{
        for (size_t i = 0; i < engines->n; i++)
                for (int side = 0; side < 2; side++)
                        flight_cancel(&engines->flights[i], side);
        for (int i = 0; i < PASSES_TO_END && !all_are_over(engines); i++) {
                engines_run(engines, 1);
                engines_advance(i < PASSES_BEFORE_GRACE ? BEFORE_GRACE_US : AFTER_GRACE_US);
        }
        FUZZ_CHECK(all_are_over(engines));
}

/* What peers say they are called stands in logs. */
static void check_names(const struct engine *engine)
{
        const struct peer *peer;

        DL_FOREACH (engine->peers, peer)
                FUZZ_CHECK(!peer->view.name[0] || ferry_metadata_is_name(peer->view.name));
}

/* As the engine's own thread does on a STOP (server/move/thread.c). */
static void engine_end(struct fuzz_engines *engines, int which)
{
        struct engine *engine = engines->engine[which];
        uint64_t passed_us;

        FUZZ_CHECK(command_post(engine, &(struct command){ .type = COMMAND_STOP }) == 0);
        engines_run(engines, 1);
        FUZZ_CHECK(!round_is_moving(engine) || engine->connect_requests == NULL);
        for (size_t i = 0; i < engine->n_transports; i++)
                engine->transports[i]->ops->shut_down(engine->transports[i], now_us);
        (void)round_run(engine, &passed_us);
        FUZZ_CHECK(!round_is_moving(engine));
        check_names(engine);
        engine->ended = true;
        engine_memory_deregister(engine, engines->memory[which]);
        engines->engine[which] = engine_free(engine);
}

void engines_close(struct fuzz_engines *engines)
{
        engines_end_flights(engines);
        for (int i = 0; i < ENGINES; i++)
                engine_end(engines, i);
        for (size_t i = 0; i < engines->n; i++)
                flight_check(&engines->flights[i]);
}
