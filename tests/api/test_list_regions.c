/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

enum { MANY = 250 };

static void make_many(struct worker *w, size_t n, const char *ids[])
{
        for (size_t i = 0; i < n; i++)
                ids[i] = region_make(w, 1 + i, 0);
}

/* Asserts a page: its elements are ids[first …], and whether another one follows. Returns next, for free(). */
static char *assert_page(struct worker *w, unsigned limit, const char *after, const char *ids[], size_t first, size_t n,
                         bool more)
{
        struct ferry_region_list list;
        char *next;

        assert_int_equal(ferry_list_regions(w->client, limit, after, &list), 0);
        assert_int_equal(list.n, n);
        for (size_t i = 0; i < n; i++) {
                assert_string_equal(list.items[i].id, ids[first + i]);
                assert_int_equal(list.items[i].size, first + i + 1);
        }
        assert_int_equal(list.next != NULL, more);
        next = list.next ? strdup(list.next) : NULL;
        ferry_region_list_clear(&list);
        return next;
}

ON_WORKER(no_regions_are_an_empty_list)
{
        struct raw_answer answer = raw_exchange(w, "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n");

        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Content-Type", "application/json");
        assert_string_equal(answer.body, "{\"regions\":[]}\n");
}

ON_WORKER(pages_give_each_region_once_in_order_of_creation)
{
        static const char *ids[MANY];
        char *next, *after = NULL;

        make_many(w, MANY, ids);

        next = assert_page(w, 100, NULL, ids, 0, 100, true);
        after = assert_page(w, 100, next, ids, 100, 100, true);
        free(next);
        assert_null(assert_page(w, 100, after, ids, 200, 50, false));
        free(after);

        /* One by one. */
        after = NULL;
        for (size_t i = 0; i < MANY; i++) {
                next = assert_page(w, 1, after, ids, i, 1, i + 1 < MANY);
                free(after);
                after = next;
        }
        assert_null(after);

        /* All at once; as many as there are on one page; a page without a limit has 100. */
        assert_null(assert_page(w, 1000, NULL, ids, 0, MANY, false));
        assert_null(assert_page(w, MANY, NULL, ids, 0, MANY, false));
        free(assert_page(w, 0, NULL, ids, 0, 100, true));
}

ON_WORKER(an_element_is_what_get_gives)
{
        struct json_object *list, *region;
        const char *id = region_make(w, 5, 0);

        list = call_json(w, 200, "GET", "/v1/regions", NULL);
        region = call_json(w, 200, "GET", region_path(id, ""), NULL);
        assert_true(json_object_equal(json_object_array_get_idx(json_member(list, "regions"), 0), region));
}

ON_WORKER(a_cursor_outlives_its_region)
{
        static const char *ids[10];
        char *next;

        make_many(w, 10, ids);
        next = assert_page(w, 4, NULL, ids, 0, 4, true);
        for (size_t i = 2; i < 5; i++) /* the last of the page, one before it, one behind it */
                region_drop(w, ids[i]);
        assert_null(assert_page(w, 10, next, ids, 5, 5, false));

        /* Also when nothing is left behind it; what comes later is. */
        for (size_t i = 5; i < 10; i++)
                region_drop(w, ids[i]);
        assert_null(assert_page(w, 10, next, ids, 0, 0, false));
        ids[9] = region_make(w, 10, 0);
        assert_null(assert_page(w, 10, next, ids, 9, 1, false));
        free(next);
}

ON_WORKER(a_region_made_meanwhile_comes_last)
{
        static const char *ids[4];
        char *next;

        make_many(w, 3, ids);
        next = assert_page(w, 2, NULL, ids, 0, 2, true);
        ids[3] = region_make(w, 4, 0);
        assert_null(assert_page(w, 10, next, ids, 2, 2, false));
        free(next);
}

/* A cursor that this worker would not have made is past everything or before it, but never an error of the worker. */
ON_WORKER(a_foreign_cursor_is_harmless)
{
        struct ferry_region_list list;

        (void)region_make(w, 1, 0);
        assert_int_equal(ferry_list_regions(w->client, 10, "c_ffffffffffffffff", &list), 0);
        assert_int_equal(list.n, 0);
        assert_null(list.next);
        ferry_region_list_clear(&list);
}
