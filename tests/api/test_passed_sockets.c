/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire.h"

/* --listen systemd: the listening sockets are another's. */

static const char *const flags[] = { "--listen", "systemd", NULL };

static int listening(const void *address, sa_family_t family, socklen_t size)
{
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, address, size), 0);
        assert_int_equal(listen(fd, 5), 0);
        return fd;
}

/* Clients that come while no worker runs are served by the next. */
WITH_SHARED(a_worker_serves_on_sockets_that_stay_their_makers)
{
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_un local = { .sun_family = AF_UNIX };
        struct worker *w = &s->pair.a;
        int fds[2], fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)snprintf(local.sun_path, sizeof(local.sun_path), "%s/worker.sock", s->path);
        fds[0] = listening(&loopback, AF_INET, sizeof(loopback));
        fds[1] = listening(&local, AF_UNIX, sizeof(local));
        assert_int_equal(connect(fd, (struct sockaddr *)&local, sizeof(local)), 0);
        raw_send(fd, request, strlen(request));
        worker_pass(fds, 2);
        for (int run = 0; run < 2; run++) {
                worker_start_plain(w, "w", flags);
                struct json_object *ready = json_parse(w->ready), *http = json_member(ready, "http");
                assert_int_equal(json_object_array_length(http), 2);
                for (size_t i = 0; i < 2; i++) {
                        worker_connect(w, json_object_get_string(json_object_array_get_idx(http, i)), NULL);
                        assert_int_equal(ferry_get_readyz(w->client), 0);
                }
                worker_stop(w);
                assert_int_equal(access(local.sun_path, F_OK), 0);
        }
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 200);
        worker_pass(NULL, 0);
        (void)close(fds[0]);
        (void)close(fds[1]);
}

static void refused(const char *text)
{
        const char *errors;

        assert_int_equal(ferryd_run(flags, NULL, &errors), 2);
        if (!strstr(errors, text))
                print_error("no \"%s\" in: %s", text, errors);
        assert_non_null(strstr(errors, text));
}

TEST(sockets_that_must_not_be_served_on_are_refused)
{
        struct sockaddr_in any = { .sin_family = AF_INET };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        refused("no socket was passed");
        worker_pass(&fd, 1);
        refused("descriptor 3 is no listening stream socket");
        (void)close(fd);
        fd = listening(&any, AF_INET, sizeof(any));
        worker_pass(&fd, 1);
        refused("--listen systemd:3 is not loopback, so other machines may reach it");
        worker_pass(NULL, 0);
        (void)close(fd);
}
