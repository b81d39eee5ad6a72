/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was compiled with today's header, and a library in which each struct has one more field at its end. */
#include "client_fixture.h"

#define REGION(id) "{\"id\":\"" id "\",\"size\":7,\"device\":\"cpu\",\"name\":\"box\"}"
#define OPERATION(id)                                                                                                  \
        "{\"id\":\"" id "\",\"kind\":\"readable\",\"status\":\"COMPLETE\",\"done\":true,\"revision\":3,"               \
        "\"bytes_total\":8,\"bytes_done\":8,\"descriptors\":[{\"region\":\"rgn_1\",\"offset\":1,\"size\":4},"          \
        "{\"region\":\"rgn_2\",\"offset\":2,\"size\":4,\"blocks\":[7,0,9]}],\"label\":\"kv\",\"uses\":3,"              \
        "\"metadata\":{\"a\":1}}"

enum { GUARD = 128, GUARD_BYTE = 0xa5 };

/* A struct between bytes that the library must neither change nor take for fields. */
#define GUARDED(type, name)                                                                                            \
        struct {                                                                                                       \
                unsigned char before[GUARD];                                                                           \
                type it;                                                                                               \
                unsigned char after[GUARD];                                                                            \
        } name;                                                                                                        \
        memset(&name, GUARD_BYTE, sizeof(name))

static void assert_guard(const unsigned char *bytes)
{
        for (size_t i = 0; i < GUARD; i++)
                assert_int_equal(bytes[i], GUARD_BYTE);
}

#define ASSERT_GUARDED(name)                                                                                           \
        do {                                                                                                           \
                assert_guard((name).before);                                                                           \
                assert_guard((name).after);                                                                            \
        } while (0)

static struct fixture *answers(const char *body)
{
        GUARDED(struct ferry_options, options);
        struct fixture *x;
        options.it = (struct ferry_options){ .token = "t", .retries = -1 };
        x = start_with_body(body, &options.it);
        ASSERT_GUARDED(options);
        return x;
}

static void assert_operation(const struct ferry_operation *o, const char *id)
{
        assert_string_equal(o->id, id);
        assert_int_equal(o->status, FERRY_COMPLETE);
        assert_int_equal(o->n_descriptors, 2);
        assert_string_equal(o->descriptors[0].region, "rgn_1");
        assert_int_equal(o->descriptors[0].offset, 1);
        assert_string_equal(o->descriptors[1].region, "rgn_2");
        assert_int_equal(o->descriptors[1].offset, 2);
        assert_null(o->descriptors[0].blocks);
        assert_int_equal(o->descriptors[1].n_blocks, 3);
        assert_memory_equal(o->descriptors[1].blocks, ((const uint64_t[]){ 7, 0, 9 }), 3 * sizeof(uint64_t));
        assert_string_equal(o->label, "kv");
        assert_int_equal(o->uses, 3);
        assert_string_equal(o->metadata, "{\"a\":1}");
}

TEST(an_operation_and_its_descriptors_have_the_programs_layout)
{
        GUARDED(struct ferry_operation, o);
        struct fixture *x = answers(OPERATION("op_1"));
        assert_int_equal(ferry_get_operation(x->ferry, "op_1", 0, 0, &o.it), 0);
        ASSERT_GUARDED(o);
        assert_operation(&o.it, "op_1");
        ferry_operation_clear(&o.it);
        ASSERT_GUARDED(o);
        assert_null(o.it.descriptors);
}

TEST(what_a_create_is_given_has_it_too)
{
        GUARDED(struct ferry_operation, o);
        GUARDED(struct ferry_operation_spec, spec);
        const struct ferry_descriptor descriptors[] = { { .region = "rgn_1", .size = 4 },
                                                        { .region = "rgn_2", .offset = 9 } };
        spec.it =
                (struct ferry_operation_spec){ .kind = FERRY_READABLE, .descriptors = descriptors, .n_descriptors = 2 };
        struct fixture *x = answers(OPERATION("op_1"));
        assert_int_equal(ferry_create_operation(x->ferry, &spec.it, &o.it), 0);
        ASSERT_GUARDED(o);
        assert_operation(&o.it, "op_1");
        ferry_operation_clear(&o.it);
        assert_non_null(
                strstr(request_of(x, 0), "[{\"region\":\"rgn_1\",\"size\":4},{\"region\":\"rgn_2\",\"offset\":9}]"));
}

static int see(void *context, const struct ferry_operation *operation)
{
        assert_operation(operation, "op_1");
        ++*(int *)context;
        return 0;
}

TEST(limits_have_it)
{
        GUARDED(struct ferry_limits, limits);
        struct fixture *x = answers("{\"body_max\":1,\"retention_ms\":2,\"later\":3}");
        assert_int_equal(ferry_get_limits(x->ferry, &limits.it), 0);
        ASSERT_GUARDED(limits);
        assert_int_equal(limits.it.body_max, 1);
        assert_int_equal(limits.it.retention_ms, 2);
        assert_int_equal(limits.it.ids_max, 0);
        ferry_limits_clear(&limits.it);
        ASSERT_GUARDED(limits);
        assert_null(limits.it.json);
}

TEST(who_watches_sees_it)
{
        int seen = 0;
        GUARDED(struct ferry_operation, o);
        GUARDED(struct ferry_watch, watch);
        struct fixture *x = answers(OPERATION("op_1"));
        watch.it = (struct ferry_watch){ .timeout_ms = 1000, .progress = see, .context = &seen };
        assert_int_equal(ferry_watch_operation(x->ferry, "op_1", &watch.it, &o.it), 0);
        assert_int_equal(seen, 1);
        ASSERT_GUARDED(o);
        assert_operation(&o.it, "op_1");
        ferry_operation_clear(&o.it);
}

TEST(a_wait_does_too)
{
        GUARDED(struct ferry_operation, o);
        struct fixture *x = answers(OPERATION("op_1"));
        assert_int_equal(ferry_wait_operation(x->ferry, "op_1", 1000, &o.it), 0);
        ASSERT_GUARDED(o);
        assert_operation(&o.it, "op_1");
        ferry_operation_clear(&o.it);
}

TEST(the_items_of_a_list_are_as_far_apart_as_the_program_thinks)
{
        GUARDED(struct ferry_operation_list, operations);
        GUARDED(struct ferry_region_list, regions);
        struct fixture *x = answers("{\"operations\":[" OPERATION("op_1") "," OPERATION("op_2") "],\"next\":\"op_2\"}");
        assert_int_equal(ferry_list_operations(x->ferry, NULL, &operations.it), 0);
        ASSERT_GUARDED(operations);
        assert_int_equal(operations.it.n, 2);
        assert_operation(&operations.it.items[0], "op_1");
        assert_operation(&operations.it.items[1], "op_2");
        assert_string_equal(operations.it.next, "op_2");
        ferry_operation_list_clear(&operations.it);
        ASSERT_GUARDED(operations);
        x = answers("{\"regions\":[" REGION("rgn_1") "," REGION("rgn_2") "]}");
        assert_int_equal(ferry_list_regions(x->ferry, 0, NULL, &regions.it), 0);
        ASSERT_GUARDED(regions);
        assert_int_equal(regions.it.n, 2);
        assert_string_equal(regions.it.items[1].id, "rgn_2");
        assert_int_equal(regions.it.items[1].size, 7);
        ferry_region_list_clear(&regions.it);
        ASSERT_GUARDED(regions);
}

TEST(the_results_of_several_are_too)
{
#define NO_REGION "{\"code\":\"not-found\",\"status\":404,\"detail\":\"no such region\"}"
        GUARDED(struct ferry_operation_results, results);
        const uint64_t blocks[] = { 3, 1 };
        const struct ferry_descriptor descriptor = { .region = "rgn_1", .size = 4, .blocks = blocks, .n_blocks = 2 };
        struct ferry_operation_spec specs[2];
        specs[0] = specs[1] = (struct ferry_operation_spec){
                .kind = FERRY_READABLE, .descriptors = &descriptor, .n_descriptors = 1, .label = "kv", .uses = 3
        };
        struct fixture *x = answers("{\"results\":[" OPERATION("op_1") "," NO_REGION "]}");
        assert_int_equal(ferry_create_operations(x->ferry, specs, 2, &results.it), 0);
        ASSERT_GUARDED(results);
        assert_int_equal(results.it.n, 2);
        assert_operation(results.it.items[0].operation, "op_1");
        assert_null(results.it.items[1].operation);
        assert_int_equal(results.it.items[1].result, FERRY_E_NOT_FOUND);
        assert_int_equal(results.it.items[1].problem->http_status, 404);
        assert_string_equal(results.it.items[1].problem->detail, "no such region");
        ferry_operation_results_clear(&results.it);
        ASSERT_GUARDED(results);
        assert_null(results.it.items);
#define SPEC                                                                                                           \
        "{\"kind\":\"readable\",\"label\":\"kv\",\"uses\":3,\"descriptors\":[{\"region\":\"rgn_1\",\"size\":4,"        \
        "\"blocks\":[3,1]}]}"
        assert_non_null(strstr(request_of(x, 0), "\r\n\r\n{\"operations\":[" SPEC "," SPEC "]}"));

        const char *const ids[] = { "op_1", "op_2" };
        x = answers("{\"operations\":[" OPERATION("op_1") "," OPERATION("op_2") "]}");
        assert_int_equal(ferry_wait_operations(x->ferry, ids, 2, FERRY_WAIT_ALL, 1000, &results.it), 0);
        ASSERT_GUARDED(results);
        assert_operation(results.it.items[1].operation, "op_2");
        ferry_operation_results_clear(&results.it);
}

TEST(regions_workers_peers_and_answers_do_not_grow_into_the_program)
{
        GUARDED(struct ferry_region, region);
        GUARDED(struct ferry_region_spec, spec);
        GUARDED(struct ferry_worker_info, info);
        GUARDED(struct ferry_peer, peer);
        GUARDED(struct ferry_answer, answer);
        struct fixture *x = answers(REGION("rgn_1"));
        spec.it = (struct ferry_region_spec){ .size = 7 };
        assert_int_equal(ferry_create_region(x->ferry, &spec.it, &region.it), 0);
        ASSERT_GUARDED(region);
        assert_string_equal(region.it.name, "box");
        x = answers("{\"name\":\"w\",\"epoch\":\"e\",\"version\":\"9\"}");
        assert_int_equal(ferry_get_worker(x->ferry, &info.it), 0);
        assert_string_equal(info.it.version, "9");
        ASSERT_GUARDED(info);
        ferry_worker_info_clear(&info.it);
        ASSERT_GUARDED(info);
        x = answers("{\"worker\":\"w\",\"epoch\":\"e\",\"transport\":\"shm\",\"connect_us\":3,\"reused\":false}");
        assert_int_equal(ferry_connect_peer(x->ferry, "http://h", &peer.it), 0);
        assert_string_equal(peer.it.transport, "shm");
        ASSERT_GUARDED(peer);
        ferry_peer_clear(&peer.it);
        ASSERT_GUARDED(peer);
        x = answers("{}");
        assert_int_equal(ferry_request(x->ferry, "GET", "/", NULL, NULL, 0, &answer.it), 0);
        ASSERT_GUARDED(answer);
        assert_string_equal(answer.it.body, "{}");
        ferry_answer_clear(&answer.it);
        ASSERT_GUARDED(answer);
}
