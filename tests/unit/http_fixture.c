/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <arpa/inet.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "base/admission.h"
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

int http_setup(void **state)
{
        struct http_fixture *h = calloc(1, sizeof(*h));
        struct peers_config peers = { 0 };
        void *f;

        assert_non_null(h);
        if (fixture_setup(&f))
                return -1;
        h->f = f;
        assert_int_equal(admission_new(NULL, 0, false, &h->admission), 0);
        peers.admission = h->admission;
        assert_int_equal(peers_new(&peers, &h->peers), 0);
        assert_int_equal(event_log_new(&(struct event_log_config){ .epoch = EPOCH }, &h->events), 0);
        ferry_id_format("rgn_", h->f->region->id, h->region);
        h->listen[0] = "127.0.0.1:0";
        h->config = (struct http_config){
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
                            .bodies_max = 2 * 65536,
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
        http_start(h);
        *state = h;
        return 0;
}

int http_teardown(void **state)
{
        struct http_fixture *h = *state;
        void *f = h->f;

        http_stop(h);
        h->peers = peers_free(h->peers);
        h->admission = admission_free(h->admission);
        h->events = event_log_free(h->events);
        free(h);
        return fixture_teardown(&f);
}

void reply_clear(struct reply *reply)
{
        free(reply->text);
        *reply = (struct reply){ 0 };
}

int http_connect(struct http_fixture *h)
{
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons(h->port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

void http_send(int fd, const void *data, size_t size)
{
        while (size) {
                ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
                assert_true(n > 0);
                data = (const char *)data + n;
                size -= (size_t)n;
        }
}

struct reply http_receive(int fd)
{
        struct reply reply = { .text = malloc(4096) };
        size_t capacity = 4096;

        assert_non_null(reply.text);
        for (;;) {
                if (capacity - reply.size < 2048) {
                        capacity *= 2;
                        reply.text = realloc(reply.text, capacity);
                        assert_non_null(reply.text);
                }
                ssize_t n = recv(fd, reply.text + reply.size, capacity - reply.size - 1, 0);
                if (n <= 0)
                        break;
                reply.size += (size_t)n;
        }
        close(fd);
        reply.text[reply.size] = '\0';
        (void)sscanf(reply.text, "HTTP/1.%*d %d", &reply.status);
        reply.body = strstr(reply.text, "\r\n\r\n");
        reply.body = reply.body ? reply.body + 4 : reply.text + reply.size;
        reply.body_size = reply.size - (size_t)(reply.body - reply.text);
        return reply;
}

struct reply http_raw(struct http_fixture *h, const char *text)
{
        int fd = http_connect(h);

        http_send(fd, text, strlen(text));
        return http_receive(fd);
}

int http_begin(struct http_fixture *h, const char *method, const char *path, const char *headers, const char *body)
{
        char *text = NULL;
        int fd = http_connect(h), length;

        if (body)
                length = asprintf(&text,
                                  "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s"
                                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                  method, path, headers, strlen(body), body);
        else
                length = asprintf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", method,
                                  path, headers);
        assert_true(length > 0);
        http_send(fd, text, (size_t)length);
        free(text);
        return fd;
}

struct reply http_call(struct http_fixture *h, const char *method, const char *path, const char *headers,
                       const char *body)
{
        return http_receive(http_begin(h, method, path, headers, body));
}

const char *reply_header(const struct reply *reply, const char *name)
{
        static char value[512];
        const char *line = strstr(reply->text, "\r\n");

        while (line && line + 2 < reply->body) {
                line += 2;
                if (!strncasecmp(line, name, strlen(name)) && line[strlen(name)] == ':') {
                        line += strlen(name) + 1;
                        line += strspn(line, " ");
                        snprintf(value, sizeof(value), "%.*s", (int)strcspn(line, "\r"), line);
                        return value;
                }
                line = strstr(line, "\r\n");
        }
        return NULL;
}

const char *reply_field(const struct reply *reply, const char *name)
{
        static char text[4096];
        struct json_object *object = json_tokener_parse(reply->body), *field = NULL;
        const char *result = NULL;

        if (object && json_object_object_get_ex(object, name, &field)) {
                snprintf(text, sizeof(text), "%s", json_object_get_string(field));
                result = text;
        }
        json_object_put(object);
        return result;
}

void expect_status(struct reply reply, int status)
{
        if (reply.status != status)
                fail_msg("%d instead of %d: %s", reply.status, status, reply.text);
        if (status && !reply_header(&reply, "Request-Id"))
                fail_msg("no Request-Id: %s", reply.text);
        reply_clear(&reply);
}

void expect_problem(struct reply reply, int status, const char *code)
{
        const char *type = reply_header(&reply, "Content-Type"), *got;

        if (reply.status != status || !type || strcmp(type, "application/problem+json"))
                fail_msg("no problem %d: %s", status, reply.text);
        got = reply_field(&reply, "code");
        if (!got || strcmp(got, code))
                fail_msg("not %s: %s", code, reply.text);
        expect_status(reply, status);
}

void await_parked(struct http_fixture *h, size_t n)
{
        struct http_waits *waits = h->server->waits;

        pthread_mutex_lock(&waits->lock);
        while (waits->n_parked != n)
                pthread_cond_wait(&waits->changed, &waits->lock);
        pthread_mutex_unlock(&waits->lock);
}

void await_idle(struct http_fixture *h)
{
        /* The server tells of it only when it stops. */
        while (atomic_load(&h->server->life.n_active))
                (void)sched_yield();
}
