/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/error.h>

#include "base/presence.h"
#include "base/util.h"
#include "fabric_fixture.h"

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

void end_note(struct end *end, const struct fabric_outcome *outcome)
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
}

static void passive_ended(void *context, const struct fabric_outcome *outcome)
{
        end_note(&((struct world *)context)->passive, outcome);
}

static int claim(void *context, const struct fabric_request *request, struct fabric_offer *ret_offer)
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
        if (request->total != w->total)
                return FERRY_E_SIZE_MISMATCH;
        w->passive.claims++;
        if (w->on_claim)
                w->on_claim(w);
        *ret_offer = (struct fabric_offer){
                .segments = w->segments[1],
                .n_segments = w->n_segments[1],
                .total = w->total,
                .progress = passive_progress,
                .context = w,
                .ended = passive_ended,
        };
        return 0;
}

static int claim_nothing(void *context, const struct fabric_request *request, struct fabric_offer *ret_offer)
{
        return FERRY_E_STALE_METADATA;
}

static void settle_active(void *context)
{
        struct world *w = context;

        if (w->on_settle[0])
                w->on_settle[0](w);
}

static void settle_passive(void *context)
{
        struct world *w = context;

        if (w->on_settle[1])
                w->on_settle[1](w);
}

static uint8_t *file_new(uint64_t epoch, uint64_t id, size_t size)
{
        char path[PRESENCE_PATH_SIZE];
        void *memory;
        int fd;

        presence_region_path(epoch, id, path);
        fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(posix_fallocate(fd, 0, (off_t)size), 0);
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(memory != MAP_FAILED);
        (void)close(fd);
        return memory;
}

static void memory_free(struct world *w, int i)
{
        char path[PRESENCE_PATH_SIZE];

        if (w->way != MAPPED) {
                free(w->memory[i]);
                return;
        }
        presence_region_path(w->epoch[i], FILE_ID, path);
        assert_int_equal(unlink(path), 0);
        (void)munmap(w->memory[i], w->size);
}

struct world *world_new(enum carrier way, size_t size)
{
        return world_new_with(way, size, (struct world_knobs){ 0 });
}

struct world *world_new_with(enum carrier way, size_t size, struct world_knobs knobs)
{
        struct world *w = calloc(1, sizeof(*w));
        bool network = way == NETWORK;

        w->way = way;
        w->size = size;
        random_bytes(w->key, sizeof(w->key));
        memcpy(w->given, w->key, sizeof(w->given));
        end_init(&w->active);
        end_init(&w->passive);
        pthread_mutex_init(&w->gate, NULL);
        for (int i = 0; i < 2; i++) {
                struct fabric_config config = {
                        .epoch = w->epoch[i] = random_id(),
                        .local = !network,
                        .data_listen = network ? "127.0.0.1:0" : NULL,
                        .transports = network ? "tcp,self" : NULL,
                        .chunk_size = knobs.chunk_size ?: 256 << 10,
                        .spin_us = knobs.spin_us,
                        .grace_ms = 500,
                        .operations = { .claim = i ? claim : claim_nothing,
                                        .settle = i ? settle_passive : settle_active,
                                        .context = w },
                };
                const struct fabric_facts *facts;

                assert_int_equal(fabric_new(&config, &w->fabric[i]), 0);
                facts = fabric_get_facts(w->fabric[i]);
                assert_int_equal(
                        presence_new(w->epoch[i], facts->local_address, facts->local_address_size, &w->presence[i]), 0);
                w->memory[i] = way == MAPPED ? file_new(w->epoch[i], FILE_ID, size)
                                             : aligned_alloc(4096, (size + 4095) / 4096 * 4096);
                assert_int_equal(fabric_memory_register(w->fabric[i], w->memory[i], size, way == MAPPED ? FILE_ID : 0,
                                                        &w->registered[i]),
                                 0);
                w->segments[i][0] = (struct fabric_segment){ w->memory[i], size, w->registered[i] };
                w->n_segments[i] = 1;
        }
        for (size_t i = 0; i < size; i++) {
                w->memory[0][i] = (uint8_t)(i * 7 + i / 251);
                w->memory[1][i] = (uint8_t)(i * 13 + i / 241);
        }
        return w;
}

void world_free(struct world *w)
{
        for (int i = 0; i < 2; i++) {
                fabric_stop(w->fabric[i]);
                fabric_memory_unregister(w->fabric[i], w->registered[i]);
                fabric_free(w->fabric[i]);
                presence_free(w->presence[i]);
                memory_free(w, i);
        }
        free(w);
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

static void active_ended(void *context, const struct fabric_outcome *outcome)
{
        end_note(&((struct world *)context)->active, outcome);
}

struct fabric_transfer world_transfer(struct world *w, enum fabric_direction direction, bool verify)
{
        const struct fabric_facts *facts = fabric_get_facts(w->fabric[1]);
        struct fabric_transfer transfer = {
                .id = random_id(),
                .direction = direction,
                .peer_epoch = w->epoch[1],
                .peer_data = facts->data_address,
                .remote_operation = OPERATION,
                .segments = w->segments[0],
                .n_segments = w->n_segments[0],
                .verify = verify,
                .awaited = w->awaited,
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

uint64_t world_start(struct world *w, enum fabric_direction direction, bool verify)
{
        struct fabric_transfer transfer = world_transfer(w, direction, verify);

        assert_int_equal(fabric_transfer_start(w->fabric[0], &transfer), 0);
        return transfer.id;
}

void world_offer(struct world *w, enum fabric_direction direction)
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
