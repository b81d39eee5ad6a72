/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONTENT_FIXTURE_H
#define TESTS_CONTENT_FIXTURE_H

#include "operation_fixture.h"
#include "operations/content.h"

/* Clients that move the bytes of an operation over HTTP. */

enum { TOTAL = 4096 }; /* of the fixture's operations */

static inline int open_range(struct fixture *f, struct operation *operation, const uint8_t *key, uint64_t transfer,
                             uint64_t first, uint64_t size, struct operation_content **ret_content)
{
        const struct operation_content_request request = {
                .key = key, .transfer = transfer, .first = first, .size = size, .transport = "http"
        };

        *ret_content = NULL;
        return operation_content_open(f->store, operation, &request, ret_content);
}

static inline struct operation_content *must_open(struct fixture *f, struct operation *operation, uint64_t transfer,
                                                  uint64_t first, uint64_t size)
{
        struct operation_content *content;

        assert_int_equal(open_range(f, operation, NULL, transfer, first, size, &content), 0);
        return content;
}

static inline void assert_ended(struct fixture *f, struct operation *operation, enum ferry_status status, int error)
{
        struct operation_view v = look(f, operation);

        assert_int_equal(v.status, status);
        assert_int_equal(v.error, error);
        if (v.done)
                assert_string_equal(v.transport, "http");
}

#endif
