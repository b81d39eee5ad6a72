/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_INTERNAL_H
#define WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <ferry/worker.h>

#include "ferryd.h"
#include "move/engine.h"
#include "operations/operations.h"

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

/* ---- library.c ---- */

/* The sentence of ferry_worker_error, one for each thread. Any thread. */

enum { WORKER_ERROR_SIZE = 512 };

/* Sets it and returns error. format NULL = the error's title. */
int worker_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Whether this process made what has this generation (base/fork.h). A forked child has copies of the parent's workers,
 * whose locks may stay locked for ever: public functions check this first, and fail with -ECHILD.
 */
bool worker_is_ours(unsigned generation);

/* ---- settings.c ---- */

/* The contents of the files of tokens and certificates that a worker's options name. One thread at a time. */

struct worker_secrets {
        char *token, *peer_token, *metrics_token; /* NULL = none */
        char *tls_cert_pem, *tls_key_pem;         /* NULL = no TLS */
        char *tls_client_ca_pem;                  /* NULL = clients need no certificate */
        char *registry_user;                      /* "NAME:PASSWORD"; NULL = none */
};

/* A worker's options, checked and with defaults filled in, and the contents of the files they name. */

struct worker_settings {
        struct ferry_worker_options options; /* a copy; advertise is a host, systemd one "systemd:FD" a socket */
        const char *advertise_url;           /* "https://HOST:PORT"; NULL = none was given */
        struct worker_secrets secrets;
        bool beyond_loopback; /* some listener can be reached from other machines */
};

/* 0; -errno, set by worker_fail; -EINVAL: the options' fault. */
int worker_settings_new(const struct ferry_worker_options *options, struct worker_settings **ret_settings);

/* Reloads the files. 0; -errno, set by worker_fail, and the settings are unchanged. */
int worker_settings_reread(struct worker_settings *settings);

/* Whether only this machine can reach "HOST:PORT" (127.0.0.0/8, ::1, localhost), "unix:PATH" or "systemd:FD". */
bool worker_listen_is_loopback(const char *listen);

/* Wipes the secrets and frees. Takes NULL; returns NULL. */
struct worker_settings *worker_settings_free(struct worker_settings *settings);

/* ---- worker.c ---- */

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
        _Atomic(struct operation_store *) operations_ready; /* the store; NULL until it exists */
        struct registry *registry;                          /* NULL = it has none */
        struct easy_thread *client;                         /* requests to other servers */
        struct peers *peers;
        struct http_mover *http_mover;
        struct http_server *http; /* NULL = it does not listen */
        char *ready_line;
        char start_reason[ENGINE_REASON_SIZE]; /* why it could not start, for users; "" = the error says it */

        pthread_mutex_t lock; /* a leaf; guards what follows */
        pthread_cond_t drained;
        enum { DRAIN_NOT_ASKED, DRAIN_ASKED, DRAIN_DONE } drain;
};

/* ---- start.c ---- */

/*
 * Starts every layer, bottom up; settings must be set. 0; -errno, set by worker_fail, and ferry_worker_free
 * frees what was started.
 */
int worker_start(struct ferry_worker *worker);

/* ---- listen.c ---- */

/* What metadata say of the worker. */
struct worker_origin {
        char data[FERRY_METADATA_ADDRESS_SIZE]; /* "" = no network transport */
        char http[FERRY_METADATA_URL_SIZE];     /* "" = no TCP listener */
};

/* Finds out how peers reach the worker, which must have started. Any thread. */
void worker_origin_look(const struct ferry_worker *worker, struct worker_origin *ret_origin);

/* Start the HTTP server, and make the ready line, which names what it has bound. 0 or -errno. */
int worker_listen(struct ferry_worker *worker);
int worker_make_ready_line(struct ferry_worker *worker);

/* Last, since peers may use the worker once they find its name. 0; -EADDRINUSE: another worker has the name. */
int worker_join_registry(struct ferry_worker *worker);

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

/* Gives back the references, and frees what request_resolve has made. */
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
