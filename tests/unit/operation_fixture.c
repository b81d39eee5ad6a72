/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

#include "base/log.h"

const struct operation_limits default_limits = {
        .ttl_ms_default = 600000,
        .ttl_ms_max = 3600000,
        .timeout_ms_max = 3600000,
        .stall_ms = 30000,
        .absence_ms = 600000,
        .retention_ms = 600000,
        .operations_max = 100,
        .pieces_max = 1 << 20,
        .terminal_max = 50,
        .gone_max = 20,
        .uses_max = 8,
};

static int fake_register(void *context, const struct region *region, void **ret_registration)
{
        *ret_registration = region->address;
        return 0;
}

static void fake_deregister(void *context, void *registration)
{
}

static int fake_start(void *context, const struct engine_transfer *transfer)
{
        struct fixture *f = context;
        int r;

        pthread_mutex_lock(&f->data_plane.lock);
        f->data_plane.transfer = *transfer;
        f->data_plane.n_started++;
        r = f->data_plane.start_result;
        pthread_mutex_unlock(&f->data_plane.lock);
        if (f->data_plane.cancel_in_start)
                operation_cancel(f->store, f->data_plane.cancel_in_start);
        if (f->data_plane.started_in_start)
                transfer->started(transfer->context);
        if (f->data_plane.end_in_start) {
                transfer->ended(transfer->context, f->data_plane.end_in_start);
                operation_store_wake_waiters(f->store);
        }
        return r;
}

static void fake_cancel(void *context, uint64_t id, int reason)
{
        struct fixture *f = context;

        pthread_mutex_lock(&f->data_plane.lock);
        f->data_plane.n_cancelled++;
        f->data_plane.cancelled = id;
        f->data_plane.cancel_reason = reason;
        pthread_cond_broadcast(&f->data_plane.changed);
        pthread_mutex_unlock(&f->data_plane.lock);
}

static void fake_revoke(void *context, uint64_t operation, int reason, int wire_reason)
{
        struct fixture *f = context;

        pthread_mutex_lock(&f->data_plane.lock);
        f->data_plane.n_revoked++;
        f->data_plane.revoked = operation;
        f->data_plane.revoke_reason = reason;
        f->data_plane.revoke_wire = wire_reason;
        pthread_cond_broadcast(&f->data_plane.changed);
        pthread_mutex_unlock(&f->data_plane.lock);
}

static void fake_look(void *context)
{
        struct fixture *f = context;

        pthread_mutex_lock(&f->data_plane.lock);
        f->data_plane.n_looks++;
        pthread_mutex_unlock(&f->data_plane.lock);
}

static void fixture_store(struct fixture *f, const struct operation_limits *limits)
{
        struct operation_config config = {
                .epoch = EPOCH,
                .limits = *limits,
                .data_plane = { fake_start, fake_cancel, fake_revoke, fake_look, f },
                .loop = f->loop,
                .metrics = f->metrics,
                .observer = f->observer,
        };

        assert_int_equal(operation_store_new(&config, &f->store), 0);
}

void fixture_limits(struct fixture *f, const struct operation_limits *limits)
{
        f->store = operation_store_free(f->store);
        fixture_store(f, limits);
}

int fixture_setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        struct region_config config = { .memory_limit = 4 * REGION_SIZE,
                                        .max_regions = 8,
                                        .registrar = { fake_register, fake_deregister, f } };
        const struct region_spec region = { .size = REGION_SIZE, .device = "cpu" };

        log_setup(LOG_ERROR, LOG_LOGFMT);
        assert_non_null(f);
        pthread_mutex_init(&f->data_plane.lock, NULL);
        pthread_cond_init(&f->data_plane.changed, NULL);
        assert_int_equal(loop_new("test", &f->loop), 0);
        assert_int_equal(metrics_new(&f->metrics), 0);
        assert_int_equal(region_table_new(&config, &f->regions), 0);
        assert_int_equal(region_create(f->regions, &region, &f->region, NULL), 0);
        assert_int_equal(region_create(f->regions, &region, &f->other, NULL), 0);
        fixture_store(f, &default_limits);
        *state = f;
        return 0;
}

int fixture_teardown(void **state)
{
        struct fixture *f = *state;

        f->store = operation_store_free(f->store);
        f->loop = loop_free(f->loop);
        assert_int_equal(region_in_use(f->region), 0);
        assert_int_equal(region_in_use(f->other), 0);
        f->region = region_unref(f->region);
        f->other = region_unref(f->other);
        f->regions = region_table_free(f->regions);
        f->metrics = metrics_free(f->metrics);
        pthread_cond_destroy(&f->data_plane.changed);
        pthread_mutex_destroy(&f->data_plane.lock);
        free(f);
        return 0;
}

TEST_KEEPS(operation, struct operation, operation_unref)

int make_spec(struct fixture *f, const struct operation_spec *spec, struct operation **ret_operation)
{
        struct operation_slice slice = { f->region, 512, 4096 };
        struct operation_spec copy = *spec;
        int r;

        if (!copy.slices) {
                copy.slices = &slice;
                copy.n_slices = 1;
        }
        r = operation_create(f->store, &copy, ret_operation, f->detail);
        if (r == 0)
                (void)keep_operation(*ret_operation);
        return r;
}

struct operation *make(struct fixture *f, enum ferry_kind kind)
{
        struct operation *operation = NULL;

        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = kind }, &operation), 0);
        return operation;
}

struct operation *make_readers(struct fixture *f, uint32_t readers, uint64_t ttl_ms)
{
        struct operation_spec spec = { .kind = FERRY_READABLE, .uses = readers, .ttl_ms = ttl_ms };
        struct operation *operation = NULL;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        return operation;
}

struct operation_view look(struct fixture *f, struct operation *operation)
{
        struct operation_view view;

        operation_get_view(f->store, operation, &view);
        return view;
}

struct ferry_metadata *metadata_of(struct fixture *f, struct operation *operation)
{
        struct ferry_metadata *metadata = NULL;

        assert_int_equal(operation_metadata(f->store, operation, &metadata), 0);
        return metadata;
}

struct engine_claim_request request_for(struct fixture *f, struct operation *operation)
{
        struct operation_view view = look(f, operation);
        struct ferry_metadata *metadata = metadata_of(f, operation);
        struct engine_claim_request request = {
                .operation = view.id,
                .transfer = random_id(),
                .direction = view.kind == FERRY_READABLE ? ENGINE_READ : ENGINE_WRITE,
                .total = view.bytes_total,
                .whole = view.bytes_total,
        };

        memcpy(request.key, metadata->key, sizeof(request.key));
        (void)ferry_metadata_free(metadata);
        return request;
}

int claim(struct fixture *f, struct operation *operation, struct engine_claim *ret_claim)
{
        struct engine_claim_request request = request_for(f, operation);
        int r = operation_store_claim(f->store, &request, ret_claim);

        operation_store_wake_waiters(f->store);
        return r;
}

struct ferry_metadata *peer_metadata(enum ferry_kind active)
{
        struct ferry_metadata *metadata = calloc(1, sizeof(*metadata));

        assert_non_null(metadata);
        metadata->descriptors = calloc(1, sizeof(metadata->descriptors[0]));
        assert_non_null(metadata->descriptors);
        metadata->operation_kind = active == FERRY_READ ? FERRY_METADATA_READ : FERRY_METADATA_WRITE;
        memset(metadata->key, 7, sizeof(metadata->key));
        metadata->protocol = FERRY_PROTOCOL;
        strcpy(metadata->data, "127.0.0.1:9");
        metadata->epoch = EPOCH + 1;
        metadata->operation = 0x2222;
        metadata->n_descriptors = 1;
        metadata->descriptors[0] = (struct ferry_metadata_descriptor){ "cpu", 1, 4096 };
        return metadata;
}

void begin(struct fixture *f, struct operation *operation)
{
        struct ferry_metadata *metadata = peer_metadata(look(f, operation).kind);
        char detail[OPERATION_DETAIL_SIZE];

        assert_int_equal(operation_begin(f->store, operation, metadata, false, detail), 0);
        (void)ferry_metadata_free(metadata);
}

void end(struct fixture *f, void (*ended)(void *, const struct engine_outcome *), void *context, int error,
         uint64_t bytes)
{
        struct engine_outcome outcome = { .error = error, .bytes = bytes, .transport = "shm" };

        ended(context, &outcome);
        operation_store_wake_waiters(f->store);
}

void end_claim(struct fixture *f, const struct engine_claim *granted, int error)
{
        end(f, granted->ended, granted->context, error, error ? 0 : granted->total);
}

void end_transfer(struct fixture *f, int error)
{
        end(f, f->data_plane.transfer.ended, f->data_plane.transfer.context, error,
            error ? 0 : f->data_plane.transfer.total);
}

struct signal {
        struct bell bell;
        struct operation_waiter waiter;
        struct loop_timer timer;
};

static void waiter_woken(struct operation_waiter *waiter)
{
        bell_ring(&FERRY_CONTAINER_OF(waiter, struct signal, waiter)->bell);
}

long series_value(struct fixture *f, const char *series)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        const char *line;
        size_t size;

        text = metrics_render(f->metrics, &size);
        assert_non_null(text);
        line = strstr(text, series);
        return line ? strtol(line + strlen(series), NULL, 10) : -1;
}

void await(struct fixture *f, struct operation *operation, uint64_t revision)
{
        struct signal signal = { .bell = BELL, .waiter.wake = waiter_woken };

        if (operation_wait(f->store, operation, revision, &signal.waiter))
                bell_await(&signal.bell, 1);
}

static void timer_passed(struct loop_timer *timer)
{
        bell_ring(&FERRY_CONTAINER_OF(timer, struct signal, timer)->bell);
}

void await_loop(struct fixture *f, uint64_t at_us)
{
        struct signal signal = { .bell = BELL, .timer.fired = timer_passed };

        assert_int_equal(loop_timer_start(f->loop, &signal.timer, at_us), 0);
        bell_await(&signal.bell, 1);
}

static void await_count(struct fixture *f, const unsigned *count, unsigned n)
{
        pthread_mutex_lock(&f->data_plane.lock);
        WAIT_SIGNAL(&f->data_plane.changed, &f->data_plane.lock, *count >= n);
        pthread_mutex_unlock(&f->data_plane.lock);
}

void await_revokes(struct fixture *f, unsigned n)
{
        await_count(f, &f->data_plane.n_revoked, n);
}

void await_cancels(struct fixture *f, unsigned n)
{
        await_count(f, &f->data_plane.n_cancelled, n);
}
