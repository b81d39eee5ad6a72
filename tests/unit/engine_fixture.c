/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/util.h"
#include "engine_fixture.h"
#include "test.h"

void end_init(struct end *end)
{
        *end = (struct end){ 0 };
        pthread_mutex_init(&end->lock, NULL);
        pthread_cond_init(&end->changed, NULL);
}

bool end_comes(struct end *end, int ended)
{
        struct timespec deadline;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += TIMEOUT_S;
        pthread_mutex_lock(&end->lock);
        while (end->ended < ended && r == 0)
                r = pthread_cond_timedwait(&end->changed, &end->lock, &deadline);
        pthread_mutex_unlock(&end->lock);
        return r == 0;
}

void end_wait(struct end *end, int ended)
{
        assert_true(end_comes(end, ended));
        assert_int_equal(end->ended, ended);
}

void world_ends(struct world *w, int n, int active_error, int passive_error)
{
        end_wait(&w->active, n);
        end_wait(&w->passive, n);
        assert_int_equal(w->active.outcome.error, active_error);
        assert_int_equal(w->passive.outcome.error, passive_error);
}

void end_note(struct end *end, const struct engine_outcome *outcome)
{
        pthread_mutex_lock(&end->lock);
        if (outcome)
                end->outcome = *outcome;
        end->thread = pthread_self();
        end->ended++;
        pthread_cond_broadcast(&end->changed);
        pthread_mutex_unlock(&end->lock);
}

static void passive_progress(void *context, uint64_t bytes)
{
        struct world *w = context;

        w->passive.progress = bytes;
        w->passive.steps++;
        if (w->on_passive_progress)
                w->on_passive_progress(w, bytes);
}

static void passive_ended(void *context, const struct engine_outcome *outcome)
{
        end_note(&((struct world *)context)->passive, outcome);
}

static int claim(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        struct world *w = context;

        pthread_mutex_lock(&w->gate);
        pthread_mutex_unlock(&w->gate);
        if (w->refuse)
                return w->refuse;
        if (request->operation != OPERATION)
                return FERRY_E_STALE_METADATA;
        if (!ferry_key_equal(request->key, w->key))
                return FERRY_E_PEER_REFUSED;
        if (request->direction != w->direction)
                return FERRY_E_KIND_MISMATCH;
        if (request->total != w->total || request->whole != w->total)
                return FERRY_E_SIZE_MISMATCH;
        w->passive.claims++;
        if (w->on_claim)
                w->on_claim(w);
        *ret_claim = (struct engine_claim){
                .segments = w->segments[1],
                .n_segments = w->n_segments[1],
                .total = w->total,
                .progress = passive_progress,
                .context = w,
                .ended = passive_ended,
        };
        return 0;
}

static int claim_nothing(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        return FERRY_E_STALE_METADATA;
}

static void wake_active(void *context)
{
        struct world *w = context;

        if (w->on_wake_waiters[0])
                w->on_wake_waiters[0](w);
}

static void wake_passive(void *context)
{
        struct world *w = context;

        if (w->on_wake_waiters[1])
                w->on_wake_waiters[1](w);
}

static void memory_new(struct world *w, int i)
{
        w->file[i] = -1;
        if (w->carrier != MAPPED) {
                w->memory[i] = aligned_alloc(4096, (w->size + 4095) / 4096 * 4096);
                return;
        }
        w->file[i] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(w->file[i] >= 0);
        assert_int_equal(ftruncate(w->file[i], (off_t)w->size), 0);
        assert_int_equal(fcntl(w->file[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        w->memory[i] = mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED, w->file[i], 0);
        assert_true(w->memory[i] != MAP_FAILED);
}

/* Words that differ by place and side: a byte at a time takes minutes under ThreadSanitizer. */
static void memory_fill(uint8_t *memory, size_t size, int side)
{
        for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
                uint64_t word = (2 * at + (size_t)side + 1) * UINT64_C(0x9e3779b97f4a7c15);

                memcpy(memory + at, &word, size - at < sizeof(word) ? size - at : sizeof(word));
        }
}

static void memory_free(struct world *w, int i)
{
        if (w->carrier != MAPPED) {
                free(w->memory[i]);
                return;
        }
        (void)munmap(w->memory[i], w->size);
        (void)close(w->file[i]);
}

static void world_release(void *object)
{
        struct world *w = object;

        for (int i = 0; i < 2; i++) {
                engine_stop(w->engine[i]);
                engine_memory_deregister(w->engine[i], w->registered[i]);
                engine_free(w->engine[i]);
                memory_free(w, i);
        }
        free(w);
}

struct world *world_new(enum carrier carrier, size_t size)
{
        return world_new_with(carrier, size, (struct world_knobs){ 0 });
}

struct world *world_new_with(enum carrier carrier, size_t size, struct world_knobs knobs)
{
        struct world *w = calloc(1, sizeof(*w));
        bool network = carrier == NETWORK;

        w->carrier = carrier;
        w->size = size;
        random_bytes(w->key, sizeof(w->key));
        memcpy(w->given, w->key, sizeof(w->given));
        end_init(&w->active);
        end_init(&w->passive);
        pthread_mutex_init(&w->gate, NULL);
        for (int i = 0; i < 2; i++) {
                struct engine_config config = {
                        .epoch = w->epoch[i] = random_id(),
                        .local = network ? NULL : local_directory(),
                        .data_listen = network ? "127.0.0.1:0" : NULL,
                        .ucx_tls = network ? "tcp,self" : NULL,
                        .chunk_size = knobs.chunk_size ?: 256 << 10,
                        .spin_us = knobs.spin_us,
                        .max_claims = knobs.max_claims,
                        .grace_ms = 10000, /* on a busy machine 16 MiB may be under way for a second */
                        .operations = { .claim = i ? claim : claim_nothing,
                                        .wake_waiters = i ? wake_passive : wake_active,
                                        .context = w },
                };
                assert_int_equal(engine_new(&config, &w->engine[i]), 0);
                memory_new(w, i);
                assert_int_equal(engine_memory_register(w->engine[i],
                                                        &(struct engine_memory){ .address = w->memory[i],
                                                                                 .size = size,
                                                                                 .fd = w->file[i],
                                                                                 .id = MEMORY_ID },
                                                        &w->registered[i]),
                                 0);
                w->segments[i][0] = (struct segment){ w->memory[i], size, w->registered[i] };
                w->n_segments[i] = 1;
        }
        for (int i = 0; i < 2; i++)
                memory_fill(w->memory[i], size, i);
        return test_keep(w, world_release);
}

void world_free(struct world *w)
{
        test_release(w);
}

struct world *world_next(struct world *w, enum carrier n, bool both_directions, size_t size)
{
        static const char *const names[CARRIERS] = { "bounced", "network", "mapped" };
        enum carrier carrier = w ? w->carrier + 1 : 0;
        enum engine_direction direction = ENGINE_READ;

        if (w && both_directions && !w->second) {
                carrier = w->carrier;
                direction = ENGINE_WRITE;
        }
        if (w)
                world_free(w);
        test_row(carrier < n ? text_format("%s, %s", names[carrier], direction == ENGINE_READ ? "read" : "write")
                             : NULL);
        if (carrier == n)
                return NULL;
        w = world_new(carrier, size);
        w->direction = direction;
        w->second = direction == ENGINE_WRITE;
        return w;
}

static void active_started(void *context)
{
        struct world *w = context;

        w->active.started++;
        if (w->on_started)
                w->on_started(w);
}

static void active_progress(void *context, uint64_t bytes)
{
        struct world *w = context;

        assert_true(w->many || bytes >= w->active.progress);
        w->active.progress = bytes;
        w->active.steps++;
        if (w->on_progress)
                w->on_progress(w, bytes);
}

static void active_ended(void *context, const struct engine_outcome *outcome)
{
        end_note(&((struct world *)context)->active, outcome);
}

struct engine_transfer world_transfer(struct world *w, enum engine_direction direction, bool verify)
{
        const struct engine_facts *facts = engine_get_facts(w->engine[1]);
        struct engine_transfer transfer = {
                .id = random_id(),
                .direction = direction,
                .peer.epoch = w->epoch[1],
                .peer.data = facts->data_address,
                .remote_operation = OPERATION,
                .segments = w->segments[0],
                .n_segments = w->n_segments[0],
                .verify = verify,
                .may_run_inline = w->may_run_inline,
                .context = w,
                .started = active_started,
                .progress = active_progress,
                .ended = active_ended,
        };

        memcpy(transfer.key, w->given, sizeof(transfer.key));
        for (size_t i = 0; i < w->n_segments[0]; i++)
                transfer.total += w->segments[0][i].size;
        return transfer;
}

uint64_t world_start(struct world *w, enum engine_direction direction, bool verify)
{
        struct engine_transfer transfer = world_transfer(w, direction, verify);

        assert_int_equal(engine_transfer_start(w->engine[0], &transfer), 0);
        return transfer.id;
}

void world_offer(struct world *w, enum engine_direction direction)
{
        w->direction = direction;
        w->total = 0;
        for (size_t i = 0; i < w->n_segments[1]; i++)
                w->total += w->segments[1][i].size;
}

void world_assert_streams_equal(const struct world *w)
{
        size_t i[2] = { 0 }, at[2] = { 0 };

        while (i[0] < w->n_segments[0] && i[1] < w->n_segments[1]) {
                size_t rest[2], n;

                for (int s = 0; s < 2; s++)
                        rest[s] = w->segments[s][i[s]].size - at[s];
                n = rest[0] < rest[1] ? rest[0] : rest[1];
                assert_memory_equal(w->segments[0][i[0]].address + at[0], w->segments[1][i[1]].address + at[1], n);
                for (int s = 0; s < 2; s++) {
                        at[s] += n;
                        if (at[s] == w->segments[s][i[s]].size) {
                                i[s]++;
                                at[s] = 0;
                        }
                }
        }
        assert_int_equal(i[0], w->n_segments[0]);
        assert_int_equal(i[1], w->n_segments[1]);
}

void world_scatter(struct world *w, int side, size_t n, size_t piece, size_t stride)
{
        w->n_segments[side] = n;
        for (size_t i = 0; i < n; i++)
                w->segments[side][i] =
                        (struct segment){ w->memory[side] + (i * 7 % n) * stride, piece, w->registered[side] };
}

void world_scatter_both(struct world *w, size_t n, size_t piece, size_t stride)
{
        for (int side = 0; side < 2; side++)
                world_scatter(w, side, n, piece, stride);
}
