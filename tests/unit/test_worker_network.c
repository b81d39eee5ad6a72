/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/worker.h>

#include "unit.h"

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

static struct ferry_worker *worker_of_the_network(void)
{
        struct ferry_worker_options *options = ferry_worker_options_new();
        struct ferry_worker *worker = NULL;

        assert_int_equal(ferry_worker_options_set(options, "local", "off"), 0);
        assert_int_equal(ferry_worker_options_set(options, "data-listen", "lo:0"), 0);
        if (ferry_worker_new(options, &worker) != 0)
                fail_msg("%s", ferry_worker_error());
        (void)ferry_worker_options_free(options);
        return worker;
}

static struct ferry_worker_operation *create(struct ferry_worker *worker, enum ferry_kind kind, char *memory,
                                             const char *remote)
{
        struct ferry_worker_request *request = ferry_worker_request_new(kind);
        struct ferry_worker_operation *operation = NULL;
        char region[FERRY_WORKER_ID_SIZE];

        assert_int_equal(ferry_worker_region_add(worker, memory, 4, NULL, NULL, region), 0);
        assert_int_equal(ferry_worker_request_add(request, region, 0, 4), 0);
        assert_int_equal(ferry_worker_operation_create(worker, request, remote, &operation), 0);
        (void)ferry_worker_request_free(request);
        return operation;
}

TEST(metadata_name_the_network_that_has_opened_meanwhile)
{
        struct bell opened = BELL;
        char from[4] = "abc", to[4] = "";
        const char *metadata;

        if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
                skip();
        assert_int_equal(ferry_worker_log("info", take_line, &opened), 0);
        struct ferry_worker *a = worker_of_the_network(), *b = worker_of_the_network();
        assert_int_equal(opened.times, 0);
        loopback_up();
        bell_await(&opened, 2);

        struct ferry_worker_operation *offer = create(a, FERRY_READABLE, from, NULL);
        assert_int_equal(ferry_worker_operation_metadata(offer, &metadata), 0);
        struct ferry_worker_operation *read = create(b, FERRY_READ, to, metadata);
        if (ferry_worker_operation_wait(read, -1) != 0)
                fail_msg("%s", ferry_worker_error());
        assert_string_equal(to, from);
        (void)ferry_worker_operation_free(read);
        (void)ferry_worker_operation_free(offer);
        (void)ferry_worker_free(b);
        (void)ferry_worker_free(a);
        assert_int_equal(ferry_worker_log("warn", NULL, NULL), 0);
}
