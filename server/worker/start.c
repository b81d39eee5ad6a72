/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <ferry/commit.h>
#include <ferry/encoding.h>
#include <ferry/json_write.h>

#include "base/allowlist.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/processors.h"
#include "base/util.h"
#include "easy/thread.h"
#include "http/event_log.h"
#include "http/server.h"
#include "memory/region.h"
#include "move/engine.h"
#include "move/http.h"
#include "peers/peers.h"
#include "registry/registry.h"

/*
 * Starts every layer of a worker, bottom up, each by one function of the table steps; a failure leaves what was started
 * to ferry_worker_free(). The callbacks here are the only places where a layer calls one above it: the regions register
 * their memory with the engine, the engine asks the operations for claims. The name in the registry comes last, since
 * peers may come once they find it.
 *
 * Thread: the one that makes the worker, unless a callback says otherwise.
 */

/* Threads that copy by default: fewer than these fill the memory's bandwidth on most machines. */
enum { COPIERS_MAX = 4 };

/* ---- callbacks, by which a layer calls one above it ---- */

/* Thread: one of the pool, or the one that makes a small region or adopts memory. */
static int on_register(void *context, const struct region *region, void **ret_registration)
{
        const struct engine_memory spec = {
                .address = region->address,
                .size = region->size,
                .space = region->space,
                .fd = region->fd,
                .id = region->id,
        };
        struct memory *memory;
        int r;

        r = engine_memory_register(context, &spec, &memory);
        if (r == 0)
                *ret_registration = memory;
        return r;
}

static void on_deregister(void *context, void *registration)
{
        engine_memory_deregister(context, registration);
}

static unsigned on_gpu(const void *registration)
{
        return engine_memory_gpu(registration);
}

/*
 * Thread: the holder of the progress lock. The engine starts before the store, so worker->operations_ready is NULL at
 * first; its thread ends (engine_stop) before the store is freed.
 */
static int on_claim(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        struct ferry_worker *worker = context;
        struct operation_store *store = atomic_load(&worker->operations_ready);

        return store ? operation_store_claim(store, request, ret_claim) : FERRY_E_STALE_METADATA;
}

static int on_notice(void *context, const struct engine_notice *notice, int *ret_status, uint64_t *ret_left_ms)
{
        struct ferry_worker *worker = context;
        struct operation_store *store = atomic_load(&worker->operations_ready);

        return store ? operation_store_notice(store, notice, ret_status, ret_left_ms) : FERRY_E_STALE_METADATA;
}

static void on_wake_waiters(void *context)
{
        struct ferry_worker *worker = context;
        struct operation_store *store = atomic_load(&worker->operations_ready);

        if (store)
                operation_store_wake_waiters(store);
}

/* ---- the layers, bottom up ---- */

static int start_metrics(struct ferry_worker *worker)
{
        int r = metrics_new(&worker->metrics);

        if (r == 0)
                metrics_process(worker->metrics);
        return r;
}

static int start_loop(struct ferry_worker *worker)
{
        return loop_new("ferry-loop", &worker->loop);
}

static int start_allowlist(struct ferry_worker *worker)
{
        const struct worker_settings *settings = worker->settings;

        /* A listener beyond loopback: others could make the worker send requests to servers that trust loopback. */
        return allowlist_new((const char *const *)settings->options.allow_peer.items, settings->options.allow_peer.n,
                             settings->beyond_loopback, &worker->allowlist);
}

static int start_events(struct ferry_worker *worker)
{
        const struct event_log_config config = { .epoch = worker->epoch, .metrics = worker->metrics };

        return event_log_new(&config, &worker->events);
}

/* How many threads copy beside that of the engine, which copies as well. */
static unsigned copy_threads(const char *option)
{
        uint64_t n;

        if (ferry_uint_parse(option, UINT_MAX, &n))
                return (unsigned)n;
        return (unsigned)at_most(processors_allowed(), COPIERS_MAX) - 1;
}

static int start_engine(struct ferry_worker *worker)
{
        const struct ferry_worker_options *options = &worker->settings->options;
        const struct engine_config config = {
                .epoch = worker->epoch,
                .name = options->name,
                .local = options->local && strcmp(options->local, "off") == 0 ? NULL : options->local ?: "auto",
                .copy_threads = copy_threads(options->copy_threads),
                .data_listen = options->data_listen,
                .ucx_tls = options->transports,
                .interfaces = options->interfaces,
                .gpu_direct = (enum device_gpudirect)options->gpu_direct,
                .chunk_size = (uint32_t)options->chunk_size,
                .window = (uint32_t)options->window,
                .spin_us = (uint32_t)options->spin_us,
                .grace_ms = (uint32_t)options->grace_ms,
                .max_links = (uint32_t)options->max_links,
                .allowlist = worker->allowlist,
                .operations = { .claim = on_claim,
                                .notice = on_notice,
                                .wake_waiters = on_wake_waiters,
                                .context = worker },
                .observer = { .peer_changed = event_log_peer, .context = worker->events },
                .advertise = options->advertise,
                .metrics = worker->metrics,
                .reason = worker->start_reason,
        };

        return engine_new(&config, &worker->engine);
}

/* A constant 1, whose labels are the versions. */
static int start_build_info(struct ferry_worker *worker)
{
        static const char *const labels[] = { "version", "ucx_version", "worker" };
        const char *values[] = { FERRY_VERSION, engine_get_facts(worker->engine)->ucx_version,
                                 worker->settings->options.name };

        metric_set(metric_get(metrics_family(worker->metrics, METRIC_GAUGE, "ferry_build_info",
                                             "1, labelled by the version of the worker and of UCX, and by its name.",
                                             FERRY_ARRAY_SIZE(labels), labels, NULL, 0),
                              values),
                   1);
        return 0;
}

static int start_regions(struct ferry_worker *worker)
{
        const struct region_config config = {
                .memory_limit = worker->settings->options.memory_limit,
                .max_regions = worker->settings->options.max_regions,
                .registrar = { .register_region = on_register,
                               .deregister_region = on_deregister,
                               .gpu = on_gpu,
                               .context = worker->engine },
                .observer = { .changed = event_log_region, .context = worker->events },
                .loop = worker->loop,
                .metrics = worker->metrics,
        };

        return region_table_new(&config, &worker->regions);
}

static int start_operations(struct ferry_worker *worker)
{
        const struct ferry_worker_options *options = &worker->settings->options;
        struct operation_config config = {
                .epoch = worker->epoch,
                .data_plane = { .transfer_start = engine_transfer_start,
                                .transfer_cancel = engine_transfer_cancel,
                                .claims_revoke = engine_claims_revoke,
                                .held_reads_retry = engine_held_reads_retry,
                                .context = worker->engine },
                .observer = { .changed = event_log_operation, .context = worker->events },
                .loop = worker->loop,
                .metrics = worker->metrics,
        };
        const uint64_t day_ms = 24 * 3600 * 1000;
        int r;

        worker->limits = (struct operation_limits){
                .ttl_ms_default = options->ttl_ms,
                .ttl_ms_max = at_least(day_ms, options->ttl_ms),
                .timeout_ms_max = day_ms,
                .stall_ms = options->stall_ms,
                .absence_ms = 10 * 1000,
                .retention_ms = options->retention_ms,
                .operations_max = options->max_operations,
                .pieces_max = OPERATION_PIECES_MAX,
                .terminal_max = at_most(4096, options->max_operations),
                .gone_max = 65536,
                .uses_max = 1 << 20,
        };
        config.limits = worker->limits;
        r = operation_store_new(&config, &worker->operations);
        if (r == 0)
                atomic_store(&worker->operations_ready, worker->operations);
        return r;
}

static int start_client(struct ferry_worker *worker)
{
        worker->client = easy_thread_new();
        return worker->client ? 0 : -ENOMEM;
}

static int start_registry(struct ferry_worker *worker)
{
        const struct ferry_worker_options *options = &worker->settings->options;
        const struct registry_config config = {
                .url = options->registry,
                .prefix = options->registry_prefix,
                .ttl_ms = options->registry_ttl_ms,
                .user = worker->settings->secrets.registry_user,
                .easy = { .ca_file = options->registry_ca,
                          .cert_file = options->peer_cert,
                          .key_file = options->peer_key,
                          .user_agent = "ferryd/" FERRY_VERSION },
                .thread = worker->client,
                .metrics = worker->metrics,
        };

        return options->registry ? registry_new(&config, &worker->registry) : 0;
}

static int start_peers(struct ferry_worker *worker)
{
        const struct worker_settings *settings = worker->settings;
        char worker_text[FERRY_ID_TEXT_SIZE + FERRY_METADATA_NAME_SIZE];

        ferry_id_format("", worker->epoch, worker_text);
        (void)snprintf(worker_text + strlen(worker_text), sizeof(worker_text) - strlen(worker_text), " %s",
                       settings->options.name);
        const struct peers_config config = {
                .easy = { .allowlist = worker->allowlist,
                          .ca_file = settings->options.peer_ca,
                          .cert_file = settings->options.peer_cert,
                          .key_file = settings->options.peer_key,
                          .user_agent = "ferryd/" FERRY_VERSION,
                          .worker = worker_text },
                .token = settings->secrets.peer_token,
                .metrics = worker->metrics,
                .thread = worker->client,
                .registry = worker->registry,
        };

        return peers_new(&config, &worker->peers);
}

static int start_http_mover(struct ferry_worker *worker)
{
        const struct http_mover_config config = {
                .settings = peers_settings(worker->peers),
                .thread = worker->client,
                .note = engine_note_http,
                .engine = worker->engine,
                .wake_waiters = operation_store_wake_waiters,
                .operations = worker->operations,
        };
        worker->http_mover = http_mover_new(&config);
        if (!worker->http_mover)
                return -ENOMEM;
        engine_set_http(worker->engine, &(struct engine_http){ .start = http_mover_start,
                                                               .cancel = http_mover_cancel,
                                                               .mover = worker->http_mover,
                                                               .notice = peers_notice,
                                                               .teller = worker->peers });
        return 0;
}

static const struct step {
        const char *what;
        int (*start)(struct ferry_worker *worker);
        /* message for -EINVAL and -ENODEV, the caller's faults; NULL = cannot be the caller's */
        const char *invalid;
} steps[] = {
        { "metrics", start_metrics, NULL },
        { "the event loop", start_loop, NULL },
        { "the list of peers", start_allowlist,
          "--allow-peer takes a host name, an address or a CIDR like 10.0.0.0/8" },
        { "the events", start_events, NULL },
        { "the data plane", start_engine,
          "--data-listen, --transports or --interfaces is not one that this machine and its UCX have" },
        { "the build's metric", start_build_info, NULL },
        { "the regions", start_regions, NULL },
        { "the operations", start_operations, NULL },
        { "the thread of the HTTP client", start_client, NULL },
        { "the registry", start_registry, "--registry or --registry-prefix is not usable" },
        { "the HTTP client", start_peers, NULL },
        { "transfers over HTTP", start_http_mover, NULL },
        { "the HTTP server", worker_listen,
          "--listen, --advertise, --tls-cert, --tls-key or --tls-client-ca is not usable" },
        { "the ready line", worker_make_ready_line, NULL },
};

int worker_start(struct ferry_worker *worker)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(steps); i++) {
                int r = steps[i].start(worker);
                const char *advice = "the log says more";

                if (r == -EAGAIN)
                        advice = "no further thread: see ulimit -u, -v and -d, and pids.max of the control group";
                else if (r == -ENOMEM)
                        advice = "see ulimit -v and -d, and the log";
                if (r == -ENODEV && steps[i].invalid)
                        r = -EINVAL;
                if (r < 0 && worker->start_reason[0])
                        return worker_fail(r, "%s", worker->start_reason);
                if (r == -EINVAL && steps[i].invalid)
                        return worker_fail(r, "%s", steps[i].invalid);
                if (r < 0)
                        return worker_fail(r, "%s could not be started: %s (%s)", steps[i].what, strerror(-r), advice);
        }
        return worker_join_registry(worker);
}
