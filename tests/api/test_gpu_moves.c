/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <stdio.h>

/* Bytes that move between GPUs and hosts, by each transport. */

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
                                course_run(p, &c, read ? passive : active, read ? active : passive);
                        else
                                course_run(p, &c, strncmp(c.offered, "cuda", 4) == 0 ? "shm+staged" : "shm",
                                           strncmp(c.local, "cuda", 4) == 0 ? "shm+staged" : "shm");
                }
}

WITH_GPUS(bytes_move_between_host_and_gpu_in_both_directions)
{
        pair_start(&s->pair, false);
        move_all(&s->pair, "cpu", "cuda:0", "shm+cuda_copy", "shm+cuda_copy");
        move_all(&s->pair, "cuda:0", "cpu", "shm+cuda_ipc", "shm+cuda_ipc");
}

WITH_GPUS(bytes_move_between_gpus_the_same_and_another)
{
        const struct course several_chunks = { FERRY_READABLE, "cuda:0", "cuda:1", 70 * MIB + 7, NULL };
        pair_start(&s->pair, false);
        move_all(&s->pair, "cuda:0", "cuda:0", "shm+cuda_ipc", "shm+cuda_ipc");
        move_all(&s->pair, "cuda:0", "cuda:1", "shm+cuda_ipc", "shm+cuda_ipc");
        course_run(&s->pair, &several_chunks, "shm+cuda_ipc", "shm+cuda_ipc");
}

WITH_GPUS(a_peer_that_cannot_open_the_memory_gets_it_by_host_memory)
{
        pair_start(&s->pair, false);
        gpu_set_faults(s, "open");
        move_all(&s->pair, "cuda:0", "cuda:1", "shm+staged", "shm+staged");
        pair_stop(&s->pair);
        pair_start(&s->pair, false);
        gpu_set_faults(s, "share");
        move_all(&s->pair, "cuda:0", "cpu", "shm+staged", "shm+staged");
}

WITH_GPUS(a_peer_that_does_not_see_the_gpu_gets_its_memory_by_host_memory)
{
        worker_start(&s->pair.a, "a", NULL);
        (void)setenv("CUDA_STANDIN_FIRST", "4", 1);
        worker_start(&s->pair.b, "b", NULL);
        move_all(&s->pair, "cuda:0", "cuda:0", "shm+staged", "shm+staged");
}

WITH_GPUS(checksums_are_made_of_gpu_memory)
{
        struct course c = { .kind = FERRY_READABLE, .offered = "cuda:0", .local = "cuda:0", .size = 5 * MIB + 1 };

        c.more = ",\"verify\":true";
        pair_start(&s->pair, false);
        course_run(&s->pair, &c, "shm+cuda_ipc", "shm+cuda_ipc");
        c.kind = FERRY_WRITABLE;
        course_run(&s->pair, &c, "shm+cuda_ipc", "shm+cuda_ipc");
}

WITH_GPUS(a_worker_moves_bytes_between_its_own_gpus)
{
        OPERATION passive, active;
        struct worker *w = &s->pair.a;

        worker_start(w, "a", NULL);
        const char *offered = device_region(w, "cuda:0", 2 * MIB, SEED);
        const char *local = device_region(w, "cuda:1", 2 * MIB, 0);
        offer_make(w, FERRY_READABLE, offered, &passive);
        begin_make(w, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(w, active.id, FERRY_COMPLETE, NULL);
        assert_transport(w, active.id, "shm+cuda_ipc");
        region_assert_pattern(w, local, SEED, 0, 2 * MIB);
}

/* All bytes in two parts, of which the second comes first. */
static void move_parts(struct pair *p, const struct course *given, uint64_t cut)
{
        const char *more = text_format(",\"remote\":[{\"offset\":%llu,\"size\":%llu},{\"size\":%llu}]%s",
                                       (unsigned long long)cut, (unsigned long long)(given->size - cut),
                                       (unsigned long long)cut, given->more ? given->more : "");
        const bool read = given->kind == FERRY_READABLE;
        const uint64_t turned =
                read ? given->size - cut : cut; /* the target begins with the source's end, or with that */
        uint8_t *wanted = malloc(given->size), *there = malloc(given->size);
        struct course c = *given;
        struct course_state state;

        c.more = more;
        course_prepare(p, &c, &state);
        course_begin(p, &c, &state);
        operation_assert_end(&p->b, state.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, state.passive.id, FERRY_COMPLETE, NULL);
        pattern_fill(SEED, c.size - turned, wanted, turned);
        pattern_fill(SEED, 0, wanted + turned, c.size - turned);
        assert_int_equal(ferry_get_region_content(read ? p->b.client : p->a.client, read ? state.local : state.offered,
                                                  0, there, c.size, NULL),
                         0);
        assert_memory_equal(there, wanted, c.size);
        free(wanted);
        free(there);
        course_clear(p, &state);
}

WITH_GPUS(parts_of_an_offer_move_to_and_from_gpus)
{
        for (int network = 0; network < 2; network++) {
                pair_start(&s->pair, network);
                for (int how = 0; how < 8; how++) {
                        const struct course c = { .kind = how & 1 ? FERRY_READABLE : FERRY_WRITABLE,
                                                  .offered = how & 2 ? "cuda:0" : "cpu",
                                                  .local = how & 2 ? "cpu" : "cuda:0",
                                                  .size = 3 * MIB + 17,
                                                  .more = how & 4 ? ",\"verify\":true" : "" };

                        move_parts(&s->pair, &c, 1000);
                        move_parts(&s->pair, &c, 2 * MIB + 1);
                }
                pair_stop(&s->pair);
        }
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

                                course_run(&s->pair, &c, c.offered[1] == 'u' ? "tcp+staged" : "tcp",
                                           c.local[1] == 'u' ? "tcp+staged" : "tcp");
                        }
}

/* Of each kind that is staged between hosts, while the network has its turn. */
WITH_GPUS(copies_of_one_transfer_overlap_and_need_no_buffer_of_the_driver)
{
        static const struct course courses[] = { { FERRY_READABLE, "cuda:0", "cuda:1", 40 * MIB, NULL },
                                                 { FERRY_WRITABLE, "cuda:0", "cpu", 40 * MIB, NULL },
                                                 { FERRY_WRITABLE, "cpu", "cuda:1", 40 * MIB, NULL } };
        pair_start(&s->pair, true);
        for (size_t i = 0; i < 3; i++) {
                const struct course *c = &courses[i];
                struct course_state begun;
                uint64_t pageable, pinned;

                course_prepare(&s->pair, c, &begun);
                gpu_set_faults(s, "stuck");
                pageable = s->counts->pageable;
                pinned = s->counts->pinned;
                course_begin(&s->pair, c, &begun);
                WAIT_UNTIL(s->counts->in_flight >= 2);
                gpu_set_faults(s, "");
                operation_assert_end(&s->pair.b, begun.active, FERRY_COMPLETE, NULL);
                assert_int_equal(s->counts->pinned - pinned, (i == 0 ? 2 : 1) * c->size);
                assert_int_equal(s->counts->pageable, pageable);
                course_end(&s->pair, c, &begun, c->offered[1] == 'u' ? "tcp+staged" : "tcp",
                           c->local[1] == 'u' ? "tcp+staged" : "tcp");
        }
}

/* The second time, once it is known that the memory is used again. */
WITH_GPUS(host_memory_that_gpus_copy_is_pinned)
{
        static const char *const devices[][2] = { { "cpu", "cuda:0" }, { "cuda:0", "cpu" } };
        for (size_t i = 0; i < 2; i++) {
                const struct course c = { FERRY_READABLE, devices[i][0], devices[i][1], 9 * MIB, NULL };
                const char *transport = i == 0 ? "shm+cuda_copy" : "shm+cuda_ipc";
                uint64_t pinned = s->counts->pinned;
                struct course_state begun;

                pair_start(&s->pair, false);
                course_prepare(&s->pair, &c, &begun);
                for (int again = 0; again < 3; again++) {
                        if (again > 0)
                                ferry_operation_clear(&begun.passive);
                        if (again > 0)
                                offer_make(&s->pair.a, FERRY_READABLE, begun.offered, &begun.passive);
                        course_begin(&s->pair, &c, &begun);
                        operation_assert_end(&s->pair.b, begun.active, FERRY_COMPLETE, NULL);
                }
                assert_int_equal(s->counts->pins, 1);
                assert_int_equal(s->counts->pinned - pinned, 2 * c.size);
                course_end(&s->pair, &c, &begun, transport, transport);
                pair_stop(&s->pair);
                assert_int_equal(s->counts->pins, 0);
        }
}

/* From a to b, and from there, while it comes, back to another region of a; by both transports. */
WITH_GPUS(a_read_into_a_gpu_can_be_followed)
{
        for (int network = 0; network < 2; network++) {
                const struct course c = { FERRY_READABLE, "cuda:0", "cuda:1", 32 * MIB, NULL };
                struct course_state first;
                struct json_object *follower, *reader;
                const char *body;

                pair_start(&s->pair, network);
                course_prepare(&s->pair, &c, &first);
                const char *target = device_region(&s->pair.a, "cuda:0", c.size, 0);
                gpu_set_faults(s, "slow");
                course_begin(&s->pair, &c, &first);
                body = text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}],\"follow\":\"%s\"}",
                                   first.local, first.active);
                follower = call_json(&s->pair.b, 201, "POST", "/v1/operations?include=metadata", body);
                body = text_format("{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s}",
                                   target, json_object_to_json_string(json_member(follower, "metadata")));
                reader = call_json(&s->pair.a, 201, "POST", "/v1/operations", body);
                operation_assert_end(&s->pair.a, text_format("%s", json_text(reader, "id")), FERRY_COMPLETE, NULL);
                gpu_set_faults(s, "");
                region_assert_pattern(&s->pair.a, target, SEED, 0, c.size);
                operation_assert_end(&s->pair.b, json_text(follower, "id"), FERRY_COMPLETE, NULL);
                region_drop(&s->pair.a, target);
                course_end(&s->pair, &c, &first, network ? "tcp+staged" : "shm+cuda_ipc",
                           network ? "tcp+staged" : "shm+cuda_ipc");
                pair_stop(&s->pair);
        }
}

WITH_GPUS(bytes_move_over_http)
{
        struct course c = { .offered = "cuda:0", .local = "cuda:1", .size = 3 * MIB + 1 };

        pair_start_apart(&s->pair);
        c.kind = FERRY_READABLE;
        course_run(&s->pair, &c, "http", "http");
        c.more = ",\"verify\":true";
        course_run(&s->pair, &c, "http", "http");
        c.kind = FERRY_WRITABLE;
        course_run(&s->pair, &c, "http", "http");
}
