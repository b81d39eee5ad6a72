/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

enum { MIB = 1 << 20, TRIES = 50 };

static struct json_object *create(struct worker *w, const char *body)
{
        return call_json(w, 201, "POST", "/v1/regions", body);
}

static int create_sized(struct worker *w, uint64_t size, struct ferry_region *ret_region)
{
        const struct ferry_region_spec spec = { .size = size };

        return ferry_create_region(w->client, &spec, ret_region);
}

/* ---- the answer ---- */

ON_WORKER(the_answer_is_the_region)
{
        struct json_object *region;
        static const char body[] = "{\"size\":1048577,\"device\":\"cpu\",\"name\":\"kv0 \xc3\xa9\xe2\x82\xac\"}";
        const char *location;

        struct raw_answer answer = raw_exchange(w, json_request("/v1/regions", "", body));
        assert_int_equal(answer.status, 201);
        region = json_parse(answer.body);
        assert_string_equal(json_names(region), "id size device name state path in_use created_at");
        assert_int_equal(strlen(json_text(region, "id")), 20);
        assert_memory_equal(json_text(region, "id"), "rgn_", 4);
        assert_int_equal(json_number(region, "size"), 1048577);
        assert_string_equal(json_text(region, "device"), "cpu");
        assert_string_equal(json_text(region, "name"), "kv0 \xc3\xa9\xe2\x82\xac");
        assert_int_equal(json_number(region, "in_use"), 0);

        location = raw_header(&answer, "Location");
        assert_string_equal(location, region_path(json_text(region, "id"), ""));
        assert_true(json_object_equal(region, call_json(w, 200, "GET", location, NULL)));
}

ON_WORKER(device_and_name_may_be_left_out)
{
        struct json_object *region;

        region = create(w, "{\"size\":1}");
        assert_string_equal(json_text(region, "device"), "cpu");
        assert_false(json_object_object_get_ex(region, "name", NULL));
}

/* The memory of a region is for programs of the same user. */
ON_WORKER(a_local_program_can_map_it)
{
        enum { SIZE = 12345 };
        struct ferry_region region;
        struct stat status;
        uint8_t *mapped, *wanted = malloc(SIZE);
        int fd;

        assert_int_equal(create_sized(w, SIZE, &region), 0);
        const char *prefix = text_format("/proc/%d/fd/", (int)w->pid);
        assert_memory_equal(region.path, prefix, strlen(prefix));
        assert_int_equal(stat(region.path, &status), 0);
        assert_int_equal(status.st_mode, S_IFREG | 0600);
        assert_int_equal(status.st_size, SIZE);
        assert_int_equal(status.st_uid, geteuid());
        assert_true(status.st_blocks * 512 >= SIZE); /* nothing is left to be allocated when it is written */
        fd = open(region.path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(mapped, MAP_FAILED);
        /* Nobody can take the memory from under the worker. */
        assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW), F_SEAL_SHRINK | F_SEAL_GROW);
        assert_int_equal(ftruncate(fd, 0), -1);
        (void)close(fd);
        for (size_t i = 0; i < SIZE; i++)
                assert_int_equal(mapped[i], 0);

        /* What the program stores, HTTP reads, and the reverse. */
        pattern_fill(5, 0, mapped, SIZE);
        region_assert_pattern(w, region.id, 5, 0, SIZE);
        pattern_fill(6, 0, wanted, SIZE);
        assert_int_equal(ferry_put_region_content(w->client, region.id, 0, wanted, SIZE), 0);
        assert_memory_equal(mapped, wanted, SIZE);

        /* Deleted under its mapping, it stays readable there. */
        region_drop(w, region.id);
        assert_int_equal(access(region.path, F_OK), -1);
        assert_memory_equal(mapped, wanted, SIZE);
        (void)munmap(mapped, SIZE);
        free(wanted);
}

/* ---- limits ---- */

static void assert_no_room(struct worker *w, const char *body, const char *detail)
{
        const char *retry;

        struct raw_answer answer = raw_exchange(w, json_request("/v1/regions", "", body));
        retry = raw_header(&answer, "Retry-After");
        assert_non_null(retry);
        assert_in_range(strtoul(retry, NULL, 10), 1, 60);
        assert_non_null(strstr(answer.body, detail));
        answer_assert_problem(&answer, 507, "limit-reached");
}

/* Waiting does not help a region that is larger than the limit. */
static void assert_never_room(struct worker *w, const char *body)
{
        struct raw_answer answer = raw_exchange(w, json_request("/v1/regions", "", body));

        answer_assert_lasting(&answer, 507, "limit-reached");
}

ON_WORKER(the_memory_limit_holds_and_gives_back, "--memory-limit", "1M")
{
        struct ferry_region first, second;

        assert_never_room(w, "{\"size\":1048577}");
        assert_never_room(w, "{\"size\":9007199254740991}");
        assert_int_equal(create_sized(w, MIB, &first), 0);
        assert_no_room(w, "{\"size\":2}", "2 bytes are needed; --memory-limit is 1048576 and has room for 0");
        region_drop(w, first.id);
        assert_int_equal(create_sized(w, MIB - 1, &first), 0);
        assert_int_equal(create_sized(w, 1, &second), 0);
        assert_no_room(w, "{\"size\":1}", "1 bytes are needed");
        region_drop(w, second.id);
        assert_int_equal(create_sized(w, 1, &second), 0);
        worker_await_metric(w, "ferry_region_bytes", MIB);
}

ON_WORKER(the_number_of_regions_has_a_limit, "--max-regions", "3")
{
        const char *ids[3];

        for (int i = 0; i < 3; i++)
                ids[i] = region_make(w, 1, 0);
        struct raw_answer answer = raw_exchange(w, json_request("/v1/regions", "", "{\"size\":1}"));
        answer_assert_header(&answer, "Retry-After", "1");
        answer_assert_problem(&answer, 429, "limit-reached");
        region_drop(w, ids[1]);
        ids[1] = region_make(w, 1, 0);
}

/* ---- large regions ---- */

/* A region whose answer says that it is being prepared. Tries again when it was ready before the answer. */
static struct json_object *create_later(struct worker *w, uint64_t size)
{
        const char *request = json_request("/v1/regions", "Prefer: respond-async\r\n",
                                           text_format("{\"size\":%llu}", (unsigned long long)size));

        for (int i = 0; i < TRIES; i++) {
                struct raw_answer answer = raw_exchange(w, request);
                struct json_object *region;

                assert_int_equal(answer.status, 201);
                answer_assert_header(&answer, "Preference-Applied", "respond-async");
                region = json_parse(answer.body);
                if (strcmp(json_text(region, "state"), "preparing") == 0)
                        return region;
                region_drop(w, json_text(region, "id"));
        }
        fail_msg("each region was ready at once");
        return NULL;
}

ON_WORKER(a_large_region_comes_ready_or_later_as_the_client_prefers, "--memory-limit", "512M")
{
        enum { SIZE = 256 * MIB };
        struct json_object *region;
        const char *id[2];

        id[0] = region_make(w, SIZE, 0);
        region = create_later(w, SIZE);
        assert_in_range(json_number(region, "bytes_prepared"), 0, SIZE);
        assert_false(json_object_object_get_ex(region, "path", NULL));
        id[1] = json_text(region, "id");
        region = call_json(w, 200, "GET", text_format("/v1/regions/%s?wait_ms=30000", id[1]), NULL);
        assert_string_equal(json_text(region, "state"), "ready");
        region_assert_pattern(w, id[1], 0, SIZE - MIB, MIB);

        /* The memory is freed after the answer; who needs it waits. */
        for (int i = 0; i < 4; i++) {
                region_drop(w, id[i % 2]);
                id[i % 2] = region_make(w, SIZE, 0);
        }
        worker_await_metric(w, "ferry_region_bytes", 2 * SIZE);
}

/* Unless it is ready before the second request. */
ON_WORKER(a_region_that_is_being_prepared_is_named_where_it_is_used)
{
        const char *ready = region_make(w, 1, 0), *id;
        struct raw_answer answer;

        for (int i = 0; i < TRIES; i++) {
                id = json_text(create_later(w, UINT64_C(1) << 30), "id");
                answer = raw_exchange(
                        w, json_request("/v1/operations", "",
                                        text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"},"
                                                    "{\"region\":\"%s\"}]}",
                                                    ready, id)));
                if (answer.status != 201)
                        break;
                assert_int_equal(ferry_delete_operation(w->client, json_text(json_parse(answer.body), "id")), 0);
                region_drop(w, id);
        }
        answer_assert_problem(&answer, 409, "region-not-ready");
        assert_non_null(strstr(answer.body, "\"pointer\":\"/descriptors/1/region\""));
        region_drop(w, id);
}

/* It may be the first thing that a worker is told, and the last. */
ON_WORKER(a_worker_ends_while_it_makes_a_region)
{
        for (int i = 0; i < 4; i++)
                (void)create_later(w, 256 * MIB);
}

/* ---- sealed ---- */

ON_WORKER(nobody_else_can_write_a_sealed_region)
{
        enum { SIZE = 12345 };
        struct json_object *region;
        uint8_t *mapped, wanted[SIZE];
        int fd;

        region = create(w, "{\"size\":12345,\"sealed\":true}");
        assert_true(json_object_get_boolean(json_object_object_get(region, "sealed")));
        const char *id = text_format("%s", json_text(region, "id"));
        fd = open(json_text(region, "path"), O_RDWR | O_CLOEXEC);
        if (fd >= 0) {
                assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
                assert_int_equal(pwrite(fd, "x", 1, 0), -1);
                (void)close(fd);
        }
        fd = open(json_text(region, "path"), O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        mapped = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(mapped, MAP_FAILED);
        assert_int_equal(mprotect(mapped, SIZE, PROT_READ | PROT_WRITE), -1);
        (void)close(fd);

        /* The worker itself can. */
        pattern_fill(9, 0, wanted, SIZE);
        assert_int_equal(ferry_put_region_content(w->client, id, 0, wanted, SIZE), 0);
        assert_memory_equal(mapped, wanted, SIZE);
        (void)munmap(mapped, SIZE);

        region = create(w, "{\"size\":1,\"sealed\":false}");
        assert_false(json_object_object_get_ex(region, "sealed", NULL));
}

/* ---- Idempotency-Key ---- */

static const char *create_keyed(struct worker *w, const char *key, const char *body, int status)
{
        struct raw_answer answer =
                raw_exchange(w, json_request("/v1/regions", text_format("Idempotency-Key: %s\r\n", key), body));

        if (answer.status != status)
                print_error("key %.40s, %s:\n%s%s\n", key, body, answer.head, answer.body);
        assert_int_equal(answer.status, status);
        return json_text(json_parse(answer.body), status == 201 ? "id" : "code");
}

static void assert_keyed(struct worker *w, const char *key, const char *body, int status, const char *wanted)
{
        assert_string_equal(create_keyed(w, key, body, status), wanted);
}

ON_WORKER(the_same_key_makes_one_region)
{
        const char *id = create_keyed(w, "key-1", "{\"size\":7}", 201), *other, *longest = text_format("%0255d", 1);

        for (int i = 0; i < 3; i++)
                assert_keyed(w, "key-1", "{\"size\":7}", 201, id);
        (void)create_keyed(w, longest, "{\"size\":7}", 201);
        other = create_keyed(w, "key-2", "{\"size\":7}", 201);
        assert_string_not_equal(other, id);
        worker_await_metric(w, "ferry_regions", 3);
        assert_keyed(w, "key-1", "{\"size\":8}", 422, "idempotency-conflict");

        /* The key stands for the whole request: the same body to another resource is another request. */
        wire_refused(w, 422, "idempotency-conflict",
                     "POST /v1/operations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Idempotency-Key: key-1\r\nContent-Length: 10\r\n\r\n{\"size\":7}");
        region_drop(w, id);
        assert_keyed(w, "key-1", "{\"size\":7}", 410, "gone");
        worker_await_metric(w, "ferry_regions", 2);
}

ON_WORKER(a_refused_request_does_not_use_up_its_key, "--memory-limit", "1M")
{
        assert_keyed(w, "key", "{\"size\":0}", 400, "invalid-parameter");
        assert_keyed(w, "key", "{\"size\":1048577}", 507, "limit-reached");
        (void)create_keyed(w, "key", "{\"size\":1}", 201);
}

/* Once its client has left, the key is free: soon after the region is gone. */
static void repeat_left(struct worker *w, int key, const char *body)
{
        const char *request =
                json_request("/v1/regions", text_format("Idempotency-Key: %d\r\nPrefer: respond-async\r\n", key), body);
        struct raw_answer answer = raw_exchange(w, request);

        WAIT_UNTIL(answer.status != 422 || (answer = raw_exchange(w, request)).status != 422);
        assert_int_equal(answer.status, 201);
        region_drop(w, json_text(json_parse(answer.body), "id"));
}

/*
 * libmicrohttpd may find its end before the parked request does, which then is never answered. Where the region was
 * ready first, the client has it: the next key is tried.
 */
ON_WORKER(a_client_that_leaves_leaves_no_region_and_no_key)
{
        enum { ROUNDS = 8 };
        static const char body[] = "{\"size\":536870912}";

        for (int key = 0, left = 0; left < ROUNDS; key++) {
                const char *request = json_request("/v1/regions", text_format("Idempotency-Key: %d\r\n", key), body);
                int fd = raw_connect(w);

                assert_true(key < TRIES);
                raw_send(fd, request, strlen(request));
                /* New connections keep its thread awake, which then sees the end by itself. */
                while (!strstr(raw_exchange(w, "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "rgn_"))
                        ;
                (void)shutdown(fd, SHUT_WR);
                struct raw_answer answer = raw_end(fd);
                if (answer.status == 201) {
                        region_drop(w, json_text(json_parse(answer.body), "id"));
                        continue;
                }
                assert_true(answer.status == 0 || answer.status == 410);
                worker_await_metric(w, "ferry_regions", 0);
                repeat_left(w, key, body);
                left++;
        }
}

/* Requests with one key at the same time: one region; whoever comes too early is told to try again. */
ON_WORKER(a_race_with_one_key_makes_one_region)
{
        enum { RACERS = 16 };
        static const char request[] = "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\n"
                                      "Content-Type: application/json\r\nIdempotency-Key: race\r\n"
                                      "Content-Length: 16\r\n\r\n{\"size\":8388608}";
        const char *id = NULL;
        int fds[RACERS];

        for (int i = 0; i < RACERS; i++)
                fds[i] = raw_connect(w);
        for (int i = 0; i < RACERS; i++)
                raw_send(fds[i], request, strlen(request));
        for (int i = 0; i < RACERS; i++) {
                struct raw_answer answer = raw_end(fds[i]);
                if (answer.status == 201) {
                        const char *made = json_text(json_parse(answer.body), "id");

                        if (id)
                                assert_string_equal(made, id);
                        id = made;
                } else {
                        answer_assert_header(&answer, "Retry-After", "1");
                        answer_assert_problem(&answer, 422, "idempotency-conflict");
                }
        }
        assert_non_null(id);
        assert_keyed(w, "race", "{\"size\":8388608}", 201, id);
        worker_await_metric(w, "ferry_regions", 1);
}
