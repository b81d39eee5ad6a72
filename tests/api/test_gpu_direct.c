/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <glob.h>
#include <stdio.h>

/*
 * Memory of GPUs that UCX gets as it is. Workers load the UCX for CUDA 12 of the wheel libucx-cu12, whose CUDA module
 * moves the memory that stands in for a GPU's, and take their TCP links for RDMA ones (tests/cuda/carrier.c).
 */

/* Where the wheel's libraries are; NULL = it is not installed. */
static const char *find_wheel(void)
{
        static const char *const places[] = { "/usr/lib/python3*/*-packages/libucx/lib",
                                              "/usr/local/lib/python3*/*-packages/libucx/lib",
                                              "~/.local/lib/python3*/site-packages/libucx/lib" };
        const char *path = getenv("FERRY_UCX_CUDA");
        glob_t found;

        for (size_t i = 0; !path && i < sizeof(places) / sizeof(places[0]); i++)
                if (glob(places[i], GLOB_TILDE, NULL, &found) == 0) {
                        path = text_format("%s", found.gl_pathv[0]);
                        globfree(&found);
                }
        return path;
}

static void start(struct gpu_scene *s, const char *direct)
{
        const char *const flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off", "--gpu-direct", direct, NULL };

        pair_start_with(&s->pair, false, flags);
        /* Until its peer was heard, nobody knows what carries a link. */
        call_json(&s->pair.b, 201, "POST", "/v1/peers", text_format("{\"url\":\"%s\"}", s->pair.a.url));
}

static int group_setup(void **state)
{
        const char *wheel = find_wheel();

        if (!wheel) {
                print_message(
                        "skipped: no UCX for CUDA here (pip install libucx-cu12, or FERRY_UCX_CUDA names its lib)\n");
                return 0;
        }
        (void)setenv("LD_LIBRARY_PATH", text_format("%s:%s", wheel, getenv("LD_LIBRARY_PATH")), 1);
        (void)setenv("LD_PRELOAD", getenv("FERRY_TEST_CARRIER"), 1);
        /* UCX does not free all that its CUDA module has; and AddressSanitizer wants to be loaded first. */
        (void)setenv("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0", 1);
        return 0;
}

TEST_GROUP(group_setup, NULL)

/* A test with a struct gpu_scene *s, where the wheel is. */
#define WITH_DIRECT(name)                                                                                              \
        static void name##_there(struct gpu_scene *s);                                                                 \
        WITH_GPUS(name)                                                                                                \
        {                                                                                                              \
                if (!getenv("LD_PRELOAD"))                                                                             \
                        skip();                                                                                        \
                name##_there(s);                                                                                       \
        }                                                                                                              \
        static void name##_there(struct gpu_scene *s)

/* ---- transfers ---- */

static const char *transport_of(const char *device, const char *way)
{
        return strncmp(device, "cuda", 4) == 0 ? text_format("rc_verbs+%s", way) : "rc_verbs";
}

static void move(struct gpu_scene *s, const struct course *c, const char *way)
{
        course_run(&s->pair, c, transport_of(c->offered, way), transport_of(c->local, way));
}

WITH_DIRECT(bytes_move_as_they_are_in_both_directions)
{
        static const char *const devices[][2] = { { "cuda:0", "cuda:1" }, { "cuda:0", "cpu" }, { "cpu", "cuda:1" } };
        static const uint64_t sizes[] = { 4 * KIB, 64 * KIB + 3, 5 * MIB + 7, 64 * MIB };

        start(s, "on");
        for (size_t i = 0; i < 3; i++)
                for (size_t k = 0; k < (i == 0 ? 4 : 3); k++)
                        for (int read = 0; read < 2; read++) {
                                const struct course c = { .kind = read ? FERRY_READABLE : FERRY_WRITABLE,
                                                          .offered = devices[i][0],
                                                          .local = devices[i][1],
                                                          .size = sizes[k],
                                                          .more = k == 2 ? ",\"verify\":true" : "" };

                                /* Short payloads travel inside the message. */
                                move(s, &c, sizes[k] > 8 * KIB ? "gpudirect" : "staged");
                        }
}

WITH_DIRECT(no_buffer_of_the_host_is_used)
{
        const struct course c = { FERRY_READABLE, "cuda:0", "cuda:1", 9 * MIB, NULL };
        struct course_state begun;
        uint64_t pinned;

        start(s, "on");
        course_prepare(&s->pair, &c, &begun);
        pinned = s->counts->pinned;
        course_begin(&s->pair, &c, &begun);
        operation_assert_end(&s->pair.b, begun.active, FERRY_COMPLETE, NULL);
        assert_int_equal(s->counts->pinned, pinned);
        course_end(&s->pair, &c, &begun, "rc_verbs+gpudirect", "rc_verbs+gpudirect");
}

/* Rows of it, as of a KV cache: long runs go as they are, short ones are gathered in a buffer of the host. */
WITH_DIRECT(rows_move)
{
        static const uint64_t rows[] = { 300 * KIB, 12 * KIB };

        start(s, "on");
        for (size_t i = 0; i < 2; i++) {
                struct json_object *offer, *active;
                const char *body;
                const char *offered = device_region(&s->pair.a, "cuda:0", 5 * MIB, SEED);
                const char *local = device_region(&s->pair.b, "cuda:0", 5 * MIB, 0);

                body = "{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\",\"size\":%llu,\"count\":8,\"stride\":%llu}"
                       "]%s%s}";
                offer = call_json(&s->pair.a, 201, "POST", "/v1/operations?include=metadata",
                                  text_format(body, "readable", offered, rows[i], 2 * rows[i], "", ""));
                active = call_json(&s->pair.b, 201, "POST", "/v1/operations",
                                   text_format(body, "read", local, rows[i], 2 * rows[i], ",\"remote_metadata\":",
                                               json_object_to_json_string(json_member(offer, "metadata"))));
                operation_assert_end(&s->pair.b, json_text(active, "id"), FERRY_COMPLETE, NULL);
                assert_transport(&s->pair.b, json_text(active, "id"),
                                 i == 0 ? "rc_verbs+gpudirect" : "rc_verbs+staged");
                for (uint64_t k = 0; k < 8; k++)
                        region_assert_pattern(&s->pair.b, local, SEED, k * 2 * rows[i], rows[i]);
                operation_assert_end(&s->pair.a, json_text(offer, "id"), FERRY_COMPLETE, NULL);
                region_drop(&s->pair.a, offered);
                region_drop(&s->pair.b, local);
        }
}

/* ---- ends ---- */

/* Until the offer's side has sent some. */
static void await_claimed(struct worker *w, const char *id)
{
        OPERATION now;

        assert_int_equal(ferry_get_operation(w->client, id, 20000, 1, &now), 0);
        assert_int_not_equal(now.status, FERRY_INITIALIZED);
}

static void begin_slowly(struct gpu_scene *s, const struct course *c, struct course_state *ret_begun)
{
        start(s, "on");
        pair_expect_failures(&s->pair);
        course_prepare(&s->pair, c, ret_begun);
        gpu_set_faults(s, "slow");
        course_begin(&s->pair, c, ret_begun);
        await_claimed(&s->pair.a, ret_begun->passive.id);
}

WITH_DIRECT(a_cancel_ends_both_sides)
{
        for (int read = 0; read < 2; read++) {
                const struct course c = { read ? FERRY_READABLE : FERRY_WRITABLE, "cuda:0", "cuda:1", 16 * MIB, NULL };
                struct course_state begun;
                OPERATION now;

                begin_slowly(s, &c, &begun);
                assert_int_equal(ferry_cancel_operation(s->pair.b.client, begun.active, &now), 0);
                gpu_set_faults(s, "");
                operation_assert_end(&s->pair.b, begun.active, FERRY_CANCELLED, NULL);
                operation_assert_end(&s->pair.a, begun.passive.id, FERRY_CANCELLED, NULL);
                course_clear(&s->pair, &begun);
                pair_assert_serving(&s->pair);
                pair_stop(&s->pair);
        }
}

/* An active side that was sent nothing yet has tried anew. */
WITH_DIRECT(the_death_of_either_side_ends_the_other)
{
        for (int victim = 0; victim < 2; victim++) {
                const struct course c = { FERRY_READABLE, "cuda:0", "cuda:1", 16 * MIB, NULL };
                struct worker *killed = victim ? &s->pair.b : &s->pair.a, *other = victim ? &s->pair.a : &s->pair.b;
                struct course_state begun;
                struct json_object *ended;
                const char *code;

                begin_slowly(s, &c, &begun);
                worker_kill(killed);
                gpu_set_faults(s, "");
                ended = call_json(
                        other, 200, "GET",
                        text_format("/v1/operations/%s?wait_ms=20000", victim ? begun.passive.id : begun.active), NULL);
                assert_string_equal(json_text(ended, "status"), "ERRORED");
                code = json_text(json_member(ended, "error"), "code");
                assert_true(strcmp(code, "peer-lost") == 0 || (!victim && strcmp(code, "peer-unreachable") == 0));
                region_drop(other, victim ? begun.offered : begun.local);
                ferry_operation_clear(&begun.passive);
                worker_stop(other);
        }
}

/* ---- who decides ---- */

/* Without nvidia_peermem, and where it is switched off. UCX does not touch the GPU then, which may fail. */
WITH_DIRECT(memory_is_staged_where_it_must_be)
{
        static const char *const settings[][2] = { { "auto", "peer memory kernel module" },
                                                   { "off", "--gpu-direct off" } };
        const struct course c = { FERRY_READABLE, "cuda:0", "cuda:1", 3 * MIB, NULL };

        for (size_t i = 0; i < 2; i++) {
                struct json_object *devices, *missing;
                struct course_state begun;

                start(s, settings[i][0]);
                devices = call_json(&s->pair.a, 200, "GET", "/v1/devices", NULL);
                missing = json_member(json_member(devices, "gpu_direct_rdma"), "missing");
                assert_non_null(strstr(json_object_to_json_string(missing), settings[i][1]));
                assert_null(strstr(json_object_to_json_string(missing), "CUDA"));
                move(s, &c, "staged");
                pair_expect_failures(&s->pair);
                worker_expect(&s->pair.a, "CUDA call failed");
                worker_expect(&s->pair.b, "CUDA call failed");
                course_prepare(&s->pair, &c, &begun);
                gpu_set_faults(s, "gone");
                course_begin(&s->pair, &c, &begun);
                operation_assert_error(&s->pair.b, begun.active, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                pair_assert_serving(&s->pair);
                course_clear(&s->pair, &begun);
                gpu_set_faults(s, "");
                pair_stop(&s->pair);
        }
}
