/* SPDX-License-Identifier: Apache-2.0 */
#include "node_fixture.h"

#include <ferry/error.h>

#include "base/util.h"
#include "local_directory.h"
#include "unit.h"

enum { NODE_CHUNK = 64 << 10, NODE_USES_MAX = 8 };

static int on_claim(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        struct node *node = context;
        int r = FERRY_E_STALE_METADATA;

        pthread_rwlock_rdlock(&node->lock);
        if (node->store)
                r = operation_store_claim(node->store, request, ret_claim);
        pthread_rwlock_unlock(&node->lock);
        return r;
}

static void on_wake_waiters(void *context)
{
        struct node *node = context;

        pthread_rwlock_rdlock(&node->lock);
        if (node->store)
                operation_store_wake_waiters(node->store);
        pthread_rwlock_unlock(&node->lock);
}

static int on_start(void *context, const struct engine_transfer *transfer)
{
        return engine_transfer_start(((struct node *)context)->engine, transfer);
}

static void on_cancel(void *context, uint64_t id, int reason)
{
        engine_transfer_cancel(((struct node *)context)->engine, id, reason);
}

static void on_revoke(void *context, uint64_t operation, int reason, int wire_reason)
{
        engine_claims_revoke(((struct node *)context)->engine, operation, reason, wire_reason);
}

static void on_look(void *context)
{
        engine_held_reads_retry(((struct node *)context)->engine);
}

static int on_register(void *context, const struct region *region, void **ret_registration)
{
        const struct engine_memory spec = { region->address, region->size, region->space, region->fd, region->id };
        struct memory *memory = NULL;
        int r = engine_memory_register(((struct node *)context)->engine, &spec, &memory);

        *ret_registration = memory;
        return r;
}

static void on_deregister(void *context, void *registration)
{
        engine_memory_deregister(((struct node *)context)->engine, registration);
}

void node_open(struct node *node, struct loop *loop, bool network, const struct node_limits *limits)
{
        const struct engine_config engine = {
                .epoch = node->epoch = random_id(),
                .local = network ? NULL : local_directory(),
                .data_listen = network ? "127.0.0.1:0" : NULL,
                .ucx_tls = network ? "tcp,self" : NULL,
                .chunk_size = NODE_CHUNK,
                .grace_ms = limits->grace_ms,
                .connect_ms = limits->connect_ms,
                .operations = { .claim = on_claim, .wake_waiters = on_wake_waiters, .context = node },
        };
        const struct operation_config operations = {
                .epoch = node->epoch,
                .limits = { .ttl_ms_default = limits->ttl_ms,
                            .ttl_ms_max = limits->ttl_ms,
                            .stall_ms = limits->stall_ms,
                            .retention_ms = 600000,
                            .operations_max = 1000,
                            .pieces_max = OPERATION_PIECES_MAX,
                            .terminal_max = 1000,
                            .gone_max = 100,
                            .uses_max = NODE_USES_MAX },
                .data_plane = { on_start, on_cancel, on_revoke, on_look, node },
                .loop = loop,
        };
        const struct region_config regions = { .memory_limit = 2 * limits->size,
                                               .max_regions = 1,
                                               .registrar = { on_register, on_deregister, node } };
        const struct region_spec region = { .size = limits->size, .device = "cpu" };

        pthread_rwlock_init(&node->lock, NULL);
        assert_int_equal(engine_new(&engine, &node->engine), 0);
        assert_int_equal(region_table_new(&regions, &node->regions), 0);
        assert_int_equal(region_create(node->regions, &region, &node->region, NULL), 0);
        assert_int_equal(region_await(node->region), 0);
        pthread_rwlock_wrlock(&node->lock);
        assert_int_equal(operation_store_new(&operations, &node->store), 0);
        pthread_rwlock_unlock(&node->lock);
}

void node_close(struct node *node)
{
        engine_stop(node->engine);
        pthread_rwlock_wrlock(&node->lock);
        node->store = operation_store_free(node->store);
        pthread_rwlock_unlock(&node->lock);
}

void node_free(struct node *node)
{
        assert_int_equal(region_in_use(node->region), 0);
        node->region = region_unref(node->region);
        node->regions = region_table_free(node->regions);
        node->engine = engine_free(node->engine);
        pthread_rwlock_destroy(&node->lock);
}
