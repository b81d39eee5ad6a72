/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * Addresses of --data-listen: parsed, checked against what this host has, and formatted for peers. The text names a
 * host, an address or an interface; an interface's address is looked up at each check, since it may come later
 * (address_wait.c). Errors are logged here with the step that failed. Pure but for that; any thread.
 */

/* Notes whether the address is loopback, of this host alone, or stands for all addresses. */
static void classify(struct ucx_address *a)
{
        if (a->address.ss_family == AF_INET) {
                uint32_t host = ntohl(((const struct sockaddr_in *)(const void *)&a->address)->sin_addr.s_addr);

                a->loopback = host >> 24 == 127;
                a->wildcard = host == INADDR_ANY;
        } else {
                const struct in6_addr *host = &((const struct sockaddr_in6 *)(const void *)&a->address)->sin6_addr;

                a->loopback = IN6_IS_ADDR_LOOPBACK(host);
                a->wildcard = IN6_IS_ADDR_UNSPECIFIED(host);
        }
}

static bool is_link_local(const struct ucx_address *a)
{
        return a->address.ss_family == AF_INET6 &&
               IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)&a->address)->sin6_addr);
}

bool ucx_address_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
        if (!a || a->sa_family != b->sa_family)
                return false;
        if (a->sa_family == AF_INET)
                return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
                       ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
        return a->sa_family == AF_INET6 &&
               IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr);
}

bool ucx_address_is_for_lanes(const struct ifaddrs *i)
{
        const struct in6_addr *host;

        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING))
                return false;
        if (i->ifa_addr->sa_family != AF_INET6)
                return i->ifa_addr->sa_family == AF_INET;
        host = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
        return !IN6_IS_ADDR_LINKLOCAL(host) && !(IN6_IS_ADDR_LOOPBACK(host) && ucx_lacks_ipv6_loopback());
}

/* Ranks the addresses of an interface to listen on: IPv4, then IPv6; 0 = not usable. */
static int rank(const struct ifaddrs *i)
{
        return !ucx_address_is_for_lanes(i) ? 0 : i->ifa_addr->sa_family == AF_INET ? 2 : 1;
}

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "the port lies at one place");

/* Takes over an address of the system's, of any port. */
static void take(struct ucx_address *a, const struct sockaddr *from)
{
        a->length = from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(&a->address, from, a->length);
        ((struct sockaddr_in *)(void *)&a->address)->sin_port = htons(a->port);
}

/* Fills in an interface's address. 0; -ENODEV: no such interface; -EADDRNOTAVAIL: no address. */
static int interface_address(const char *name, struct ucx_address *a)
{
        struct ifaddrs *list, *best = NULL;
        int r = -EADDRNOTAVAIL;

        if (if_nametoindex(name) == 0)
                return -ENODEV;
        if (getifaddrs(&list) < 0)
                return -errno;
        for (struct ifaddrs *i = list; i; i = i->ifa_next)
                if (strcmp(i->ifa_name, name) == 0 && rank(i) > (best ? rank(best) : 0))
                        best = i;
        if (best) {
                take(a, best->ifa_addr);
                r = 0;
        }
        freeifaddrs(list);
        return r;
}

/* Prefers IPv4: workers can reach each other within one address family only (ucx.c). */
static int resolve(const char *host, struct ucx_address *a)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *best;

        if (getaddrinfo(host, NULL, &hints, &list) != 0)
                return -EADDRNOTAVAIL;
        best = list;
        for (struct addrinfo *i = list; i; i = i->ai_next)
                if (i->ai_family == AF_INET && best->ai_family != AF_INET)
                        best = i;
        take(a, best->ai_addr);
        freeaddrinfo(list);
        return 0;
}

/* Whether host may be the name of an interface that does not exist yet. */
static bool is_interface_name(const char *host)
{
        return *host && strlen(host) < IF_NAMESIZE && !strpbrk(host, ".:/");
}

/* "HOST:PORT", "[v6]:PORT", "INTERFACE:PORT" */
static int parse(const char *text, struct ucx_address *a)
{
        char host[ADDRESS_HOST_SIZE];

        if (!address_split(text, host, &a->port))
                return -EINVAL;
        if (if_nametoindex(host) == 0 && resolve(host, a) == 0)
                return 0;
        if (!is_interface_name(host))
                return -EADDRNOTAVAIL;
        (void)snprintf(a->interface, sizeof(a->interface), "%s", host);
        return 0;
}

/* Tries to bind: UCX has one error for all faults of an address, the system tells them apart. */
static int probe(const struct ucx_address *a)
{
        FERRY_CLEANUP(cleanup_close) int fd = socket(a->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
            bind(fd, (const struct sockaddr *)&a->address, a->length) < 0)
                return -errno;
        return 0;
}

/* Whether UCX gets lanes at the address; bind may succeed for one that no interface has. */
static bool is_up(const struct ucx_address *a)
{
        struct ifaddrs *list;
        bool known = false, up = false;

        if (a->loopback || a->wildcard || getifaddrs(&list) < 0)
                return true;
        for (struct ifaddrs *i = list; i; i = i->ifa_next)
                if (ucx_address_same_host(i->ifa_addr, (const struct sockaddr *)&a->address)) {
                        known = true;
                        up |= (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
                }
        freeifaddrs(list);
        return up || !known;
}

/* Logs why the transport is not opened, and returns r. */
static int refuse(int r, const char *reason)
{
        log_event(LOG_ERROR, "network transport not opened", LOG_S("step", "listen at --data-listen"),
                  LOG_S("reason", reason));
        return r;
}

int ucx_address_parse(const char *data_listen, struct ucx_address *ret_address)
{
        struct ucx_address address = { 0 };
        int r = parse(data_listen, &address);

        if (r < 0)
                return refuse(r, r == -EADDRNOTAVAIL ? "the name cannot be resolved" : strerror(-r));
        if (is_link_local(&address))
                return refuse(-EADDRNOTAVAIL, "UCX does not use link-local addresses");
        *ret_address = address;
        return 0;
}

int ucx_address_check(struct ucx_address *a, const char **ret_missing)
{
        const char *missing = NULL;
        int r = a->interface[0] ? interface_address(a->interface, a) : 0;

        if (r == -ENODEV)
                missing = "the interface";
        else if (r == -EADDRNOTAVAIL)
                missing = "the interface to be up with an address";
        if (r == 0) {
                classify(a);
                r = probe(a);
                if (r == -EADDRNOTAVAIL)
                        missing = "an interface with that address";
        }
        if (r == 0 && !is_up(a))
                missing = "the interface of that address to be up";
        if (missing) {
                *ret_missing = missing;
                return -EAGAIN;
        }
        return r < 0 ? refuse(r, strerror(-r)) : 0;
}

int ucx_address_format(const struct sockaddr_storage *address, char *text, size_t size)
{
        char host[NI_MAXHOST], port[NI_MAXSERV];
        socklen_t length = address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

        if (getnameinfo((const struct sockaddr *)address, length, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return -EADDRNOTAVAIL;
        (void)snprintf(text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
        return 0;
}
