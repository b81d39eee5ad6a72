/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <json-c/json.h>
#include <sys/socket.h>

#include <ferry/encoding.h>

#include "base/allowlist.h"
#include "easy/thread.h"
#include "move/http.h"
#include "peers/peers.h"

void http_start(struct http_fixture *h)
{
        assert_int_equal(http_server_new(&h->config, &h->server), 0);
        h->port = h->server->listeners[0].port;
}

void http_stop(struct http_fixture *h)
{
        h->server = http_server_free(h->server);
}

static void wake_waiters(void *context)
{
        struct http_fixture *h = context;

        operation_store_wake_waiters(h->f->store);
}

void http_make_mover(struct http_fixture *h)
{
        h->config.mover = h->mover = http_mover_new(&(struct http_mover_config){ .settings = peers_settings(h->peers),
                                                                                 .thread = h->client,
                                                                                 .wake_waiters = wake_waiters,
                                                                                 .operations = h });
        assert_non_null(h->mover);
}

int http_setup(void **state)
{
        struct http_fixture *h = calloc(1, sizeof(*h));
        struct peers_config peers = { 0 };
        void *f;

        assert_non_null(h);
        if (fixture_setup(&f))
                return -1;
        h->f = f;
        assert_int_equal(allowlist_new(NULL, 0, false, &h->allowlist), 0);
        peers.easy.allowlist = h->allowlist;
        peers.thread = h->client = easy_thread_new();
        assert_non_null(h->client);
        assert_int_equal(peers_new(&peers, &h->peers), 0);
        assert_int_equal(event_log_new(&(struct event_log_config){ .epoch = EPOCH }, &h->events), 0);
        ferry_id_format("rgn_", h->f->region->id, h->region);
        h->listen[0] = "127.0.0.1:0";
        h->config = (struct http_config){
                .routes = { http_routes, http_routes_count },
                .listen = h->listen,
                .n_listen = 1,
                .worker_name = "tester",
                .version = "1",
                .epoch = EPOCH,
                .threads = 2,
                .engine = &h->facts,
                .operations = h->f->store,
                .operation_limits = &default_limits,
                .regions = h->f->regions,
                .peers = h->peers,
                .events = h->events,
                .loop = h->f->loop,
                .metrics = h->f->metrics,
                .limits = { .body_max = 65536,
                            .bodies_max = 64 * 65536,
                            .batch_max = 16,
                            .ids_max = 16,
                            .descriptors_max = 16,
                            .wait_ms_max = 60000,
                            .waiters_max = 4,
                            .connections_max = 64,
                            .page_max = 10,
                            .regions_max = 8,
                            .memory_limit = 4 * REGION_SIZE,
                            .idempotency_max = 4 },
        };
        http_make_mover(h);
        http_start(h);
        *state = h;
        return 0;
}

int http_teardown(void **state)
{
        struct http_fixture *h = *state;
        struct http_mover *mover = h->mover;
        void *f = h->f;
        int r;

        http_stop(h);
        http_mover_stop(h->mover);
        h->peers = peers_free(h->peers);
        h->client = easy_thread_free(h->client);
        h->allowlist = allowlist_free(h->allowlist);
        h->events = event_log_free(h->events);
        r = fixture_teardown(&f);
        http_mover_free(mover);
        free(h);
        return r;
}

struct raw_answer http_raw(struct http_fixture *h, const char *text)
{
        int fd = raw_dial(h->port);

        raw_send(fd, text, strlen(text));
        return raw_receive_last(fd);
}

int http_begin(struct http_fixture *h, const char *method, const char *path, const char *headers, const char *body)
{
        const char *type =
                body ? text_format("Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body)) : "";
        const char *text = text_format("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s\r\n%s", method,
                                       path, headers, type, body ? body : "");
        int fd = raw_dial(h->port);

        raw_send(fd, text, strlen(text));
        return fd;
}

struct raw_answer http_call(struct http_fixture *h, const char *method, const char *path, const char *headers,
                            const char *body)
{
        return raw_receive_last(http_begin(h, method, path, headers, body));
}

const char *operation_path(struct operation *operation, const char *more)
{
        char id[FERRY_ID_TEXT_SIZE];

        ferry_id_format("op_", operation_id(operation), id);
        return text_format("/v1/operations/%s%s", id, more);
}

void http_ping(int fd)
{
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        char text[2048] = "";
        size_t size = 0;

        raw_send(fd, request, strlen(request));
        while (!strstr(text, "\"live\"")) {
                ssize_t n = recv(fd, text + size, sizeof(text) - 1 - size, 0);
                assert_true(n > 0);
                size += (size_t)n;
                text[size] = '\0';
        }
}

const char *reply_field(const struct raw_answer *reply, const char *name)
{
        struct json_object *object = json_tokener_parse(reply->body), *field = NULL;
        const char *result = NULL;

        if (object && json_object_object_get_ex(object, name, &field))
                result = text_format("%s", json_object_get_string(field));
        json_object_put(object);
        return result;
}

struct raw_answer expect_status(struct raw_answer reply, int status)
{
        if (reply.status != status)
                fail_msg("%d instead of %d: %s\n%s", reply.status, status, reply.head, reply.body);
        if (status && !raw_header(&reply, "Request-Id"))
                fail_msg("no Request-Id: %s", reply.head);
        return reply;
}

void expect_problem(struct raw_answer reply, int status, const char *code)
{
        const char *type = raw_header(&reply, "Content-Type"), *got;

        if (reply.status != status || !type || strcmp(type, "application/problem+json"))
                fail_msg("no problem %d: %s", status, reply.head);
        got = reply_field(&reply, "code");
        if (!got || strcmp(got, code))
                fail_msg("not %s: %s\n%s", code, reply.head, reply.body);
        expect_status(reply, status);
}

void await_parked(struct http_fixture *h, size_t n)
{
        struct http_waits *waits = h->server->waits;

        pthread_mutex_lock(&waits->lock);
        WAIT_SIGNAL(&waits->changed, &waits->lock, waits->n_parked == n);
        pthread_mutex_unlock(&waits->lock);
}

void await_idle(struct http_fixture *h)
{
        /* The server tells of it only when it stops. */
        WAIT_UNTIL(!atomic_load(&h->server->users.n_active));
}
