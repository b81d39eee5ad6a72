/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <unistd.h>

#include <ferry/error.h>

#include "move/engine.h"
#include "serve_internal.h"

/* POST /v1/peers against another HTTP server; the engine is a fake that connects when the test says so. */

enum { PEER_EPOCH = 0x2222, ASKED_MAX = 64 };

struct scene {
        struct http_fixture *h;
        struct http_server *peer;
        char body[128];
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct engine_connect asked[ASKED_MAX]; /* without their strings */
        size_t n_asked;
        char data[ENGINE_ADDRESS_SIZE]; /* of the last */
        int result;                     /* what connect returns */
        bool at_once;                   /* it answers before it returns */
};

static const struct engine_connection fresh = { .transport = "shm", .connect_us = 321 };

static _Atomic(struct scene *) slow; /* who wakes next goes on after the request and what it waited for are gone */

void __real_shard_wake(struct http_shard *shard);
void __wrap_shard_wake(struct http_shard *shard);

void __wrap_shard_wake(struct http_shard *shard)
{
        struct scene *s = atomic_exchange(&slow, NULL);

        __real_shard_wake(shard);
        if (!s)
                return;
        await_idle(s->h);
        s->asked[0].connected(s->asked[0].context, &fresh);
}

static int fake_connect(void *context, const struct engine_connect *connect)
{
        struct scene *s = context;

        if (s->result)
                return s->result;
        pthread_mutex_lock(&s->lock);
        (void)snprintf(s->data, sizeof(s->data), "%s", connect->peer.data);
        s->asked[s->n_asked++ % ASKED_MAX] = *connect;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (s->at_once)
                connect->connected(connect->context, &fresh);
        return 0;
}

/* The engine is stopping. */
static ssize_t fake_page(void *context, uint64_t *cursor, struct engine_peer_view *page, size_t max)
{
        return -ESHUTDOWN;
}

static void await_asked(struct scene *s, size_t n)
{
        pthread_mutex_lock(&s->lock);
        WAIT_SIGNAL(&s->changed, &s->lock, s->n_asked >= n);
        pthread_mutex_unlock(&s->lock);
}

static void complete(struct scene *s, size_t i, const struct engine_connection *connection)
{
        s->asked[i].connected(s->asked[i].context, connection);
}

static int setup(void **state)
{
        struct scene *s = calloc(1, sizeof(*s));
        struct http_config peer;
        void *h;

        if (!s || http_setup(&h))
                return -1;
        s->h = h;
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        peer = s->h->config;
        peer.epoch = PEER_EPOCH;
        peer.worker_name = "other";
        assert_int_equal(http_server_new(&peer, &s->peer), 0);
        (void)snprintf(s->body, sizeof(s->body), "{\"url\":\"http://127.0.0.1:%u\"}",
                       (unsigned)s->peer->listeners[0].port);
        http_stop(s->h);
        s->h->config.connector =
                (struct http_connector){ .connect = fake_connect, .peers_page = fake_page, .context = s };
        http_start(s->h);
        *state = s;
        return 0;
}

static int teardown(void **state)
{
        struct scene *s = *state;
        void *h = s->h;
        int r;

        http_server_free(s->peer);
        r = http_teardown(&h);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return r;
}

static struct raw_answer ask(struct scene *s, const char *body)
{
        return http_call(s->h, "POST", "/v1/peers", "", body);
}

/* A request that is parked and has reached the engine. */
static int park(struct scene *s)
{
        size_t before = s->n_asked;
        int fd = http_begin(s->h, "POST", "/v1/peers", "", s->body);

        await_asked(s, before + 1);
        return fd;
}

#define WITH_SCENE(name) TEST_OF(struct scene *s, name, setup, teardown)

/* For AddressSanitizer to judge. */
WITH_SCENE(whoever_wakes_a_request_touches_nothing_of_it_afterwards)
{
        int fd = park(s);

        await_parked(s->h, 1); /* the engine may be asked before; nobody wakes a request whose client left earlier */
        atomic_store(&slow, s);
        close(fd);
        await_parked(s->h, 0);
        await_idle(s->h);
}

WITH_SCENE(an_answer_that_comes_at_once_is_not_missed)
{
        s->at_once = true;
        for (int i = 0; i < 50; i++)
                expect_status(ask(s, s->body), 201);
        await_parked(s->h, 0);
}

WITH_SCENE(the_engines_errors_have_a_status)
{
        static const struct {
                int error, status;
                const char *code;
        } cases[] = {
                { FERRY_E_PEER_UNREACHABLE, 502, "peer-unreachable" },
                { FERRY_E_STALE_METADATA, 502, "peer-unreachable" },
                { FERRY_E_CANCELLED, 503, "draining" },
        };
        struct raw_answer reply;
        int fd;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                struct engine_connection failed = { .error = cases[i].error, .detail = "It is so" };

                fd = park(s);
                complete(s, i, &failed);
                reply = raw_receive_last(fd);
                assert_string_equal(reply_field(&reply, "detail"), "It is so");
                expect_problem(reply, cases[i].status, cases[i].code);
        }
        s->result = -ESHUTDOWN;
        expect_problem(ask(s, s->body), 503, "draining");
        s->result = -ENOMEM;
        expect_problem(ask(s, s->body), 500, "internal");
}

WITH_SCENE(an_engine_that_stops_has_no_peers_to_tell_of)
{
        expect_problem(http_call(s->h, "GET", "/v1/peers", "", NULL), 503, "draining");
}

WITH_SCENE(waiting_holds_no_thread_and_is_bounded)
{
        int fds[4];

        /* Twice as many as the server has threads. */
        for (size_t i = 0; i < 4; i++)
                fds[i] = park(s);
        await_parked(s->h, 4);
        expect_status(http_call(s->h, "GET", "/livez", "", NULL), 200);
        expect_problem(ask(s, s->body), 429, "limit-reached");
        await_asked(s, 5);
        for (size_t i = 0; i < 5; i++)
                complete(s, i, &fresh);
        for (size_t i = 0; i < 4; i++)
                expect_status(raw_receive_last(fds[i]), 201);
}

WITH_SCENE(a_server_that_drains_connects_to_nobody_new)
{
        http_server_drain(s->h->server);
        expect_problem(ask(s, s->body), 503, "draining");
        assert_int_equal(s->n_asked, 0);
}
