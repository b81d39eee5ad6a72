/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONTENT_FIXTURE_H
#define TESTS_CONTENT_FIXTURE_H

#include "easy/thread.h"
#include "move/content.h"
#include "move/http.h"
#include "operation_fixture.h"

/* Clients that move the bytes of an operation over HTTP. */

enum { TOTAL = 4096 }; /* of the fixture's operations */

static struct fixture *waking;                                           /* whose waiters the mover wakes */
static void (*told)(void *context, const struct engine_http_note *note); /* of begins and ends; NULL = nobody */

static inline void tell(void *context, const struct engine_http_note *note)
{
        if (told)
                told(context, note);
}

static inline void wake_waiters(void *context)
{
        (void)context;
        operation_store_wake_waiters(waking->store);
}

/* Of all tests, one after the other. It moves nothing by itself. */
static inline struct http_mover *the_mover(struct fixture *f)
{
        static struct http_mover *mover;

        waking = f;
        if (!mover)
                mover = http_mover_new(&(struct http_mover_config){
                        .thread = easy_thread_new(), .note = tell, .wake_waiters = wake_waiters });
        assert_non_null(mover);
        return mover;
}

static inline int open_range(struct fixture *f, struct operation *operation, uint64_t transfer, uint64_t first,
                             uint64_t size, struct http_content **ret_content)
{
        const struct http_content_request request = {
                .transfer = transfer, .first = first, .size = size, .transport = "http"
        };

        *ret_content = NULL;
        return http_content_open(the_mover(f), f->store, operation, &request, ret_content);
}

static inline struct http_content *must_open(struct fixture *f, struct operation *operation, uint64_t transfer,
                                             uint64_t first, uint64_t size)
{
        struct http_content *content;

        assert_int_equal(open_range(f, operation, transfer, first, size, &content), 0);
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
