/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "moved_clock.h"
#include "serve_internal.h"

/*
 * libmicrohttpd 1.0 takes a connection in when the daemon is next run, 0.9.75 while it is added. Here it is always
 * late, whatever the version, or closes the socket without a word.
 */

enum { LATE_MAX = 64 };

static struct {
        pthread_mutex_t lock;
        struct late {
                struct MHD_Daemon *daemon;
                MHD_socket fd;
                struct sockaddr_storage address;
                socklen_t size;
        } late[LATE_MAX];
        size_t n;
        unsigned drop; /* the next so many */
} library = { .lock = PTHREAD_MUTEX_INITIALIZER };

enum MHD_Result __real_MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd, const struct sockaddr *address,
                                          socklen_t size);
enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd, const struct sockaddr *address,
                                          socklen_t size);
enum MHD_Result __real_MHD_run_wait(struct MHD_Daemon *daemon, int32_t ms);
enum MHD_Result __wrap_MHD_run_wait(struct MHD_Daemon *daemon, int32_t ms);

enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd, const struct sockaddr *address,
                                          socklen_t size)
{
        pthread_mutex_lock(&library.lock);
        if (library.drop) {
                library.drop--;
                close(fd);
        } else {
                struct late *late = &library.late[library.n++];
                assert_true(library.n <= LATE_MAX);
                *late = (struct late){ .daemon = daemon, .fd = fd, .size = size };
                memcpy(&late->address, address, size);
        }
        pthread_mutex_unlock(&library.lock);
        return MHD_YES;
}

/*
 * Sockets of the server have numbers of their own, so that the lowest free one is that of the one closed before. Among
 * the lowest of all, the test's next socket may have that, as accept4() holds a number while it finds that nobody
 * waits.
 */
int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
        enum { OWN = 200 };
        int accepted = __real_accept4(fd, address, size, flags), own;

        if (accepted < 0)
                return accepted;
        own = fcntl(accepted, F_DUPFD_CLOEXEC, OWN);
        assert_true(own >= OWN);
        close(accepted);
        return own;
}

/* false: none waits for the daemon. */
static bool take(struct MHD_Daemon *daemon, struct late *ret_late)
{
        bool found = false;

        pthread_mutex_lock(&library.lock);
        for (size_t i = 0; i < library.n && !found; i++) {
                found = library.late[i].daemon == daemon;
                if (found) {
                        *ret_late = library.late[i];
                        library.late[i] = library.late[--library.n];
                }
        }
        pthread_mutex_unlock(&library.lock);
        return found;
}

enum MHD_Result __wrap_MHD_run_wait(struct MHD_Daemon *daemon, int32_t ms)
{
        struct late late;

        while (take(daemon, &late))
                (void)__real_MHD_add_connection(late.daemon, late.fd, (struct sockaddr *)&late.address, late.size);
        return __real_MHD_run_wait(daemon, ms);
}

/* One thread, so that two connections are all. */
static int setup(void **state)
{
        struct http_fixture *h;

        if (http_setup(state))
                return -1;
        h = *state;
        http_stop(h);
        h->config.threads = 1;
        h->config.limits.connections_max = 2;
        h->config.limits.wait_ms_max = 600000;
        http_start(h);
        return 0;
}

static void drop_next(unsigned n)
{
        pthread_mutex_lock(&library.lock);
        library.drop = n;
        pthread_mutex_unlock(&library.lock);
}

/* What the library closes without a word. */
static void connect_in_vain(struct http_fixture *h)
{
        struct raw_answer reply;

        drop_next(1);
        reply = raw_receive_last(http_begin(h, "GET", "/livez", "", NULL));
        assert_int_equal(reply.status, 0);
        assert_string_equal(reply.rest, "");
}

#define CASE(name) TEST_OF(struct http_fixture *h, name, setup, http_teardown)

CASE(a_connection_that_is_taken_in_late_is_served)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        int first = raw_dial(h->port), second;

        http_ping(first);
        second = http_begin(h, "GET", operation_path(operation, "?wait_ms=60000"), "", NULL);
        await_parked(h, 1);
        operation_cancel(h->f->store, operation);
        expect_status(raw_receive_last(second), 200);
        http_ping(first);
        close(first);
}

CASE(a_descriptor_that_comes_again_replaces_the_lost_connection)
{
        int first, second;

        for (int i = 0; i < 3; i++)
                connect_in_vain(h);
        first = raw_dial(h->port);
        http_ping(first);
        second = raw_dial(h->port);
        http_ping(second);
        http_ping(first);
        close(first);
        close(second);
}

/* The other slot is a request's that waits: an idle connection would make room. */
CASE(a_lost_connection_gives_its_slot_back)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        int waiting, late;

        waiting = http_begin(h, "GET", operation_path(operation, "?wait_ms=600000"), "", NULL);
        await_parked(h, 1);
        connect_in_vain(h);
        late = http_begin(h, "GET", "/livez", "", NULL);
        later_us = UINT64_C(120) * 1000000;
        expect_status(raw_receive_last(late), 200);
        operation_cancel(h->f->store, operation);
        expect_status(raw_receive_last(waiting), 200);
}

CASE(a_server_that_ends_forgets_lost_connections)
{
        connect_in_vain(h);
        http_stop(h);
}
