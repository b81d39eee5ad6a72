/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd.h"
#include "raw.h"
#include "test.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program(void)
{
        static const char *const paths[] = { "/usr/bin/etcd", "/usr/local/bin/etcd" };

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (access(paths[i], X_OK) == 0)
                        return paths[i];
        return NULL;
}

bool etcd_is_here(void)
{
        if (program())
                return true;
        print_message("Skipped: no etcd here (scripts/setup --all installs etcd-server)\n");
        return false;
}

/* status 0: nobody listens, or there was no answer. */
static struct raw_answer exchange(const struct etcd *etcd, const char *path, const char *body)
{
        /* HTTP/1.0: no chunks, and the end of the connection is the end of the answer. */
        const char *request = text_format("POST %s HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                                          "Content-Length: %zu\r\n\r\n%s",
                                          path, strlen(body), body);
        int fd = raw_try(etcd->port);

        if (fd < 0)
                return (struct raw_answer){ 0 };
        raw_send(fd, request, strlen(request));
        return raw_receive_last(fd);
}

const char *etcd_ask(const struct etcd *etcd, const char *path, const char *body)
{
        struct raw_answer answer = exchange(etcd, path, body);

        assert_int_not_equal(answer.status, 0);
        return answer.body;
}

/* In the child. */
static void run(const struct etcd *etcd, pid_t parent)
{
        char log[64], store[64], urls[128], files[3][256];
        /* Elections of 100 ms, so that it starts at once and grants short leases. */
        const char *argv[32] = { "etcd",
                                 "--data-dir",
                                 store,
                                 "--listen-client-urls",
                                 urls,
                                 "--advertise-client-urls",
                                 etcd->url,
                                 "--listen-peer-urls",
                                 "http://127.0.0.1:0",
                                 "--initial-advertise-peer-urls",
                                 "http://127.0.0.1:1",
                                 "--initial-cluster",
                                 "default=http://127.0.0.1:1",
                                 "--heartbeat-interval",
                                 "10",
                                 "--election-timeout",
                                 "100",
                                 "--logger",
                                 "zap",
                                 "--log-level",
                                 "error" };
        static const char *const flags[] = { "--trusted-ca-file", "--cert-file", "--key-file" };
        static const char *const names[] = { "ca", "server", "server-key" };
        size_t n = 0;
        FILE *file;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(log, sizeof(log), "%s/log", etcd->directory);
        (void)snprintf(store, sizeof(store), "%s/store", etcd->directory);
        (void)snprintf(urls, sizeof(urls), "%s%s%s", etcd->url, etcd->tls ? "," : "", etcd->secure_url);
        while (argv[n])
                n++;
        for (size_t i = 0; etcd->tls && i < 3; i++) {
                (void)snprintf(files[i], sizeof(files[i]), "%s/%s.pem", etcd->tls, names[i]);
                argv[n++] = flags[i];
                argv[n++] = files[i];
        }
        if (etcd->tls)
                argv[n] = "--client-cert-auth";
        file = fopen(log, "a");
        if (getppid() != parent || !file)
                _exit(127);
        (void)dup2(fileno(file), STDOUT_FILENO);
        (void)dup2(fileno(file), STDERR_FILENO);
        (void)close_range(3, ~0U, 0);
        (void)execv(program(), (char *const *)(uintptr_t)argv);
        _exit(127);
}

static bool answers(const struct etcd *etcd)
{
        if (waitpid(etcd->pid, NULL, WNOHANG) != 0)
                fail_msg("etcd does not start: see %s/log", etcd->directory);
        return exchange(etcd, "/v3/lease/grant", "{\"TTL\":\"1\"}").status == 200;
}

static void spawn(struct etcd *etcd)
{
        pid_t parent = getpid();

        etcd->pid = fork();
        if (etcd->pid == 0)
                run(etcd, parent);
        assert_true(etcd->pid > 0);
        WAIT_UNTIL(answers(etcd));
}

void etcd_start(struct etcd *etcd, const char *tls)
{
        uint16_t secure_port;

        *etcd = (struct etcd){ .tls = tls, .directory = "/tmp/ferry-etcd-XXXXXX" };
        /* They must be the same after a restart, so etcd cannot choose them. */
        etcd->held[0] = raw_hold(&etcd->port);
        etcd->held[1] = raw_hold(&secure_port);
        assert_non_null(mkdtemp(etcd->directory));
        (void)snprintf(etcd->url, sizeof(etcd->url), "http://127.0.0.1:%d", etcd->port);
        if (tls)
                (void)snprintf(etcd->secure_url, sizeof(etcd->secure_url), "https://127.0.0.1:%d", secure_port);
        spawn(etcd);
}

void etcd_kill(struct etcd *etcd)
{
        if (etcd->pid <= 0)
                return;
        (void)kill(etcd->pid, SIGKILL);
        (void)waitpid(etcd->pid, NULL, 0);
        etcd->pid = 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
        (void)status;
        (void)type;
        (void)where;
        return remove(path);
}

void etcd_start_again(struct etcd *etcd, bool empty)
{
        char store[64];

        etcd_kill(etcd);
        (void)snprintf(store, sizeof(store), "%s/store", etcd->directory);
        if (empty)
                (void)nftw(store, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        spawn(etcd);
}

void etcd_pause(struct etcd *etcd)
{
        siginfo_t information;

        assert_int_equal(kill(etcd->pid, SIGSTOP), 0);
        assert_int_equal(waitid(P_PID, (id_t)etcd->pid, &information, WSTOPPED), 0);
}

void etcd_resume(struct etcd *etcd)
{
        assert_int_equal(kill(etcd->pid, SIGCONT), 0);
}

void etcd_clean(struct etcd *etcd)
{
        etcd_kill(etcd);
        for (size_t i = 0; i < 2 && etcd->port; i++)
                (void)close(etcd->held[i]);
        if (etcd->directory[0])
                (void)nftw(etcd->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        *etcd = (struct etcd){ 0 };
}
