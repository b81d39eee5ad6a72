/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "steps.h"
#include "wire.h"

/*
 * Memory on GPUs, in workers that find tests/cuda/standin.c where the CUDA driver would be: its memory cannot be
 * touched by host code, and its copies are done when they are waited for.
 */

enum { KIB = 1 << 10, MIB = 1 << 20, SEED = 11 };

struct gpu_scene {
        struct pair pair;
        char faults[64];
};

static void set_faults(const struct gpu_scene *s, const char *words)
{
        char next[80];
        FILE *file;

        /* The workers read it while it changes. */
        (void)snprintf(next, sizeof(next), "%s.next", s->faults);
        file = fopen(next, "we");
        assert_non_null(file);
        assert_true(fputs(words, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(rename(next, s->faults), 0);
}

static int setup(void **state)
{
        struct gpu_scene *s = calloc(1, sizeof(*s));

        assert_non_null(s);
        (void)snprintf(s->faults, sizeof(s->faults), "/tmp/ferry-gpu-%d", (int)getpid());
        (void)setenv("CUDA_STANDIN_FAULTS", s->faults, 1);
        (void)unsetenv("CUDA_STANDIN_DEVICES");
        (void)unsetenv("CUDA_STANDIN_FIRST");
        set_faults(s, "");
        *state = s;
        return 0;
}

static int teardown(void **state)
{
        struct gpu_scene *s = *state;

        set_faults(s, "");
        pair_clean(&s->pair);
        (void)unlink(s->faults);
        free(s);
        return 0;
}

/* A region on a device, with the pattern of seed; 0 = zeros. */
static void device_region(struct worker *w, const char *device, uint64_t size, uint64_t seed, char *id)
{
        const struct ferry_region_spec spec = { .size = size, .device = device };
        uint8_t *pattern = malloc(size);
        struct ferry_region region;

        assert_non_null(pattern);
        assert_int_equal(ferry_create_region(w->client, &spec, &region), 0);
        memcpy(id, region.id, FERRY_ID_SIZE);
        pattern_fill(seed, 0, pattern, size);
        if (seed)
                assert_int_equal(ferry_put_region_content(w->client, id, 0, pattern, size), 0);
        free(pattern);
}

/* The transport that an operation names. */
static void assert_transport(struct worker *w, const char *id, const char *transport)
{
        struct json_object *operation = operation_json(w, id);

        assert_string_equal(json_text(operation, "transport"), transport);
        json_object_put(operation);
}

struct course {
        enum ferry_kind kind; /* of the offer, on a */
        const char *offered, *local;
        uint64_t size;
        const char *more; /* of the active operation */
};

static char *active_body(const struct course *c, const char *region, const char *metadata)
{
        return text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s%s}",
                           c->kind == FERRY_READABLE ? "read" : "write", region, metadata, c->more ? c->more : "");
}

/* Moves the bytes between a region of each device; both sides end COMPLETE and name these transports. */
static void move(struct pair *p, const struct course *c, const char *passive_transport, const char *active_transport)
{
        bool read = c->kind == FERRY_READABLE;
        char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE], active[FERRY_ID_SIZE];
        struct ferry_operation passive;
        struct json_object *answer;
        char *body;

        device_region(&p->a, c->offered, c->size, read ? SEED : 0, offered);
        device_region(&p->b, c->local, c->size, read ? 0 : SEED, local);
        offer_make(&p->a, c->kind, offered, &passive);
        body = active_body(c, local, passive.metadata);
        answer = call_json(&p->b, 201, "POST", "/v1/operations", body);
        free(body);
        (void)snprintf(active, sizeof(active), "%s", json_text(answer, "id"));
        json_object_put(answer);
        operation_assert_end(&p->b, active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(read ? &p->b : &p->a, read ? local : offered, SEED, 0, c->size);
        assert_transport(&p->b, active, active_transport);
        assert_transport(&p->a, passive.id, passive_transport);
        ferry_operation_clear(&passive);
        region_drop(&p->a, offered);
        region_drop(&p->b, local);
}

/* ---- devices and regions ---- */

#define WITH_GPUS(name) TEST_OF(struct gpu_scene *s, name, setup, teardown)

WITH_GPUS(gpus_are_listed_with_their_names_and_memory)
{
        struct worker *w = &s->pair.a;
        struct json_object *devices, *memory;

        worker_start(w, "a", NULL);
        devices = call_json(w, 200, "GET", "/v1/devices", NULL);
        memory = json_member(devices, "memory");
        assert_int_equal(json_object_array_length(memory), 3);
        assert_string_equal(json_text(json_object_array_get_idx(memory, 1), "name"), "cuda:0");
        assert_string_equal(json_text(json_object_array_get_idx(memory, 2), "name"), "cuda:1");
        assert_string_equal(json_text(json_object_array_get_idx(memory, 2), "model"), "Stand-in GPU 1");
        assert_int_equal(json_number(json_object_array_get_idx(memory, 1), "total_bytes"), 1 << 30);
        json_object_put(devices);
        worker_stop(w);
}

WITH_GPUS(a_gpu_that_is_not_there_is_an_unknown_device)
{
        struct worker *w = &s->pair.a;

        worker_start(w, "a", NULL);
        assert_problem(w, "POST", "/v1/regions", "{\"size\":1,\"device\":\"cuda:2\"}", 400, "unknown-device",
                       "/device");
        assert_problem(w, "POST", "/v1/regions", "{\"size\":1,\"device\":\"cuda:00\"}", 400, "unknown-device",
                       "/device");
        assert_problem(w, "POST", "/v1/regions", "{\"size\":1,\"device\":\"cuda:0\",\"sealed\":true}", 400,
                       "invalid-parameter", NULL);
        worker_stop(w);
        (void)setenv("CUDA_STANDIN_DEVICES", "0", 1);
        worker_start(w, "a", NULL);
        assert_problem(w, "POST", "/v1/regions", "{\"size\":1,\"device\":\"cuda:0\"}", 400, "unknown-device",
                       "/device");
        worker_stop(w);
}

WITH_GPUS(a_region_on_a_gpu_begins_as_zeros_and_keeps_what_is_put)
{
        struct worker *w = &s->pair.a;
        char id[FERRY_ID_SIZE];
        struct json_object *region;
        char *path;

        worker_start(w, "a", NULL);
        device_region(w, "cuda:1", 9 * MIB + 5, 0, id);
        region_assert_pattern(w, id, 0, 0, 9 * MIB + 5);
        path = text_format("/v1/regions/%s", id);
        region = call_json(w, 200, "GET", path, NULL);
        assert_string_equal(json_text(region, "device"), "cuda:1");
        assert_false(json_object_object_get_ex(region, "path", NULL)); /* nobody could map it */
        json_object_put(region);
        free(path);
        region_drop(w, id);
        device_region(w, "cuda:1", 9 * MIB + 5, SEED, id);
        region_assert_pattern(w, id, SEED, 0, 9 * MIB + 5);
        region_assert_pattern(w, id, SEED, 5 * MIB + 3, 1 * MIB);
        region_drop(w, id);
        worker_stop(w);
}

WITH_GPUS(a_gpu_without_room_says_so)
{
        struct worker *w = &s->pair.a;
        char id[FERRY_ID_SIZE];

        worker_start(w, "a", NULL);
        set_faults(s, "alloc");
        assert_problem(w, "POST", "/v1/regions", "{\"size\":4096,\"device\":\"cuda:0\"}", 507, "limit-reached", NULL);
        set_faults(s, "");
        device_region(w, "cuda:0", 4096, SEED, id);
        region_drop(w, id);
        worker_stop(w);
}

/* ---- transfers on one host ---- */

static const uint64_t sizes[] = { 1, 4 * KIB, 64 * KIB + 3, 5 * MIB + 7 };

/* Transports by the devices of source and target; small ones travel inside the message. */
static void move_all(struct pair *p, const char *source, const char *target, const char *passive, const char *active)
{
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                for (int read = 0; read < 2; read++) {
                        const struct course c = { .kind = read ? FERRY_READABLE : FERRY_WRITABLE,
                                                  .offered = read ? source : target,
                                                  .local = read ? target : source,
                                                  .size = sizes[i] };
                        bool bulk = sizes[i] > 8 * KIB;

                        if (bulk)
                                move(p, &c, read ? passive : active, read ? active : passive);
                        else
                                move(p, &c, strncmp(c.offered, "cuda", 4) == 0 ? "shm+staged" : "shm",
                                     strncmp(c.local, "cuda", 4) == 0 ? "shm+staged" : "shm");
                }
}

WITH_GPUS(bytes_move_between_host_and_gpu_in_both_directions)
{
        pair_start(&s->pair, false);
        move_all(&s->pair, "cpu", "cuda:0", "shm+cuda_copy", "shm+cuda_copy");
        move_all(&s->pair, "cuda:0", "cpu", "shm+cuda_ipc", "shm+cuda_ipc");
        pair_stop(&s->pair);
}

WITH_GPUS(bytes_move_between_gpus_the_same_and_another)
{
        const struct course several_chunks = { FERRY_READABLE, "cuda:0", "cuda:1", 70 * MIB + 7, NULL };

        pair_start(&s->pair, false);
        move_all(&s->pair, "cuda:0", "cuda:0", "shm+cuda_ipc", "shm+cuda_ipc");
        move_all(&s->pair, "cuda:0", "cuda:1", "shm+cuda_ipc", "shm+cuda_ipc");
        move(&s->pair, &several_chunks, "shm+cuda_ipc", "shm+cuda_ipc");
        pair_stop(&s->pair);
}

WITH_GPUS(a_peer_that_cannot_open_the_memory_gets_it_by_host_memory)
{
        pair_start(&s->pair, false);
        set_faults(s, "open");
        move_all(&s->pair, "cuda:0", "cuda:1", "shm+staged", "shm+staged");
        pair_stop(&s->pair);
        pair_start(&s->pair, false);
        set_faults(s, "share");
        move_all(&s->pair, "cuda:0", "cpu", "shm+staged", "shm+staged");
        pair_stop(&s->pair);
}

WITH_GPUS(a_peer_that_does_not_see_the_gpu_gets_its_memory_by_host_memory)
{
        worker_start(&s->pair.a, "a", NULL);
        (void)setenv("CUDA_STANDIN_FIRST", "4", 1);
        worker_start(&s->pair.b, "b", NULL);
        move_all(&s->pair, "cuda:0", "cuda:0", "shm+staged", "shm+staged");
        worker_stop(&s->pair.a);
        worker_stop(&s->pair.b);
}

WITH_GPUS(checksums_are_made_of_gpu_memory)
{
        struct course c = { .kind = FERRY_READABLE, .offered = "cuda:0", .local = "cuda:0", .size = 5 * MIB + 1 };

        c.more = ",\"verify\":true";
        pair_start(&s->pair, false);
        move(&s->pair, &c, "shm+cuda_ipc", "shm+cuda_ipc");
        c.kind = FERRY_WRITABLE;
        move(&s->pair, &c, "shm+cuda_ipc", "shm+cuda_ipc");
        pair_stop(&s->pair);
}

WITH_GPUS(a_worker_moves_bytes_between_its_own_gpus)
{
        char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE];
        struct ferry_operation passive, active;
        struct worker *w = &s->pair.a;

        worker_start(w, "a", NULL);
        device_region(w, "cuda:0", 2 * MIB, SEED, offered);
        device_region(w, "cuda:1", 2 * MIB, 0, local);
        offer_make(w, FERRY_READABLE, offered, &passive);
        begin_make(w, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(w, active.id, FERRY_COMPLETE, NULL);
        assert_transport(w, active.id, "shm+cuda_ipc");
        region_assert_pattern(w, local, SEED, 0, 2 * MIB);
        ferry_operation_clear(&passive);
        ferry_operation_clear(&active);
        worker_stop(w);
}

/* ---- between hosts, and over HTTP ---- */

WITH_GPUS(bytes_move_between_hosts_by_way_of_host_memory)
{
        static const char *const devices[][2] = { { "cuda:0", "cuda:1" }, { "cuda:0", "cpu" }, { "cpu", "cuda:1" } };

        pair_start(&s->pair, true);
        for (size_t i = 0; i < 3; i++)
                for (size_t k = 1; k < sizeof(sizes) / sizeof(sizes[0]); k++)
                        for (int read = 0; read < 2; read++) {
                                const struct course c = { .kind = read ? FERRY_READABLE : FERRY_WRITABLE,
                                                          .offered = devices[i][0],
                                                          .local = devices[i][1],
                                                          .size = sizes[k],
                                                          .more = k == 3 ? ",\"verify\":true" : "" };

                                move(&s->pair, &c, c.offered[1] == 'u' ? "tcp+staged" : "tcp",
                                     c.local[1] == 'u' ? "tcp+staged" : "tcp");
                        }
        pair_stop(&s->pair);
}

WITH_GPUS(bytes_move_over_http)
{
        struct course c = { .offered = "cuda:0", .local = "cuda:1", .size = 3 * MIB + 1 };

        pair_start_with(&s->pair, false, (const char *const[]){ "--local", "off", NULL });
        worker_expect(&s->pair.a, "nothing can move bytes but HTTP");
        worker_expect(&s->pair.b, "nothing can move bytes but HTTP");
        c.kind = FERRY_READABLE;
        move(&s->pair, &c, "http", "http");
        c.more = ",\"verify\":true";
        move(&s->pair, &c, "http", "http");
        c.kind = FERRY_WRITABLE;
        move(&s->pair, &c, "http", "http");
        pair_stop(&s->pair);
}

/* ---- what goes wrong ---- */

static void begin(struct gpu_scene *s, enum ferry_kind kind, char offered[FERRY_ID_SIZE], char local[FERRY_ID_SIZE],
                  struct ferry_operation *passive, struct ferry_operation *active)
{
        device_region(&s->pair.a, "cuda:0", 20 * MIB, kind == FERRY_READABLE ? SEED : 0, offered);
        device_region(&s->pair.b, "cuda:0", 20 * MIB, kind == FERRY_READABLE ? 0 : SEED, local);
        offer_make(&s->pair.a, kind, offered, passive);
        set_faults(s, "stuck");
        begin_make(&s->pair.b, kind_of_peer(kind), local, passive->metadata, active);
}

/* Until the active side has asked for bytes, and the passive side knows of it. */
static void await_running(struct worker *w, const char *id)
{
        struct ferry_operation now;

        do {
                assert_int_equal(ferry_get_operation(w->client, id, 1000, 1, &now), 0);
                if (now.status == FERRY_IN_PROGRESS)
                        break;
                ferry_operation_clear(&now);
        } while (true);
        ferry_operation_clear(&now);
}

WITH_GPUS(a_cancel_waits_for_the_copy_that_the_gpu_has_begun)
{
        for (int kind = 0; kind < 2; kind++) {
                char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE];
                struct ferry_operation passive, active, now;

                pair_start(&s->pair, false);
                pair_expect_failures(&s->pair);
                begin(s, kind ? FERRY_READABLE : FERRY_WRITABLE, offered, local, &passive, &active);
                await_running(&s->pair.a, passive.id);
                assert_int_equal(ferry_cancel_operation(s->pair.b.client, active.id, &now), 0);
                ferry_operation_clear(&now);
                set_faults(s, "");
                operation_assert_end(&s->pair.b, active.id, FERRY_CANCELLED, NULL);
                operation_assert_end(&s->pair.a, passive.id, FERRY_CANCELLED, NULL);
                ferry_operation_clear(&passive);
                ferry_operation_clear(&active);
                region_drop(&s->pair.a, offered);
                region_drop(&s->pair.b, local);
                pair_assert_serving(&s->pair);
                pair_stop(&s->pair);
        }
}

WITH_GPUS(a_peer_that_is_killed_ends_the_transfer)
{
        char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE];
        struct ferry_operation passive, active;

        pair_start(&s->pair, false);
        pair_expect_failures(&s->pair);
        begin(s, FERRY_READABLE, offered, local, &passive, &active);
        await_running(&s->pair.a, passive.id);
        worker_kill(&s->pair.a);
        set_faults(s, "");
        operation_assert_error(&s->pair.b, active.id, FERRY_ERRORED, FERRY_E_PEER_LOST);
        region_drop(&s->pair.b, local);
        ferry_operation_clear(&passive);
        ferry_operation_clear(&active);
        worker_stop(&s->pair.b);
}

WITH_GPUS(a_gpu_that_falls_off_the_bus_ends_its_operations_and_nothing_else)
{
        static const char *const words[] = { "gone", "reset" };

        for (size_t i = 0; i < 2; i++)
                for (int network = 0; network < 2; network++) {
                        char offered[FERRY_ID_SIZE], local[FERRY_ID_SIZE];
                        struct ferry_operation passive, active;

                        pair_start(&s->pair, network);
                        pair_expect_failures(&s->pair);
                        worker_expect(&s->pair.a, "the CUDA driver has failed");
                        worker_expect(&s->pair.b, "the CUDA driver has failed");
                        device_region(&s->pair.a, "cuda:0", 3 * MIB, SEED, offered);
                        device_region(&s->pair.b, "cuda:0", 3 * MIB, 0, local);
                        offer_make(&s->pair.a, FERRY_READABLE, offered, &passive);
                        set_faults(s, words[i]);
                        begin_make(&s->pair.b, FERRY_READ, local, passive.metadata, &active);
                        operation_assert_error(&s->pair.b, active.id, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                        operation_assert_error(&s->pair.a, passive.id, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                        assert_problem(&s->pair.a, "POST", "/v1/regions", "{\"size\":4096,\"device\":\"cuda:0\"}", 400,
                                       "unknown-device", NULL);
                        pair_assert_serving(&s->pair);
                        region_drop(&s->pair.a, offered);
                        region_drop(&s->pair.b, local);
                        ferry_operation_clear(&passive);
                        ferry_operation_clear(&active);
                        pair_stop(&s->pair);
                        set_faults(s, "");
                }
}
