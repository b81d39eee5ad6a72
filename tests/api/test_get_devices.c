/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

static bool list_has(struct json_object *list, const char *text)
{
        for (size_t i = 0; i < json_object_array_length(list); i++)
                if (strcmp(json_object_get_string(json_object_array_get_idx(list, i)), text) == 0)
                        return true;
        return false;
}

WITH_WORKER(transports_are_those_of_the_sides_that_are_open)
{
        struct json_object *devices;

        worker_start(w, "w", NULL);
        devices = call_json(w, 200, "GET", "/v1/devices", NULL);
        assert_true(list_has(json_member(devices, "transports"), "shm"));
        assert_false(list_has(json_member(devices, "transports"), "posix"));
        assert_false(list_has(json_member(devices, "transports"), "tcp"));
        worker_stop(w);

        worker_start(w, "w", STRINGS("--data-listen", "127.0.0.1:0", "--transports", "tcp,self", "--local", "off"));
        devices = call_json(w, 200, "GET", "/v1/devices", NULL);
        assert_true(list_has(json_member(devices, "transports"), "tcp"));
        assert_false(list_has(json_member(devices, "transports"), "shm"));
}

/* Whatever machine this is: each network card is described, and gpu_direct_rdma and its reasons agree. */
ON_WORKER(rdma_is_described_or_its_absence_explained)
{
        struct json_object *devices = call_json(w, 200, "GET", "/v1/devices", NULL), *rdma, *gpu, *missing;

        assert_string_equal(json_text(json_object_array_get_idx(json_member(devices, "memory"), 0), "name"), "cpu");
        rdma = json_member(devices, "rdma");
        gpu = json_member(devices, "gpu_direct_rdma");
        missing = json_member(gpu, "missing");
        for (size_t i = 0; i < json_object_array_length(rdma); i++) {
                struct json_object *nic = json_object_array_get_idx(rdma, i), *ports = json_member(nic, "ports");

                assert_true(json_text(nic, "name")[0] != '\0');
                for (size_t j = 0; j < json_object_array_length(ports); j++) {
                        struct json_object *port = json_object_array_get_idx(ports, j);

                        assert_true(json_number(port, "number") >= 1);
                        assert_true(json_text(port, "state")[0] != '\0');
                        assert_true(json_text(port, "link_layer")[0] != '\0');
                        assert_true(json_object_is_type(json_member(port, "gids"), json_type_array));
                }
        }
        assert_int_equal(json_truth(gpu, "possible"), json_object_array_length(missing) == 0);
        if (json_object_array_length(rdma) == 0)
                assert_false(json_truth(gpu, "possible"));
        for (size_t i = 0; i < json_object_array_length(missing); i++)
                assert_true(json_object_get_string_len(json_object_array_get_idx(missing, i)) > 10);
}
