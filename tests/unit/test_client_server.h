/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CLIENT_SERVER_H
#define TEST_CLIENT_SERVER_H

/*
 * A scripted HTTP server for the tests of the client: one thread, one socket on a free port of the loopback. Each step
 * reads one request whole, keeps its text, and answers with the step's bytes, whatever they are.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "request_size.h"

enum server_end {
        SERVER_CLOSE, /* FIN */
        SERVER_KEEP,  /* the next step is served on the same connection */
        SERVER_RESET, /* RST, what was sent may be lost */
        SERVER_HANG,  /* keeps the connection open until the server is stopped, then closes it */
};

struct server_step {
        const char *answer; /* NULL = none */
        enum server_end end;
        size_t filler;  /* so many further bytes 'x' */
        bool head_only; /* answer before the body was read, or asked for */
};

enum { SERVER_STEPS = 16, SERVER_REQUEST_MAX = 1 << 20 };

struct server {
        const struct server_step *steps;
        size_t n_steps;
        int listener, stop[2];
        pthread_t thread;
        char url[64];
        _Atomic size_t served; /* steps; any thread may read it */
        /* The thread's until server_stop has joined it. */
        char *requests[SERVER_STEPS];
        size_t connections, drained; /* drained: bytes that came after an answer with SERVER_HANG */
};

/* Whether fd can be read; false when nothing came and the server is being stopped. */
static inline bool server_ready(struct server *s, int fd)
{
        struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = s->stop[0], .events = POLLIN } };
        while (poll(fds, 2, -1) < 0)
                ;
        return fds[0].revents || !fds[1].revents;
}

/* One request into a string, head and body; NULL at the end of the connection. */
static inline char *server_read(struct server *s, int fd, bool head_only)
{
        char *text = calloc(1, SERVER_REQUEST_MAX);
        size_t size = 0;
        for (;;) {
                const char *head = strstr(text, "\r\n\r\n");
                if (head && head_only)
                        return text;
                if (head) {
                        size_t have = size - (size_t)(head + 4 - text);
                        bool chunked = strcasestr(text, "\r\ntransfer-encoding: chunked") != NULL;
                        if (chunked ? strstr(head + 2, "\r\n0\r\n\r\n") != NULL : size >= request_size(text))
                                return text;
                        if (have == 0 && strcasestr(text, "\r\nexpect: 100-continue"))
                                (void)!write(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
                }
                ssize_t n = server_ready(s, fd) ? read(fd, text + size, SERVER_REQUEST_MAX - 1 - size) : 0;
                if (n <= 0) {
                        free(text);
                        return NULL;
                }
                size += (size_t)n;
        }
}

static inline void server_write(int fd, const struct server_step *step)
{
        char filler[4096];
        memset(filler, 'x', sizeof(filler));
        if (step->answer)
                (void)!send(fd, step->answer, strlen(step->answer), MSG_NOSIGNAL);
        for (size_t left = step->filler; left;) {
                size_t size = left < sizeof(filler) ? left : sizeof(filler);
                ssize_t n = send(fd, filler, size, MSG_NOSIGNAL);
                if (n <= 0)
                        return;
                left -= (size_t)n;
        }
}

static inline void server_end(struct server *s, int fd, enum server_end end)
{
        struct linger reset = { .l_onoff = 1, .l_linger = 0 };
        if (end == SERVER_RESET)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        if (end == SERVER_HANG) {
                static _Thread_local char bytes[65536];
                for (ssize_t n; server_ready(s, fd) && (n = read(fd, bytes, sizeof(bytes))) > 0;)
                        s->drained += (size_t)n;
        }
        close(fd);
}

/*
 * The connection that has something to say next: the kept one (fd, or -1), or a new one, for which the kept one is
 * closed. -1 when the server is being stopped.
 */
static inline int server_next(struct server *s, int fd)
{
        struct pollfd fds[] = { { .fd = s->stop[0], .events = POLLIN },
                                { .fd = fd, .events = POLLIN },
                                { .fd = s->listener, .events = POLLIN } };
        while (poll(fds, 3, -1) < 0)
                ;
        if (!fds[0].revents && fds[1].revents)
                return fd;
        if (fd >= 0)
                close(fd);
        fd = fds[0].revents ? -1 : accept(s->listener, NULL, NULL);
        s->connections += fd >= 0;
        return fd;
}

static inline void *server_main(void *context)
{
        struct server *s = context;
        int fd = -1;
        while (s->served < s->n_steps) {
                const struct server_step *step = &s->steps[s->served];
                fd = server_next(s, fd);
                if (fd < 0)
                        return NULL;
                char *request = server_read(s, fd, step->head_only);
                if (request) {
                        s->requests[s->served] = request;
                        s->served++;
                        server_write(fd, step);
                }
                if (!request || step->end != SERVER_KEEP) {
                        server_end(s, fd, request ? step->end : SERVER_CLOSE);
                        fd = -1;
                }
        }
        if (fd >= 0)
                server_end(s, fd, SERVER_HANG);
        return NULL;
}

static inline void server_start_at(struct server *s, const struct server_step *steps, size_t n_steps,
                                   struct sockaddr *address, socklen_t length)
{
        *s = (struct server){ .steps = steps, .n_steps = n_steps };
        s->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s->listener < 0 || bind(s->listener, address, length) < 0 || listen(s->listener, 8) < 0 ||
            getsockname(s->listener, address, &length) < 0 || pipe(s->stop) < 0 ||
            pthread_create(&s->thread, NULL, server_main, s) != 0)
                abort();
}

static inline void server_start(struct server *s, const struct server_step *steps, size_t n_steps)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        server_start_at(s, steps, n_steps, (struct sockaddr *)&address, sizeof(address));
        snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
}

/* Joins; afterwards requests and counters may be read. */
static inline void server_stop(struct server *s)
{
        if (s->listener < 0)
                return;
        close(s->stop[1]);
        pthread_join(s->thread, NULL);
        close(s->stop[0]);
        close(s->listener);
        s->listener = -1;
}

static inline void server_clear(struct server *s)
{
        server_stop(s);
        for (size_t i = 0; i < SERVER_STEPS; i++)
                free(s->requests[i]);
}

#endif
