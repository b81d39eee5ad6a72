/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

enum { MANY = 3000 };

static void with_room(struct fixture *f)
{
        struct operation_limits limits = default_limits;

        limits.operations_max = limits.terminal_max = 2 * MANY;
        fixture_limits(f, &limits);
}

/* Walks all pages of that size; stores the ids. */
static size_t walk_filtered(struct fixture *f, struct operation_filter filter, size_t n, uint64_t *ret_ids,
                            size_t *ret_pages)
{
        struct operation *page[64];
        uint64_t cursor = 0;
        size_t n_ids = 0, n_page, n_pages = 0;

        do {
                n_page = operation_page(f->store, &filter, &cursor, page, n);
                n_pages += n_page > 0;
                for (size_t i = 0; i < n_page; i++) {
                        ret_ids[n_ids++] = look(f, page[i]).id;
                        (void)operation_unref(page[i]);
                }
        } while (cursor);
        if (ret_pages)
                *ret_pages = n_pages;
        return n_ids;
}

static size_t walk(struct fixture *f, int kind, int status, size_t n, uint64_t *ret_ids, size_t *ret_pages)
{
        return walk_filtered(f, (struct operation_filter){ .kind = kind, .status = status, .done = -1 }, n, ret_ids,
                             ret_pages);
}

WITH_STORE(the_newest_come_first_on_request)
{
        const struct operation_filter newest = { .kind = -1, .status = -1, .done = -1, .newest = true };
        uint64_t made[12], seen[12];
        size_t n_pages;

        assert_int_equal(walk_filtered(f, newest, 3, seen, NULL), 0);
        for (size_t i = 0; i < 12; i++) {
                struct operation *operation = make(f, FERRY_READ), *gone = make(f, FERRY_READ);

                made[11 - i] = look(f, operation).id;
                test_release(operation);
                operation_delete(f->store, gone);
                test_release(gone);
        }
        for (size_t n = 1; n <= 13; n++) {
                assert_int_equal(walk_filtered(f, newest, n, seen, &n_pages), 12);
                assert_memory_equal(seen, made, sizeof(made));
                assert_int_equal(n_pages, (12 + n - 1) / n);
        }
}

WITH_STORE(filters_choose_by_end_region_and_label)
{
        struct operation_slice slices[] = { { f->other, 0, 16 }, { f->region, 0, 16 } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .label = "layer 7" };
        struct operation *operation;
        struct operation_filter filter = { -1, -1, -1, 0, NULL, false };
        uint64_t ids[40];

        for (size_t i = 0; i < 20; i++) {
                spec.n_slices = 1 + i % 2;
                spec.label[6] = i % 5 ? '7' : '8';
                assert_int_equal(make_spec(f, &spec, &operation), 0);
                if (i % 4 == 0)
                        operation_cancel(f->store, operation);
                test_release(operation);
        }
        filter.done = 1;
        assert_int_equal(walk_filtered(f, filter, 3, ids, NULL), 5);
        filter.done = 0;
        assert_int_equal(walk_filtered(f, filter, 3, ids, NULL), 15);
        filter.region = f->region->id;
        assert_int_equal(walk_filtered(f, filter, 3, ids, NULL), 10);
        filter.done = -1;
        filter.region = f->other->id;
        assert_int_equal(walk_filtered(f, filter, 3, ids, NULL), 20);
        filter.label = "layer 8";
        assert_int_equal(walk_filtered(f, filter, 3, ids, NULL), 4);
        filter.label = "layer";
        assert_int_equal(walk_filtered(f, filter, 3, ids, NULL), 0);
}

WITH_STORE(many_with_many_gone_between_are_all_seen)
{
        uint64_t *kept = calloc(MANY, sizeof(*kept)), *seen = calloc(MANY, sizeof(*seen));
        size_t n = 0;

        assert_non_null(kept);
        assert_non_null(seen);
        with_room(f);
        for (size_t i = 0; i < MANY; i++) {
                struct operation *operation = make(f, i % 1500 == 1499 ? FERRY_WRITE : FERRY_READ);

                if (i % 3)
                        operation_delete(f->store, operation);
                else
                        kept[n++] = look(f, operation).id;
                test_release(operation);
        }
        assert_int_equal(walk(f, -1, -1, 64, seen, NULL), n);
        assert_memory_equal(seen, kept, n * sizeof(*kept));
        assert_int_equal(walk(f, FERRY_WRITE, -1, 64, seen, NULL), 0);
        free(kept);
        free(seen);
}

WITH_STORE(a_rare_match_is_found_far_behind)
{
        struct operation *operation;
        uint64_t first, seen[2];

        with_room(f);
        operation = make(f, FERRY_WRITE);
        first = look(f, operation).id;
        test_release(operation);
        for (size_t i = 0; i < MANY; i++)
                test_release(make(f, FERRY_READ));
        operation = make(f, FERRY_WRITE);
        assert_int_equal(walk(f, FERRY_WRITE, -1, 1, seen, NULL), 2);
        assert_int_equal(seen[0], first);
        assert_int_equal(seen[1], look(f, operation).id);
}
