/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_FIXTURE_H
#define HTTP_FIXTURE_H

#include "operation_fixture.h"

#include "http/event_log.h"
#include "http/server.h"
#include "move/engine.h"
#include "serve_internal.h"

#include "raw.h"

struct json_object;
struct allowlist;
struct easy_thread;
struct http_mover;
struct peers;

/* An HTTP server on a store with a fake data plane, and a client that sends what the test wants, right or wrong. */

struct http_fixture {
        struct fixture *f;
        struct engine_facts facts;
        struct allowlist *allowlist;
        struct easy_thread *client;
        struct peers *peers;
        struct http_mover *mover;
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
/* The mover of HTTP, with the peers and their thread. */
void http_make_mover(struct http_fixture *h);
void http_start(struct http_fixture *h);

/* One request as it stands. */
struct raw_answer http_raw(struct http_fixture *h, const char *text);

/* One well-formed request. headers: lines that end with \r\n, or "". body NULL = none; else its type is JSON. */
int http_begin(struct http_fixture *h, const char *method, const char *path, const char *headers, const char *body);
struct raw_answer http_call(struct http_fixture *h, const char *method, const char *path, const char *headers,
                            const char *body);

/* "/v1/operations/ID" and more. */
const char *operation_path(struct operation *operation, const char *more);

/* A GET on a connection that stays, which must be answered. */
void http_ping(int fd);

/* A member of the reply's JSON, as text; NULL = there is none. */
const char *reply_field(const struct raw_answer *reply, const char *name);

/* Fails the test unless the reply is the problem of that status and code. */
void expect_problem(struct raw_answer reply, int status, const char *code);
/* Fails the test unless the reply has that status; returns it. */
struct raw_answer expect_status(struct raw_answer reply, int status);

/* Blocks until so many requests are parked. */
void await_parked(struct http_fixture *h, size_t n);

/* Blocks until no request is being answered. */
void await_idle(struct http_fixture *h);

#endif
