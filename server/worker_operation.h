/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_OPERATION_H
#define SERVER_WORKER_OPERATION_H

#include <pthread.h>

#include <ferry/worker.h>

#include "operations/operations.h"

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
