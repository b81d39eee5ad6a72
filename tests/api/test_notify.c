/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"

/* What a service manager is told: systemd's Type=notify. */

struct manager {
        char directory[32];
        struct sockaddr_un address;
        int fd;
};

static void manager_open(struct manager *m)
{
        *m = (struct manager){ .directory = "/tmp/ferry-test-XXXXXX", .address.sun_family = AF_UNIX };
        assert_non_null(mkdtemp(m->directory));
        (void)snprintf(m->address.sun_path, sizeof(m->address.sun_path), "%s/notify", m->directory);
        m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(m->fd >= 0);
        assert_int_equal(bind(m->fd, (struct sockaddr *)&m->address, sizeof(m->address)), 0);
        assert_int_equal(setenv("NOTIFY_SOCKET", m->address.sun_path, 1), 0);
}

static void manager_close(struct manager *m)
{
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        (void)close(m->fd);
        (void)unlink(m->address.sun_path);
        (void)rmdir(m->directory);
}

/* The next message begins with this line. */
static void manager_hears(const struct manager *m, const char *line)
{
        struct pollfd wait = { .fd = m->fd, .events = POLLIN };
        char text[256];
        ssize_t n;

        assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
        n = recv(m->fd, text, sizeof(text) - 1, 0);
        assert_true(n > 0);
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        assert_string_equal(text, line);
}

static void reload_and_stop(struct worker *w, struct manager *m)
{
        assert_int_equal(kill(w->pid, SIGHUP), 0);
        manager_hears(m, "RELOADING=1");
        manager_hears(m, "READY=1");
        worker_stop(w);
        manager_hears(m, "STOPPING=1");
        manager_close(m);
}

WITH_WORKER(a_manager_hears_of_start_reload_and_stop)
{
        struct manager m;

        manager_open(&m);
        worker_start(w, "w", NULL);
        manager_hears(&m, "READY=1");
        assert_int_equal(ferry_get_readyz(w->client), 0);
        reload_and_stop(w, &m);
}

/* A reload that fails is one that has ended, too: systemctl must not wait for it. */
WITH_WORKER(a_manager_hears_of_the_end_of_a_reload_that_failed)
{
        const char *token = file_make("secret-secret-secret\n");
        struct manager m;

        manager_open(&m);
        worker_start_plain(w, "w", STRINGS("--listen", "127.0.0.1:0", "--token-file", token));
        manager_hears(&m, "READY=1");
        assert_int_equal(unlink(token), 0);
        worker_expect(w, "reloading tokens and certificates failed");
        reload_and_stop(w, &m);
}

WITH_WORKER(a_manager_that_is_gone_stops_no_worker)
{
        assert_int_equal(setenv("NOTIFY_SOCKET", "/nowhere/notify", 1), 0);
        worker_start(w, "w", NULL);
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        worker_expect(w, "notifying the service manager failed");
        assert_int_equal(ferry_get_readyz(w->client), 0);
}
