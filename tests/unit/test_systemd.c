/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/systemd.h"

#include "unit.h"

/* A manager's socket in the abstract namespace, under a name that the kernel chooses; $NOTIFY_SOCKET names it. */
static int manager_open(void)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        socklen_t size = sizeof(sa_family_t);
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
        size = sizeof(address);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        assert_int_equal(setenv("NOTIFY_SOCKET",
                                text_format("@%.*s", (int)(size - offsetof(struct sockaddr_un, sun_path)) - 1,
                                            address.sun_path + 1),
                                1),
                         0);
        return fd;
}

/* What has come, all of one datagram; it is there already. */
static const char *manager_hears(int fd)
{
        static char text[256];
        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

        assert_true(n >= 0);
        text[n] = '\0';
        return text;
}

TEST(without_a_manager_nothing_is_said)
{
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        assert_int_equal(notify_ready(), 0);
        assert_int_equal(setenv("NOTIFY_SOCKET", "", 1), 0);
        assert_int_equal(notify_ready(), 0);
}

TEST(a_manager_in_the_abstract_namespace_is_told)
{
        int fd = manager_open();
        uint64_t before = clock_now_us(), said;

        assert_int_equal(notify_ready(), 0);
        assert_string_equal(manager_hears(fd), "READY=1");
        assert_int_equal(notify_reloading(), 0);
        assert_int_equal(sscanf(manager_hears(fd), "RELOADING=1\nMONOTONIC_USEC=%" SCNu64, &said), 1);
        assert_in_range(said, before, clock_now_us());
        assert_int_equal(notify_stopping(31000), 0);
        assert_string_equal(manager_hears(fd), "STOPPING=1\nEXTEND_TIMEOUT_USEC=31000000");
        (void)close(fd);
        assert_int_equal(notify_ready(), -ECONNREFUSED);
}

TEST(names_that_are_no_socket_s_are_refused)
{
        char name[200];

        assert_int_equal(setenv("NOTIFY_SOCKET", "vsock:2:1234", 1), 0);
        assert_int_equal(notify_ready(), -EINVAL);
        memset(name, 'a', sizeof(name));
        name[0] = '/';
        name[sizeof(((struct sockaddr_un *)NULL)->sun_path)] = '\0'; /* no room for the NUL */
        assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
        assert_int_equal(notify_ready(), -EINVAL);
        name[sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1] = '\0'; /* fits; nobody is there */
        assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
        assert_int_equal(notify_ready(), -ENOENT);
}
