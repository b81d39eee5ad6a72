/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <json-c/json.h>
#include <microhttpd.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref.h"

/*
 * A bare libmicrohttpd, started with the flags of Ferry's server. "ref_http bytes N": answers with N bytes of memory.
 *
 * "ref_http calls OFFER READ WAIT": two of them, in a process each, that answer the three calls of a transfer of 4 KiB
 * with these documents and a worker's headers. They read the bodies with json-c, and do nothing about any of it but
 * what no two workers can do without: a round trip between them, which brings the bytes before the read is answered,
 * and a message that the wait is answered after. Both look for messages as long as Ferry does before they sleep. The
 * first line is the URL of the passive one, the second that of the active one.
 */

enum { SIZE = 4096, BODY_MAX = 64 << 10 };

#define SPIN_S 500e-6

static struct {
        const char *type, *post, *get;
        size_t post_size, get_size;
} documents;

static pid_t child;   /* the passive one */
static int peer = -1; /* socket to the other process; -1 = there is none */
static bool active;
static atomic_bool told; /* the passive one: of the end of a transfer that no wait was answered for yet */

static _Noreturn void fail(const char *what)
{
        perror(what);
        exit(EXIT_FAILURE);
}

/* ---- the two processes ---- */

static void tell(const void *data, size_t size)
{
        if (send(peer, data, size, MSG_NOSIGNAL) != (ssize_t)size)
                fail("send");
}

/* Looks for a while and lets others run, then sleeps. Returns 0 when the other process has ended. */
static ssize_t hear(void *data, size_t size)
{
        double start = ref_now();
        ssize_t n;

        while ((n = recv(peer, data, size, MSG_DONTWAIT)) < 0) {
                if (ref_now() - start > SPIN_S)
                        return recv(peer, data, size, 0);
                (void)sched_yield();
        }
        return n;
}

/* The active one, before it answers the read. */
static void make_trip(void)
{
        uint8_t bytes[SIZE];

        tell("r", 1);
        if (hear(bytes, sizeof(bytes)) != SIZE)
                fail("recv");
        tell("d", 1);
}

/* The passive one, until the other ends. */
static void serve_trips(void)
{
        static const uint8_t bytes[SIZE];
        char word;

        while (hear(&word, 1) == 1) {
                if (word == 'r')
                        tell(bytes, sizeof(bytes));
                else
                        atomic_store(&told, true);
        }
}

static void await_end_of_transfer(void)
{
        while (!atomic_exchange(&told, false))
                (void)sched_yield();
}

/* ---- HTTP ---- */

/* Of the one request that is under way where there are calls. */
static struct {
        size_t size;
        char bytes[BODY_MAX];
} body;

static bool take_body(const char *data, size_t size)
{
        if (size > sizeof(body.bytes) - 1 - body.size)
                return false;
        memcpy(body.bytes + body.size, data, size);
        body.size += size;
        body.bytes[body.size] = '\0';
        return true;
}

static void act(bool post)
{
        struct json_object *json = post ? json_tokener_parse(body.bytes) : NULL;

        if (post && !json)
                fail("not JSON");
        json_object_put(json);
        if (active && post)
                make_trip();
        if (!active && !post)
                await_end_of_transfer();
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
        static const char *const headers[][2] = {
                { MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
                { MHD_HTTP_HEADER_ETAG, "\"r1\"" },
                { "Request-Id", "req_0123456789abcdef" },
                { MHD_HTTP_HEADER_LOCATION, "/v1/operations/op_0123456789abcdef" },
        };
        bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
        struct MHD_Response *response;
        enum MHD_Result result;
        static int seen;

        if (!*state) { /* the headers came; a body may follow */
                *state = &seen;
                body.size = 0;
                return MHD_YES;
        }
        if (*size) {
                enum MHD_Result taken = take_body(data, *size) ? MHD_YES : MHD_NO;

                *size = 0;
                return taken;
        }
        if (peer >= 0)
                act(post);
        response = MHD_create_response_from_buffer(post ? documents.post_size : documents.get_size,
                                                   (void *)(uintptr_t)(post ? documents.post : documents.get),
                                                   MHD_RESPMEM_PERSISTENT);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, documents.type);
        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
                (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
        result = MHD_queue_response(connection, post ? MHD_HTTP_CREATED : MHD_HTTP_OK, response);
        MHD_destroy_response(response);
        return result;
}

/* Its URL, into text. */
static void serve(char *text, size_t size)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned threads = cores < 2 ? 2 : cores > 4 ? 4 : (unsigned)cores;
        struct MHD_Daemon *daemon = MHD_start_daemon(
                MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer,
                NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
                10000u, MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_END);

        if (!daemon)
                fail("libmicrohttpd");
        (void)snprintf(text, size, "http://127.0.0.1:%u", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
}

static void take_bytes(const char *number)
{
        char *bytes;

        documents.type = "application/octet-stream";
        documents.get_size = strtoull(number, NULL, 10);
        bytes = malloc(documents.get_size);
        if (!bytes)
                fail("malloc");
        memset(bytes, 7, documents.get_size);
        documents.get = bytes;
}

/* Becomes two processes, of which the parent is the active one. */
static void take_calls(char **answers)
{
        pid_t parent = getpid();
        int sockets[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                fail("socketpair");
        child = fork();
        active = child != 0;
        peer = sockets[active];
        (void)close(sockets[!active]);
        documents.type = "application/json";
        documents.post = answers[active];
        documents.get = answers[2];
        documents.post_size = strlen(documents.post);
        documents.get_size = strlen(documents.get);
        if (active)
                return;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
        char url[64], passive_url[64];

        if (argc == 3 && strcmp(argv[1], "bytes") == 0)
                take_bytes(argv[2]);
        else if (argc == 5 && strcmp(argv[1], "calls") == 0)
                take_calls(argv + 2);
        else
                return EXIT_FAILURE;
        serve(url, sizeof(url));
        if (peer >= 0 && !active) {
                tell(url, sizeof(url));
                serve_trips();
                _exit(EXIT_SUCCESS); /* its server's threads have nothing to save */
        }
        if (active && recv(peer, passive_url, sizeof(passive_url), 0) == sizeof(passive_url))
                (void)puts(passive_url);
        (void)puts(url);
        (void)fflush(stdout);
        while (getchar() != EOF)
                ;
        if (active) {
                (void)close(peer);
                (void)waitpid(child, NULL, 0);
        }
        _exit(EXIT_SUCCESS);
}
