/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker_fixture.h"

/* Workers that start before their network is up: that of a namespace of this program's own. */

static void take_line(void *context, const char *level, const char *line)
{
        if (strstr(line, "network transport opened"))
                bell_ring(context);
}

static void loopback_up(void)
{
        struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
        (void)close(fd);
}

TEST(metadata_name_the_network_that_has_opened_meanwhile)
{
        struct bell opened = BELL;
        char from[4] = "abc", to[4] = "";

        if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
                skip();
        assert_int_equal(ferry_worker_log("info", take_line, &opened), 0);
        struct ferry_worker *a = WORKER("data-listen", "lo:0"), *b = WORKER("data-listen", "lo:0");
        assert_int_equal(opened.times, 0);
        loopback_up();
        bell_await(&opened, 2);

        struct ferry_worker_operation *offer = create_on(a, FERRY_READABLE, from, sizeof(from), NULL);
        struct ferry_worker_operation *read = create_on(b, FERRY_READ, to, sizeof(to), metadata_of(offer));
        if (ferry_worker_operation_wait(read, -1) != 0)
                fail_msg("%s", ferry_worker_error());
        assert_string_equal(to, from);
        (void)ferry_worker_operation_free(read);
        (void)ferry_worker_operation_free(offer);
        (void)ferry_worker_free(b);
        (void)ferry_worker_free(a);
        assert_int_equal(ferry_worker_log("warn", NULL, NULL), 0);
}
