/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* Lists of descriptors: one logical stream of bytes, cut differently on each side. */

enum { REGION = 4 * STEPS_MIB, SEED = 21, MANY = 1000 };

/* A list of slices of one region, one by one and as the worker is given it. */
struct list {
        struct ferry_descriptor items[MANY], given[MANY];
        size_t n, n_given;
        uint64_t total;
};

static void list_row(struct list *list, uint64_t offset, uint64_t size, uint64_t count, uint64_t stride)
{
        list->given[list->n_given++] =
                (struct ferry_descriptor){ .offset = offset, .size = size, .count = count, .stride = stride };
        for (uint64_t i = 0; i < (count ? count : 1); i++) {
                assert_true(list->n < MANY);
                assert_true(offset + i * stride + size <= REGION);
                list->items[list->n++] = (struct ferry_descriptor){ .offset = offset + i * stride, .size = size };
                list->total += size;
        }
}

static void list_add(struct list *list, uint64_t offset, uint64_t size)
{
        list_row(list, offset, size, 0, 0);
}

/* The bytes that the list of a region names, in its order, for free(). */
static uint8_t *list_bytes(struct worker *w, const char *region, const struct list *list)
{
        uint8_t *all = malloc(REGION), *bytes = malloc(list->total), *at = bytes;

        assert_int_equal(ferry_get_region_content(w->client, region, 0, all, REGION, NULL), 0);
        for (size_t i = 0; i < list->n; i++) {
                memcpy(at, all + list->items[i].offset, list->items[i].size);
                at += list->items[i].size;
        }
        free(all);
        return bytes;
}

/* How many bytes of a region that was zero lie outside the list and are not zero any more. */
static size_t bytes_outside(struct worker *w, const char *region, const struct list *list)
{
        uint8_t *all = malloc(REGION);
        size_t n = 0;

        assert_int_equal(ferry_get_region_content(w->client, region, 0, all, REGION, NULL), 0);
        for (size_t i = 0; i < list->n; i++)
                memset(all + list->items[i].offset, 0, list->items[i].size);
        for (size_t i = 0; i < REGION; i++)
                n += all[i] != 0;
        free(all);
        return n;
}

/* Moves source → target as a read or as a write, and compares every byte inside and outside of the target list. */
static void move(struct pair *p, enum ferry_kind passive_kind, struct list *source, struct list *target,
                 enum ferry_layout layout, bool verify)
{
        bool readable = passive_kind == FERRY_READABLE;
        struct list *offered = readable ? source : target, *local = readable ? target : source;
        struct ferry_operation_spec passive_spec = { .kind = passive_kind,
                                                     .descriptors = offered->given,
                                                     .n_descriptors = offered->n_given,
                                                     .include_metadata = true };
        struct ferry_operation_spec active_spec = { .kind = kind_of_peer(passive_kind),
                                                    .layout = layout,
                                                    .descriptors = local->given,
                                                    .n_descriptors = local->n_given,
                                                    .verify = verify };
        OPERATION passive, active;
        uint8_t *sent, *arrived;
        const char *on_a = region_make(&p->a, REGION, readable ? SEED : 0);
        const char *on_b = region_make(&p->b, REGION, readable ? 0 : SEED);

        for (size_t i = 0; i < offered->n_given; i++)
                offered->given[i].region = on_a;
        for (size_t i = 0; i < local->n_given; i++)
                local->given[i].region = on_b;
        assert_int_equal(ferry_create_operation(p->a.client, &passive_spec, &passive), 0);
        assert_int_equal(passive.bytes_total, offered->total);
        active_spec.remote_metadata = passive.metadata;
        assert_int_equal(ferry_create_operation(p->b.client, &active_spec, &active), 0);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        sent = list_bytes(readable ? &p->a : &p->b, readable ? on_a : on_b, source);
        arrived = list_bytes(readable ? &p->b : &p->a, readable ? on_b : on_a, target);
        assert_memory_equal(sent, arrived, source->total);
        assert_int_equal(bytes_outside(readable ? &p->b : &p->a, readable ? on_b : on_a, target), 0);
        free(sent);
        free(arrived);
        region_drop(&p->a, on_a);
        region_drop(&p->b, on_b);
}

static void both_ways(struct pair *p, struct list *source, struct list *target, enum ferry_layout layout)
{
        for (int verify = 0; verify < 2; verify++) {
                move(p, FERRY_READABLE, source, target, layout, verify);
                move(p, FERRY_WRITABLE, source, target, layout, verify);
        }
}

ON_EACH_PAIR(slices_arrive_where_they_belong)
{
        struct list source = { 0 }, target = { 0 };

        list_add(&source, 3, 1);
        list_add(&target, REGION - 1, 1);
        both_ways(p, &source, &target, FERRY_LAYOUT_PAIRWISE);
        /* Unaligned, uneven, in another order than in memory. */
        list_add(&source, 1000001, 1500003);
        list_add(&target, 77, 1500003);
        both_ways(p, &source, &target, FERRY_LAYOUT_PAIRWISE);
        list_add(&source, 17, 65537);
        list_add(&target, 2000000, 65537);
        list_add(&source, 5, 7);
        list_add(&target, 60, 7);
        both_ways(p, &source, &target, FERRY_LAYOUT_PAIRWISE);
}

ON_EACH_PAIR(a_thousand_uneven_slices_arrive)
{
        struct list source = { 0 }, target = { 0 };
        uint64_t at = 0;

        for (size_t i = 0; i < MANY; i++) {
                uint64_t size = 1 + i * 7919 % 3001;

                list_add(&source, i * 31 % 100000 * 10 + 1, size); /* some overlap: a source may */
                list_add(&target, at, size);                       /* adjacent */
                at += size;
        }
        both_ways(p, &source, &target, FERRY_LAYOUT_PAIRWISE);
}

ON_EACH_PAIR(a_stream_may_be_cut_differently)
{
        struct list one = { 0 }, few = { 0 }, many = { 0 };

        list_add(&one, 11, 3000000);
        list_add(&few, 2900000, 1);
        list_add(&few, 1, 1100000);
        list_add(&few, 1100001, 1699999);
        list_add(&few, 3500000, 200000);
        for (size_t i = 0; i < 999; i++)
                list_add(&many, i * 4000 + i % 7, 3000 + i % 2);
        list_add(&many, 4000000, one.total - many.total);
        both_ways(p, &one, &few, FERRY_LAYOUT_STREAM);
        both_ways(p, &few, &one, FERRY_LAYOUT_STREAM);
        both_ways(p, &few, &many, FERRY_LAYOUT_STREAM);
        both_ways(p, &many, &few, FERRY_LAYOUT_STREAM);
}

ON_EACH_PAIR(a_row_pairs_with_as_many_bytes_of_any_shape)
{
        struct list rows = { 0 }, plain = { 0 }, other = { 0 }, touching = { 0 };

        list_add(&rows, 5, 999);
        list_row(&rows, 2000, 999, 400, 3001);
        list_row(&rows, 2000000, 999, 5, 999);
        list_row(&rows, 2500000, 999, 1, 999);
        list_add(&plain, 1, 999);
        list_add(&plain, 2000, 400 * 999);
        list_add(&plain, 1000000, 5 * 999);
        list_add(&plain, REGION - 999, 999);
        list_row(&other, 7, 333, 3, 400);
        list_row(&other, 100000, 4 * 999, 100, 4000);
        list_row(&other, 3000000, 45, 111, 46);
        list_add(&other, 2999, 999);
        list_row(&touching, 3, 999, rows.n, 999);
        both_ways(p, &rows, &plain, FERRY_LAYOUT_PAIRWISE);
        both_ways(p, &plain, &rows, FERRY_LAYOUT_PAIRWISE);
        both_ways(p, &rows, &other, FERRY_LAYOUT_PAIRWISE);
        both_ways(p, &touching, &plain, FERRY_LAYOUT_STREAM);
}

ON_PAIR(a_row_is_shown_as_it_was_given_and_offered_as_one)
{
        enum { COUNT = 262143 };
        struct ferry_descriptor given[2];
        struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE, .descriptors = given, .n_descriptors = 2, .include_metadata = true
        };
        struct ferry_operation operation;
        struct json_object *descriptors;
        const char *id = region_make(&p->a, REGION, 0);

        given[0] = (struct ferry_descriptor){ .region = id, .offset = 1, .size = 7 };
        given[1] = (struct ferry_descriptor){ .region = id, .offset = 10, .size = 3, .count = COUNT, .stride = 4 };
        assert_int_equal(ferry_create_operation(p->a.client, &spec, &operation), 0);
        assert_int_equal(operation.bytes_total, 7 + 3 * COUNT);
        assert_int_equal(operation.n_descriptors, 2);
        assert_int_equal(operation.descriptors[0].count, 1);
        assert_int_equal(operation.descriptors[0].stride, 0);
        assert_int_equal(operation.descriptors[1].offset, 10);
        assert_int_equal(operation.descriptors[1].size, 3);
        assert_int_equal(operation.descriptors[1].count, COUNT);
        assert_int_equal(operation.descriptors[1].stride, 4);
        assert_true(strlen(operation.metadata) < 2048);
        descriptors = json_object_object_get(json_parse(operation.metadata), "descriptors");
        assert_int_equal(json_object_array_length(descriptors), 2);
        assert_int_equal(json_number(json_object_array_get_idx(descriptors, 0), "size"), 7);
        assert_int_equal(json_number(json_object_array_get_idx(descriptors, 1), "size"), 3 * COUNT);
        ferry_operation_clear(&operation);
        given[1].count++;
        assert_int_equal(ferry_create_operation(p->a.client, &spec, &operation), FERRY_E_INVALID_PARAMETER);
        assert_string_equal(ferry_last_problem(p->a.client)->pointer, "/descriptors/1/count");
}

ON_EACH_PAIR(slices_of_many_regions_are_one_stream)
{
        enum { N = 40, EACH = 50000 };

        const char *ids[N], *whole = region_make(&p->b, (uint64_t)N * EACH, 0);
        struct ferry_descriptor items[N];
        struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE, .descriptors = items, .n_descriptors = N, .include_metadata = true
        };
        struct ferry_descriptor target = { .region = whole };
        struct ferry_operation_spec read = {
                .kind = FERRY_READ, .layout = FERRY_LAYOUT_STREAM, .descriptors = &target, .n_descriptors = 1
        };
        OPERATION passive, active;
        uint8_t *bytes = malloc((size_t)N * EACH), *wanted = malloc(EACH);

        for (int i = 0; i < N; i++) {
                ids[i] = region_make(&p->a, EACH, (uint64_t)i + 1);
                items[i] = (struct ferry_descriptor){ .region = ids[i] };
        }
        assert_int_equal(ferry_create_operation(p->a.client, &spec, &passive), 0);
        for (int i = 0; i < N; i++)
                assert_int_equal(ferry_delete_region(p->a.client, ids[i]), FERRY_E_REGION_IN_USE);
        read.remote_metadata = passive.metadata;
        assert_int_equal(ferry_create_operation(p->b.client, &read, &active), 0);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        assert_int_equal(ferry_get_region_content(p->b.client, whole, 0, bytes, (size_t)N * EACH, NULL), 0);
        for (int i = 0; i < N; i++) {
                pattern_fill((uint64_t)i + 1, 0, wanted, EACH);
                assert_memory_equal(bytes + (size_t)i * EACH, wanted, EACH);
                region_drop(&p->a, ids[i]);
        }
        free(bytes);
        free(wanted);
}
