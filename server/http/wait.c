/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/util.h"
#include "connection.h"
#include "event.h"
#include "events.h"
#include "http_internal.h"
#include "operations/operations.h"
#include "request.h"
#include "shard.h"

/*
 * One parked request. Counted references: one for each armed source (waiter, timer), which goes when its callback has
 * run or was certainly prevented, and one for being parked, which goes with the wake-up.
 */
struct http_park {
        struct http_server *server;
        struct MHD_Connection *connection; /* suspended while parked */
        struct http_connection *ours;      /* of it; stays while the park is parked */
        struct http_shard *shard;          /* of it */
        struct operation *operation;       /* a reference; NULL = it waits for the event */
        struct http_event *event;          /* of the request: gone when the connection is resumed; NULL = none */
        atomic_uint references;
        struct operation_waiter waiter;
        struct http_event_waiter event_waiter;
        struct loop_timer timer;
        /* waits.lock: */
        bool parked;
        struct http_park *previous, *next;
};

int waits_init(struct http_waits *waits, struct metric *gauge)
{
        pthread_condattr_t attributes;

        waits->gauge = gauge;
        if (pthread_condattr_init(&attributes))
                return -ENOMEM;
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        int error = pthread_cond_init(&waits->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        if (error)
                return -error;
        error = pthread_mutex_init(&waits->lock, NULL);
        if (error)
                pthread_cond_destroy(&waits->changed);
        return -error;
}

void waits_destroy(struct http_waits *waits)
{
        pthread_mutex_destroy(&waits->lock);
        pthread_cond_destroy(&waits->changed);
}

void waits_enter(struct http_waits *waits)
{
        atomic_fetch_add(&waits->n_active, 1);
}

/* Whoever waits has set stopping before it looked at n_active. */
void waits_leave(struct http_waits *waits)
{
        if (atomic_fetch_sub(&waits->n_active, 1) != 1 || !atomic_load(&waits->stopping))
                return;
        pthread_mutex_lock(&waits->lock);
        pthread_cond_broadcast(&waits->changed);
        pthread_mutex_unlock(&waits->lock);
}

void waits_retain(struct http_waits *waits)
{
        pthread_mutex_lock(&waits->lock);
        waits->n_alive++;
        pthread_mutex_unlock(&waits->lock);
}

void waits_release(struct http_waits *waits)
{
        pthread_mutex_lock(&waits->lock);
        if (!--waits->n_alive)
                pthread_cond_broadcast(&waits->changed);
        pthread_mutex_unlock(&waits->lock);
}

struct http_park *park_ref(struct http_park *park)
{
        atomic_fetch_add(&park->references, 1);
        return park;
}

static void park_unref(struct http_park *park)
{
        struct http_waits *waits = &park->server->waits;

        if (atomic_fetch_sub(&park->references, 1) != 1)
                return;
        operation_unref(park->operation);
        free(park);
        pthread_mutex_lock(&waits->lock);
        waits->n_parks--;
        waits->n_alive--;
        if (!waits->n_parks)
                pthread_cond_broadcast(&waits->changed);
        pthread_mutex_unlock(&waits->lock);
}

/* Registers what is waited for. false: it is there already. */
static bool park_wait(struct http_park *park, uint64_t revision)
{
        if (park->event)
                return event_wait(park->event, &park->event_waiter);
        return operation_wait(park->server->config.operations, park->operation, revision, &park->waiter);
}

/* true: it was registered, and its wake will not be called. */
static bool park_unwait(struct http_park *park)
{
        if (park->event)
                return event_unwait(park->event, &park->event_waiter);
        return operation_unwait(park->server->config.operations, &park->waiter);
}

/* Any thread, no lock held. The first call resumes the connection; it and its request may be gone once that is done. */
static void park_wake(struct http_park *park)
{
        struct http_server *server = park->server;
        struct http_waits *waits = &server->waits;

        pthread_mutex_lock(&waits->lock);
        bool parked = park->parked;
        size_t n_parked = 0;
        if (parked) {
                park->parked = false;
                park->ours->park = NULL;
                if (park->previous)
                        park->previous->next = park->next;
                else
                        waits->parked = park->next;
                if (park->next)
                        park->next->previous = park->previous;
                n_parked = --waits->n_parked;
                metric_add(waits->gauge, -1);
                pthread_cond_broadcast(&waits->changed);
        }
        pthread_mutex_unlock(&waits->lock);
        if (!parked)
                return;
        event_log_used(server->config.events, EVENT_LIMIT_WAITERS, n_parked);

        if (park->event && event_unwait(park->event, &park->event_waiter))
                park_unref(park);
        /* Soon: somebody waits for the answer. The rest looks at the park alone, which does not end before it. */
        MHD_resume_connection(park->connection);
        shard_wake(park->shard);
        if (loop_timer_stop(server->config.loop, &park->timer))
                park_unref(park);
        if (park->operation && operation_unwait(server->config.operations, &park->waiter))
                park_unref(park);
        park_unref(park);
}

void park_end(struct http_park *park)
{
        park_wake(park);
        park_unref(park);
}

static void on_event(struct http_event_waiter *waiter)
{
        park_end(FERRY_CONTAINER_OF(waiter, struct http_park, event_waiter));
}

static void on_operation(struct operation_waiter *waiter)
{
        park_end(FERRY_CONTAINER_OF(waiter, struct http_park, waiter));
}

static void on_deadline(struct loop_timer *timer)
{
        park_end(FERRY_CONTAINER_OF(timer, struct http_park, timer));
}

/*
 * Registers every source. waits.lock is held, so that a source that fires at once waits for the connection to be
 * suspended. false: nothing to wait for; sources that are armed nevertheless find the park not parked.
 */
static bool park_arm(struct http_park *park, uint64_t revision, uint64_t wait_ms)
{
        const struct http_config *config = &park->server->config;

        atomic_fetch_add(&park->references, 1);
        if (!park_wait(park, revision)) {
                atomic_fetch_sub(&park->references, 1);
                return false;
        }
        atomic_fetch_add(&park->references, 1);
        if (loop_timer_start(config->loop, &park->timer, clock_now_us() + wait_ms * 1000) < 0) {
                /* Without a deadline it must not wait. */
                atomic_fetch_sub(&park->references, 1);
                if (park_unwait(park))
                        atomic_fetch_sub(&park->references, 1);
                return false;
        }
        return true;
}

/* operation or event is NULL. */
static enum wait_result park_request(struct http_request *request, struct operation *operation, uint64_t revision,
                                     struct http_event *event, uint64_t wait_ms,
                                     void (*resume)(struct http_request *request))
{
        struct http_server *server = request->server;
        struct http_waits *waits = &server->waits;
        enum wait_result result = WAIT_NEEDLESS;

        struct http_park *park = calloc(1, sizeof(*park));
        if (!park)
                return WAIT_FULL;
        park->server = server;
        park->connection = request->connection;
        park->ours = connection_of(request->connection);
        park->shard = park->ours->shard;
        park->operation = operation ? operation_ref(operation) : NULL;
        park->event = event;
        park->waiter.wake = on_operation;
        park->event_waiter.wake = on_event;
        park->timer.fired = on_deadline;
        atomic_init(&park->references, 1);

        pthread_mutex_lock(&waits->lock);
        waits->n_parks++;
        waits->n_alive++;
        if (waits->stopping || atomic_load(&park->ours->ended)) {
                result = WAIT_NEEDLESS;
        } else if (waits->n_parked >= server->config.limits.waiters_max) {
                result = WAIT_FULL;
        } else if (park_arm(park, revision, wait_ms)) {
                result = WAIT_PARKED;
                request->resume = resume;
                park->parked = true;
                park->ours->park = park;
                park->next = waits->parked;
                if (park->next)
                        park->next->previous = park;
                waits->parked = park;
                waits->n_parked++;
                metric_add(waits->gauge, 1);
                MHD_suspend_connection(park->connection);
                pthread_cond_broadcast(&waits->changed);
        }
        size_t n_parked = waits->n_parked;
        pthread_mutex_unlock(&waits->lock);
        if (result == WAIT_PARKED)
                event_log_used(server->config.events, EVENT_LIMIT_WAITERS, n_parked);
        else
                park_unref(park);
        return result;
}

enum wait_result wait_park(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                           void (*resume)(struct http_request *request))
{
        return park_request(request, request->operation, revision, NULL, wait_ms, resume);
}

enum wait_result wait_park_event(struct http_request *request, struct http_event *event, uint64_t wait_ms,
                                 void (*resume)(struct http_request *request))
{
        return park_request(request, NULL, 0, event, wait_ms, resume);
}

void wait_refuse(struct http_request *request)
{
        struct http_waits *waits = &request->server->waits;

        pthread_mutex_lock(&waits->lock);
        bool full = waits->n_parked >= request->server->config.limits.waiters_max;
        pthread_mutex_unlock(&waits->lock);
        if (!full) {
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        request_problem(request, FERRY_E_LIMIT_REACHED, "--max-waiters is %" PRIu64 ", and as many requests wait",
                        request->server->config.limits.waiters_max);
}

/* Answers a request that is not parked. */
static void answer_unless_parked(struct http_request *request, enum wait_result result,
                                 void (*answer)(struct http_request *request))
{
        if (result == WAIT_NEEDLESS)
                answer(request);
        else if (result == WAIT_FULL)
                wait_refuse(request);
}

void wait_or_answer(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                    void (*answer)(struct http_request *request))
{
        answer_unless_parked(request, wait_park(request, revision, wait_ms, answer), answer);
}

void wait_event_or_answer(struct http_request *request, struct http_event *event, uint64_t wait_ms,
                          void (*answer)(struct http_request *request))
{
        answer_unless_parked(request, wait_park_event(request, event, wait_ms, answer), answer);
}

void waits_stop(struct http_server *server, uint64_t limit_us)
{
        struct http_waits *waits = &server->waits;
        uint64_t deadline = clock_now_us() + limit_us;
        struct timespec until = { .tv_sec = (time_t)(deadline / 1000000),
                                  .tv_nsec = (long)(deadline % 1000000) * 1000 };

        pthread_mutex_lock(&waits->lock);
        atomic_store(&waits->stopping, true);
        while (waits->parked) {
                struct http_park *park = waits->parked;
                (void)park_ref(park);
                pthread_mutex_unlock(&waits->lock);
                park_end(park);
                pthread_mutex_lock(&waits->lock);
        }
        /* MHD_resume_connection still touches the daemon when the connection runs again or is even closed. */
        while (waits->n_parks)
                pthread_cond_wait(&waits->changed, &waits->lock);
        while (atomic_load(&waits->n_active) &&
               pthread_cond_timedwait(&waits->changed, &waits->lock, &until) != ETIMEDOUT)
                ;
        pthread_mutex_unlock(&waits->lock);
}

void waits_drain(struct http_waits *waits)
{
        pthread_mutex_lock(&waits->lock);
        while (waits->n_alive)
                pthread_cond_wait(&waits->changed, &waits->lock);
        pthread_mutex_unlock(&waits->lock);
}
