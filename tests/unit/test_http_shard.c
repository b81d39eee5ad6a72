/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "serve_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

enum { THREADS = 2, CROWD = 300, LIMIT = 150 };
_Static_assert(CROWD > 2 * THREADS * SHARD_CONNECTIONS, "shards are started while others are full");
_Static_assert(LIMIT / THREADS > SHARD_CONNECTIONS && LIMIT < CROWD, "the limit is reached over several shards");

/* The address of the clients that come next, as take_connection sees it. */
static _Atomic(uint64_t) client_key;

uint64_t __wrap_address_key(const union http_address *address);

uint64_t __wrap_address_key(const union http_address *address)
{
        return atomic_load(&client_key);
}

/* What accept4 fails with; 0 = it does not. And how often it has. */
static atomic_int accept_error;
static atomic_uint n_refused;

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
        if (!atomic_load(&accept_error))
                return __real_accept4(fd, address, size, flags);
        atomic_fetch_add(&n_refused, 1);
        errno = atomic_load(&accept_error);
        return -1;
}

/* A server for a crowd; the fixture's has lower limits. */
static void start(struct http_fixture *h, uint64_t connections)
{
        http_stop(h);
        h->config.threads = THREADS;
        h->config.limits.waiters_max = CROWD;
        h->config.limits.connections_max = connections;
        http_start(h);
}

#define TOKEN "Authorization: Bearer shard-token\r\n"

static int ask(struct http_fixture *h, struct operation *operation)
{
        return http_begin(h, "GET", operation_path(operation, "?wait_ms=60000"), TOKEN, NULL);
}

/* A connection on which the token was shown, and which is idle. */
static int dial_trusted(struct http_fixture *h)
{
        static const char request[] = "GET /v1/limits HTTP/1.1\r\nHost: localhost\r\n" TOKEN "\r\n";
        struct raw_answer reply;
        int fd = raw_dial(h->port);

        raw_send(fd, request, strlen(request));
        raw_receive(fd, false, &reply);
        assert_int_equal(reply.status, 200);
        return fd;
}

/* Parks n requests. What the HTTP threads did for them happened before this returns. */
static void gather(struct http_fixture *h, struct operation *operation, int *fds, size_t n, size_t n_parked)
{
        for (size_t i = 0; i < n; i++)
                fds[i] = ask(h, operation);
        await_parked(h, n_parked);
}

static void expect_answers(int *fds, size_t n, const char *done)
{
        for (size_t i = 0; i < n; i++) {
                struct raw_answer reply = expect_status(raw_receive_last(fds[i]), 200);
                assert_string_equal(reply_field(&reply, "done"), done);
        }
}

WITH_HTTP(a_crowd_is_spread_over_shards_and_woken_one_by_one_or_all)
{
        struct operation *one = make(h->f, FERRY_READABLE), *all = make(h->f, FERRY_READABLE);
        int fds[CROWD];
        size_t n_shards = 0, n_connections = 0;

        start(h, 2 * CROWD);
        gather(h, all, fds, CROWD - 1, CROWD - 1);
        gather(h, one, fds + CROWD - 1, 1, CROWD);
        for (size_t i = 0; i < h->server->n_threads; i++) {
                const struct http_thread *thread = h->server->threads[i];
                n_shards += thread->shards.n;
                for (size_t k = 0; k < thread->shards.n; k++) {
                        assert_true(thread->shards.shards[k]->n_connections <= SHARD_CONNECTIONS);
                        n_connections += thread->shards.shards[k]->n_connections;
                }
        }
        assert_int_equal(n_connections, CROWD);
        assert_in_range(n_shards, (CROWD + SHARD_CONNECTIONS - 1) / SHARD_CONNECTIONS,
                        CROWD / SHARD_CONNECTIONS + THREADS);
        operation_cancel(h->f->store, one);
        expect_answers(fds + CROWD - 1, 1, "true");
        await_parked(h, CROWD - 1);
        operation_cancel(h->f->store, all);
        expect_answers(fds, CROWD - 1, "true");
        await_parked(h, 0);
        expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
}

WITH_HTTP(the_end_of_the_server_answers_a_crowd)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        int fds[CROWD];

        start(h, 2 * CROWD);
        gather(h, operation, fds, CROWD, CROWD);
        http_stop(h);
        expect_answers(fds, CROWD, "false");
}

/* How many connections nobody has accepted yet. */
static unsigned waiting(const struct http_fixture *h)
{
        struct tcp_info info;
        socklen_t size = sizeof(info);

        assert_int_equal(getsockopt(h->server->listeners[0].fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
        return info.tcpi_unacked;
}

WITH_HTTP(the_limit_holds_over_all_shards_and_ends_with_a_connection)
{
        struct operation *one = make(h->f, FERRY_READABLE), *all = make(h->f, FERRY_READABLE);
        int fds[LIMIT - 1], kept, late;

        h->config.secrets.token = "shard-token"; /* else the idle connection would make room */
        start(h, LIMIT);
        kept = dial_trusted(h);
        gather(h, all, fds, LIMIT - 2, LIMIT - 2);
        gather(h, one, fds + LIMIT - 2, 1, LIMIT - 1);
        late = http_begin(h, "GET", "/livez", "", NULL);
        http_ping(kept); /* its thread looks at everything that has come, and then again */
        http_ping(kept);
        assert_int_equal(waiting(h), 1);
        operation_cancel(h->f->store, one);
        expect_answers(fds + LIMIT - 2, 1, "true");
        expect_status(raw_receive_last(late), 200);
        operation_cancel(h->f->store, all);
        expect_answers(fds, LIMIT - 2, "true");
        close(kept);
}

WITH_HTTP(one_address_leaves_places_to_others)
{
        enum { PLACES = 16, SHARE = 14 };
        int fds[PLACES], late;
        char byte;

        http_stop(h);
        h->config.threads = 1;
        h->config.limits.connections_max = PLACES;
        http_start(h);
        assert_int_equal(quota_share(PLACES), SHARE);
        atomic_store(&client_key, 5);
        for (int i = 0; i < SHARE; i++) {
                fds[i] = raw_dial(h->port);
                http_ping(fds[i]);
        }
        late = raw_dial(h->port);
        assert_true(recv(late, &byte, 1, 0) <= 0); /* closed, without a byte */
        close(late);
        assert_int_equal(metric_value(h->server->ended[HTTP_END_ADDRESS_LIMIT]), 1);
        atomic_store(&client_key, 7);
        fds[SHARE] = raw_dial(h->port);
        http_ping(fds[SHARE]);
        atomic_store(&client_key, 0); /* this machine */
        fds[SHARE + 1] = raw_dial(h->port);
        http_ping(fds[SHARE + 1]);
        for (int i = 0; i < SHARE; i++)
                http_ping(fds[i]);
        for (int i = 0; i < PLACES; i++)
                close(fds[i]);
}

WITH_HTTP(without_descriptors_clients_wait_until_there_are_some)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        struct rlimit before, none;
        int kept = raw_dial(h->port), late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        http_ping(kept);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
        address.sin_port = htons(h->port);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(connect(late, (struct sockaddr *)&address, sizeof(address)), 0);
        raw_send(late, request, strlen(request));
        http_ping(kept);
        http_ping(kept);
        assert_int_equal(waiting(h), 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        expect_status(raw_receive_last(late), 200);
        close(kept);
}

static void count_paused(void *context, const char *level, const char *line)
{
        if (strcmp(level, "warn") == 0 && strstr(line, "accepting HTTP clients paused"))
                atomic_fetch_add((atomic_uint *)context, 1);
}

/* As a firewall and a sandbox make it fail. */
WITH_HTTP(an_accept_that_fails_is_logged_once_and_repeated_after_a_pause)
{
        enum { PAUSE_US = 100000, PAUSES = 2 };
        static atomic_uint lines;
        uint64_t began_us;
        unsigned n;
        int late;

        start(h, CROWD);
        log_set_level(LOG_WARN);
        assert_int_equal(log_set_sink(count_paused, &lines), 0);
        began_us = clock_now_us();
        atomic_store(&accept_error, EPERM);
        late = http_begin(h, "GET", "/livez", "", NULL);
        WAIT_UNTIL(atomic_load(&n_refused) > PAUSES * THREADS);
        n = atomic_load(&n_refused); /* before the time is read */
        assert_true(n <= THREADS * (1 + (clock_now_us() - began_us) / PAUSE_US));
        assert_in_range(atomic_load(&lines), 1, THREADS);
        atomic_store(&accept_error, 0);
        expect_status(raw_receive_last(late), 200);
        assert_int_equal(log_set_sink(NULL, NULL), 0);
        log_set_level(LOG_ERROR);
}

/* ---- new credentials ---- */

static struct {
        struct http_shard *shard; /* which the test plays; NULL = none */
        struct http_credentials *newest;
        unsigned n_renewals;
        int fd; /* its daemon's */
} played;

int __real_shard_renew(struct http_shard *shard);
int __wrap_shard_renew(struct http_shard *shard);
int __real_shard_epoll_fd(const struct http_shard *shard);
int __wrap_shard_epoll_fd(const struct http_shard *shard);

int __wrap_shard_renew(struct http_shard *shard)
{
        if (!played.shard || shard != played.shard)
                return __real_shard_renew(shard);
        played.n_renewals++;
        credentials_unref(shard->credentials);
        shard->credentials = credentials_ref(played.newest);
        return 0;
}

int __wrap_shard_epoll_fd(const struct http_shard *shard)
{
        return played.shard && shard == played.shard ? played.fd : __real_shard_epoll_fd(shard);
}

static struct http_credentials *no_certificate(void)
{
        struct http_credentials *credentials;

        assert_int_equal(credentials_new(&(struct http_secrets){ 0 }, &credentials), 0);
        return credentials;
}

WITH_HTTP(a_shard_that_could_not_be_watched_gets_no_connection)
{
        struct credentials_source source;
        struct shard_owner owner = { .server = h->server, .credentials.source = &source };
        struct http_shard shard = { .owner = &owner, .tls = true };
        struct shard_list list = { .owner = &owner, .epoll_fd = epoll_create1(EPOLL_CLOEXEC), .n = 1, .capacity = 1 };

        credentials_source_init(&source);
        credentials_replace(&source, no_certificate());
        shard.credentials = no_certificate();
        list.shards = calloc(1, sizeof(list.shards[0]));
        list.shards[0] = &shard;
        played.shard = &shard;
        played.newest = source.newest;
        played.fd = -1; /* the kernel takes no more watches */
        assert_null(shard_list_room(&list, true));
        played.fd = eventfd(0, EFD_CLOEXEC);
        assert_ptr_equal(shard_list_room(&list, true), &shard);
        assert_int_equal(played.n_renewals, 2);
        assert_int_equal(epoll_ctl(list.epoll_fd, EPOLL_CTL_DEL, played.fd, NULL), 0); /* it is watched */
        played.shard = NULL;
        close(played.fd);
        close(list.epoll_fd);
        free(list.shards);
        credentials_unref(shard.credentials);
        credentials_forget(&owner.credentials);
        credentials_source_destroy(&source);
}
