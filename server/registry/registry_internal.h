/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGISTRY_INTERNAL_H
#define REGISTRY_INTERNAL_H

#include <json-c/json.h>
#include <pthread.h>

#include "easy/thread.h"
#include "registry/registry.h"

struct metric;
struct metric_family;
struct registry_call;

enum {
        REGISTRY_ENDPOINTS_MAX = 16,
        REGISTRY_ENDPOINT_SIZE = 280, /* a scheme, a host name, a port */
        REGISTRY_TOKEN_SIZE = 1024,
        REGISTRY_LEASE_MAX_S = 24 * 3600, /* a longer lease is taken for an error */
};

enum member_state {
        MEMBER_OUT,      /* not registered; due to try */
        MEMBER_GRANTING, /* waits for a lease */
        MEMBER_PUTTING,  /* waits for the name */
        MEMBER_IN,       /* registered; due to renew the lease */
        MEMBER_RENEWING,
        MEMBER_LEAVING,
        MEMBER_LEFT,
        MEMBER_STATES
};

struct registry {
        /* fixed after registry_new */
        char endpoints[REGISTRY_ENDPOINTS_MAX][REGISTRY_ENDPOINT_SIZE]; /* base URLs */
        size_t n_endpoints;
        char prefix[REGISTRY_PREFIX_MAX + 2];
        uint64_t ttl_ms;
        long call_ms;                  /* timeout of a question to one endpoint */
        struct easy_settings settings; /* without headers, which the thread makes for each call */
        char *credentials;             /* body of authenticate; NULL = none */
        struct metric_family *calls_total;
        struct metric *registered, *lookups;
        struct easy_thread *thread; /* borrowed */
        struct easy_user user;      /* the thread's */

        /* fixed by registry_join */
        struct registry_entry self;
        char *key, *value; /* of the name, in base64 */

        /* the thread's; times in microseconds of the monotonic clock */
        size_t endpoint;                 /* index of the one that answered last */
        char token[REGISTRY_TOKEN_SIZE]; /* etcd's answer to the credentials; "" = none yet */
        struct registry_call *calls;
        enum member_state state;
        uint64_t due;  /* of the states without a question */
        int64_t lease; /* this worker's; 0 = none */
        uint64_t lease_us, renewed;

        pthread_mutex_t lock; /* a leaf; guards what follows */
        pthread_cond_t changed;
        struct registry_call *queued;
        size_t n_lookups; /* queued and running */
        enum registry_phase { REGISTRY_IDLE, REGISTRY_JOINED, REGISTRY_LEAVING, REGISTRY_STOPPED } phase;
        enum registry_status status;
        /* With REGISTRY_NAME_TAKEN: the worker that has the name (all "" = not one), and longer than a dead one has it.
         */
        struct registry_entry rival;
        uint64_t rival_ms;
};

/* Has the thread, which starts unless it runs, look at the registry. 0 or -errno. Any thread. */
static inline int registry_wake(struct registry *registry)
{
        int r = easy_thread_start(registry->thread);

        if (r == 0)
                easy_thread_wake(registry->thread);
        return r;
}

/* ---- call.c: a question to the first endpoint that answers ---- */

/* Parses the text of a JSON object. For json_object_put; NULL: it is something else, or memory is short. */
struct json_object *registry_parse(const char *text, size_t size);

/* A number of etcd's JSON gateway, which writes it as a string and omits zeros: 0 where the member is missing. */
int64_t registry_number(struct json_object *object, const char *name);

struct registry_question {
        const char *path; /* a literal */
        char *body;       /* freed by registry_ask or after it; NULL = memory is short */
        char *watch;      /* the body of a watch that comes first; the same, but NULL = none */
        uint64_t watch_ms;
        size_t answer_max;
        /*
         * error 0 with the answer (borrowed), or FERRY_E_* with a sentence: FERRY_E_PEER_REFUSED (access),
         * FERRY_E_PEER_UNREACHABLE (no endpoint gave a valid answer), FERRY_E_CANCELLED. Thread: libcurl's.
         */
        void (*called)(void *context, int error, const char *detail, struct json_object *answer);
        void *context;
};

/*
 * Queues a question and wakes the thread, which runs. 0: called is called exactly once. FERRY_E_CANCELLED (the
 * worker ends); -ENOMEM. Any thread.
 */
int registry_ask(struct registry *registry, const struct registry_question *question);

/* Sends queued questions. With stop, ends them and all that run with FERRY_E_CANCELLED. Thread: libcurl's. */
void registry_calls_run(struct registry *registry, bool stop);

/* ---- lookup.c: workers in the registry ---- */

/* The value of a worker's key, for free(). NULL: memory is short. */
char *registry_entry_encode(const struct registry_entry *entry);

/* Reads a worker's entry from a pair of key and value. false: the pair is not a worker's. */
bool registry_entry_read(struct json_object *pair, const char *prefix, struct registry_entry *ret_entry);

/* ---- member.c: this worker's own name ---- */

/* Asks what is due. Returns when more is due; UINT64_MAX = when a call ends. Thread: libcurl's. */
uint64_t registry_member_run(struct registry *registry, uint64_t now);

#endif
