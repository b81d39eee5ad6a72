/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "base/util.h"
#include "command.h"
#include "connect.h"
#include "engine_internal.h"
#include "move/engine.h"
#include "move/local.h"
#include "move/ucx.h"
#include "peer.h"
#include "requester.h"
#include "resolver.h"

/* The names of carriers, as users read and write them. A constant table: any thread. */

static const struct {
        enum engine_carrier carrier;
        const char *name;
} carriers[] = {
        { ENGINE_CARRIER_SHM, "shm" },   { ENGINE_CARRIER_TCP, "tcp" },     { ENGINE_CARRIER_RDMA, "rdma" },
        { ENGINE_CARRIER_HTTP, "http" }, { ENGINE_CARRIER_HTTPS, "https" },
};

unsigned engine_carrier_from_name(const char *name, size_t length)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(carriers); i++)
                if (strlen(carriers[i].name) == length && memcmp(carriers[i].name, name, length) == 0)
                        return carriers[i].carrier;
        return 0;
}

const char *engine_carrier_name(size_t i)
{
        return i < FERRY_ARRAY_SIZE(carriers) ? carriers[i].name : NULL;
}

/*
 * The engine, from engine_new() to engine_free(), and its public functions, which only check, copy and queue a command:
 * round.c runs them. engine_new() opens the transports in order of preference, local before UCX, and starts the thread;
 * engine_stop() has it end all transfers and links; after that memory may be deregistered, but nothing else begins.
 *
 * Contract: move/engine.h. Thread: any, unless a function says otherwise.
 */

static void make_metrics(struct engine *engine, struct metrics *metrics)
{
        static const char *const label[] = { "transport" };
        struct metric_family *links =
                metrics_family(metrics, METRIC_GAUGE, "ferry_links", "Open links to other workers.", 1, label, NULL, 0);

        for (size_t i = 0; i < engine->n_transports; i++)
                engine->metric_links[i] = metric_get(links, (const char *const[]){ engine->transports[i]->name });
        engine->metric_failures = metric_single(metrics, METRIC_COUNTER, "ferry_link_failures_total",
                                                "Links that failed while something moved over them.");
        engine->metric_refused = metric_single(metrics, METRIC_COUNTER, "ferry_refused_requests_total",
                                               "Requests of peers that the data plane refused.");
        engine->metric_wakes = metric_single(metrics, METRIC_COUNTER, "ferry_data_plane_wakes_total",
                                             "How often the data plane's thread was woken.");
        engine->metric_claims = metric_single(metrics, METRIC_GAUGE, "ferry_claims",
                                              "Transfers of peers that the data plane has under way.");
}

/*
 * The network transport is open. Thread: the holder of the progress lock, or engine_new(). Others look at no fact of
 * the network before network_waits is false.
 */
static void on_opened(void *context, struct transport *transport)
{
        const struct ucx_facts *ucx = ucx_transport_facts(transport);
        struct engine_facts *facts = &((struct engine *)context)->facts;

        facts->device = ucx->device;
        memcpy(facts->data_address, ucx->data_address, sizeof(facts->data_address));
        facts->transports = ucx->transports;
        facts->n_transports = ucx->n_transports;
        atomic_store(&facts->network_waits, false);
}

static void collect_facts(struct engine *engine)
{
        static const char *const shm[] = { "shm" };
        struct engine_facts *facts = &engine->facts;

        if (engine->local) {
                facts->local_directory = local_transport_directory(engine->local);
                facts->transports = shm;
                facts->n_transports = FERRY_ARRAY_SIZE(shm);
        }
        if (!engine->ucx)
                return;
        ucx_version(facts->ucx_version, sizeof(facts->ucx_version));
        atomic_store(&facts->network_waits, true);
        if (ucx_transport_facts(engine->ucx)->data_address[0])
                on_opened(engine, engine->ucx);
}

static void warn_without_transport(const struct engine *engine)
{
        if (!engine->local && !engine_network_is_open(&engine->facts))
                log_event(LOG_WARN, "no transport but HTTP", LOG_S("local", "off"),
                          LOG_S("network", engine->ucx ? "waits for its address" : "off"),
                          LOG_S("advice", "see --local and --data-listen"));
}

static int open_local(struct engine *engine, const struct engine_config *config)
{
        const struct transport_handlers handlers = message_handlers(engine);
        const struct local_config local = {
                .epoch = config->epoch,
                .directory = config->local,
                .copy_threads = config->copy_threads,
                .max_links = config->max_links,
                .max_mappings = engine->facts.mappings_max,
                .metrics = config->metrics,
        };
        int r = local_transport_new(&local, &handlers, engine->n_transports, &engine->local);

        if (r == 0)
                engine->transports[engine->n_transports++] = engine->local;
        return r;
}

_Static_assert((int)ENGINE_REASON_SIZE == (int)TRANSPORT_REASON_SIZE, "a transport's reason is passed on");

static int open_ucx(struct engine *engine, const struct engine_config *config)
{
        struct transport_handlers handlers = message_handlers(engine);
        const struct ucx_config ucx = {
                .data_listen = config->data_listen,
                .advertise = config->advertise,
                .ucx_tls = config->ucx_tls,
                .interfaces = config->interfaces,
                .gpu_direct = config->gpu_direct,
                .chunk_size = config->chunk_size,
                .window = config->window,
                .detail = config->reason,
        };
        int r;

        handlers.opened = on_opened;
        r = ucx_transport_new(&ucx, &handlers, engine->n_transports, &engine->ucx);
        if (r == 0)
                engine->transports[engine->n_transports++] = engine->ucx;
        return r;
}

/*
 * Frees an engine whose thread has ended, or was never started. After resolver_stop() no thread of the pool touches it.
 */
static void release(struct engine *engine)
{
        for (size_t i = 0; i < engine->n_transports; i++)
                engine->transports[i]->ops->free(engine->transports[i]);
        peers_clear(engine);
        resolver_stop(engine);
        pool_user_free(engine->tasks);
        free(engine->commands.all);
        free(engine->taken_commands.all);
        cleanup_close(&engine->wake_fd);
        cleanup_close(&engine->epoll_fd);
        (void)pthread_mutex_destroy(&engine->progress_lock);
        (void)pthread_rwlock_destroy(&engine->http_lock);
        (void)pthread_cond_destroy(&engine->command_done);
        (void)pthread_mutex_destroy(&engine->command_lock);
        free(engine);
}

static struct engine *allocate(const struct engine_config *config)
{
        struct engine *engine = calloc(1, sizeof(*engine));

        if (!engine)
                return NULL;
        engine->epoch = config->epoch;
        (void)snprintf(engine->name, sizeof(engine->name), "%s", config->name ?: "");
        engine->name_segment = (struct segment){ .address = (uint8_t *)engine->name, .size = strlen(engine->name) };
        (void)stream_init(&engine->name_stream, &engine->name_segment, 1);
        engine->spin_us = config->spin_us ?: ENGINE_SPIN_DEFAULT_US;
        engine->max_links = config->max_links ?: TRANSPORT_LINKS_DEFAULT;
        engine->max_claims = config->max_claims ?: ENGINE_CLAIMS_MAX;
        engine->grace_us = (config->grace_ms ?: ENGINE_GRACE_MS) * UINT64_C(1000);
        engine->facts.mappings_max = config->max_mappings ?: local_mappings_default();
        engine->connect_us = (config->connect_ms ?: ENGINE_CONNECT_MS) * UINT64_C(1000);
        engine->allowlist = config->allowlist;
        engine->operations = config->operations;
        engine->observer = config->observer;
        (void)pthread_mutex_init(&engine->command_lock, NULL);
        (void)pthread_cond_init(&engine->command_done, NULL);
        (void)pthread_mutex_init(&engine->progress_lock, NULL);
        (void)pthread_rwlock_init(&engine->http_lock, NULL);
        engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        return engine;
}

/* The order counts: the metrics name the transports that are open, and the thread may use all of it at once. */
int engine_new(const struct engine_config *config, struct engine **ret_engine)
{
        struct engine *engine;
        int r;

        /* A transfer has at most ENGINE_WINDOW_MAX chunks in flight, and could not fill a larger window of its link. */
        if ((config->chunk_size && (config->chunk_size < ENGINE_CHUNK_MIN || config->chunk_size > WIRE_CHUNK_MAX)) ||
            config->window > ENGINE_WINDOW_MAX)
                return -EINVAL;
        engine = allocate(config);
        if (!engine)
                return -ENOMEM;
        r = engine->wake_fd < 0 || engine->epoll_fd < 0 ? -EMFILE : commands_init(engine);
        if (r == 0)
                r = pool_user_new(NULL, NULL, &engine->tasks);
        if (r == 0 && config->local)
                r = open_local(engine, config);
        if (r == 0 && config->data_listen)
                r = open_ucx(engine, config);
        if (r == 0) {
                make_metrics(engine, config->metrics);
                collect_facts(engine);
                warn_without_transport(engine);
                r = thread_start(engine);
        }
        if (r < 0) {
                release(engine);
                return r;
        }
        *ret_engine = engine;
        return 0;
}

void engine_stop(struct engine *engine)
{
        if (command_post(engine, &(struct command){ .type = COMMAND_STOP }) == 0)
                (void)pthread_join(engine->thread, NULL);
}

struct engine *engine_free(struct engine *engine)
{
        if (!engine)
                return NULL;
        engine_stop(engine);
        release(engine);
        return NULL;
}

const struct engine_facts *engine_get_facts(const struct engine *engine)
{
        return &engine->facts;
}

void engine_unlink_socket(const struct engine *engine)
{
        if (engine->local)
                local_transport_unlink(engine->local);
}

int engine_memory_register(struct engine *engine, const struct engine_memory *spec, struct memory **ret_memory)
{
        struct memory *memory = calloc(1, sizeof(*memory));

        if (!memory)
                return -ENOMEM;
        memory->address = spec->address;
        memory->size = spec->size;
        memory->space = spec->space;
        memory->fd = spec->fd;
        memory->id = spec->id;
        if (!spec->space)
                memory->pin = (struct gpu_pin){ .address = spec->address, .size = spec->size };
        for (size_t i = 0; i < engine->n_transports; i++) {
                int r = engine->transports[i]->ops->register_memory(engine->transports[i], memory);

                if (r == 0)
                        continue;
                engine_memory_deregister(engine, memory);
                return r;
        }
        *ret_memory = memory;
        return 0;
}

void engine_memory_deregister(struct engine *engine, struct memory *memory)
{
        struct command command = { .type = COMMAND_DEREGISTER, .memory = memory };

        if (!memory)
                return;
        /* The engine's thread may still be closing the links, or there is no memory for a command. */
        if (command_call(engine, &command) < 0) {
                progress_lock(engine);
                round_deregister_memory(engine, memory);
                progress_unlock(engine);
                engine_wake(engine); /* it may sleep, and the transports were not armed again */
        }
        gpu_pin_end(&memory->pin);
        if (space_gpu(memory->space) >= 0 && !gpu_await_closed(memory->space, ENGINE_CLOSE_MS))
                log_event(LOG_WARN, "GPU memory freed while a local peer that does not answer has it open",
                          LOG_U("size", memory->size));
        free(memory);
}

unsigned engine_memory_gpu(const struct memory *memory)
{
        return gpu_is_pinned(&memory->pin) ? 1 + memory->pin.gpu : 0;
}

int engine_transfer_start(void *context, const struct engine_transfer *spec)
{
        struct engine *engine = context;
        struct command command = { .type = COMMAND_START };
        int r = requester_new(engine, spec, &command.requester);

        if (r < 0)
                return r;
        r = spec->may_run_inline ? progress_start_inline(engine, &command, spec->id, spec->total)
                                 : command_post(engine, &command);
        if (r < 0)
                requester_free(command.requester);
        return r;
}

int engine_connect(struct engine *engine, const struct engine_connect *spec)
{
        struct command command = { .type = COMMAND_CONNECT };
        int r = connect_request_new(engine, spec, &command.connect);

        if (r < 0)
                return r;
        r = command_post(engine, &command);
        if (r < 0)
                connect_request_free(command.connect);
        return r;
}

ssize_t engine_peers_page(struct engine *engine, uint64_t *cursor, struct engine_peer_view *page, size_t max)
{
        struct peers_page peers = { .cursor = *cursor, .views = page, .max = max };
        int r = command_call(engine, &(struct command){ .type = COMMAND_LIST_PEERS, .page = &peers });

        if (r < 0)
                return r;
        *cursor = peers.cursor;
        return (ssize_t)peers.n;
}

void engine_note_http(void *context, const struct engine_http_note *note)
{
        struct engine_http_note *copy = note->epoch ? malloc(sizeof(*copy)) : NULL;

        if (!copy)
                return;
        *copy = *note;
        if (command_post(context, &(struct command){ .type = COMMAND_NOTE_HTTP, .note = copy }) < 0)
                free(copy);
}

void engine_transfer_cancel(void *context, uint64_t id, int reason)
{
        struct engine *engine = context;

        (void)command_post(engine, &(struct command){ .type = COMMAND_CANCEL, .id = id, .reason = reason });
        engine_http_cancel(engine, id,
                           reason); /* one that is being handed over asks whether it is to stop when it begins */
}

void engine_claims_revoke(void *context, uint64_t operation, int reason, int wire_reason)
{
        (void)command_post(context, &(struct command){ .type = COMMAND_REVOKE,
                                                       .id = operation,
                                                       .reason = reason,
                                                       .wire_reason = wire_reason });
}

void engine_held_reads_retry(void *context)
{
        struct engine *engine = context;

        if (!atomic_exchange(&engine->held_reads_due, true))
                engine_wake(engine);
}
