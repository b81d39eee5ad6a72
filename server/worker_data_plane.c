/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_data_plane.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "peers/peers.h"
#include "transfer/engine.h"

enum {
        CARRIERS_HTTP = ENGINE_CARRIER_HTTP | ENGINE_CARRIER_HTTPS,
        CONNECT_MS = 5000,      /* for the first answer of a peer, whatever carries it; of which HTTP … */
        CONNECT_HTTP_MS = 1500, /* … has at least this after the engine: one SYN may be lost */
};

struct data_plane {
        struct engine *engine;
        struct operation_store *operations;
        pthread_rwlock_t lock; /* read while peers is used */
        struct peers *peers;   /* NULL = nothing goes over HTTP */
};

/* A transfer that goes over HTTP if the engine does not reach the peer. Owned by what moves it. */
struct moving {
        struct data_plane *data_plane;
        struct engine_transfer transfer; /* as the operations gave it, with strings of its own */
        uint64_t begun_us;
        char *strings[3];
};

static struct moving *moving_free(struct moving *moving)
{
        if (!moving)
                return NULL;
        explicit_bzero(moving->transfer.key, sizeof(moving->transfer.key));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(moving->strings); i++)
                free(moving->strings[i]);
        free(moving);
        return NULL;
}

static struct moving *moving_new(struct data_plane *data_plane, const struct engine_transfer *transfer)
{
        struct moving *moving = calloc(1, sizeof(*moving));

        if (!moving)
                return NULL;
        moving->data_plane = data_plane;
        moving->transfer = *transfer;
        moving->begun_us = clock_now_us();
        const char **const strings[] = { &moving->transfer.peer.data, &moving->transfer.peer.name,
                                         &moving->transfer.peer.url };
        _Static_assert(FERRY_ARRAY_SIZE(strings) == FERRY_ARRAY_SIZE(moving->strings), "a place for each");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(strings); i++) {
                moving->strings[i] = strdup(*strings[i] ? *strings[i] : "");
                if (!moving->strings[i])
                        return moving_free(moving);
                *strings[i] = moving->strings[i];
        }
        return moving;
}

static void on_started(void *context)
{
        struct moving *moving = context;

        moving->transfer.started(moving->transfer.context);
}

static void on_progress(void *context, uint64_t bytes)
{
        struct moving *moving = context;

        moving->transfer.progress(moving->transfer.context, bytes);
}

static void on_arrived(void *context, uint64_t offset, uint64_t length)
{
        struct moving *moving = context;

        moving->transfer.arrived(moving->transfer.context, offset, length);
}

static uint64_t on_request_max(void *context)
{
        struct moving *moving = context;

        return moving->transfer.request_max(moving->transfer.context);
}

static int on_stopping(void *context)
{
        struct moving *moving = context;

        return moving->transfer.stopping(moving->transfer.context);
}

static void moving_end(struct moving *moving, const struct engine_outcome *outcome)
{
        moving->transfer.ended(moving->transfer.context, outcome);
        (void)moving_free(moving);
}

/* ---- over HTTP ---- */

static unsigned http_carrier(const char *url)
{
        return strncasecmp(url, "https:", 6) == 0 ? ENGINE_CARRIER_HTTPS : ENGINE_CARRIER_HTTP;
}

/* outcome NULL: it begins. */
static void note(const struct moving *moving, const struct engine_outcome *outcome)
{
        const struct engine_transfer *transfer = &moving->transfer;
        const struct engine_http_note note = {
                .peer = transfer->peer,
                .transport = http_carrier(transfer->peer.url) == ENGINE_CARRIER_HTTPS ? "https" : "http",
                .chosen = transfer->carriers && !(transfer->carriers & ~(unsigned)CARRIERS_HTTP),
                .outcome = outcome,
        };

        engine_note_http(moving->data_plane->engine, &note);
}

static void on_http_started(void *context)
{
        struct moving *moving = context;

        on_started(context);
        operation_store_wake_waiters(moving->data_plane->operations);
}

static void on_http_ended(void *context, const struct engine_outcome *outcome)
{
        struct moving *moving = context;
        struct operation_store *operations = moving->data_plane->operations;

        note(moving, outcome);
        moving_end(moving, outcome);
        operation_store_wake_waiters(operations);
}

/* The transfer that is asked for, with our callbacks in place of the operation's. */
static struct engine_transfer moving_transfer(struct moving *moving,
                                              void (*ended)(void *context, const struct engine_outcome *outcome))
{
        struct engine_transfer transfer = moving->transfer;

        transfer.context = moving;
        transfer.started = on_started;
        transfer.progress = on_progress;
        transfer.arrived = transfer.arrived ? on_arrived : NULL;
        transfer.request_max = transfer.request_max ? on_request_max : NULL;
        transfer.stopping = on_stopping;
        transfer.ended = ended;
        return transfer;
}

/* What the engine has left of the time to connect. */
static uint32_t http_connect_ms(const struct moving *moving)
{
        uint64_t past_ms = (clock_now_us() - moving->begun_us) / 1000;

        return past_ms < CONNECT_MS - CONNECT_HTTP_MS ? CONNECT_MS - (uint32_t)past_ms : CONNECT_HTTP_MS;
}

/* true: on_http_ended will be called. false: detail says why not; the caller notes the end. */
static bool start_http(struct moving *moving, char *detail, size_t detail_size)
{
        struct data_plane *data_plane = moving->data_plane;
        struct engine_transfer transfer = moving_transfer(moving, on_http_ended);
        int r = -ESHUTDOWN;

        transfer.started = on_http_started;
        transfer.connect_ms_max = http_connect_ms(moving);
        (void)snprintf(detail, detail_size, "the worker is shutting down");
        (void)pthread_rwlock_rdlock(&data_plane->lock);
        if (data_plane->peers)
                note(moving, NULL); /* moving may be gone when it has begun */
        if (data_plane->peers)
                r = peers_transfer_start(data_plane->peers, &transfer, detail, detail_size);
        (void)pthread_rwlock_unlock(&data_plane->lock);
        explicit_bzero(transfer.key, sizeof(transfer.key));
        if (r < 0 && r != -ESHUTDOWN)
                (void)snprintf(detail, detail_size, "%s", strerror(-r));
        return r == 0;
}

static bool may_use_http(const struct engine_transfer *transfer)
{
        return transfer->peer.url && transfer->peer.url[0] &&
               (!transfer->carriers || (transfer->carriers & http_carrier(transfer->peer.url)));
}

/* ---- by the engine first ---- */

static void on_engine_ended(void *context, const struct engine_outcome *outcome)
{
        struct moving *moving = context;
        struct engine_outcome both = *outcome;
        char detail[sizeof(both.detail)];

        if (outcome->error == FERRY_E_PEER_UNREACHABLE && outcome->bytes == 0) {
                if (start_http(moving, detail, sizeof(detail)))
                        return;
                (void)snprintf(both.detail, sizeof(both.detail), "%.100s; HTTP: %.50s", outcome->detail, detail);
                note(moving, &both);
        }
        moving_end(moving, &both);
}

static int start_engine(struct data_plane *data_plane, struct moving *moving)
{
        struct engine_transfer transfer = moving_transfer(moving, on_engine_ended);
        int r;

        transfer.has_fallback = true;
        transfer.connect_ms_max = CONNECT_MS - CONNECT_HTTP_MS;
        r = engine_transfer_start(data_plane->engine, &transfer);
        explicit_bzero(transfer.key, sizeof(transfer.key));
        return r;
}

static int start_http_alone(struct data_plane *data_plane, const struct engine_transfer *transfer)
{
        struct engine_outcome outcome = { .error = FERRY_E_PEER_UNREACHABLE };
        struct moving *moving;

        (void)snprintf(outcome.detail, sizeof(outcome.detail), "the metadata has no URL that \"transports\" allows");
        if (may_use_http(transfer)) {
                moving = moving_new(data_plane, transfer);
                if (!moving)
                        return -ENOMEM;
                if (start_http(moving, outcome.detail, sizeof(outcome.detail)))
                        return 0;
                note(moving, &outcome);
                (void)moving_free(moving);
        }
        transfer->ended(transfer->context, &outcome);
        operation_store_wake_waiters(data_plane->operations);
        return 0;
}

int data_plane_transfer_start(void *context, const struct engine_transfer *transfer)
{
        struct data_plane *data_plane = context;
        struct moving *moving;
        int r;

        if (transfer->carriers && !(transfer->carriers & ~(unsigned)CARRIERS_HTTP))
                return start_http_alone(data_plane, transfer);
        if (!may_use_http(transfer))
                return engine_transfer_start(data_plane->engine, transfer);
        moving = moving_new(data_plane, transfer);
        if (!moving)
                return -ENOMEM;
        r = start_engine(data_plane, moving); /* moving may be gone when it is 0 */
        if (r < 0)
                (void)moving_free(moving);
        return r;
}

void data_plane_transfer_cancel(void *context, uint64_t id, int reason)
{
        struct data_plane *data_plane = context;

        engine_transfer_cancel(data_plane->engine, id, reason);
        (void)pthread_rwlock_rdlock(&data_plane->lock);
        if (data_plane->peers)
                peers_transfer_cancel(data_plane->peers, id, reason);
        (void)pthread_rwlock_unlock(&data_plane->lock);
}

void data_plane_note_http(void *context, const struct engine_http_note *note)
{
        struct data_plane *data_plane = context;

        engine_note_http(data_plane->engine, note);
}

void data_plane_claims_revoke(void *context, uint64_t operation, int reason, int wire_reason)
{
        struct data_plane *data_plane = context;

        engine_claims_revoke(data_plane->engine, operation, reason, wire_reason);
}

void data_plane_held_reads_retry(void *context)
{
        struct data_plane *data_plane = context;

        engine_held_reads_retry(data_plane->engine);
}

/* ---- notices ---- */

/* A notice that goes over HTTP if the engine does not reach the peer. Owned by what carries it. */
struct telling {
        struct data_plane *data_plane;
        struct engine_connect spec; /* as it was given; its peer has the url below alone */
        char url[FERRY_METADATA_URL_SIZE];
};

static void telling_free(struct telling *telling)
{
        explicit_bzero(telling->spec.notice.key, sizeof(telling->spec.notice.key));
        free(telling);
}

/* true: connected will be called. false: detail says why not, as error. */
static bool tell_http(struct telling *telling, int *error, char *detail, size_t detail_size)
{
        struct data_plane *data_plane = telling->data_plane;
        int r = -ESHUTDOWN;

        (void)snprintf(detail, detail_size, "the worker is shutting down");
        (void)pthread_rwlock_rdlock(&data_plane->lock);
        if (data_plane->peers)
                r = peers_notice(data_plane->peers, &telling->spec, detail, detail_size);
        (void)pthread_rwlock_unlock(&data_plane->lock);
        if (r > 0)
                *error = r;
        return r == 0;
}

static void on_engine_told(void *context, const struct engine_connection *connection)
{
        struct telling *telling = context;
        struct engine_connection both = *connection;
        char detail[sizeof(both.detail)];

        if (both.error != FERRY_E_PEER_UNREACHABLE || !tell_http(telling, &both.error, detail, sizeof(detail))) {
                if (both.error != connection->error)
                        (void)snprintf(both.detail, sizeof(both.detail), "%s", detail);
                telling->spec.connected(telling->spec.context, &both);
        }
        telling_free(telling);
}

int data_plane_connect(void *context, const struct engine_connect *connect)
{
        struct data_plane *data_plane = context;
        struct engine_connect spec = *connect;
        struct telling *telling;
        int r;

        if (!connect->notice.operation || !connect->peer.url || !*connect->peer.url)
                return engine_connect(data_plane->engine, connect);
        telling = calloc(1, sizeof(*telling));
        if (!telling)
                return -ENOMEM;
        telling->data_plane = data_plane;
        telling->spec = *connect;
        (void)snprintf(telling->url, sizeof(telling->url), "%s", connect->peer.url);
        telling->spec.peer = (struct engine_peer){ .epoch = connect->peer.epoch, .url = telling->url };
        spec.context = telling;
        spec.connected = on_engine_told;
        r = engine_connect(data_plane->engine, &spec);
        if (r < 0)
                telling_free(telling);
        explicit_bzero(spec.notice.key, sizeof(spec.notice.key));
        return r;
}

/* ---- life ---- */

int data_plane_new(struct engine *engine, struct data_plane **ret_data_plane)
{
        struct data_plane *data_plane = calloc(1, sizeof(*data_plane));

        if (!data_plane)
                return -ENOMEM;
        data_plane->engine = engine;
        (void)pthread_rwlock_init(&data_plane->lock, NULL);
        *ret_data_plane = data_plane;
        return 0;
}

void data_plane_set_peers(struct data_plane *data_plane, struct peers *peers, struct operation_store *operations)
{
        (void)pthread_rwlock_wrlock(&data_plane->lock);
        data_plane->peers = peers;
        data_plane->operations = operations;
        (void)pthread_rwlock_unlock(&data_plane->lock);
}

void data_plane_drop_peers(struct data_plane *data_plane)
{
        (void)pthread_rwlock_wrlock(&data_plane->lock);
        data_plane->peers = NULL;
        (void)pthread_rwlock_unlock(&data_plane->lock);
}

struct data_plane *data_plane_free(struct data_plane *data_plane)
{
        if (!data_plane)
                return NULL;
        (void)pthread_rwlock_destroy(&data_plane->lock);
        free(data_plane);
        return NULL;
}
