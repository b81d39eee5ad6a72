/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ucx_internal.h"

/*
 * From 1.20 on, UCX connects only where it finds a route to the peer, and two faults of that refuse peers that can be
 * reached:
 *   - it reads the routes once, at the first connection, and leaves out those by several gateways: where it finds none,
 *     the kernel is asked;
 *   - 1.20, which Ubuntu 26.04 has, looks on loopback for a route to bytes of the peer's address that are no IP address
 *     (openucx/ucx#11202, in 1.21): loopback, whose peers UCX has just compared by network namespace, has a route.
 * UCX asks a function of its libucs, in 1.20.0 the first of these two, from 1.20.1 on the second; redirect.c gives it
 * ours.
 */

static bool has_fault(void)
{
        return !ucx_is_before(20) && ucx_is_before(21);
}

static bool is_loopback(int if_index)
{
        char name[IF_NAMESIZE];

        return if_indextoname((unsigned)if_index, name) && strcmp(name, "lo") == 0;
}

/* ---- the kernel's answer ---- */

struct question {
        struct nlmsghdr header;
        struct rtmsg route;
        char attributes[2 * RTA_SPACE(sizeof(struct in6_addr))];
};

static void add_address(struct question *question, unsigned short type, const void *address, size_t size)
{
        struct rtattr *attribute = (void *)((char *)question + question->header.nlmsg_len);

        attribute->rta_type = type;
        attribute->rta_len = (unsigned short)RTA_LENGTH(size);
        memcpy(RTA_DATA(attribute), address, size);
        question->header.nlmsg_len += (unsigned)RTA_SPACE(size);
}

/* Adds both ends. UCX connects from an interface's first IPv4 address, which the rules of the routing may ask for. */
static bool add_addresses(struct question *question, int if_index, const struct sockaddr *remote)
{
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        struct ifreq interface;

        question->route.rtm_family = (unsigned char)remote->sa_family;
        if (remote->sa_family == AF_INET6) {
                question->route.rtm_dst_len = 128;
                add_address(question, RTA_DST, &((const struct sockaddr_in6 *)(const void *)remote)->sin6_addr, 16);
                return true;
        }
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (remote->sa_family != AF_INET || !if_indextoname((unsigned)if_index, interface.ifr_name) ||
            ioctl(fd, SIOCGIFADDR, &interface) < 0)
                return false;
        question->route.rtm_dst_len = question->route.rtm_src_len = 32;
        add_address(question, RTA_DST, &((const struct sockaddr_in *)(const void *)remote)->sin_addr, 4);
        add_address(question, RTA_SRC, &((const struct sockaddr_in *)(const void *)&interface.ifr_addr)->sin_addr, 4);
        return true;
}

/* Whether the kernel sends through the interface what UCX sends to the peer. */
static bool kernel_routes(int if_index, const struct sockaddr *remote)
{
        FERRY_CLEANUP(cleanup_close) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        struct question question = {
                .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                            .nlmsg_type = RTM_GETROUTE,
                            .nlmsg_flags = NLM_F_REQUEST },
        };
        union {
                struct nlmsghdr header;
                char bytes[4096];
        } answer;
        ssize_t n;
        int size;

        if (!add_addresses(&question, if_index, remote) ||
            send(fd, &question, question.header.nlmsg_len, 0) != (ssize_t)question.header.nlmsg_len)
                return false;
        n = recv(fd, &answer, sizeof(answer), 0);
        if (n < 0 || !NLMSG_OK(&answer.header, (size_t)n) || answer.header.nlmsg_type != RTM_NEWROUTE)
                return false;
        size = (int)RTM_PAYLOAD(&answer.header);
        for (const struct rtattr *a = RTM_RTA(NLMSG_DATA(&answer.header)); RTA_OK(a, size); a = RTA_NEXT(a, size))
                if (a->rta_type == RTA_OIF && memcmp(RTA_DATA(a), &if_index, sizeof(if_index)) == 0)
                        return true;
        return false;
}

/* ---- in place of UCX's functions ---- */

int ucx_route_exists(int if_index, const struct sockaddr *remote, uintptr_t option)
{
        int (*of_ucx)(int, const struct sockaddr *, uintptr_t);

        if (has_fault() && is_loopback(if_index))
                return 1;
        *(void **)&of_ucx = ucx_library_find("ucs_netlink_route_exists");
        return !of_ucx || of_ucx(if_index, remote, option) || kernel_routes(if_index, remote);
}

int ucx_is_best_route(int if_index, const struct sockaddr *remote)
{
        int (*of_ucx)(int, const struct sockaddr *);

        if (has_fault() && is_loopback(if_index))
                return 1;
        *(void **)&of_ucx = ucx_library_find("ucs_netlink_is_best_route");
        return !of_ucx || of_ucx(if_index, remote) || kernel_routes(if_index, remote);
}
