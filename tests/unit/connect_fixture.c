/* SPDX-License-Identifier: Apache-2.0 */
#include "connect_fixture.h"

#include <ferry/status.h>

#include "base/clock.h"
#include "base/util.h"
#include "local_directory.h"

static void ignore_progress(void *context, uint64_t bytes)
{
}

static void ignore_ended(void *context, const struct engine_outcome *outcome)
{
        assert_int_equal(outcome->connect_us, 0); /* the passive side connects to nobody */
}

static int grant(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        struct end *end = context;

        *ret_claim = (struct engine_claim){ .segments = &end->segment,
                                            .n_segments = 1,
                                            .total = end->segment.size,
                                            .progress = ignore_progress,
                                            .ended = ignore_ended };
        return 0;
}

static pthread_mutex_t notice_lock = PTHREAD_MUTEX_INITIALIZER;

/* Thread: the end's own. */
static int note(void *context, const struct engine_notice *notice, int *ret_status, uint64_t *ret_left_ms)
{
        struct end *end = context;
        int error;

        (void)pthread_mutex_lock(&notice_lock);
        end->heard.last = *notice;
        end->heard.n++;
        error = end->refuses;
        (void)pthread_mutex_unlock(&notice_lock);
        *ret_status = FERRY_CANCELLED;
        *ret_left_ms = notice->ttl_ms + 5;
        return error;
}

struct heard heard_by(const struct end *end)
{
        struct heard heard;

        (void)pthread_mutex_lock(&notice_lock);
        heard = end->heard;
        (void)pthread_mutex_unlock(&notice_lock);
        return heard;
}

void end_refuses(struct end *end, int error)
{
        (void)pthread_mutex_lock(&notice_lock);
        end->refuses = error;
        (void)pthread_mutex_unlock(&notice_lock);
}

void end_start(struct end *end, bool local, bool network, size_t size)
{
        struct engine_config config = {
                .epoch = end->epoch = end->data_listen ? end->epoch : random_id(),
                .name = end->name,
                .local = local ? local_directory() : NULL,
                .data_listen = network ? end->data_listen ?: "127.0.0.1:0" : NULL,
                .ucx_tls = network ? "tcp,self" : NULL,
                .grace_ms = 500,
                .connect_ms = CONNECT_MS,
                .operations = { .claim = grant, .notice = note, .context = end },
        };

        assert_int_equal(engine_new(&config, &end->engine), 0);
        end->segment = (struct segment){ .address = calloc(1, size), .size = size };
        assert_int_equal(
                engine_memory_register(
                        end->engine,
                        &(struct engine_memory){ .address = end->segment.address, .size = size, .fd = -1, .id = 1 },
                        &end->registered),
                0);
        end->segment.memory = end->registered;
}

void end_stop(struct end *end)
{
        if (!end->engine)
                return;
        engine_stop(end->engine);
        engine_memory_deregister(end->engine, end->registered);
        end->engine = engine_free(end->engine);
        free(end->segment.address);
}

static void world_release(void *object)
{
        struct world *w = object;

        for (int i = 0; i < 2; i++)
                end_stop(&w->ends[i]);
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
        free(w);
}

struct world *world_of(bool local, bool network, size_t size, const char *name)
{
        struct world *w = calloc(1, sizeof(*w));

        w->ends[0].name = name;
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->changed, NULL);
        for (int i = 0; i < 2; i++)
                end_start(&w->ends[i], local, network, size);
        return test_keep(w, world_release);
}

struct world *world_new(bool local, bool network)
{
        return world_of(local, network, SIZE, NULL);
}

static void on_connected(void *context, const struct engine_connection *connection)
{
        struct world *w = context;

        pthread_mutex_lock(&w->lock);
        w->connection = *connection;
        w->connected++;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
}

static void on_ended(void *context, const struct engine_outcome *outcome)
{
        struct world *w = context;

        pthread_mutex_lock(&w->lock);
        w->outcome = *outcome;
        w->ended_us = clock_now_us();
        w->ended++;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
}

void await(struct world *w, int connected, int ended)
{
        pthread_mutex_lock(&w->lock);
        WAIT_SIGNAL(&w->changed, &w->lock, w->connected >= connected && w->ended >= ended);
        pthread_mutex_unlock(&w->lock);
        assert_int_equal(w->connected, connected);
        assert_int_equal(w->ended, ended);
}

void ask(struct world *w, uint64_t epoch, const char *data)
{
        struct engine_connect spec = { .peer.epoch = epoch,
                                       .peer.data = data,
                                       .peer.url = w->has_fallback ? FALLBACK_URL : NULL,
                                       .notice = w->notice,
                                       .context = w,
                                       .connected = on_connected };

        assert_int_equal(engine_connect(w->ends[0].engine, &spec), 0);
}

void connect_to(struct world *w, uint64_t epoch, const char *data)
{
        int before = w->connected;

        ask(w, epoch, data);
        await(w, before + 1, w->ended);
}

const char *data_of(const struct end *end)
{
        return engine_get_facts(end->engine)->data_address;
}

static void note_start(void *context)
{
        struct world *w = context;

        w->started_us = clock_now_us();
}

void start_move(struct world *w, enum engine_direction direction, const char *data)
{
        struct engine_transfer transfer = {
                .id = random_id(),
                .direction = direction,
                .peer.epoch = w->ends[1].epoch,
                .peer.data = data,
                .peer.url = w->has_fallback ? FALLBACK_URL : NULL,
                .remote_operation = 1,
                .segments = &w->ends[0].segment,
                .n_segments = 1,
                .total = w->ends[0].segment.size,
                .context = w,
                .started = note_start,
                .progress = ignore_progress,
                .ended = on_ended,
        };

        assert_int_equal(engine_transfer_start(w->ends[0].engine, &transfer), 0);
}

void move(struct world *w, enum engine_direction direction)
{
        int before = w->ended; /* once started, it may end at any time */

        start_move(w, direction, data_of(&w->ends[1]));
        await(w, w->connected, before + 1);
        assert_int_equal(w->outcome.error, 0);
}
