/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

#include <errno.h>

#include "base/space.h"
#include "content_fixture.h"
#include "mover_internal.h"

/* Bytes over HTTP from and into memory of a device that fails, and clients that open more ranges than they may. */

static bool fails;

static int copy_or_fail(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                        size_t size)
{
        if (!fails)
                memcpy(to, from, size);
        return fails ? -EIO : 0;
}

static int finish_nothing(const struct space *space)
{
        return 0;
}

static struct operation *make_on_device(struct fixture *f, enum ferry_kind kind)
{
        static const struct space_ops ops = { .copy = copy_or_fail, .finish = finish_nothing };
        static const struct space space = { .ops = &ops };
        struct operation *operation;

        fails = true;
        f->region->space = &space;
        operation = make(f, kind);
        f->region->space = NULL;
        return operation;
}

/* Closes the range. */
static void assert_failed(struct fixture *f, struct operation *operation, struct http_content *content)
{
        bool complete;

        assert_int_equal(look(f, operation).status, FERRY_ERRORED);
        assert_int_equal(look(f, operation).error, FERRY_E_TRANSFER_FAILED);
        assert_int_equal(look(f, operation).bytes_done, 0);
        assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), FERRY_E_GONE);
        http_content_close(content, true);
}

WITH_STORE(a_download_whose_memory_cannot_be_read_fails)
{
        struct operation *readable = make_on_device(f, FERRY_READABLE);
        struct http_content *content = must_open(f, readable, 7, 0, TOTAL);
        uint8_t bytes[TOTAL];

        assert_int_not_equal(http_content_move(content, bytes, TOTAL), 0);
        assert_failed(f, readable, content);
}

WITH_STORE(an_upload_whose_memory_cannot_be_written_fails)
{
        struct operation *writable = make_on_device(f, FERRY_WRITABLE);
        struct http_content *content = must_open(f, writable, 7, 0, TOTAL);
        uint8_t bytes[TOTAL] = { 0 };

        assert_int_equal(http_content_move(content, bytes, TOTAL), FERRY_E_TRANSFER_FAILED);
        assert_failed(f, writable, content);
}

static void see(void *context, const void *bytes, size_t size)
{
        *(size_t *)context += size;
}

WITH_STORE(no_digest_is_made_of_memory_that_cannot_be_read)
{
        FOR_EACH (int, whole, false, true) {
                struct operation *readable = make_on_device(f, FERRY_READABLE);
                struct http_content *content = must_open(f, readable, 7, 0, TOTAL);
                size_t n_seen = 0;
                uint64_t checksum;

                if (whole)
                        assert_false(http_content_visit(content, see, &n_seen));
                else
                        assert_false(http_content_checksum(content, &checksum));
                assert_int_equal(n_seen, 0);
                assert_failed(f, readable, content);
        }
}

WITH_STORE(a_digest_is_made_of_as_much_as_the_operation_has)
{
        struct operation *readable = make_on_device(f, FERRY_READABLE);
        struct http_content *content = must_open(f, readable, 7, 0, TOTAL);
        size_t n_seen = 0;

        fails = false;
        assert_true(http_content_visit(content, see, &n_seen));
        assert_int_equal(n_seen, TOTAL);
        http_content_close(content, false);
        operation_cancel(f->store, readable);
}

WITH_STORE(no_digest_is_made_of_what_has_ended)
{
        struct operation *readable = make(f, FERRY_READABLE);
        struct http_content *content = must_open(f, readable, 7, 0, TOTAL);
        size_t n_seen = 0;
        uint64_t checksum;

        operation_cancel(f->store, readable);
        assert_false(http_content_checksum(content, &checksum));
        assert_false(http_content_visit(content, see, &n_seen));
        assert_int_equal(n_seen, 0);
        http_content_close(content, false);
}

/* One byte each, with gaps. */
WITH_STORE(more_ranges_than_can_be_remembered_are_refused)
{
        struct operation *writable = make(f, FERRY_WRITABLE);
        struct http_content *contents[CONTENT_RANGES_MAX], *more;
        char x[] = "x";

        for (uint64_t i = 0; i < CONTENT_RANGES_MAX; i++)
                contents[i] = must_open(f, writable, 7, 2 * i, 1);
        assert_int_equal(open_range(f, writable, 7, TOTAL - 1, 1, &more), FERRY_E_LIMIT_REACHED);
        for (size_t i = 0; i < CONTENT_RANGES_MAX; i++) {
                assert_int_equal(http_content_move(contents[i], x, 1), 0);
                http_content_close(contents[i], true);
        }
        assert_int_equal(open_range(f, writable, 7, TOTAL - 1, 1, &more), FERRY_E_LIMIT_REACHED);
        operation_cancel(f->store, writable);
}

WITH_STORE(ranges_that_follow_each_other_are_as_many_as_one_likes)
{
        struct operation *writable = make(f, FERRY_WRITABLE);
        char x[] = "x";

        for (uint64_t i = 0; i < 2 * CONTENT_RANGES_MAX; i++) {
                struct http_content *content = must_open(f, writable, 7, i, 1);

                assert_int_equal(http_content_move(content, x, 1), 0);
                http_content_close(content, true);
        }
        assert_int_equal(http_content_stored(f->store, writable), 2 * CONTENT_RANGES_MAX);
        operation_cancel(f->store, writable);
}
