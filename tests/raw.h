/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RAW_H
#define TESTS_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * HTTP by hand over a socket, for what a client library refuses to send. Every function asserts; what an answer points
 * to goes with the test.
 */

struct raw_answer {
        int status;       /* 0 = none came */
        const char *head; /* status line and headers; "" when none came */
        const char *body;
        size_t body_size;
        const char *rest; /* what has come behind it already */
        bool closed;      /* the other end closed the connection, or said so */
};

/* A connection to a port of loopback. raw_try: -1 where nobody listens. */
int raw_dial(uint16_t port);
int raw_try(uint16_t port);
/* A listening socket on a free port of loopback. */
int raw_listen(uint16_t *ret_port);
/*
 * A socket that holds a free port of loopback, where nobody listens: until it is closed the system gives the port to no
 * other socket but one that asks for it by number, with SO_REUSEADDR.
 */
int raw_hold(uint16_t *ret_port);

/* Sends all, or until the other end closes: its answer tells why. */
void raw_send(int fd, const void *data, size_t size);

/* Reads one answer (by Content-Length, chunked or until close), at most WAIT_MS. head_only: the answer to a HEAD. */
void raw_receive(int fd, bool head_only, struct raw_answer *ret_answer);
/* The same once the other end has closed, so that rest is all that it said; closes fd. */
struct raw_answer raw_receive_last(int fd);

/* Status line and headers of what comes next, byte by byte: nothing behind them is read. */
const char *raw_read_head(int fd);

/* A header's value in the answer; NULL when it is not there. */
const char *raw_header(const struct raw_answer *answer, const char *name);

#endif
