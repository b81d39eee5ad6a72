/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * "ref_wake N": a bare server of N waits. A GET of /v1/operations/I is answered when the POST of
 * /v1/operations/I/cancel comes; of /metrics, with the number of those that wait. One thread, one epoll, and nothing is
 * kept of a wait but its socket: what the kernel alone takes to wake one of many.
 */

enum { EVENTS = 64, REQUEST_MAX = 2048, BODY = 300, ANSWER_MAX = 1024 };

static const char operations[] = "/v1/operations/";

struct server {
        int epoll, listener;
        size_t n;
        int *waiting; /* sockets by I */
        size_t n_waiting;
};

static void fail(const char *what)
{
        perror(what);
        exit(EXIT_FAILURE);
}

static void watch(const struct server *server, int fd)
{
        if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN, .data.fd = fd }) < 0)
                fail("epoll_ctl");
}

static void take_connection(const struct server *server)
{
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC), on = 1;

        if (fd < 0)
                fail("accept4");
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        watch(server, fd);
}

/* A body of the length that a worker's has. */
static void answer(int fd, const char *text)
{
        char answer[ANSWER_MAX];
        int size =
                snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%-*s", BODY, BODY, text);

        if (send(fd, answer, (size_t)size, MSG_NOSIGNAL) != size)
                fail("send");
}

static void take_wait(struct server *server, int fd, const char *request)
{
        size_t i = strtoul(strstr(request, operations) + strlen(operations), NULL, 10);

        if (i >= server->n)
                fail("no such wait");
        if (*request == 'G') {
                server->waiting[i] = fd;
                server->n_waiting++;
                return;
        }
        answer(server->waiting[i], "{\"status\":\"CANCELLED\"}");
        server->n_waiting--;
        answer(fd, "{}");
}

/* Requests are short and come in one piece. */
static void take_request(struct server *server, int fd)
{
        char request[REQUEST_MAX], text[64];
        ssize_t n = recv(fd, request, sizeof(request) - 1, 0);

        if (n <= 0) {
                (void)close(fd);
                return;
        }
        request[n] = '\0';
        if (strstr(request, operations)) {
                take_wait(server, fd, request);
        } else {
                (void)snprintf(text, sizeof(text), "\nferry_http_waiters %zu\n", server->n_waiting);
                answer(fd, text);
        }
}

static void listen_here(struct server *server)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);

        server->epoll = epoll_create1(EPOLL_CLOEXEC);
        server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (server->epoll < 0 || server->listener < 0 ||
            bind(server->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(server->listener, SOMAXCONN) < 0 ||
            getsockname(server->listener, (struct sockaddr *)&address, &size) < 0)
                fail("listen");
        watch(server, server->listener);
        watch(server, STDIN_FILENO);
        (void)printf("http://127.0.0.1:%u\n", ntohs(address.sin_port));
        (void)fflush(stdout);
}

int main(int argc, char **argv)
{
        struct server server = { .n = argc == 2 ? strtoul(argv[1], NULL, 10) : 0 };
        struct epoll_event events[EVENTS];

        server.waiting = calloc(server.n, sizeof(*server.waiting));
        if (!server.n || !server.waiting)
                return EXIT_FAILURE;
        listen_here(&server);
        for (;;) {
                int n = epoll_wait(server.epoll, events, EVENTS, -1);

                for (int i = 0; i < n; i++) {
                        if (events[i].data.fd == STDIN_FILENO)
                                return EXIT_SUCCESS;
                        if (events[i].data.fd == server.listener)
                                take_connection(&server);
                        else
                                take_request(&server, events[i].data.fd);
                }
        }
}
