/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include <ferry/commit.h>
#include <ferry/protocol.h>

#include "base/allowlist.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"
#include "easy/thread.h"
#include "http/event_log.h"
#include "http/server.h"
#include "memory/region.h"
#include "move/engine.h"
#include "move/http.h"
#include "operations/operations.h"
#include "peers/peers.h"
#include "registry/registry.h"

/*
 * The life of a worker: new, drain, free. worker_start() makes it, layer by layer; drain leaves the registry, refuses
 * what is new and waits for what runs; free ends all in the order that its comment gives. A worker belongs to the
 * process that made it: in a forked child its locks may be locked for ever, so the copies there are never touched
 * (worker_is_ours).
 *
 * Contract: ferry/worker.h. Thread: any; ferry_worker_free() only when no other call uses the worker. Locks: the
 * worker's guards drain; living_lock guards the list of all workers, and what ferry_worker_abandon() reads of them.
 */

enum {
        LEAVE_MS = 1000,         /* for the registry to free the name; else its lease expires */
        GRACE_DEFAULT_MS = 2000, /* the engine's */
        END_MARGIN_MS = 10000,   /* beyond the grace time: a worker that takes longer has a bug */
};

/* Workers whose files ferry_worker_abandon unlinks. The lock is held while they are, under that of sockets. */
static pthread_mutex_t living_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ferry_worker *living;

/* ---- making ---- */

static struct ferry_worker *worker_allocate(void)
{
        struct ferry_worker *worker = calloc(1, sizeof(*worker));

        if (!worker)
                return NULL;
        worker->generation = fork_generation();
        worker->epoch = random_id();
        pthread_mutex_init(&worker->lock, NULL);
        condition_init(&worker->drained);
        pthread_mutex_lock(&living_lock);
        DL_APPEND(living, worker);
        pthread_mutex_unlock(&living_lock);
        return worker;
}

/* Says whether ferry_worker_abandon() may use worker->http. */
static void set_serving(struct ferry_worker *worker, bool serving)
{
        pthread_mutex_lock(&living_lock);
        worker->serving = serving;
        pthread_mutex_unlock(&living_lock);
}

static void cleanup_worker(struct ferry_worker **worker)
{
        *worker = ferry_worker_free(*worker);
}

/* In a forked child: the copies of the parent's workers must not unlink its sockets. */
static void forget_workers(void)
{
        static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

        living_lock = unlocked;
        living = NULL;
}

static void watch_forks(void)
{
        (void)pthread_atfork(NULL, NULL, forget_workers);
}

/* The sentence of a failure is set by the step that failed. */
int worker_new(const struct ferry_worker_options *options, struct ferry_worker **ret_worker)
{
        static pthread_once_t watched = PTHREAD_ONCE_INIT;
        FERRY_CLEANUP(cleanup_worker) struct ferry_worker *worker = NULL;
        const struct engine_facts *facts;
        char epoch[FERRY_ID_TEXT_SIZE];
        int r;

        (void)pthread_once(&watched, watch_forks);
        worker = worker_allocate();
        if (!worker)
                return worker_fail(-ENOMEM, NULL);
        r = worker_settings_new(options, &worker->settings);
        if (r == 0)
                r = worker_start(worker);
        if (r < 0)
                return r;
        set_serving(worker, true);
        facts = engine_get_facts(worker->engine);
        ferry_id_format("", worker->epoch, epoch); /* other workers' logs name this one by it */
        log_event(LOG_INFO, "worker ready", LOG_S("worker", worker->settings->options.name), LOG_S("epoch", epoch),
                  LOG_S("version", FERRY_VERSION), LOG_S("commit", ferry_commit), LOG_U("protocol", FERRY_PROTOCOL),
                  LOG_S("ucx", facts->ucx_version[0] ? facts->ucx_version : NULL),
                  LOG_S("http", ferry_worker_url(worker, 0)),
                  LOG_S("data", engine_network_is_open(facts) ? facts->data_address : NULL));
        *ret_worker = FERRY_STEAL(worker);
        return 0;
}

int ferry_worker_new(const struct ferry_worker_options *options, struct ferry_worker **ret_worker)
{
        struct ferry_worker_options defaults = { 0 };
        int r;

        worker_options_init(&defaults, false);
        r = worker_new(options ?: &defaults, ret_worker);
        return r == -EINVAL ? FERRY_E_INVALID_PARAMETER : r;
}

/* ---- using ---- */

const char *ferry_worker_ready_line(const struct ferry_worker *worker)
{
        return worker->ready_line;
}

const char *ferry_worker_name(const struct ferry_worker *worker)
{
        return worker->settings->options.name;
}

const char *ferry_worker_url(const struct ferry_worker *worker, size_t i)
{
        return http_server_url(worker->http, i);
}

/* ---- ending ---- */

/* Thread: any. */
static void on_drained(void *context)
{
        struct ferry_worker *worker = context;

        pthread_mutex_lock(&worker->lock);
        worker->drain = DRAIN_DONE;
        pthread_cond_broadcast(&worker->drained);
        pthread_mutex_unlock(&worker->lock);
}

/* Refuses new operations and cancels idle offers; on_drained is called after the end of the last operation. */
static void ask_drained(struct ferry_worker *worker)
{
        bool asked;

        pthread_mutex_lock(&worker->lock);
        asked = worker->drain == DRAIN_ASKED;
        worker->drain = DRAIN_ASKED;
        pthread_mutex_unlock(&worker->lock);
        if (!asked)
                operation_store_on_drained(worker->operations, on_drained, worker);
}

/* Waits after ask_drained. false: timeout. */
static bool wait_drained(struct ferry_worker *worker, uint64_t timeout_ms)
{
        const uint64_t deadline_us = clock_now_us() + timeout_ms * 1000;
        bool done;

        pthread_mutex_lock(&worker->lock);
        while (worker->drain != DRAIN_DONE && condition_wait(&worker->drained, &worker->lock, deadline_us))
                ;
        done = worker->drain == DRAIN_DONE;
        pthread_mutex_unlock(&worker->lock);
        return done;
}

/* The longest time that all operations take to end, in ms. */
static uint64_t end_time_ms(const struct ferry_worker *worker)
{
        return (worker->settings->options.grace_ms ?: GRACE_DEFAULT_MS) + END_MARGIN_MS;
}

size_t ferry_worker_drain(struct ferry_worker *worker, unsigned timeout_ms)
{
        size_t left;

        if (!worker_is_ours(worker->generation))
                return 0;
        if (worker->registry)
                registry_leave(worker->registry);
        if (worker->http)
                http_server_drain(worker->http);
        ask_drained(worker);
        log_event(LOG_INFO, "draining", LOG_U("running", operation_store_live(worker->operations)));
        if (wait_drained(worker, timeout_ms))
                return 0;
        left = operation_store_cancel_all(worker->operations);
        log_event(timeout_ms ? LOG_WARN : LOG_INFO, "drain timeout", LOG_U("cancelled", left));
        (void)wait_drained(worker, end_time_ms(worker));
        return left;
}

/* Takes the engine off the worker, so that ferry_worker_abandon does not use it. */
static struct engine *take_engine(struct ferry_worker *worker)
{
        struct engine *engine;

        pthread_mutex_lock(&living_lock);
        engine = FERRY_STEAL(worker->engine);
        pthread_mutex_unlock(&living_lock);
        return engine;
}

/*
 * Not the reverse of the start. First end what makes requests (HTTP, peers); then end every operation, which needs the
 * engine; then join the engine's thread, which calls the operations, and free them. Free the engine last, after the
 * regions registered with it, and after the loop, whose callbacks may still post a cancel to it.
 */
struct ferry_worker *ferry_worker_free(struct ferry_worker *worker)
{
        if (!worker || !worker_is_ours(worker->generation))
                return NULL;
        if (worker->registry)
                registry_leave(worker->registry);
        if (worker->http) {
                http_server_drain(worker->http);
                (void)operation_store_cancel_all(worker->operations); /* answers parked requests */
        }
        set_serving(worker, false);
        worker->http = http_server_free(worker->http);
        if (worker->engine)
                engine_set_http(worker->engine, NULL);
        if (worker->registry && worker->peers)
                registry_await_left(worker->registry, LEAVE_MS);
        if (worker->http_mover)
                http_mover_stop(worker->http_mover);
        worker->peers = peers_free(worker->peers);
        worker->registry = registry_free(worker->registry);
        worker->client = easy_thread_free(worker->client);
        if (worker->operations) {
                ask_drained(worker);
                (void)operation_store_cancel_all(worker->operations);
                if (!wait_drained(worker, end_time_ms(worker)))
                        log_event(LOG_ERROR, "operations did not end in time",
                                  LOG_U("left", operation_store_live(worker->operations)));
        }
        if (worker->engine)
                engine_stop(worker->engine);
        worker->operations = operation_store_free(worker->operations);
        worker->regions = region_table_free(worker->regions);
        worker->loop = loop_free(worker->loop);
        worker->http_mover = http_mover_free(worker->http_mover);
        worker->engine = engine_free(take_engine(worker));
        worker->allowlist = allowlist_free(worker->allowlist);
        worker->events = event_log_free(worker->events);
        worker->metrics = metrics_free(worker->metrics);

        pthread_mutex_lock(&living_lock);
        DL_DELETE(living, worker);
        pthread_mutex_unlock(&living_lock);
        worker_settings_free(worker->settings);
        free(worker->ready_line);
        pthread_cond_destroy(&worker->drained);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
}

/* Under living_lock. */
static void unlink_files(const struct ferry_worker *worker)
{
        if (worker->engine)
                engine_unlink_socket(worker->engine);
        if (worker->serving && worker->http)
                http_server_unlink(worker->http);
}

void ferry_worker_abandon(void)
{
        struct ferry_worker *worker;

        pthread_mutex_lock(&living_lock);
        DL_FOREACH (living, worker)
                unlink_files(worker);
        pthread_mutex_unlock(&living_lock);
}
