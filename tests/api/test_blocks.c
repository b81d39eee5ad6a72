/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <stdio.h>

/* Blocks of a paged cache: one descriptor, scattered in the order of its list. */

enum { REGION = 4 * STEPS_MIB, SEED = 31, MOST = 262144 };

/* One descriptor: where its pieces are, in their order, and how it is written. */
struct shape {
        uint64_t size; /* of each piece */
        size_t n;
        uint64_t *offsets;
        const char *json; /* what stands behind the region */
};

static void shape_clear(struct shape *shape)
{
        free(shape->offsets);
}

/* n blocks from offset on, in an order that jumps; step has no divisor in common with n. */
static struct shape shape_blocks(uint64_t offset, uint64_t size, size_t n, size_t step)
{
        struct shape shape = { .size = size, .n = n, .offsets = calloc(n, sizeof(uint64_t)) };
        size_t length;
        char *json;
        FILE *file = open_memstream(&json, &length);

        assert_non_null(shape.offsets);
        assert_non_null(file);
        fprintf(file, "\"offset\":%llu,\"size\":%llu,\"blocks\":", (unsigned long long)offset,
                (unsigned long long)size);
        for (size_t i = 0; i < n; i++) {
                size_t block = i * step % n;

                fprintf(file, "%c%zu", i ? ',' : '[', block);
                shape.offsets[i] = offset + block * size;
        }
        fputc(']', file);
        (void)fclose(file);
        shape.json = text_keep(json);
        return shape;
}

static struct shape shape_slice(uint64_t offset, uint64_t size)
{
        struct shape shape = { .size = size, .n = 1, .offsets = calloc(1, sizeof(uint64_t)) };

        assert_non_null(shape.offsets);
        shape.offsets[0] = offset;
        shape.json = text_format("\"offset\":%llu,\"size\":%llu", (unsigned long long)offset, (unsigned long long)size);
        return shape;
}

static const char *body_of(const char *kind, const char *region, const struct shape *shape, const char *more)
{
        return text_format("{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%s\",%s}]%s}", kind, region, shape->json,
                           more);
}

/* What a target holds whose source holds the pattern, for free(). */
static uint8_t *wanted(const struct shape *source, const struct shape *target)
{
        uint8_t *from = malloc(REGION), *to = calloc(1, REGION);

        assert_non_null(from);
        assert_non_null(to);
        pattern_fill(SEED, 0, from, REGION);
        for (uint64_t at = 0; at < target->n * target->size; at++)
                to[target->offsets[at / target->size] + at % target->size] =
                        from[source->offsets[at / source->size] + at % source->size];
        free(from);
        return to;
}

static void move(struct pair *p, bool readable, const struct shape *source, const struct shape *target, bool verify)
{
        const struct shape *on_a = readable ? source : target, *on_b = readable ? target : source;
        struct worker *to = readable ? &p->b : &p->a;
        uint8_t *arrived = malloc(REGION), *expected = wanted(source, target);
        const char *more, *body;
        struct json_object *passive, *active;
        const char *a = region_make(&p->a, REGION, readable ? SEED : 0);
        const char *b = region_make(&p->b, REGION, readable ? 0 : SEED);

        body = body_of(readable ? "readable" : "writable", a, on_a, "");
        passive = call_json(&p->a, 201, "POST", "/v1/operations?include=metadata", body);
        assert_true(strlen(json_object_to_json_string(json_member(passive, "metadata"))) < 2048);
        more = text_format(",\"verify\":%s,\"remote_metadata\":%s", verify ? "true" : "false",
                           json_object_to_json_string(json_member(passive, "metadata")));
        body = body_of(readable ? "read" : "write", b, on_b, more);
        active = call_json(&p->b, 201, "POST", "/v1/operations", body);
        operation_assert_end(&p->b, json_text(active, "id"), FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, json_text(passive, "id"), FERRY_COMPLETE, NULL);
        assert_int_equal(ferry_get_region_content(to->client, readable ? b : a, 0, arrived, REGION, NULL), 0);
        assert_memory_equal(arrived, expected, REGION);
        region_drop(&p->a, a);
        region_drop(&p->b, b);
        free(arrived);
        free(expected);
}

ON_EACH_PAIR(blocks_arrive_in_the_order_of_their_list)
{
        struct shape source = shape_blocks(3, 4000, 999, 400), target = shape_blocks(100, 1000, 3996, 1001);
        struct shape whole = shape_slice(5, 999 * 4000);

        for (int verify = 0; verify < 2; verify++) {
                move(p, true, &source, &target, verify);
                move(p, false, &source, &target, verify);
        }
        move(p, true, &whole, &source, false);
        move(p, false, &target, &whole, false);
        shape_clear(&source);
        shape_clear(&target);
        shape_clear(&whole);
}

ON_PAIR(as_many_blocks_as_there_may_be_are_one_descriptor)
{
        struct shape blocks = shape_blocks(0, 16, MOST, 4097), more = shape_blocks(0, 1, MOST + 1, 1);
        struct shape whole = shape_slice(0, MOST * 16);
        struct json_object *operation;
        const char *body;

        move(p, true, &blocks, &whole, false);
        move(p, false, &whole, &blocks, false);
        const char *region = region_make(&p->a, REGION, 0);
        body = body_of("readable", region, &more, "");
        assert_problem(&p->a, "POST", "/v1/operations", body, 400, "invalid-parameter", "/descriptors/0/blocks");
        body = body_of("readable", region, &blocks, "");
        operation = call_json(&p->a, 201, "POST", "/v1/operations", body);
        assert_int_equal(json_object_array_length(json_member(
                                 json_object_array_get_idx(json_member(operation, "descriptors"), 0), "blocks")),
                         MOST);
        pair_stop(p);
        shape_clear(&blocks);
        shape_clear(&more);
        shape_clear(&whole);
}
