/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_OPERATION_H
#define SERVER_WORKER_OPERATION_H

#include <pthread.h>

#include <ferry/worker.h>

#include "operations/operations.h"

/* ---- request.c ---- */

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

/* ---- operation.c ---- */

/* The program may have the former texts until it frees the handle. */
struct metadata_text {
        char *json;
        struct metadata_text *former;
};

struct ferry_worker_operation {
        unsigned generation;           /* of base/fork.h */
        struct ferry_worker *worker;   /* invalid after its end, which ends the operation first */
        struct operation_store *store; /* lives as long as the operation */
        struct operation *operation;   /* a reference */
        char id[FERRY_WORKER_ID_SIZE];

        pthread_mutex_t lock;           /* guards what follows; before the store's */
        struct metadata_text *metadata; /* the latest; NULL = not asked for yet */
        bool metadata_old;              /* it was renewed since */
        /* Texts returned by the getters. */
        char transport[OPERATION_TRANSPORT_SIZE];
        char peer[FERRY_METADATA_NAME_SIZE];
        char peer_epoch[FERRY_WORKER_ID_SIZE];
};

#endif
