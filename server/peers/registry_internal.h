/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_REGISTRY_INTERNAL_H
#define PEERS_REGISTRY_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>

#include "easy.h"
#include "peers/registry.h"
#include "registry_etcd.h"

struct json_object;
struct metric;
struct metric_family;
struct registry_call;
struct registry_lookup;

enum { REGISTRY_TOKEN_SIZE = 1024 };

/* ---- registry_call.c: a request to the first endpoint that answers ---- */

/*
 * error 0 with the answer (borrowed); FERRY_E_NOT_FOUND: etcd does not know the lease; with a sentence:
 * FERRY_E_PEER_REFUSED (access), FERRY_E_PEER_UNREACHABLE (no endpoint gave a valid answer); FERRY_E_CANCELLED.
 */
typedef void (*registry_called)(void *context, int error, const char *detail, struct json_object *answer);

struct registry_question {
        const char *path; /* a literal */
        char *body;       /* freed by registry_ask or after it, also on failure; NULL = memory is short */
        size_t answer_max;
        uint64_t watch_ms; /* not 0: a stream that ends with the first change, or after this time like an answer without
                              one */
};

/* Sends a question. 0: called is called exactly once, not from inside. -ENOMEM. Thread: the peers'. */
int registry_ask(struct registry *registry, const struct registry_question *question, registry_called called,
                 void *context);

/* Ends all calls with FERRY_E_CANCELLED. Thread: the peers'. */
void registry_calls_cancel(struct registry *registry);

/* ---- registry_join.c: this worker's own name, as other threads see it ---- */

/* Publishes the status and wakes the waiting threads. Thread: the peers'. */
void registry_set_status(struct registry *registry, enum registry_status status);

/* ---- registry_member.c: this worker's own name ---- */

enum member_state {
        MEMBER_OUT,      /* not registered; due to try */
        MEMBER_GRANTING, /* waits for a lease */
        MEMBER_PUTTING,  /* waits for the name */
        MEMBER_IN,       /* registered; due to renew the lease */
        MEMBER_RENEWING,
        MEMBER_TAKEN,  /* another worker has the name; due to ask for its lease */
        MEMBER_ASKING, /* waits for the remaining time of that lease */
        MEMBER_LEAVING,
        MEMBER_LEFT,
        MEMBER_STATES
};

/* Owned by the peers' thread. Times in microseconds of the monotonic clock. */
struct registry_member {
        enum member_state state;
        uint64_t due;   /* of the states that wait for a time */
        uint64_t lease; /* 0 = none */
        uint64_t ttl_us;
        uint64_t renewed;
        unsigned failures; /* in a row */
        /* The lease of the worker that has the name; 0 = none. */
        uint64_t rival_lease, rival_until;
        int64_t rival_ttl_s; /* -1 = not asked yet */
        bool rival_lives;
};

/* Runs due work. Returns when more is due; UINT64_MAX = when a call ends. Thread: the peers'. */
uint64_t member_run(struct registry *registry, uint64_t now);

/* ---- registry_lookup.c: names of other workers ---- */

/* Starts queued lookups. Thread: the peers'. */
void lookups_take(struct registry *registry);

/* Ends queued lookups; calls that run have been cancelled. Thread: the peers'. */
void lookups_cancel(struct registry *registry);

/* ---- registry.c ---- */

struct registry {
        /* fixed after registry_new */
        char **endpoints; /* base URLs */
        size_t n_endpoints;
        char prefix[REGISTRY_PREFIX_MAX + 2];
        uint64_t ttl_ms;
        long call_ms;                  /* timeout of a question to one endpoint */
        struct easy_settings settings; /* without headers, which the thread makes for each call */
        char *credentials;             /* body of authenticate; NULL = none */
        struct metric_family *calls_total;
        struct metric *registered, *lookups;

        /* fixed by registry_attach */
        int (*wake)(void *context);
        void *wake_context;

        /* the peers' thread's */
        struct easy_multi *multi;
        size_t endpoint;                 /* index of the one that answered last */
        char token[REGISTRY_TOKEN_SIZE]; /* etcd's answer to the credentials; "" = none yet */
        struct registry_call *calls;
        struct registry_member member;
        bool away; /* the registry is unreachable, and the log says so */

        pthread_mutex_t lock; /* a leaf; guards what follows */
        pthread_cond_t changed;
        struct registry_lookup *queued;
        size_t n_lookups; /* queued and running */
        bool joined, joining, leaving, contested, stopped;
        enum registry_status status;
        struct registry_entry self;
        struct registry_entry rival; /* with REGISTRY_NAME_TAKEN */
};

/* Sets the function (any thread) that has registry_run called soon. Before anything else. */
void registry_attach(struct registry *registry, int (*wake)(void *context), void *context);

/* Runs due work. Returns when more is due, UINT64_MAX = when a call ends. Thread: the peers'. */
uint64_t registry_run(struct registry *registry, struct easy_multi *multi, uint64_t now);

/* Ends all calls and lookups, wakes waiting threads. Thread: the peers', at its end. */
void registry_stop(struct registry *registry);

#endif
