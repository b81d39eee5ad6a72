/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

/* The peer's client may have the end of a transfer sooner than this worker; another use may have come meanwhile. */
WITH_HTTP(a_delete_looks_again_when_the_transfer_has_ended)
{
        static const struct {
                int error;
                bool other;
        } rows[] = { { 0, true }, { FERRY_E_PEER_LOST, true }, { 0, false } };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                struct operation *operation = make(h->f, FERRY_READABLE), *other;
                struct engine_claim granted;
                int fd;

                assert_int_equal(claim(h->f, operation, &granted), 0);
                if (rows[i].error)
                        operation_delete(h->f->store, operation); /* the transfer still uses the memory */
                fd = http_begin(h, "DELETE", text_format("/v1/regions/%s", h->region), "", NULL);
                await_parked(h, 1);
                other = rows[i].other ? make(h->f, FERRY_READABLE) : NULL;
                end_claim(h->f, &granted, rows[i].error);
                if (other)
                        expect_problem(raw_receive_last(fd), 409, "region-in-use");
                else
                        expect_status(raw_receive_last(fd), 204);
                if (other)
                        operation_cancel(h->f->store, other);
        }
        assert_true(region_deleted(h->f->region));
}

/* One that no peer has claimed, or that further ones may. */
WITH_HTTP(a_delete_does_not_wait_for_an_operation_that_goes_on)
{
        struct operation *offer = make(h->f, FERRY_WRITABLE), *shared;
        const char *path = text_format("/v1/regions/%s", h->region);
        struct engine_claim granted;

        expect_problem(http_call(h, "DELETE", path, "", NULL), 409, "region-in-use");
        operation_cancel(h->f->store, offer);
        shared = make_readers(h->f, 2, 0);
        assert_int_equal(claim(h->f, shared, &granted), 0);
        expect_problem(http_call(h, "DELETE", path, "", NULL), 409, "region-in-use");
        end_claim(h->f, &granted, 0);
        operation_cancel(h->f->store, shared);
        expect_status(http_call(h, "DELETE", path, "", NULL), 204);
}

WITH_HTTP(memory_of_the_program_is_read_but_neither_removed_nor_stored_into)
{
        static char owned[] = "of the program";
        const struct region_spec spec = { .size = sizeof(owned) - 1, .device = "cpu", .held = true };
        struct region *region = NULL;
        char detail[REGION_DETAIL_SIZE];

        assert_int_equal(region_adopt(h->f->regions, owned, &spec, &region, detail), 0);
        const char *path = text_format("/v1/regions/rgn_%016llx", (unsigned long long)region->id);
        const char *content = text_format("%s/content", path);
        const char *upload = text_format(
                "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nConnection: close\r\n\r\nby others",
                content);
        expect_problem(http_call(h, "DELETE", path, "", NULL), 409, "region-held");
        expect_problem(http_raw(h, upload), 403, "forbidden");
        assert_string_equal(owned, "of the program");
        struct raw_answer reply = expect_status(http_call(h, "GET", content, "", NULL), 200);
        assert_string_equal(reply.body, "of the program");
        region_allow_content(region, true);
        expect_status(http_raw(h, upload), 204);
        assert_string_equal(owned, "by othersogram");
        /* The download may end, for the worker, after the client has all of its bytes. */
        WAIT_UNTIL(region_delete_held(h->f->regions, region->id) == 0);
        region_unref(region);
}
