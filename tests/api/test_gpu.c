/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

/* GPUs, and regions on them. */

WITH_GPUS(gpus_are_listed_with_their_names_and_memory)
{
        struct worker *w = &s->pair.a;
        struct json_object *memory;

        worker_start(w, "a", NULL);
        memory = json_member(call_json(w, 200, "GET", "/v1/devices", NULL), "memory");
        assert_int_equal(json_object_array_length(memory), 3);
        assert_string_equal(json_text(json_object_array_get_idx(memory, 1), "name"), "cuda:0");
        assert_string_equal(json_text(json_object_array_get_idx(memory, 2), "name"), "cuda:1");
        assert_string_equal(json_text(json_object_array_get_idx(memory, 2), "model"), "Stand-in GPU 1");
        assert_int_equal(json_number(json_object_array_get_idx(memory, 1), "total_bytes"), 1 << 30);
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
}

WITH_GPUS(a_region_on_a_gpu_begins_as_zeros_and_keeps_what_is_put)
{
        struct worker *w = &s->pair.a;
        struct json_object *region;

        worker_start(w, "a", NULL);
        const char *id = device_region(w, "cuda:1", 9 * MIB + 5, 0);
        region_assert_pattern(w, id, 0, 0, 9 * MIB + 5);
        region = call_json(w, 200, "GET", text_format("/v1/regions/%s", id), NULL);
        assert_string_equal(json_text(region, "device"), "cuda:1");
        assert_false(json_object_object_get_ex(region, "path", NULL)); /* nobody could map it */
        region_drop(w, id);
        id = device_region(w, "cuda:1", 9 * MIB + 5, SEED);
        region_assert_pattern(w, id, SEED, 0, 9 * MIB + 5);
        region_assert_pattern(w, id, SEED, 5 * MIB + 3, 1 * MIB);
        region_drop(w, id);
}

WITH_GPUS(a_gpu_without_room_says_so)
{
        struct worker *w = &s->pair.a;

        worker_start(w, "a", NULL);
        gpu_set_faults(s, "alloc");
        assert_problem(w, "POST", "/v1/regions", "{\"size\":4096,\"device\":\"cuda:0\"}", 507, "limit-reached", NULL);
        gpu_set_faults(s, "");
        const char *id = device_region(w, "cuda:0", 4096, SEED);
        region_drop(w, id);
}
