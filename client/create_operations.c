/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_create_operations(struct ferry *f, const struct ferry_operation_spec *specs, size_t n,
                            struct ferry_operation_results *ret_results)
{
        FERRY_CLEANUP(operation_request_clear) struct operation_request made;
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct ferry_operation_results results = { 0 };
        int r = operation_request_make(f, &(struct operation_specs){ specs, n, true }, &made);
        if (r == 0)
                r = call_send(f, &made.request, &reply);
        if (r == 0)
                r = results_decode_batch(f, &reply, &results);
        if (r == 0 && results.n != n) {
                ferry_operation_results_clear(&results);
                r = problem_protocol(f, "another number of operations was asked for", "");
        }
        if (r == 0)
                *ret_results = results;
        return r;
}
