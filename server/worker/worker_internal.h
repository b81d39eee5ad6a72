/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_INTERNAL_H
#define SERVER_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <ferry/worker.h>

#include "operations/operations.h"
#include "options.h"
#include "transfer/engine.h"

struct allowlist;
struct event_log;
struct http_server;
struct easy_thread;
struct http_mover;
struct loop;
struct metrics;
struct peers;
struct region_table;
struct registry;
struct worker_settings;

/* What metadata say of the worker. */
struct worker_origin {
        char data[FERRY_METADATA_ADDRESS_SIZE]; /* "" = no network transport */
        char http[FERRY_METADATA_URL_SIZE];     /* "" = no TCP listener */
};

struct ferry_worker {
        struct ferry_worker *prev, *next; /* of the living workers */
        unsigned generation;              /* of base/fork.h */
        uint64_t epoch;
        bool serving; /* ferry_worker_abandon may use http; guarded by living_lock */

        /* made in this order by worker_start; for the end see ferry_worker_free */
        struct worker_settings *settings;
        struct metrics *metrics;
        struct loop *loop;
        struct allowlist *allowlist;
        struct event_log *events;
        struct engine *engine;
        struct region_table *regions;
        struct operation_limits limits;
        struct operation_store *operations;
        _Atomic(struct operation_store *) claims; /* the store; NULL until it exists */
        struct registry *registry;                /* NULL = it has none */
        struct easy_thread *client;               /* requests to other servers */
        struct peers *peers;
        struct http_mover *http_mover;
        struct http_server *http; /* NULL = it does not listen */
        char *ready_line;
        char start_reason[ENGINE_REASON_SIZE]; /* why it could not start, for users; "" = the error says it */

        pthread_mutex_t lock; /* a leaf; guards what follows */
        pthread_cond_t drained;
        enum { DRAIN_NOT_ASKED, DRAIN_ASKED, DRAIN_DONE } drain;
};

/*
 * Starts every layer, bottom up; settings must be set. 0; -errno, set by worker_fail, and ferry_worker_free
 * frees what was started.
 */
int worker_start(struct ferry_worker *worker);

/* Finds out how peers reach the worker, which must have started. Any thread. */
void worker_origin_look(const struct ferry_worker *worker, struct worker_origin *ret_origin);

#endif
