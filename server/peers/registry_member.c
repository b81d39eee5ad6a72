/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "registry_internal.h"

/*
 * A name belongs to the worker whose lease the key is bound to. A worker that finds its name taken watches the other's
 * lease: a renewal proves that the owner lives, expiry that it died. So a killed worker gets its name back within the
 * TTL, and a second live one hears of the conflict at the first renewal.
 */

enum {
        RENEWALS = 3, /* per TTL */
        ASK_US = 300 * 1000,
        BACKOFF_MIN_US = 200 * 1000,
        BACKOFF_MAX_US = 5 * 1000 * 1000,
        MARGIN_US = 1000 * 1000, /* etcd rounds to seconds */
        ANSWER_MAX = 64 * 1024,
};

#define BIT(state) (1u << MEMBER_##state)
static const unsigned allowed[MEMBER_STATES] = {
        [MEMBER_OUT] = BIT(GRANTING) | BIT(PUTTING) | BIT(LEAVING) | BIT(LEFT),
        [MEMBER_GRANTING] = BIT(PUTTING) | BIT(OUT),
        [MEMBER_PUTTING] = BIT(IN) | BIT(TAKEN) | BIT(OUT),
        [MEMBER_IN] = BIT(RENEWING) | BIT(LEAVING),
        [MEMBER_RENEWING] = BIT(IN) | BIT(OUT),
        [MEMBER_TAKEN] = BIT(ASKING) | BIT(OUT) | BIT(LEAVING) | BIT(LEFT),
        [MEMBER_ASKING] = BIT(TAKEN) | BIT(OUT),
        [MEMBER_LEAVING] = BIT(LEFT),
};

static void set_state(struct registry *registry, enum member_state state)
{
        struct registry_member *member = &registry->member;

        assert(allowed[member->state] & (1u << state));
        member->state = state;
        member->due = 0;
        metric_set(registry->registered, state == MEMBER_IN || state == MEMBER_RENEWING);
        if (state == MEMBER_LEFT)
                registry_set_status(registry, REGISTRY_LEFT);
}

static void start(struct registry *registry, enum member_state state);

/* ---- what the answers mean; false: etcd would not say that ---- */

/* Renewed as often as the operator wants, also where etcd gives more time. */
static void lease_lasts(struct registry *registry, int64_t ttl_s)
{
        struct registry_member *member = &registry->member;
        const uint64_t given = (uint64_t)ttl_s * 1000000, wanted = registry->ttl_ms * 1000;

        member->renewed = clock_now_us();
        member->ttl_us = given < wanted ? given : wanted;
}

static bool on_granted(struct registry *registry, int error, struct json_object *answer)
{
        struct registry_member *member = &registry->member;
        int64_t ttl_s;

        if (error || !etcd_read_lease(answer, &member->lease, &ttl_s) || ttl_s <= 0)
                return false;
        lease_lasts(registry, ttl_s);
        start(registry, MEMBER_PUTTING);
        return true;
}

static void registered(struct registry *registry)
{
        set_state(registry, MEMBER_IN);
        registry->member.due = clock_now_us() + registry->member.ttl_us / RENEWALS;
        registry_set_status(registry, REGISTRY_REGISTERED);
        log_event(LOG_INFO, "registered in the registry", LOG_S("worker", registry->self.name),
                  LOG_S("prefix", registry->prefix), LOG_U("ttl_ms", registry->member.ttl_us / 1000));
}

static void taken(struct registry *registry, const struct etcd_put *put)
{
        struct registry_member *member = &registry->member;

        if (member->rival_lease != put->lease || put->lease == 0) {
                member->rival_lease = put->lease;
                member->rival_ttl_s = -1;
                member->rival_until = 0;
                member->rival_lives = false;
                log_event(LOG_INFO, "waiting for the name in the registry", LOG_S("worker", registry->self.name),
                          LOG_S("holder", put->holder.http));
        }
        pthread_mutex_lock(&registry->lock);
        registry->rival = put->holder;
        registry->contested = true;
        pthread_cond_broadcast(&registry->changed);
        pthread_mutex_unlock(&registry->lock);
        set_state(registry, MEMBER_TAKEN);
}

static bool on_put(struct registry *registry, int error, struct json_object *answer)
{
        struct registry_member *member = &registry->member;
        struct etcd_put put;

        if (error) /* the lease has expired meanwhile */
                member->lease = 0;
        if (error || !etcd_read_put(answer, registry->prefix, &put))
                return false;
        /* The name may have been put by a request whose answer was lost. */
        if (put.put || (put.lease && put.lease == member->lease))
                registered(registry);
        else
                taken(registry, &put);
        return true;
}

static bool on_renewed(struct registry *registry, int error, struct json_object *answer)
{
        struct registry_member *member = &registry->member;
        uint64_t lease;
        int64_t ttl_s = 0;

        if (!error && (!etcd_read_lease(answer, &lease, &ttl_s) || lease != member->lease))
                return false;
        if (error || ttl_s <= 0) {
                log_event(LOG_WARN, "registry lease lost, registering again");
                member->lease = 0;
                set_state(registry, MEMBER_OUT);
                registry_set_status(registry, REGISTRY_REGISTERING);
                return true;
        }
        lease_lasts(registry, ttl_s);
        set_state(registry, MEMBER_IN);
        member->due = member->renewed + member->ttl_us / RENEWALS;
        registry_set_status(registry, REGISTRY_REGISTERED);
        return true;
}

/* The other worker lives. Logged once, checked again from time to time. */
static void give_way(struct registry *registry)
{
        struct registry_member *member = &registry->member;

        bool joining;

        pthread_mutex_lock(&registry->lock);
        joining = registry->joining; /* registry_join reports it */
        pthread_mutex_unlock(&registry->lock);
        if (!member->rival_lives && !joining)
                log_event(LOG_ERROR, "name in the registry taken by a live worker",
                          LOG_S("worker", registry->self.name), LOG_S("holder", registry->rival.http));
        member->rival_lives = true;
        registry_set_status(registry, REGISTRY_NAME_TAKEN);
}

static bool on_rival(struct registry *registry, int error, struct json_object *answer)
{
        struct registry_member *member = &registry->member;
        uint64_t lease, now = clock_now_us();
        int64_t ttl_s = 0;

        if (!error && !etcd_read_lease(answer, &lease, &ttl_s))
                return false;
        if (error || ttl_s < 0) { /* its key has expired with it */
                set_state(registry, MEMBER_OUT);
                member->due = now + (member->rival_ttl_s < 0 ? ASK_US : 0);
                member->rival_ttl_s = -1;
                member->rival_until = 0;
                return true;
        }
        if (!member->rival_until)
                member->rival_until = now + (uint64_t)ttl_s * 1000000 + MARGIN_US;
        /*
         * The owner lives if the remaining time has grown, or is not 0 past the expected end. 0 means that etcd is
         * about to revoke the lease.
         */
        if ((member->rival_ttl_s >= 0 && ttl_s > member->rival_ttl_s) || (ttl_s > 0 && now > member->rival_until))
                give_way(registry);
        member->rival_ttl_s = ttl_s;
        set_state(registry, MEMBER_TAKEN);
        member->due = now + (member->rival_lives ? registry->ttl_ms * 1000 / RENEWALS : ASK_US);
        return true;
}

static bool on_revoked(struct registry *registry, int error, struct json_object *answer)
{
        (void)error;
        (void)answer;
        registry->member.lease = 0;
        set_state(registry, MEMBER_LEFT);
        return true;
}

/* ---- the questions ---- */

static char *grant_body(struct registry *registry)
{
        return etcd_lease_grant(registry->ttl_ms / 1000);
}

static char *put_body(struct registry *registry)
{
        FERRY_CLEANUP(cleanup_free) char *value = registry_entry_encode(&registry->self);
        char key[REGISTRY_KEY_SIZE];

        etcd_key(registry->prefix, registry->self.name, key);
        return value ? etcd_put_if_absent(key, value, registry->member.lease) : NULL;
}

static char *own_lease_body(struct registry *registry)
{
        return etcd_lease_name(registry->member.lease);
}

static char *rival_lease_body(struct registry *registry)
{
        return etcd_lease_name(registry->member.rival_lease);
}

/* Of the states that wait for an answer. back: the state after a failure. */
static const struct step {
        const char *path;
        char *(*body)(struct registry *registry);
        bool (*answered)(struct registry *registry, int error, struct json_object *answer);
        enum member_state back;
} steps[MEMBER_STATES] = {
        [MEMBER_GRANTING] = { "/v3/lease/grant", grant_body, on_granted, MEMBER_OUT },
        [MEMBER_PUTTING] = { "/v3/kv/txn", put_body, on_put, MEMBER_OUT },
        [MEMBER_RENEWING] = { "/v3/lease/keepalive", own_lease_body, on_renewed, MEMBER_IN },
        [MEMBER_ASKING] = { "/v3/lease/timetolive", rival_lease_body, on_rival, MEMBER_TAKEN },
        [MEMBER_LEAVING] = { "/v3/lease/revoke", own_lease_body, on_revoked, MEMBER_LEFT },
};

/* Doubles after each failure, with jitter. */
static uint64_t backoff_us(const struct registry *registry)
{
        const struct registry_member *member = &registry->member;
        uint64_t most = registry->ttl_ms * 1000 / RENEWALS, us = BACKOFF_MIN_US;

        for (unsigned i = 1; i < member->failures && us < BACKOFF_MAX_US; i++)
                us *= 2;
        if (most > BACKOFF_MAX_US)
                most = BACKOFF_MAX_US;
        if (us > most)
                us = most;
        return us / 2 + random_id() % (us / 2 + 1);
}

static void on_failed(struct registry *registry, const char *detail)
{
        struct registry_member *member = &registry->member;
        const uint64_t now = clock_now_us();

        member->failures++;
        set_state(registry, steps[member->state].back);
        if (member->state == MEMBER_LEFT)
                return;
        member->due = now + backoff_us(registry);
        if (!registry->away)
                log_event(LOG_WARN, "registry unreachable", LOG_S("endpoint", registry->endpoints[registry->endpoint]),
                          LOG_S("reason", detail));
        registry->away = true;
        /* While the lease may last, clients that reach the registry find the name. */
        if (member->state != MEMBER_IN || now > member->renewed + member->ttl_us) {
                metric_set(registry->registered, 0);
                registry_set_status(registry, REGISTRY_UNREACHABLE);
        }
}

static void on_called(void *context, int error, const char *detail, struct json_object *answer)
{
        struct registry *registry = context;
        struct registry_member *member = &registry->member;

        if (error == FERRY_E_CANCELLED)
                return;
        if ((error && error != FERRY_E_NOT_FOUND) || !steps[member->state].answered(registry, error, answer)) {
                on_failed(registry, error ? detail : "its answer is not one of etcd's");
                return;
        }
        /* A lease alone is no success: etcd may grant it and then refuse to put the name. */
        if (member->state != MEMBER_IN && member->state != MEMBER_TAKEN)
                return;
        if (registry->away)
                log_event(LOG_INFO, "registry reachable again");
        registry->away = false;
        member->failures = 0;
}

static void start(struct registry *registry, enum member_state state)
{
        const struct step *step = &steps[state];

        set_state(registry, state);
        const struct registry_question question = { .path = step->path,
                                                    .body = step->body(registry),
                                                    .answer_max = ANSWER_MAX };
        if (registry_ask(registry, &question, on_called, registry) < 0)
                on_failed(registry, "memory is short");
}

uint64_t member_run(struct registry *registry, uint64_t now)
{
        struct registry_member *member = &registry->member;
        bool joined, leaving;

        pthread_mutex_lock(&registry->lock);
        joined = registry->joined;
        leaving = registry->leaving;
        pthread_mutex_unlock(&registry->lock);
        if ((!joined && !leaving) || member->state == MEMBER_LEFT || steps[member->state].path)
                return UINT64_MAX;
        if (leaving) {
                if (member->lease)
                        start(registry, MEMBER_LEAVING);
                else
                        set_state(registry, MEMBER_LEFT);
        } else if (now < member->due) {
                return member->due;
        } else if (member->state == MEMBER_IN) {
                start(registry, MEMBER_RENEWING);
        } else if (member->state == MEMBER_TAKEN && member->rival_lease) {
                start(registry, MEMBER_ASKING);
        } else if (member->state == MEMBER_TAKEN) { /* the key has no lease: it stays until it is removed by hand */
                give_way(registry);
                set_state(registry, MEMBER_OUT);
                member->due = now + registry->ttl_ms * 1000;
        } else {
                bool fresh = member->lease && now < member->renewed + member->ttl_us / 2;

                start(registry, fresh ? MEMBER_PUTTING : MEMBER_GRANTING);
        }
        return steps[member->state].path || member->state == MEMBER_LEFT ? UINT64_MAX : member->due;
}
