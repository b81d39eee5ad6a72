/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * UCX 1.20, which Ubuntu 26.04 has, cannot connect over loopback: it looks for a route to bytes of the peer's address
 * that are no IP address (openucx/ucx#11202, in 1.21). It asks a function of its libucs, in 1.20.0 the first of these
 * two, in 1.20.1 the second. The dynamic linker gives it ours, since a program and its own libraries stand before
 * libucs. Of loopback, whose peers UCX has just compared by network namespace, they say that there is a route; libucs
 * answers all else.
 */
#define INSTEAD_OF(function) __attribute__((visibility("default"), alias(#function), used))

static bool has_fault(void)
{
        return !ucx_is_before(20) && ucx_is_before(21);
}

static bool is_loopback(int if_index)
{
        char name[IF_NAMESIZE];

        return if_indextoname((unsigned)if_index, name) && strcmp(name, "lo") == 0;
}

/* The option is an int in 1.20.0, and a pointer where only libucs itself calls this. */
static int route_exists(int if_index, const struct sockaddr *remote, uintptr_t option)
{
        int (*of_ucx)(int, const struct sockaddr *, uintptr_t);

        if (has_fault() && is_loopback(if_index))
                return 1;
        *(void **)&of_ucx = dlsym(RTLD_NEXT, "ucs_netlink_route_exists");
        return of_ucx ? of_ucx(if_index, remote, option) : 1;
}

static int is_best_route(int if_index, const struct sockaddr *remote)
{
        int (*of_ucx)(int, const struct sockaddr *);

        if (has_fault() && is_loopback(if_index))
                return 1;
        *(void **)&of_ucx = dlsym(RTLD_NEXT, "ucs_netlink_is_best_route");
        return of_ucx ? of_ucx(if_index, remote) : 1;
}

INSTEAD_OF(route_exists) int ucs_netlink_route_exists(int if_index, const struct sockaddr *remote, uintptr_t option);
INSTEAD_OF(is_best_route) int ucs_netlink_is_best_route(int if_index, const struct sockaddr *remote);

int ucx_check_loopback(const struct ucx_address *listen)
{
        char version[32];

        if (!listen->loopback || !has_fault() ||
            dlsym(RTLD_DEFAULT, "ucs_netlink_route_exists") == (void *)route_exists)
                return 0;
        ucx_version(version, sizeof(version));
        log_event(LOG_ERROR, "this version of UCX, loaded by the program before Ferry, cannot connect over loopback",
                  LOG_S("ucx_version", version),
                  LOG_S("advice", "install UCX 1.21, or give --data-listen the address of another interface"));
        return -ENOTSUP;
}
