/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd.h"
#include "test.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY_MS = 30000, LOOK_MS = 20, ANSWER_MS = 10000 };

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

static int64_t now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Free now; it must be the same after a restart, so etcd cannot choose it. */
static int free_port(void)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        (void)close(fd);
        return ntohs(address.sin_port);
}

/* The whole answer, NULL where there is none. */
static char *exchange(const struct etcd *etcd, const char *path, const char *body)
{
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                       .sin_port = htons((uint16_t)etcd->port) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const struct timeval limit = { .tv_sec = ANSWER_MS / 1000 };
        char *request = NULL, *answer = calloc(1, 1);
        size_t size = 0;
        ssize_t n = -1;

        assert_true(fd >= 0 && answer);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        /* HTTP/1.0: no chunks, and the end of the connection is the end of the answer. */
        assert_true(asprintf(&request,
                             "POST %s HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             path, strlen(body), body) > 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
            send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request)) {
                do {
                        answer = realloc(answer, size + 4097);
                        assert_non_null(answer);
                        n = read(fd, answer + size, 4096);
                        size += n > 0 ? (size_t)n : 0;
                        answer[size] = '\0';
                } while (n > 0);
        }
        (void)close(fd);
        free(request);
        if (n == 0 && strstr(answer, "\r\n\r\n"))
                return answer;
        free(answer);
        return NULL;
}

char *etcd_ask(const struct etcd *etcd, const char *path, const char *body)
{
        char *answer = exchange(etcd, path, body), *rest;

        assert_non_null(answer);
        rest = strdup(strstr(answer, "\r\n\r\n") + 4);
        free(answer);
        assert_non_null(rest);
        return rest;
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
        char *answer = exchange(etcd, "/v3/lease/grant", "{\"TTL\":\"1\"}");
        bool good = answer && strstr(answer, " 200 ");

        free(answer);
        return good;
}

static void spawn(struct etcd *etcd)
{
        const struct timespec look = { .tv_nsec = LOOK_MS * 1000000L };
        const int64_t until = now_ms() + READY_MS;
        pid_t parent = getpid();

        etcd->pid = fork();
        if (etcd->pid == 0)
                run(etcd, parent);
        assert_true(etcd->pid > 0);
        while (!answers(etcd)) {
                if (now_ms() > until || waitpid(etcd->pid, NULL, WNOHANG) != 0)
                        fail_msg("etcd does not start: see %s/log", etcd->directory);
                (void)nanosleep(&look, NULL);
        }
}

void etcd_start(struct etcd *etcd, const char *tls)
{
        *etcd = (struct etcd){ .port = free_port(), .tls = tls, .directory = "/tmp/ferry-etcd-XXXXXX" };
        assert_non_null(mkdtemp(etcd->directory));
        (void)snprintf(etcd->url, sizeof(etcd->url), "http://127.0.0.1:%d", etcd->port);
        if (tls)
                (void)snprintf(etcd->secure_url, sizeof(etcd->secure_url), "https://127.0.0.1:%d", free_port());
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
        if (etcd->directory[0])
                (void)nftw(etcd->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        *etcd = (struct etcd){ 0 };
}
