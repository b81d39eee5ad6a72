/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_REQUEST_H
#define SERVER_WORKER_REQUEST_H

#include "operations/operations.h"

struct ferry_worker;
struct ferry_worker_request;

/* What a request names, found. Zero-initialise; call request_objects_clear in any case. */
struct request_objects {
        struct operation_slice *slices; /* with a reference on each region */
        size_t n_slices;
        struct ranges *remote;    /* owned; NULL = all of the offer */
        struct operation *follow; /* with a reference; NULL = none */
};

/*
 * Finds the regions and the operation, and checks the slices against the regions. 0 with *ret_spec, which borrows
 * objects; else FERRY_E_*, set by worker_fail.
 */
int request_resolve(const struct ferry_worker_request *request, struct ferry_worker *worker,
                    struct request_objects *objects, struct operation_spec *ret_spec);

void request_objects_clear(struct request_objects *objects);

#endif
