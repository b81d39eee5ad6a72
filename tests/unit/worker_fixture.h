/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_FIXTURE_H
#define WORKER_FIXTURE_H

#include <ferry/error.h>
#include <ferry/worker.h>

#include "unit.h"

/* Workers of an embedding program. */

/* options: names and values, ended by NULL. "local" is off unless they say otherwise. */
static inline int worker_new_with(const char *const options[], struct ferry_worker **ret_worker)
{
        struct ferry_worker_options *o = ferry_worker_options_new();
        int r = ferry_worker_options_set(o, "local", "off");

        for (; *options && r == 0; options += 2)
                r = ferry_worker_options_set(o, options[0], options[1]);
        if (r == 0)
                r = ferry_worker_new(o, ret_worker);
        (void)ferry_worker_options_free(o);
        return r;
}

#define WORKER_NEW(worker, ...) worker_new_with((const char *const[]){ __VA_ARGS__, NULL }, worker)

static inline struct ferry_worker *worker_with(const char *const options[])
{
        struct ferry_worker *worker = NULL;

        if (worker_new_with(options, &worker) != 0)
                fail_msg("%s", ferry_worker_error());
        return worker;
}

/* One that starts. */
#define WORKER(...) worker_with((const char *const[]){ __VA_ARGS__, NULL })

/* Of memory that becomes a region of the worker. */
static inline struct ferry_worker_operation *create_on(struct ferry_worker *worker, enum ferry_kind kind, char *memory,
                                                       size_t size, const char *remote)
{
        struct ferry_worker_request *request = ferry_worker_request_new(kind);
        struct ferry_worker_operation *operation = NULL;
        char region[FERRY_WORKER_ID_SIZE];

        assert_int_equal(ferry_worker_region_add(worker, memory, size, NULL, NULL, region), 0);
        assert_int_equal(ferry_worker_request_add(request, region, 0, size), 0);
        if (ferry_worker_operation_create(worker, request, remote, &operation) != 0)
                fail_msg("%s", ferry_worker_error());
        (void)ferry_worker_request_free(request);
        return operation;
}

static inline const char *metadata_of(struct ferry_worker_operation *operation)
{
        const char *text = NULL;

        assert_int_equal(ferry_worker_operation_metadata(operation, &text), 0);
        return text;
}

#endif
