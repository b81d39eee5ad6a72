/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "wait.h"

struct wait_many {
        struct wait wait; /* first */
        const char *const *ids;
        size_t n;
        enum ferry_wait_for wait_for;
        struct ferry_operation_results latest;
};

static int wait_many_ask(struct wait *wait, uint64_t slice_ms, uint64_t limit_ms)
{
        struct wait_many *w = (struct wait_many *)wait;
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct ferry_operation_results results = { 0 };
        int r = results_path(wait->f, w->ids, w->n, w->wait_for, &path);
        path_query_number(&path, "wait_ms", slice_ms);
        if (r == 0)
                r = path.error;
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data, .wait_ms = slice_ms },
                                   .deadline_ms = limit_ms,
                                   .awaits = true };
        r = call_send(wait->f, &request, &reply);
        if (r == 0)
                r = results_decode_page(wait->f, &reply, &results);
        if (r == 0 && results.n != w->n)
                r = problem_protocol(wait->f, "another number of operations was asked for", "");
        if (r != 0) {
                ferry_operation_results_clear(&results);
                return r;
        }
        ferry_operation_results_clear(&w->latest);
        w->latest = results;
        wait->over = results_are_done(&results, w->wait_for);
        return 0;
}

int ferry_wait_operations(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                          uint64_t timeout_ms, struct ferry_operation_results *ret_results)
{
        struct wait_many w = { .wait = { .f = f, .ask = wait_many_ask }, .ids = ids, .n = n, .wait_for = wait_for };
        int r = wait_run(&w.wait, timeout_ms);
        if (r == 0 || r == -ETIMEDOUT)
                *ret_results = w.latest;
        else
                ferry_operation_results_clear(&w.latest);
        return r;
}
