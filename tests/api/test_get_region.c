/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

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

/* An id has one form only. */
ON_WORKER(an_id_in_capitals_is_not_found)
{
        char *id = strdup(region_make(w, 1, 0));

        for (char *c = id + 4; *c; c++)
                *c = (char)toupper((unsigned char)*c);
        if (strpbrk(id + 4, "ABCDEF"))
                wire_refused(w, 404, "not-found", "GET /v1/regions/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
        free(id);
}
