/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/error.h>

#include "base/presence.h"
#include "base/util.h"
#include "fabric/fabric.h"

/*
 * Two fabrics in one process, joined by shared memory and by TCP on loopback. The operations of the passive one are
 * faked: a single offer with a key, which the test arms.
 */

/* How the bytes go: by messages through shared memory, by TCP, or the active side copies out of and into our files. */
enum way { MESSAGES, NETWORK, MAPPED, WAYS };

enum { TIMEOUT_S = 20, OPERATION = 0x4242, FILE_ID = 0x77, EAGER_MAX = 7936, SEGMENTS_MAX = 1024 };

struct end {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        _Atomic int claims;
        int started, ended, steps; /* steps: how often progress was told */
        uint64_t progress;
        struct fabric_outcome outcome;
};

struct world {
        enum way way;
        uint64_t epoch[2];
        struct fabric *fabric[2];
        struct presence *presence[2];
        struct fabric_memory *registered[2];
        uint8_t *memory[2];
        size_t size;
        struct fabric_segment segments[2][SEGMENTS_MAX];
        size_t n_segments[2];
        uint8_t key[FERRY_KEY_SIZE], given[FERRY_KEY_SIZE]; /* the offer's; what the active side has */
        bool many;                                          /* transfers at once, whose progress mixes */
        int refuse;                                         /* what claim answers; 0 = it grants */
        enum fabric_direction direction;
        uint64_t total;
        struct end active, passive;
        void (*on_progress)(struct world *world, uint64_t bytes); /* of the active side */
};

static void end_init(struct end *end)
{
        *end = (struct end){ 0 };
        pthread_mutex_init(&end->lock, NULL);
        pthread_cond_init(&end->changed, NULL);
}

static void end_wait(struct end *end, int ended)
{
        struct timespec deadline;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += TIMEOUT_S;
        pthread_mutex_lock(&end->lock);
        while (end->ended < ended && r == 0)
                r = pthread_cond_timedwait(&end->changed, &end->lock, &deadline);
        pthread_mutex_unlock(&end->lock);
        assert_int_equal(r, 0);
        assert_int_equal(end->ended, ended);
}

static void note_ended(struct end *end, const struct fabric_outcome *outcome)
{
        pthread_mutex_lock(&end->lock);
        end->outcome = *outcome;
        end->ended++;
        pthread_cond_broadcast(&end->changed);
        pthread_mutex_unlock(&end->lock);
}

static void passive_progress(void *context, uint64_t bytes)
{
        ((struct world *)context)->passive.progress = bytes;
}

static void passive_ended(void *context, const struct fabric_outcome *outcome)
{
        note_ended(&((struct world *)context)->passive, outcome);
}

static int claim(void *context, const struct fabric_request *request, struct fabric_offer *ret_offer)
{
        struct world *w = context;

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

static struct world *world_new(enum way way, size_t size)
{
        struct world *w = calloc(1, sizeof(*w));
        bool network = way == NETWORK;

        w->way = way;
        w->size = size;
        random_bytes(w->key, sizeof(w->key));
        memcpy(w->given, w->key, sizeof(w->given));
        end_init(&w->active);
        end_init(&w->passive);
        for (int i = 0; i < 2; i++) {
                struct fabric_config config = {
                        .epoch = w->epoch[i] = random_id(),
                        .local = !network,
                        .data_listen = network ? "127.0.0.1:0" : NULL,
                        .transports = network ? "tcp,self" : NULL,
                        .chunk_size = 256 << 10,
                        .grace_ms = 500,
                        .operations = { .claim = i ? claim : claim_nothing, .context = w },
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

static void world_free(struct world *w)
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
        ((struct world *)context)->active.started++;
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
        note_ended(&((struct world *)context)->active, outcome);
}

static uint64_t start(struct world *w, enum fabric_direction direction, bool verify)
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
                .context = w,
                .started = active_started,
                .progress = active_progress,
                .ended = active_ended,
        };

        memcpy(transfer.key, w->given, sizeof(transfer.key));
        for (size_t i = 0; i < w->n_segments[0]; i++)
                transfer.total += w->segments[0][i].size;
        assert_int_equal(fabric_transfer_start(w->fabric[0], &transfer), 0);
        return transfer.id;
}

static void offer(struct world *w, enum fabric_direction direction)
{
        w->direction = direction;
        w->total = 0;
        for (size_t i = 0; i < w->n_segments[1]; i++)
                w->total += w->segments[1][i].size;
}

/* Compares the two sides as logical streams. */
static void assert_streams_equal(const struct world *w)
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

static void transfer_and_compare(enum way way, size_t size, enum fabric_direction direction, bool verify)
{
        struct world *w = world_new(way, size);
        const char *transport = way == NETWORK ? "tcp" : way == MAPPED && size > EAGER_MAX && !verify ? "shm" : "posix";

        offer(w, direction);
        start(w, direction, verify);
        end_wait(&w->active, 1);
        assert_string_equal(ferry_error_code(w->active.outcome.error), ferry_error_code(0));
        assert_int_equal(w->active.outcome.error, 0);
        end_wait(&w->passive, 1);
        assert_int_equal(w->passive.outcome.error, 0);
        assert_int_equal(w->active.outcome.bytes, size);
        assert_int_equal(w->passive.outcome.bytes, size);
        assert_int_equal(w->active.started, 1);
        assert_int_equal(w->passive.claims, 1);
        assert_string_equal(w->active.outcome.transport, transport);
        assert_string_equal(w->passive.outcome.transport, transport);
        assert_streams_equal(w);
        world_free(w);
}

static void moves_every_size_both_ways_on_both_sides(void **state)
{
        static const size_t sizes[] = {
                1,       333,           4095, 4096, 4097, 7936, 7937, 8193, (256 << 10) - 1, 256 << 10, (256 << 10) + 1,
                5 << 20, (64 << 20) + 3
        };

        for (int way = 0; way < WAYS; way++)
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(sizes); i++)
                        for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                                transfer_and_compare((enum way)way, sizes[i], (enum fabric_direction)direction, false);
                                transfer_and_compare((enum way)way, sizes[i], (enum fabric_direction)direction, true);
                        }
}

/* Cuts the memory of one end into n pieces in a scrambled order with gaps. */
static void scatter(struct world *w, int side, size_t n, size_t piece, size_t stride)
{
        w->n_segments[side] = n;
        for (size_t i = 0; i < n; i++)
                w->segments[side][i] =
                        (struct fabric_segment){ w->memory[side] + (i * 7 % n) * stride, piece, w->registered[side] };
}

static void moves_scattered_memory(void **state)
{
        static const struct {
                size_t n[2], piece[2];
        } cases[] = {
                { { 2, 2 }, { 5000, 5000 } },         { { 1000, 1000 }, { 1, 1 } },
                { { 1000, 1000 }, { 16384, 16384 } }, { { 1, 1000 }, { 9000000, 9000 } },
                { { 1000, 1 }, { 9000, 9000000 } },   { { 500, 1000 }, { 3002, 1501 } },
                { { 300, 100 }, { 10000, 30000 } },
        };

        for (int way = 0; way < WAYS; way++) {
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                        for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                                struct world *w = world_new((enum way)way, 20 << 20);

                                for (int side = 0; side < 2; side++)
                                        scatter(w, side, cases[i].n[side], cases[i].piece[side],
                                                cases[i].piece[side] + 3);
                                offer(w, (enum fabric_direction)direction);
                                start(w, (enum fabric_direction)direction, way != MAPPED);
                                end_wait(&w->active, 1);
                                assert_int_equal(w->active.outcome.error, 0);
                                end_wait(&w->passive, 1);
                                assert_int_equal(w->passive.outcome.error, 0);
                                assert_streams_equal(w);
                                world_free(w);
                        }
                }
        }
}

/* One end of a mapped pair has other memory than files: then messages carry the bytes, or the copy starts from there.
 */
static void memory_without_a_file_is_moved_as_well(void **state)
{
        for (int side = 0; side < 2; side++) {
                for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                        struct world *w = world_new(MAPPED, 3 << 20);
                        struct fabric_memory *registered;
                        uint8_t *memory = malloc(w->size);

                        memset(memory, 3 + side, w->size);
                        assert_int_equal(fabric_memory_register(w->fabric[side], memory, w->size, 0, &registered), 0);
                        w->segments[side][0] = (struct fabric_segment){ memory, w->size, registered };
                        offer(w, (enum fabric_direction)direction);
                        start(w, (enum fabric_direction)direction, false);
                        end_wait(&w->active, 1);
                        end_wait(&w->passive, 1);
                        assert_int_equal(w->active.outcome.error, 0);
                        assert_int_equal(w->passive.outcome.error, 0);
                        assert_string_equal(w->active.outcome.transport, side ? "posix" : "shm");
                        assert_string_equal(w->passive.outcome.transport, side ? "posix" : "shm");
                        assert_streams_equal(w);
                        fabric_memory_unregister(w->fabric[side], registered);
                        world_free(w);
                        free(memory);
                }
        }
}

/* The passive side grants, but its file cannot be opened by the active side. */
static void a_file_that_cannot_be_mapped_is_moved_by_messages(void **state)
{
        struct world *w = world_new(MAPPED, 3 << 20);
        char path[PRESENCE_PATH_SIZE];

        presence_region_path(w->epoch[1], FILE_ID, path);
        assert_int_equal(chmod(path, 0644), 0);
        offer(w, FABRIC_WRITE);
        start(w, FABRIC_WRITE, false);
        end_wait(&w->active, 1);
        end_wait(&w->passive, 1);
        assert_int_equal(w->active.outcome.error, 0);
        assert_int_equal(w->passive.outcome.error, 0);
        assert_string_equal(w->active.outcome.transport, "posix");
        assert_string_equal(w->passive.outcome.transport, "posix");
        assert_streams_equal(w);
        world_free(w);
}

static void small_pieces_travel_together(void **state)
{
        enum { N = 1000, PIECE = 16 << 10, CHUNKS_MAX = 64 };

        for (int way = 0; way < MAPPED; way++) {
                for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                        struct world *w = world_new((enum way)way, 20 << 20);

                        for (int side = 0; side < 2; side++)
                                scatter(w, side, N, PIECE, PIECE + 3);
                        offer(w, (enum fabric_direction)direction);
                        start(w, (enum fabric_direction)direction, false);
                        end_wait(&w->active, 1);
                        assert_int_equal(w->active.outcome.error, 0);
                        assert_true(w->active.steps <= CHUNKS_MAX);
                        world_free(w);
                }
        }
}

static int claims_at_first; /* when the first bytes are there */

static void note_claims(struct world *w, uint64_t bytes)
{
        if (claims_at_first == 0)
                claims_at_first = w->passive.claims;
}

static void transfers_to_one_peer_share_a_window(void **state)
{
        enum { N = 32, WINDOW = 4 };

        for (int way = 0; way < MAPPED; way++) {
                struct world *w = world_new((enum way)way, 16 << 20);

                offer(w, FABRIC_READ);
                w->many = true;
                w->on_progress = note_claims;
                claims_at_first = 0;
                for (int i = 0; i < N; i++)
                        start(w, FABRIC_READ, true); /* unverified ones would ask for a grant first, all at once */
                end_wait(&w->active, N);
                end_wait(&w->passive, N);
                assert_true(claims_at_first <= WINDOW);
                assert_streams_equal(w);
                world_free(w);
        }
}

static void a_refused_claim_ends_the_active_side_with_the_peers_reason(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                        struct world *w = world_new((enum way)way, 4 << 20);
                        uint8_t *before = malloc(w->size);

                        memcpy(before, w->memory[1], w->size);
                        w->refuse = FERRY_E_ALREADY_CLAIMED;
                        offer(w, (enum fabric_direction)direction);
                        start(w, (enum fabric_direction)direction, false);
                        end_wait(&w->active, 1);
                        assert_int_equal(w->active.outcome.error, FERRY_E_ALREADY_CLAIMED);
                        assert_int_equal(w->active.outcome.bytes, 0);
                        assert_int_equal(w->passive.claims, 0);
                        assert_memory_equal(before, w->memory[1], w->size);
                        free(before);
                        world_free(w);
                }
        }
}

static void a_wrong_key_is_refused_and_the_next_transfer_works(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                struct world *w = world_new((enum way)way, 1 << 20);

                offer(w, FABRIC_READ);
                w->given[5] ^= 1;
                start(w, FABRIC_READ, false);
                w->given[5] ^= 1;
                end_wait(&w->active, 1);
                assert_int_equal(w->active.outcome.error, FERRY_E_PEER_REFUSED);
                w->active.progress = 0;
                start(w, FABRIC_READ, false);
                end_wait(&w->active, 2);
                assert_int_equal(w->active.outcome.error, 0);
                world_free(w);
        }
}

static void metadata_of_an_earlier_worker_is_stale(void **state)
{
        struct world *w = world_new(NETWORK, 1 << 20);

        offer(w, FABRIC_READ);
        w->epoch[1] ^= 2; /* the address is that of the living one */
        start(w, FABRIC_READ, false);
        w->epoch[1] ^= 2;
        end_wait(&w->active, 1);
        assert_int_equal(w->active.outcome.error, FERRY_E_STALE_METADATA);
        assert_int_equal(w->passive.claims, 0);
        world_free(w);
}

static void an_absent_worker_is_unreachable(void **state)
{
        struct world *w = world_new(MESSAGES, 1 << 20);

        offer(w, FABRIC_READ);
        w->epoch[1] ^= 2;
        start(w, FABRIC_READ, false);
        w->epoch[1] ^= 2;
        end_wait(&w->active, 1);
        assert_int_equal(w->active.outcome.error, FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(w->active.started, 0);
        world_free(w);
}

static _Atomic uint64_t cancel_id; /* 0 = not known yet, or used */

static void cancel_at_a_quarter(struct world *w, uint64_t bytes)
{
        uint64_t id = bytes >= w->size / 4 ? atomic_exchange(&cancel_id, 0) : 0;

        if (id)
                fabric_transfer_cancel(w->fabric[0], id, FERRY_E_CANCELLED);
}

static void a_cancel_of_the_active_side_ends_both(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                        struct world *w = world_new((enum way)way, 128 << 20);

                        offer(w, (enum fabric_direction)direction);
                        w->on_progress = cancel_at_a_quarter;
                        cancel_id = start(w, (enum fabric_direction)direction, false);
                        end_wait(&w->active, 1);
                        end_wait(&w->passive, 1);
                        assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED);
                        assert_int_equal(w->passive.outcome.error, FERRY_E_CANCELLED_BY_PEER);
                        assert_true(w->active.outcome.bytes < w->size);
                        world_free(w);
                }
        }
}

static void revoke_at_a_quarter(struct world *w, uint64_t bytes)
{
        if (bytes >= w->size / 4)
                fabric_offer_revoke(w->fabric[1], OPERATION, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

static void a_revoke_of_the_passive_side_ends_both(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                        struct world *w = world_new((enum way)way, 128 << 20);

                        offer(w, (enum fabric_direction)direction);
                        w->on_progress = revoke_at_a_quarter;
                        start(w, (enum fabric_direction)direction, false);
                        end_wait(&w->active, 1);
                        end_wait(&w->passive, 1);
                        assert_int_equal(w->passive.outcome.error, FERRY_E_CANCELLED);
                        assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED_BY_PEER);
                        assert_true(w->active.outcome.bytes < w->size);
                        world_free(w);
                }
        }
}

static pthread_t stopper;

static void *stop_passive(void *context)
{
        fabric_stop(((struct world *)context)->fabric[1]);
        return NULL;
}

static void stop_at_a_quarter(struct world *w, uint64_t bytes)
{
        if (bytes >= w->size / 4 && !stopper)
                pthread_create(&stopper, NULL, stop_passive, w);
}

static void stopping_a_fabric_ends_what_moves_over_it(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                struct world *w = world_new((enum way)way, 128 << 20);

                offer(w, FABRIC_READ);
                w->on_progress = stop_at_a_quarter;
                start(w, FABRIC_READ, false);
                end_wait(&w->active, 1);
                end_wait(&w->passive, 1);
                assert_int_equal(w->passive.outcome.error, FERRY_E_CANCELLED);
                assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED_BY_PEER);
                pthread_join(stopper, NULL);
                stopper = 0;
                world_free(w);
        }
}

static void many_transfers_run_at_once(void **state)
{
        enum { N = 100 };

        for (int way = 0; way < WAYS; way++) {
                struct world *w = world_new((enum way)way, 3 << 20);

                offer(w, FABRIC_READ);
                w->many = true;
                for (int i = 0; i < N; i++)
                        start(w, FABRIC_READ, false);
                end_wait(&w->active, N);
                end_wait(&w->passive, N);
                assert_int_equal(w->passive.claims, N);
                assert_streams_equal(w);
                world_free(w);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(moves_every_size_both_ways_on_both_sides),
                cmocka_unit_test(moves_scattered_memory),
                cmocka_unit_test(memory_without_a_file_is_moved_as_well),
                cmocka_unit_test(a_file_that_cannot_be_mapped_is_moved_by_messages),
                cmocka_unit_test(small_pieces_travel_together),
                cmocka_unit_test(transfers_to_one_peer_share_a_window),
                cmocka_unit_test(a_refused_claim_ends_the_active_side_with_the_peers_reason),
                cmocka_unit_test(a_wrong_key_is_refused_and_the_next_transfer_works),
                cmocka_unit_test(metadata_of_an_earlier_worker_is_stale),
                cmocka_unit_test(an_absent_worker_is_unreachable),
                cmocka_unit_test(a_cancel_of_the_active_side_ends_both),
                cmocka_unit_test(a_revoke_of_the_passive_side_ends_both),
                cmocka_unit_test(stopping_a_fabric_ends_what_moves_over_it),
                cmocka_unit_test(many_transfers_run_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
