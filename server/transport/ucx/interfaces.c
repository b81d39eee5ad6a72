/* SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * UCX takes every interface that is up as a lane for TCP. Bridges of containers and virtual machines (docker0, cni0,
 * virbr0) are on many hosts, often with the same address on all of them, and lead nowhere: peers then try them and
 * fail. So UCX gets the interface of the address that peers are told, and where that is a wildcard, all but those
 * bridges. Active RDMA ports are added to both.
 */

enum { LIST_SIZE = 4096 };

static bool exists(const char *pattern, const char *name)
{
        char path[256];
        glob_t found;
        bool any;

        (void)snprintf(path, sizeof(path), pattern, name);
        any = glob(path, 0, NULL, &found) == 0;
        globfree(&found);
        return any;
}

/* A bridge without a port that leads out of the host: its ports are containers and virtual machines. */
static bool is_inner_bridge(const char *name)
{
        return exists("/sys/class/net/%s/bridge", name) && !exists("/sys/class/net/%s/brif/*/../device", name) &&
               !exists("/sys/class/net/%s/brif/*/../bonding", name) &&
               !exists("/sys/class/net/%s/brif/*/../lower_*", name);
}

/* How bridges are named that nobody has to see as such, in a container for example; and their ports. */
static bool has_inner_name(const char *name)
{
        static const char *const names[] = { "docker", "br-", "cni", "virbr", "veth", "lxcbr", "lxdbr", "podman" };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(names); i++)
                if (strncmp(name, names[i], strlen(names[i])) == 0)
                        return true;
        return false;
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
        if (!a || a->sa_family != b->sa_family)
                return false;
        if (a->sa_family == AF_INET)
                return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
                       ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
        return a->sa_family == AF_INET6 &&
               memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                      &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static void append(char *list, const char *name)
{
        size_t used = strlen(list);

        if (used + strlen(name) + 2 < LIST_SIZE)
                (void)snprintf(list + used, LIST_SIZE - used, "%s%s", used ? "," : "", name);
}

static bool has(const char *list, const char *name)
{
        size_t length = strlen(name);

        for (const char *at = list; (at = strstr(at, name)); at += length)
                if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
                        return true;
        return false;
}

/* The interface that has the address. Whether there is one. */
static bool append_of_address(const struct ifaddrs *all, const struct sockaddr *address, char *list)
{
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
                if (same_host(i->ifa_addr, address)) {
                        append(list, i->ifa_name);
                        return true;
                }
        return false;
}

static void append_all(const struct ifaddrs *all, char *list)
{
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
                if (i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
                    (i->ifa_flags & IFF_UP) && !has(list, i->ifa_name) && !is_inner_bridge(i->ifa_name) &&
                    !has_inner_name(i->ifa_name))
                        append(list, i->ifa_name);
}

/* The host that peers are told may be a name, and need not be of this host. */
static bool append_advertised(const struct ifaddrs *all, const char *advertise, char *list)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
        bool any = false;

        if (!advertise || getaddrinfo(advertise, NULL, &hints, &found) != 0)
                return false;
        for (const struct addrinfo *i = found; i && !any; i = i->ai_next)
                any = append_of_address(all, i->ai_addr, list);
        freeaddrinfo(found);
        return any;
}

char *ucx_interfaces(const struct ucx_config *config, const struct ucx_address *address)
{
        char *list = NULL;
        struct ifaddrs *all;

        if (address->loopback) /* UCX must not open ports on the other interfaces */
                return strdup("lo");
        if (getifaddrs(&all) < 0)
                return NULL;
        list = calloc(1, LIST_SIZE);
        if (list && (address->wildcard || !append_of_address(all, (const struct sockaddr *)&address->address, list)) &&
            !append_advertised(all, config->advertise, list))
                append_all(all, list);
        freeifaddrs(all);
        if (list && list[0] && ucx_check_memlock())
                (void)ucx_rdma_ports(list, LIST_SIZE);
        if (list && list[0])
                log_event(LOG_INFO, "interfaces of the network side", LOG_S("interfaces", list));
        return list && list[0] ? list : (free(list), NULL);
}
