/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_REQUEST_H
#define SERVER_WORKER_REQUEST_H

#include "operations/operations.h"

struct ferry_worker;
struct ferry_worker_request;

/* A request's slices, in the store's form. Zero-initialise; call request_slices_clear in any case. */
struct request_slices {
        struct operation_slice *items; /* with a reference on each region */
        size_t n;
};

/*
 * Finds the regions and checks the slices against them. 0 with *ret_spec, which borrows slices; else FERRY_E_*, set by
 * worker_fail.
 */
int request_resolve(const struct ferry_worker_request *request, struct ferry_worker *worker,
                    struct request_slices *slices, struct operation_spec *ret_spec);

void request_slices_clear(struct request_slices *slices);

#endif
