/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

static uint64_t in_use(struct worker *w, const char *id)
{
        struct ferry_region region;

        assert_int_equal(ferry_get_region(w->client, id, &region), 0);
        return region.in_use;
}

ON_WORKER(in_use_counts_operations_that_run)
{
        OPERATION first, second;
        const char *id = region_make(w, 100, 0);

        assert_int_equal(in_use(w, id), 0);
        offer_make(w, FERRY_READABLE, id, &first);
        assert_int_equal(in_use(w, id), 1);
        offer_make(w, FERRY_WRITABLE, id, &second);
        assert_int_equal(in_use(w, id), 2);
        assert_int_equal(ferry_cancel_operation(w->client, first.id, NULL), 0);
        operation_assert_end(w, first.id, FERRY_CANCELLED, NULL);
        assert_int_equal(in_use(w, id), 1);
        assert_int_equal(ferry_delete_operation(w->client, second.id), 0);
        assert_int_equal(in_use(w, id), 0);
}

/* The worker's own memory may be deleted under a stream, so that a stream does not count. */
ON_WORKER(in_use_does_not_count_streams)
{
        int reader;
        const char *id = region_make(w, 32 << 20, 0);

        reader = wire_stalled_reader(w, region_path(id, "/content"));
        assert_int_equal(in_use(w, id), 0);
        wire_abort(reader);
}

ON_WORKER(an_unknown_id_is_not_found)
{
        static const char *const ids[] = {
                "rgn_0000000000000001",
                "rgn_0000000000000000",
                "rgn_",
                "rgn",
                "op_0000000000000001",
                "rgn_000000000000001",
                "x",
                "rgn_00000000000000001",
                "RGN_0000000000000001",
                "..",
                "%2e%2e",
                "rgn_%2e%2e%2fetc",
                "0",
                "-1",
                "%F0%9F%98%80",
                "rgn_000000000000000g",
                "rgn_0000000000000001%20",
        };
        char *upper;
        const char *id;

        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
                wire_refused(w, 404, "not-found", "GET /v1/regions/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", ids[i]);
                wire_refused(w, 404, "not-found", "GET /v1/regions/%s/content HTTP/1.1\r\nHost: localhost\r\n\r\n",
                             ids[i]);
        }

        /* An id has one form only. */
        id = region_make(w, 1, 0);
        upper = strdup(id);
        for (char *c = upper + 4; *c; c++)
                if (*c >= 'a')
                        *c = (char)(*c - 'a' + 'A');
        if (strcmp(upper, id) != 0)
                wire_refused(w, 404, "not-found", "GET /v1/regions/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", upper);
        free(upper);
}

WITH_WORKER(an_id_of_thousands_of_characters_is_not_found)
{
        enum { LENGTH = 8000 };
        char *id = malloc(LENGTH + 1);

        memset(id, 'a', LENGTH);
        id[LENGTH] = '\0';
        memcpy(id, "rgn_", 4);
        worker_start(w, "w", NULL);
        wire_refused(w, 404, "not-found", "GET /v1/regions/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
        free(id);
}

ON_WORKER(a_deleted_region_is_not_found)
{
        struct ferry_region region;
        const char *id = region_make(w, 1, 0);

        region_drop(w, id);
        assert_int_equal(ferry_get_region(w->client, id, &region), FERRY_E_NOT_FOUND);
}
