/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/metrics.h"
#include "base/util.h"
#include "fabric_internal.h"

enum { TRANSPORTS_MAX = 32 };

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
        return value ? value : fallback;
}

static void make_metrics(struct fabric *fabric, struct metrics *metrics)
{
        static const char *const side_label[] = { "side" };
        struct metric_family *endpoints = metrics_family(metrics, METRIC_GAUGE, "ferry_endpoints",
                                                         "Open endpoints to other workers.", 1, side_label, NULL, 0);
        struct metric_family *failures =
                metrics_family(metrics, METRIC_COUNTER, "ferry_endpoint_failures_total",
                               "Endpoints that failed while something moved over them.", 0, NULL, NULL, 0);
        struct metric_family *refused =
                metrics_family(metrics, METRIC_COUNTER, "ferry_refused_requests_total",
                               "Requests of peers that the data plane refused.", 0, NULL, NULL, 0);

        for (int i = 0; i < SIDE_COUNT; i++)
                fabric->metric_peers[i] = metric_get(endpoints, (const char *const[]){ fabric->sides[i].name });
        fabric->metric_failures = metric_get(failures, NULL);
        fabric->metric_refused = metric_get(refused, NULL);
}

static void collect_facts(struct fabric *fabric)
{
        struct fabric_facts *facts = &fabric->facts;
        unsigned major, minor, release;
        size_t n = 0;

        ucp_get_version(&major, &minor, &release);
        (void)snprintf(facts->ucx_version, sizeof(facts->ucx_version), "%u.%u.%u", major, minor, release);
        for (int i = 0; i < SIDE_COUNT; i++) {
                struct side *side = &fabric->sides[i];
                ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };

                if (!side->worker)
                        continue;
                if (ucp_context_query(side->context, &attr) == UCS_OK)
                        facts->memory_types |= attr.memory_types;
                n = side_transports(side, (char **)fabric->transports, n, TRANSPORTS_MAX);
        }
        facts->cuda = (facts->memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
        facts->local_address = fabric->local_address;
        facts->local_address_size = fabric->local_address ? fabric->sides[SIDE_LOCAL].address_size : 0;
        facts->transports = fabric->transports;
        facts->n_transports = n;
}

static void release(struct fabric *fabric)
{
        for (int i = 0; i < SIDE_COUNT; i++)
                side_close(&fabric->sides[i]);
        peers_free_all(fabric);
        mappings_clear(&fabric->mappings);
        (void)leases_free(fabric->leases);
        messages_clear(fabric);
        if (fabric->wake_fd >= 0)
                (void)close(fabric->wake_fd);
        if (fabric->epoll_fd >= 0)
                (void)close(fabric->epoll_fd);
        for (size_t i = 0; fabric->transports && i < fabric->facts.n_transports; i++)
                free((char *)fabric->transports[i]);
        free(fabric->transports);
        free(fabric->local_address);
        (void)pthread_mutex_destroy(&fabric->turn);
        (void)pthread_cond_destroy(&fabric->command_done);
        (void)pthread_mutex_destroy(&fabric->command_lock);
        free(fabric);
}

static struct fabric *allocate(const struct fabric_config *config)
{
        struct fabric *fabric = calloc(1, sizeof(*fabric));

        if (!fabric)
                return NULL;
        fabric->epoch = config->epoch;
        fabric->window = or_default(config->window, FABRIC_WINDOW_DEFAULT);
        fabric->spin_us = or_default(config->spin_us, FABRIC_SPIN_DEFAULT_US);
        fabric->grace_us = or_default(config->grace_ms, FABRIC_GRACE_MS) * UINT64_C(1000);
        fabric->connect_us = or_default(config->connect_ms, FABRIC_CONNECT_MS) * UINT64_C(1000);
        fabric->operations = config->operations;
        fabric->local_moved = config->local_moved;
        fabric->local_context = config->local_context;
        (void)pthread_mutex_init(&fabric->command_lock, NULL);
        (void)pthread_cond_init(&fabric->command_done, NULL);
        (void)pthread_mutex_init(&fabric->turn, NULL);
        fabric->sides[SIDE_LOCAL] = (struct side){ .fabric = fabric,
                                                   .name = "local",
                                                   .event_fd = -1,
                                                   .chunk_size = or_default(config->chunk_size, FABRIC_CHUNK_LOCAL) };
        fabric->sides[SIDE_NETWORK] =
                (struct side){ .fabric = fabric,
                               .name = "network",
                               .event_fd = -1,
                               .chunk_size = or_default(config->chunk_size, FABRIC_CHUNK_NETWORK) };
        fabric->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        fabric->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        fabric->transports = calloc(TRANSPORTS_MAX, sizeof(*fabric->transports));
        return fabric;
}

static int copy_local_address(struct fabric *fabric)
{
        const struct side *side = &fabric->sides[SIDE_LOCAL];

        fabric->local_address = malloc(side->address_size);
        if (!fabric->local_address)
                return -ENOMEM;
        memcpy(fabric->local_address, side->address, side->address_size);
        return 0;
}

int fabric_new(const struct fabric_config *config, struct fabric **ret_fabric)
{
        struct fabric *fabric;
        int r = 0;

        if ((config->chunk_size && (config->chunk_size < FABRIC_CHUNK_MIN || config->chunk_size > WIRE_CHUNK_MAX)) ||
            config->window > FABRIC_WINDOW_MAX)
                return -EINVAL;
        ucx_log_setup();
        fabric = allocate(config);
        if (!fabric)
                return -ENOMEM;
        if (fabric->wake_fd < 0 || fabric->epoll_fd < 0 || !fabric->transports)
                r = -ENOMEM;
        if (r == 0 && config->local)
                r = side_open(&fabric->sides[SIDE_LOCAL], config);
        if (r == 0 && config->local)
                r = copy_local_address(fabric);
        if (r == 0 && config->data_listen)
                r = side_open(&fabric->sides[SIDE_NETWORK], config);
        if (r == 0) {
                make_metrics(fabric, config->metrics);
                collect_facts(fabric);
                r = thread_start(fabric);
        }
        if (r < 0) {
                release(fabric);
                return r;
        }
        *ret_fabric = fabric;
        return 0;
}

void fabric_leave(struct fabric *fabric)
{
        atomic_store(&fabric->leaving, true);
}

void fabric_stop(struct fabric *fabric)
{
        struct command command = { .type = COMMAND_STOP };
        int r;

        /* Only a lack of memory can hold it up, and then waiting for some is all there is to do. */
        while ((r = command_post(fabric, &command)) == -ENOMEM)
                (void)sched_yield();
        if (r == 0)
                (void)pthread_join(fabric->thread, NULL);
}

struct fabric *fabric_free(struct fabric *fabric)
{
        if (!fabric)
                return NULL;
        fabric_stop(fabric);
        release(fabric);
        return NULL;
}

const struct fabric_facts *fabric_get_facts(const struct fabric *fabric)
{
        return &fabric->facts;
}

int fabric_memory_register(struct fabric *fabric, void *address, size_t size, uint64_t file,
                           struct fabric_memory **ret_memory)
{
        struct fabric_memory *memory = calloc(1, sizeof(*memory));
        struct command command = { .type = COMMAND_REGISTER, .memory = memory };
        int r;

        if (!memory)
                return -ENOMEM;
        memory->address = address;
        memory->size = size;
        memory->file = file;
        r = command_call(fabric, &command);
        if (r < 0) {
                fabric_memory_unregister(fabric, memory);
                return r;
        }
        *ret_memory = memory;
        return 0;
}

void fabric_memory_unregister(struct fabric *fabric, struct fabric_memory *memory)
{
        struct command command = { .type = COMMAND_UNREGISTER, .memory = memory };

        if (!memory)
                return;
        if (command_call(fabric, &command) == -ESHUTDOWN)
                memory_release(fabric, memory);
        free(memory);
}

int fabric_transfer_start(struct fabric *fabric, const struct fabric_transfer *spec)
{
        struct command command = { .type = COMMAND_START };
        int r = transfer_new(fabric, spec, &command.transfer);

        if (r < 0)
                return r;
        r = spec->awaited ? turn_start(fabric, &command) : command_post(fabric, &command);
        if (r < 0)
                transfer_free(command.transfer);
        return r;
}

int fabric_connect(struct fabric *fabric, const struct fabric_connect *spec)
{
        struct command command = { .type = COMMAND_CONNECT };
        int r = connect_new(fabric, spec, &command.connect);

        if (r < 0)
                return r;
        r = command_post(fabric, &command);
        if (r < 0)
                connect_free(command.connect);
        return r;
}

void fabric_transfer_cancel(struct fabric *fabric, uint64_t id, int reason)
{
        struct command command = { .type = COMMAND_CANCEL, .id = id, .reason = reason };

        (void)command_post(fabric, &command);
}

void fabric_offer_revoke(struct fabric *fabric, uint64_t operation, int reason, int wire_reason)
{
        struct command command = {
                .type = COMMAND_REVOKE, .id = operation, .reason = reason, .wire_reason = wire_reason
        };

        (void)command_post(fabric, &command);
}
