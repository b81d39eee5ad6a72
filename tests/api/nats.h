/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NATS_H
#define TESTS_NATS_H

#include "steps.h"

/* A real nats-server, clients of it that speak as they like, ferry-nats, and ferry fetch nats://…. */

enum { NATS_LINE_SIZE = 512 };

struct nats {
        pid_t pid; /* 0 = not running */
        uint16_t port;
        int held; /* the socket that holds the port */
        char url[48];
};
extern struct nats nats;

/* Of a test that cannot do without: skips where no nats-server is installed. */
#define NEEDS_NATS()                                                                                                   \
        do {                                                                                                           \
                if (!nats.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

/* Before the first test and after the last: TEST_GROUP(nats_setup, nats_teardown). */
int nats_setup(void **state);
int nats_teardown(void **state);
/* Instead of the one that runs. more: further arguments, ended by NULL; NULL = none. */
void nats_restart(const char *const *more);

/* A client that has subscribed to a subject; the server has heard of it. */
int nats_subscribe(const char *subject);
/* Reads a line; the NUL is in place of its line break. */
void nats_read(int fd, char line[NATS_LINE_SIZE]);
/* One request as no client of ours makes it; the answer's first line. */
void nats_ask(const char *subject, const char *payload, char answer[NATS_LINE_SIZE]);
/* Answers the next request with text. */
void nats_answer(int fd, const char *text);

/* ferry-nats bridge, which has said that it is ready. */
struct bridge {
        pid_t pid;
        int out;
};
struct bridge nats_bridge(const struct worker *w, const char *const *more);
/* By SIGTERM; asserts that it ends well. */
void nats_bridge_end(struct bridge *bridge);
/* SERVER/WORKER/ID */
const char *nats_url(const char *server, const struct worker *w, const char *id);
/* Runs ferry-nats metadata; the exit status, and what must stand in its errors. */
void nats_assert_asks(const char *url, int status, const char *errors);
/* b fetches a's offer, named by NATS, into a file of the scene, with further environment. */
void nats_assert_fetched(struct shared_scene *s, const char *server);

#endif
