/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"
#include "registry_internal.h"

/*
 * This worker's own name. It belongs to the worker whose lease the key is bound to. A worker that finds its name taken
 * tries again and again: the name of a dead worker is free when its lease expires, so a name that stays taken longer
 * belongs to a live one.
 */

enum {
        RENEWALS = 3,           /* of a lease, per TTL */
        RETRIES = 6,            /* after a failure or while the name is taken, per TTL … */
        RETRY_MAX_MS = 5000,    /* … and at least after this time */
        EXPIRY_MS = 1500,       /* etcd counts a TTL in seconds, and looks for expired leases twice a second */
        ANSWERED_MS = 5000,     /* an unreachable registry delays a worker's start no longer than this … */
        DECIDED_MS = 15 * 1000, /* … and a name that is taken no longer than this */
        ANSWER_MAX = 64 * 1024,
};

const char *registry_status_name(enum registry_status status)
{
        static const char *const names[] = {
                [REGISTRY_REGISTERING] = "registering",
                [REGISTRY_REGISTERED] = "registered",
                [REGISTRY_NAME_TAKEN] = "name-taken",
                [REGISTRY_UNREACHABLE] = "unreachable",
                [REGISTRY_LEFT] = "left",
        };

        return names[status];
}

/* The pause between two tries, in ms, before jitter. */
static uint64_t retry_ms(const struct registry *registry)
{
        return at_most(registry->ttl_ms / RETRIES, RETRY_MAX_MS);
}

/* Publishes a status, logs a new one, and wakes the waiting threads. reason: of REGISTRY_UNREACHABLE, else NULL. */
static void set_status(struct registry *registry, enum registry_status status, const char *reason)
{
        enum registry_status former;

        pthread_mutex_lock(&registry->lock);
        former = registry->status;
        registry->status = status;
        pthread_cond_broadcast(&registry->changed);
        pthread_mutex_unlock(&registry->lock);
        metric_set(registry->registered, status == REGISTRY_REGISTERED);
        if (status == former)
                return;
        if (status == REGISTRY_REGISTERED)
                log_event(LOG_INFO, "registered in the registry", LOG_S("worker", registry->self.name),
                          LOG_S("prefix", registry->prefix), LOG_U("ttl_ms", registry->lease_us / 1000));
        else if (status == REGISTRY_NAME_TAKEN)
                log_event(LOG_WARN, "name taken in the registry, trying again", LOG_S("worker", registry->self.name),
                          LOG_S("holder", registry->rival.http), LOG_U("retry_ms", retry_ms(registry)));
        else if (status == REGISTRY_UNREACHABLE)
                log_event(LOG_WARN, "registry unreachable", LOG_S("endpoint", registry->endpoints[registry->endpoint]),
                          LOG_S("reason", reason));
        else if (status == REGISTRY_REGISTERING)
                log_event(LOG_WARN, "registry lease lost, registering again");
}

/* ---- states ---- */

static bool on_granted(struct registry *registry, struct json_object *answer);
static bool on_put(struct registry *registry, struct json_object *answer);
static bool on_renewed(struct registry *registry, struct json_object *answer);

#define BIT(state) (1u << MEMBER_##state)
static const struct {
        const char *path; /* of the question whose answer the state waits for; NULL = it waits until it is due */
        /* Goes to the next state. false: etcd would not say that. NULL = the next state is that after a failure. */
        bool (*answered)(struct registry *registry, struct json_object *answer);
        enum member_state failed; /* the state after a failure */
        unsigned next;            /* the states that may follow */
} states[MEMBER_STATES] = {
        [MEMBER_OUT] = { .next = BIT(GRANTING) | BIT(PUTTING) | BIT(LEAVING) | BIT(LEFT) },
        [MEMBER_GRANTING] = { "/v3/lease/grant", on_granted, MEMBER_OUT, BIT(PUTTING) | BIT(OUT) },
        [MEMBER_PUTTING] = { "/v3/kv/txn", on_put, MEMBER_OUT, BIT(IN) | BIT(OUT) },
        [MEMBER_IN] = { .next = BIT(RENEWING) | BIT(LEAVING) },
        [MEMBER_RENEWING] = { "/v3/lease/keepalive", on_renewed, MEMBER_IN, BIT(IN) | BIT(OUT) },
        [MEMBER_LEAVING] = { "/v3/lease/revoke", NULL, MEMBER_LEFT, BIT(LEFT) },
};

/*
 * Changes the state; the table says which may follow. due: when the state has to ask; UINT64_MAX of one that waits for
 * an answer, or for nothing.
 */
static void set_state(struct registry *registry, enum member_state state, uint64_t due)
{
        assert(states[registry->state].next & (1u << state));
        registry->state = state;
        registry->due = due;
        if (state == MEMBER_LEFT)
                set_status(registry, REGISTRY_LEFT, NULL);
}

/* With jitter, so that not all workers ask an etcd that is there again at once. */
static uint64_t retry_due(const struct registry *registry)
{
        const uint64_t us = retry_ms(registry) * 1000;

        return clock_now_us() + us / 2 + random_id() % (us / 2);
}

/* A question was not answered, or not as etcd would: goes back to the state before, and tries again after a pause. */
static void on_failed(struct registry *registry, const char *reason)
{
        set_state(registry, states[registry->state].failed, retry_due(registry));
        /* While the lease may last, clients that reach the registry find the name. */
        if (registry->state == MEMBER_OUT ||
            (registry->state == MEMBER_IN && clock_now_us() > registry->renewed + registry->lease_us))
                set_status(registry, REGISTRY_UNREACHABLE, reason);
}

/* The answer to the state's question. FERRY_E_CANCELLED comes when the worker ends; then nothing is tried again. */
static void on_called(void *context, int error, const char *detail, struct json_object *answer)
{
        struct registry *registry = context;
        bool (*answered)(struct registry *, struct json_object *) = states[registry->state].answered;

        if (error != FERRY_E_CANCELLED && (error || !answered || !answered(registry, answer)))
                on_failed(registry, error ? detail : "its answer is not one of etcd's");
}

/*
 * The body of the question that the state asks; NULL when memory is short. The name is put only where no key has it, in
 * one transaction, so two workers never both get it.
 */
static char *body_of(const struct registry *registry)
{
        char *body = NULL;
        int r;

        if (registry->state == MEMBER_GRANTING)
                r = asprintf(&body, "{\"TTL\":\"%" PRIu64 "\"}", registry->ttl_ms / 1000);
        else if (registry->state == MEMBER_PUTTING)
                r = asprintf(&body,
                             "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
                             "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
                             "\"}}],\"failure\":[{\"request_range\":{\"key\":\"%s\"}}]}",
                             registry->key, registry->key, registry->value, registry->lease, registry->key);
        else
                r = asprintf(&body, "{\"ID\":\"%" PRId64 "\"}", registry->lease);
        return r < 0 ? NULL : body;
}

/* Enters the state and asks its question. */
static void ask(struct registry *registry, enum member_state state)
{
        set_state(registry, state, UINT64_MAX);
        const struct registry_question question = { .path = states[state].path,
                                                    .body = body_of(registry),
                                                    .answer_max = ANSWER_MAX,
                                                    .called = on_called,
                                                    .context = registry };
        if (registry_ask(registry, &question) != 0)
                on_failed(registry, "memory is short");
}

/* ---- answers ---- */

/* Takes the time that a lease lasts from now on, 0 = it is gone. false: etcd would not say that. */
static bool take_lease(struct registry *registry, struct json_object *answer)
{
        const int64_t lease = registry_number(answer, "ID"), ttl_s = registry_number(answer, "TTL");

        if (lease <= 0 || (registry->lease && lease != registry->lease) || ttl_s > REGISTRY_LEASE_MAX_S)
                return false;
        registry->lease = ttl_s > 0 ? lease : 0;
        registry->lease_us = ttl_s > 0 ? (uint64_t)ttl_s * 1000000 : 0;
        registry->renewed = clock_now_us();
        return true;
}

static bool on_granted(struct registry *registry, struct json_object *answer)
{
        registry->lease = 0;
        if (!take_lease(registry, answer) || !registry->lease)
                return false;
        ask(registry, MEMBER_PUTTING);
        return true;
}

/* Renews the lease as often as the operator wants, also where etcd gives more time. */
static void go_in(struct registry *registry)
{
        const uint64_t us = at_most(registry->lease_us, registry->ttl_ms * 1000);

        set_state(registry, MEMBER_IN, registry->renewed + us / RENEWALS);
        set_status(registry, REGISTRY_REGISTERED, NULL);
}

/* The transaction was done: the name is this worker's, or another's, which is remembered for the log. */
static bool on_put(struct registry *registry, struct json_object *answer)
{
        const bool put = json_object_get_boolean(json_object_object_get(answer, "succeeded"));
        struct json_object *pair = NULL;
        struct registry_entry rival = { 0 };

        if (!put && json_pointer_get(answer, "/responses/0/response_range/kvs/0", &pair) != 0)
                return false;
        /* The name may have been put by a question whose answer was lost. */
        if (put || registry_number(pair, "lease") == registry->lease) {
                go_in(registry);
                return true;
        }
        (void)registry_entry_read(pair, registry->prefix, &rival);
        pthread_mutex_lock(&registry->lock);
        registry->rival = rival;
        registry->rival_ms = registry->lease_us / 1000 + retry_ms(registry) + EXPIRY_MS;
        pthread_mutex_unlock(&registry->lock);
        set_state(registry, MEMBER_OUT, retry_due(registry));
        set_status(registry, REGISTRY_NAME_TAKEN, NULL);
        return true;
}

static bool on_renewed(struct registry *registry, struct json_object *answer)
{
        if (!take_lease(registry, json_object_object_get(answer, "result")))
                return false;
        if (registry->lease) {
                go_in(registry);
        } else {
                set_state(registry, MEMBER_OUT, 0);
                set_status(registry, REGISTRY_REGISTERING, NULL);
        }
        return true;
}

/* A state that waits for an answer is left alone; leaving comes before anything that is due. */
uint64_t registry_member_run(struct registry *registry, uint64_t now)
{
        const bool is_due = now >= registry->due;
        enum registry_phase phase;

        pthread_mutex_lock(&registry->lock);
        phase = registry->phase;
        pthread_mutex_unlock(&registry->lock);
        if (phase == REGISTRY_IDLE || registry->state == MEMBER_LEFT || states[registry->state].path)
                return UINT64_MAX;
        if (phase == REGISTRY_LEAVING && registry->lease)
                ask(registry, MEMBER_LEAVING);
        else if (phase == REGISTRY_LEAVING)
                set_state(registry, MEMBER_LEFT, UINT64_MAX);
        else if (is_due && registry->state == MEMBER_IN)
                ask(registry, MEMBER_RENEWING);
        else if (is_due) /* with the lease, if half of it is left */
                ask(registry, registry->lease && now < registry->renewed + registry->lease_us / 2 ? MEMBER_PUTTING
                                                                                                  : MEMBER_GRANTING);
        return registry->due;
}

/* ---- other threads: they join, leave and wait ---- */

/* Waits for the result of the first tries. With the lock held. */
static int await_name(struct registry *registry, char *message, size_t message_size)
{
        const struct registry_entry *rival = &registry->rival;
        const uint64_t start = clock_now_us();
        uint64_t ms = ANSWERED_MS;

        do {
                if (registry->status == REGISTRY_NAME_TAKEN)
                        ms = at_most(registry->rival_ms, DECIDED_MS);
                else if (registry->status != REGISTRY_REGISTERING)
                        return 0;
        } while (registry->phase == REGISTRY_JOINED &&
                 condition_wait(&registry->changed, &registry->lock, start + ms * 1000));
        if (registry->status != REGISTRY_NAME_TAKEN || ms < registry->rival_ms)
                return 0;
        (void)snprintf(message, message_size,
                       "the name %s is taken in the registry, by a worker that lives%s%s; give this one another by "
                       "--name",
                       registry->self.name, *rival->http ? " at " : "", rival->http);
        return -EADDRINUSE;
}

int registry_join(struct registry *registry, const struct registry_entry *self, char *message, size_t message_size)
{
        FERRY_CLEANUP(cleanup_free) char *value = registry_entry_encode(self);
        char key[REGISTRY_KEY_SIZE];
        int r;

        (void)snprintf(key, sizeof(key), "%s%s", registry->prefix, self->name);
        registry->key = ferry_base64_encode(key, strlen(key));
        registry->value = value ? ferry_base64_encode(value, strlen(value)) : NULL;
        if (!registry->key || !registry->value)
                return -ENOMEM;
        pthread_mutex_lock(&registry->lock);
        registry->self = *self;
        registry->phase = REGISTRY_JOINED;
        pthread_mutex_unlock(&registry->lock);
        r = registry_wake(registry);
        if (r < 0)
                return r;
        pthread_mutex_lock(&registry->lock);
        r = await_name(registry, message, message_size);
        pthread_mutex_unlock(&registry->lock);
        return r;
}

void registry_leave(struct registry *registry)
{
        bool joined;

        pthread_mutex_lock(&registry->lock);
        joined = registry->phase == REGISTRY_JOINED;
        if (joined)
                registry->phase = REGISTRY_LEAVING;
        pthread_mutex_unlock(&registry->lock);
        if (joined)
                (void)registry_wake(registry);
}

void registry_await_left(struct registry *registry, unsigned timeout_ms)
{
        const uint64_t deadline = clock_now_us() + timeout_ms * UINT64_C(1000);

        pthread_mutex_lock(&registry->lock);
        while (registry->phase == REGISTRY_LEAVING && registry->status != REGISTRY_LEFT &&
               condition_wait(&registry->changed, &registry->lock, deadline))
                ;
        pthread_mutex_unlock(&registry->lock);
}

void registry_get_view(struct registry *registry, struct registry_view *ret_view)
{
        pthread_mutex_lock(&registry->lock);
        ret_view->status = registry->status;
        (void)snprintf(ret_view->key, sizeof(ret_view->key), "%s%s", registry->prefix, registry->self.name);
        pthread_mutex_unlock(&registry->lock);
        ret_view->ttl_ms = registry->ttl_ms;
}
