/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_FIXTURE_H
#define HTTP_FIXTURE_H

#include "operation_fixture.h"

#include "http/event_log.h"
#include "http/server.h"
#include "http_internal.h"
#include "transfer/engine.h"
#include "wait.h"

struct json_object;
struct admission;
struct peers;

/* An HTTP server on a store with a fake mover, and a client that sends what the test wants, right or wrong. */

struct http_fixture {
        struct fixture *f;
        struct engine_facts facts;
        struct admission *admission;
        struct peers *peers;
        struct event_log *events;  /* nobody tells it anything, unless a test does */
        struct http_config config; /* of the next http_start */
        const char *listen[1];
        struct http_server *server;
        uint16_t port;
        char region[FERRY_ID_TEXT_SIZE]; /* id of f->region */
};

int http_setup(void **state); /* started with the defaults of the fixture */
int http_teardown(void **state);
#define WITH_HTTP(name) TEST_OF(struct http_fixture *h, name, http_setup, http_teardown)

/* Ends the server; starts it with h->config. */
void http_stop(struct http_fixture *h);
void http_start(struct http_fixture *h);

struct reply {
        int status; /* 0 = the server closed the connection without an answer */
        char *text; /* head and body, terminated */
        size_t size;
        char *body; /* inside text */
        size_t body_size;
};
void reply_clear(struct reply *reply);

/* A connection; sends octets; reads until the server closes. */
int http_connect(struct http_fixture *h);
void http_send(int fd, const void *data, size_t size);
struct reply http_receive(int fd); /* closes fd */

/* One request as it stands. */
struct reply http_raw(struct http_fixture *h, const char *text);

/* One well-formed request. headers: lines that end with \r\n, or "". body NULL = none; else its type is JSON. */
int http_begin(struct http_fixture *h, const char *method, const char *path, const char *headers, const char *body);
struct reply http_call(struct http_fixture *h, const char *method, const char *path, const char *headers,
                       const char *body);

/* The value of a header of the reply; NULL = there is none. Valid until the next call. */
const char *reply_header(const struct reply *reply, const char *name);

/* A member of the reply's JSON, as text; NULL = there is none. Valid until the next call. */
const char *reply_field(const struct reply *reply, const char *name);

/* Fails the test unless the reply is the problem of that status and code. Clears it. */
void expect_problem(struct reply reply, int status, const char *code);
void expect_status(struct reply reply, int status);

/* Blocks until so many requests are parked. */
void await_parked(struct http_fixture *h, size_t n);

/* Blocks until no request is being answered. */
void await_idle(struct http_fixture *h);

#endif
