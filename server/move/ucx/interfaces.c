/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
 * By default UCX uses every interface that is up as a lane for TCP. Bridges of containers and virtual machines
 * (docker0, cni0, virbr0) exist on many hosts, often with the same address, and lead to no other host: peers would try
 * them and fail. So UCX gets only the interface of the address listened on or advertised or, if neither names one, all
 * but those bridges. Unless the address is loopback, it also gets the active RDMA ports.
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

/* A bridge without a physical port: its ports are containers and virtual machines. */
static bool is_inner_bridge(const char *name)
{
        return exists("/sys/class/net/%s/bridge", name) && !exists("/sys/class/net/%s/brif/*/../device", name) &&
               !exists("/sys/class/net/%s/brif/*/../bonding", name) &&
               !exists("/sys/class/net/%s/brif/*/../lower_*", name);
}

/* Common names of such bridges and their ports: inside a container, for example, sysfs does not show a bridge. */
static bool has_inner_name(const char *name)
{
        static const char *const names[] = {
                "docker", "br-", "cni", "virbr", "veth", "lxcbr", "lxdbr", "podman", NULL
        };

        return ucx_begins_with(name, names);
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

/* The name of the interface that has the address; NULL = none. */
static const char *interface_of(const struct ifaddrs *all, const struct sockaddr *address)
{
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
                if (ucx_address_same_host(i->ifa_addr, address))
                        return i->ifa_name;
        return NULL;
}

static bool is_candidate(const struct ifaddrs *i, sa_family_t family, const char *list)
{
        return ucx_address_is_for_lanes(i) && i->ifa_addr->sa_family == family && !strchr(i->ifa_name, ':') &&
               !has(list, i->ifa_name) && !is_inner_bridge(i->ifa_name) && !has_inner_name(i->ifa_name);
}

static void append_all(const struct ifaddrs *all, sa_family_t family, char *list)
{
        const char *first = NULL;

        for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
                if (!is_candidate(i, family, list))
                        continue;
                if (first && ucx_takes_one_interface() && !(i->ifa_flags & IFF_LOOPBACK)) {
                        log_event(LOG_WARN, "TCP interface not used: this version of UCX uses only one",
                                  LOG_S("used", first), LOG_S("not_used", i->ifa_name),
                                  LOG_S("advice", "give the interface's address with --data-listen or --advertise"));
                        continue;
                }
                if (!(i->ifa_flags & IFF_LOOPBACK))
                        first = i->ifa_name;
                append(list, i->ifa_name);
        }
}

int ucx_interfaces_check(const char *list)
{
        FERRY_CLEANUP(cleanup_free) char *copy = strdup(list);
        const char *first = NULL;
        char *save = NULL;

        if (!copy)
                return -ENOMEM;
        for (char *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
                if (if_nametoindex(name) == 0 || strcmp(name, "lo") == 0) /* an RDMA port, for example */
                        continue;
                if (first && ucx_takes_one_interface()) {
                        log_event(LOG_ERROR, "invalid --interfaces: this version of UCX uses only one TCP interface",
                                  LOG_S("interfaces", list));
                        return -EINVAL;
                }
                first = name;
        }
        return 0;
}

/* Finds the first address of the name or address in --advertise that this host has. */
static bool find_advertised(const struct ifaddrs *all, const char *advertise, struct sockaddr_storage *ret_address)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
        bool any = false;

        if (!advertise || getaddrinfo(advertise, NULL, &hints, &found) != 0)
                return false;
        for (const struct addrinfo *i = found; i && !any; i = i->ai_next)
                if (interface_of(all, i->ai_addr)) {
                        memcpy(ret_address, i->ai_addr, i->ai_addrlen);
                        any = true;
                }
        freeaddrinfo(found);
        return any;
}

/*
 * Checks that the address is the first one of its interface: UCX opens TCP lanes only there, while peers connect to the
 * listener's address. 0; -EADDRNOTAVAIL, logged.
 */
static int check_lanes(const struct ifaddrs *all, const struct sockaddr *address, const char *interface)
{
        char lanes[TRANSPORT_ADDRESS_SIZE] = "";
        struct sockaddr_storage first = { 0 };

        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
                if (strcmp(i->ifa_name, interface) == 0 && ucx_address_is_for_lanes(i) &&
                    i->ifa_addr->sa_family == address->sa_family) {
                        if (ucx_address_same_host(i->ifa_addr, address))
                                return 0;
                        memcpy(&first, i->ifa_addr, sizeof(struct sockaddr_in6));
                        (void)ucx_address_format(&first, lanes, sizeof(lanes));
                        break;
                }
        log_event(LOG_ERROR, "invalid --data-listen: UCX uses only the first address of an interface for TCP",
                  LOG_S("interface", interface), LOG_S("first_address", lanes[0] ? lanes : "none of this family"));
        return -EADDRNOTAVAIL;
}

/* Copies an interface's name without the ":N" of an alias, which sysfs does not have. */
static void copy_interface(char name[IF_NAMESIZE], const char *from)
{
        (void)snprintf(name, IF_NAMESIZE, "%.*s", (int)strcspn(from, ":"), from);
}

static int choose(const struct ifaddrs *all, const struct ucx_config *config, const struct ucx_address *address,
                  char *list)
{
        struct sockaddr_storage advertised;
        const struct sockaddr *named = (const struct sockaddr *)&address->address;
        char name[IF_NAMESIZE] = "lo";

        if (address->wildcard)
                named = find_advertised(all, config->advertise, &advertised) ? (const struct sockaddr *)&advertised
                                                                             : NULL;
        if (!named) {
                if (!config->advertise)
                        log_event(LOG_WARN,
                                  "the network transport listens on every address; peers get the address at which a "
                                  "client reached this worker's HTTP server",
                                  LOG_S("advice", "give the right address with --advertise"));
                append_all(all, address->address.ss_family, list);
                return 0;
        }
        if (interface_of(all, named))
                copy_interface(name, interface_of(all, named));
        append(list, name);
        return check_lanes(all, named, name);
}

int ucx_interfaces(const struct ucx_config *config, const struct ucx_address *address, char **ret_list)
{
        FERRY_CLEANUP(cleanup_free) char *list = calloc(1, LIST_SIZE);
        struct ifaddrs *all;
        int r;

        if (!list)
                return -ENOMEM;
        if (getifaddrs(&all) < 0)
                return -errno;
        r = choose(all, config, address, list);
        freeifaddrs(all);
        if (r < 0)
                return r;
        if (!address->loopback) { /* on loopback UCX must not open ports on other interfaces */
                if (list[0] && ucx_check_memlock())
                        (void)ucx_rdma_ports(list, LIST_SIZE);
                log_event(LOG_INFO, "network transport interfaces", LOG_S("interfaces", list[0] ? list : "all"));
        }
        *ret_list = list[0] ? FERRY_STEAL(list) : NULL;
        return 0;
}
