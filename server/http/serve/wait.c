/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/util.h"
#include "operations/operations.h"

/*
 * Parked requests, and work that a request waits for. The handler's thread arms the sources and suspends the connection
 * under the lock of the waits, so that no source resumes it before; the first one that fires takes the park off the
 * list and resumes the connection, the others find it gone. Each armed source has a reference: the park is freed when
 * no callback of it can run any more.
 *
 * Thread: the request's to park, any to wake. Lock order: see struct http_waits.
 */

/* ---- parked requests ---- */

enum { SOURCES = 3 /* that can wake it: the client's end, the operation or flag, the deadline */ };

/*
 * One parked request. References: one for each armed source, dropped when its callback has run or can no longer run,
 * and one for being parked, dropped by the wake-up.
 */
struct http_park {
        struct http_server *server;
        struct http_connection *connection; /* suspended while parked, valid until it is resumed */
        struct operation *operation;        /* a reference; NULL = waits for the flag */
        struct wait_flag *flag;             /* the request's; invalid once the connection is resumed; NULL = none */
        bool stays;                         /* the client's end does not wake it */
        atomic_uint references;
        struct operation_waiter waiter;
        struct wait_flag_waiter flag_waiter, end_waiter;
        struct loop_timer timer;
        struct http_park *previous, *next; /* waits.lock; previous NULL = not parked */
};

int waits_new(struct http_waits **ret_waits)
{
        struct http_waits *waits = calloc(1, sizeof(*waits));

        if (!waits)
                return -ENOMEM;
        (void)pthread_cond_init(&waits->changed, NULL);
        (void)pthread_mutex_init(&waits->lock, NULL);
        *ret_waits = waits;
        return 0;
}

struct http_waits *waits_free(struct http_waits *waits)
{
        if (!waits)
                return NULL;
        pthread_mutex_destroy(&waits->lock);
        pthread_cond_destroy(&waits->changed);
        free(waits);
        return NULL;
}

static void park_unref(struct http_park *park)
{
        struct http_waits *waits = park->server->waits;

        if (atomic_fetch_sub(&park->references, 1) != 1)
                return;
        operation_unref(park->operation);
        free(park);
        pthread_mutex_lock(&waits->lock);
        if (!--waits->n_parks)
                pthread_cond_broadcast(&waits->changed);
        pthread_mutex_unlock(&waits->lock);
}

/* Registers the waiter. false: it has happened already. */
static bool park_wait(struct http_park *park, uint64_t revision)
{
        if (park->flag)
                return wait_flag_wait(park->flag, &park->flag_waiter);
        return operation_wait(park->server->config.operations, park->operation, revision, &park->waiter);
}

/* true: it was registered, and its callback will not run. */
static bool park_unwait(struct http_park *park)
{
        if (park->flag)
                return wait_flag_unwait(park->flag, &park->flag_waiter);
        return operation_unwait(park->server->config.operations, &park->waiter);
}

/* Any thread, no lock held. The first call resumes the connection, which may free it and its request at once. */
static void park_wake(struct http_park *park)
{
        struct http_server *server = park->server;
        struct http_waits *waits = server->waits;

        pthread_mutex_lock(&waits->lock);
        bool parked = park->previous;
        size_t n_parked = 0;
        if (parked) {
                DL_DELETE2(waits->parked, park, previous, next);
                park->previous = NULL;
                n_parked = --waits->n_parked;
                metric_add(server->waiters, -1);
                pthread_cond_broadcast(&waits->changed);
        }
        pthread_mutex_unlock(&waits->lock);
        if (!parked)
                return;
        event_log_used(server->config.events, EVENT_LIMIT_WAITERS, n_parked);

        /* Before the resume: it may free the connection and the request. */
        if (park->flag && wait_flag_unwait(park->flag, &park->flag_waiter))
                park_unref(park);
        if (wait_flag_unwait(&park->connection->end, &park->end_waiter))
                park_unref(park);
        struct http_shard *shard = park->connection->shard;
        MHD_resume_connection(park->connection->mhd);
        shard_wake(shard);
        if (loop_timer_stop(server->config.loop, &park->timer))
                park_unref(park);
        if (park->operation && operation_unwait(server->config.operations, &park->waiter))
                park_unref(park);
        park_unref(park);
}

/* A source has fired: wakes, and drops the source's reference. */
static void park_end(struct http_park *park)
{
        park_wake(park);
        park_unref(park);
}

static void on_flag(struct wait_flag_waiter *waiter)
{
        park_end(FERRY_CONTAINER_OF(waiter, struct http_park, flag_waiter));
}

static void on_client_end(struct wait_flag_waiter *waiter)
{
        park_end(FERRY_CONTAINER_OF(waiter, struct http_park, end_waiter));
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
 * Arms every source, under waits.lock, so that a source that fires at once waits until the connection is suspended.
 * false: nothing to wait for; a source that fires nevertheless finds the park not parked.
 */
static bool park_arm(struct http_park *park, uint64_t revision, uint64_t wait_ms)
{
        const struct http_config *config = &park->server->config;

        atomic_fetch_add(&park->references, park->stays ? SOURCES - 1 : SOURCES);
        bool ends = park->stays || wait_flag_wait(&park->connection->end, &park->end_waiter);
        bool waits = ends && park_wait(park, revision);
        if (waits && loop_timer_start(config->loop, &park->timer, clock_now_us() + wait_ms * 1000) >= 0)
                return true;
        /* A source that has fired meanwhile drops its reference by itself. */
        unsigned unused = 1;
        unused += !waits || park_unwait(park);
        unused += !park->stays && (!ends || wait_flag_unwait(&park->connection->end, &park->end_waiter));
        atomic_fetch_sub(&park->references, unused);
        return false;
}

/* One of operation and flag is NULL. */
static enum wait_result park_request(struct http_request *request, struct operation *operation, uint64_t revision,
                                     struct wait_flag *flag, bool stays, uint64_t wait_ms,
                                     void (*resume)(struct http_request *request))
{
        struct http_server *server = request->server;
        struct http_waits *waits = server->waits;
        enum wait_result result = WAIT_NEEDLESS;

        struct http_park *park = calloc(1, sizeof(*park));
        if (!park)
                return WAIT_FULL;
        park->server = server;
        park->connection = request->connection;
        park->operation = operation ? operation_ref(operation) : NULL;
        park->flag = flag;
        park->stays = stays;
        park->waiter.wake = on_operation;
        park->flag_waiter.wake = on_flag;
        park->end_waiter.wake = on_client_end;
        park->timer.fired = on_deadline;
        atomic_init(&park->references, 1);

        pthread_mutex_lock(&waits->lock);
        waits->n_parks++;
        if (atomic_load(&waits->stopping)) {
                result = WAIT_NEEDLESS;
        } else if (waits->n_parked >= server->config.limits.waiters_max) {
                result = WAIT_FULL;
        } else if (park_arm(park, revision, wait_ms)) {
                result = WAIT_PARKED;
                request_park(request, resume);
                DL_PREPEND2(waits->parked, park, previous, next);
                waits->n_parked++;
                metric_add(server->waiters, 1);
                MHD_suspend_connection(park->connection->mhd);
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
        return park_request(request, request->operation, revision, NULL, false, wait_ms, resume);
}

enum wait_result wait_park_flag(struct http_request *request, struct wait_flag *flag, uint64_t wait_ms,
                                void (*resume)(struct http_request *request))
{
        return park_request(request, NULL, 0, flag, false, wait_ms, resume);
}

enum wait_result wait_park_work(struct http_request *request, struct wait_flag *flag, uint64_t wait_ms,
                                void (*resume)(struct http_request *request))
{
        return park_request(request, NULL, 0, flag, true, wait_ms, resume);
}

void wait_refuse(struct http_request *request)
{
        struct http_waits *waits = request->server->waits;

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

bool wait_abandoned(struct http_request *request, const char *before)
{
        struct http_server *server = request->server;

        if (connection_has_ended(request->connection))
                request_problem(request, FERRY_E_GONE, "The client closed its end of the connection before %s", before);
        else if (atomic_load(&server->draining) || atomic_load(&server->waits->stopping))
                request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
        else
                return false;
        return true;
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

void wait_flag_or_answer(struct http_request *request, struct wait_flag *flag, uint64_t wait_ms,
                         void (*answer)(struct http_request *request))
{
        answer_unless_parked(request, wait_park_flag(request, flag, wait_ms, answer), answer);
}

void waits_stop(struct http_waits *waits)
{
        pthread_mutex_lock(&waits->lock);
        atomic_store(&waits->stopping, true);
        while (waits->parked) {
                struct http_park *park = waits->parked;
                atomic_fetch_add(&park->references, 1);
                pthread_mutex_unlock(&waits->lock);
                park_end(park);
                pthread_mutex_lock(&waits->lock);
        }
        /* MHD_resume_connection may still touch the daemon after the connection runs again, or is closed. */
        while (waits->n_parks)
                pthread_cond_wait(&waits->changed, &waits->lock);
        pthread_mutex_unlock(&waits->lock);
}

/* ---- work for a request ---- */

void *work_new(size_t size)
{
        struct http_work *work = calloc(1, size);

        if (!work)
                return NULL;
        atomic_init(&work->references, 2);
        wait_flag_init(&work->over);
        return work;
}

void work_unref(struct http_work *work)
{
        if (atomic_fetch_sub(&work->references, 1) != 1)
                return;
        wait_flag_destroy(&work->over);
        free(work->owned);
        free(work);
}

static void drop(struct http_request *request)
{
        work_unref(request->state);
}

int work_begun(struct http_request *request, struct http_work *work, int error)
{
        if (error) {
                atomic_store(&work->references, 1);
                work_unref(work);
        } else {
                request_keep(request, work, drop);
        }
        return error;
}

void work_end(struct http_work *work, int error, const char *detail)
{
        work->error = error;
        (void)snprintf(work->detail, sizeof(work->detail), "%s", detail);
        wait_flag_set(&work->over);
        work_unref(work);
}

bool work_is_over(struct http_request *request, const char *awaited, const char *late)
{
        struct http_work *work = request->state;

        if (wait_flag_is_set(&work->over))
                return true;
        if (!wait_abandoned(request, awaited))
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "%s within %u s", late, WORK_WAIT_MS / 1000);
        return false;
}
