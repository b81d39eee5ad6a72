/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"

/* GET /v1/operations. */

enum { N = 25 };

ON_WORKER(pages_list_every_operation_once_in_order_of_creation)
{
        static const unsigned limits[] = { 1, 4, 5, 24, 25, 26, 0 };
        char ids[N][FERRY_ID_SIZE];
        const char *region = region_make(w, 10, 0);

        for (size_t i = 0; i < N; i++) {
                OPERATION operation;

                offer_make(w, i % 2 ? FERRY_WRITABLE : FERRY_READABLE, region, &operation);
                memcpy(ids[i], operation.id, FERRY_ID_SIZE);
        }
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                struct ferry_operation_query query = { .limit = limits[i] };
                char *after = NULL;
                size_t n = 0;

                do {
                        struct ferry_operation_list list;

                        query.after = after;
                        assert_int_equal(ferry_list_operations(w->client, &query, &list), 0);
                        free(after);
                        after = list.next ? strdup(list.next) : NULL;
                        assert_true(!limits[i] || list.n <= limits[i]);
                        assert_true(list.n > 0);
                        for (size_t k = 0; k < list.n; k++, n++) {
                                assert_true(n < N);
                                assert_string_equal(list.items[k].id, ids[n]);
                        }
                        ferry_operation_list_clear(&list);
                } while (after);
                assert_int_equal(n, N);
        }
}

ON_WORKER(a_page_goes_on_when_its_last_operation_was_deleted)
{
        struct ferry_operation_query query = { .limit = 2 };
        struct ferry_operation_list list, rest;
        struct ferry_operation operations[4];
        const char *region = region_make(w, 10, 0);

        for (size_t i = 0; i < 4; i++)
                offer_make(w, FERRY_READABLE, region, &operations[i]);
        assert_int_equal(ferry_list_operations(w->client, &query, &list), 0);
        assert_int_equal(ferry_delete_operation(w->client, operations[1].id), 0);
        assert_int_equal(ferry_delete_operation(w->client, operations[2].id), 0);
        query.after = list.next;
        assert_int_equal(ferry_list_operations(w->client, &query, &rest), 0);
        assert_int_equal(rest.n, 1);
        assert_string_equal(rest.items[0].id, operations[3].id);
        assert_null(rest.next);
        ferry_operation_list_clear(&list);
        ferry_operation_list_clear(&rest);
        for (size_t i = 0; i < 4; i++)
                ferry_operation_clear(&operations[i]);
}

static size_t count(struct worker *w, const char *kind, const char *status)
{
        struct ferry_operation_query query = { .kind = kind, .status = status };
        struct ferry_operation_list list;
        size_t n;

        assert_int_equal(ferry_list_operations(w->client, &query, &list), 0);
        assert_null(list.next);
        for (size_t i = 0; i < list.n; i++) {
                if (kind)
                        assert_string_equal(ferry_kind_name(list.items[i].kind), kind);
                if (status)
                        assert_string_equal(ferry_status_name(list.items[i].status), status);
        }
        n = list.n;
        ferry_operation_list_clear(&list);
        return n;
}

ON_PAIR(filters_select_by_kind_and_status)
{
        OPERATION readable, writable, other, read;
        const char *offered = region_make(&p->a, 10, 1);
        const char *local = region_make(&p->b, 10, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &readable);
        offer_make(&p->a, FERRY_READABLE, offered, &other);
        offer_make(&p->a, FERRY_WRITABLE, offered, &writable);
        begin_make(&p->b, FERRY_READ, local, readable.metadata, &read);
        operation_assert_end(&p->b, read.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, readable.id, FERRY_COMPLETE, NULL);
        assert_int_equal(ferry_cancel_operation(p->a.client, writable.id, NULL), 0);
        assert_int_equal(count(&p->a, NULL, NULL), 3);
        assert_int_equal(count(&p->a, "readable", NULL), 2);
        assert_int_equal(count(&p->a, "writable", NULL), 1);
        assert_int_equal(count(&p->a, "read", NULL), 0);
        assert_int_equal(count(&p->a, NULL, "COMPLETE"), 1);
        assert_int_equal(count(&p->a, NULL, "CANCELLED"), 1);
        assert_int_equal(count(&p->a, "readable", "INITIALIZED"), 1);
        assert_int_equal(count(&p->a, "writable", "INITIALIZED"), 0);
        assert_int_equal(count(&p->b, "read", "COMPLETE"), 1);
}

ON_WORKER(a_list_shows_no_secret_and_an_empty_one_is_a_list)
{
        OPERATION operation;
        struct json_object *metadata, *list;
        const char *text;

        list = call_json(w, 200, "GET", "/v1/operations", NULL);
        assert_string_equal(json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN), "{\"operations\":[]}");
        const char *region = region_make(w, 10, 0);
        offer_make(w, FERRY_READABLE, region, &operation);
        metadata = json_parse(operation.metadata);
        list = call_json(w, 200, "GET", "/v1/operations", NULL);
        text = json_object_to_json_string(list);
        assert_non_null(strstr(text, operation.id));
        assert_null(strstr(text, json_text(metadata, "notification_key")));
        assert_null(strstr(text, "metadata"));
}

ON_WORKER(waits_are_for_ids)
{
        assert_problem(w, "GET", "/v1/operations?wait_for=any", NULL, 400, "invalid-parameter", NULL);
        assert_problem(w, "GET", "/v1/operations?wait_ms=5", NULL, 400, "invalid-parameter", NULL);
}
