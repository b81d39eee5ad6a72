/* SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * RDMA devices and the limit of locked memory, read from sysfs, so that no verbs library is needed. Any
 * thread.
 */

/* RDMA ports as listed in sysfs, without libibverbs. */

#define PORTS "/sys/class/infiniband/*/ports/*/state"

bool ucx_has_rdma(void)
{
        glob_t found;
        bool any = glob(PORTS, 0, NULL, &found) == 0;

        globfree(&found);
        return any;
}

/* path: a state file of sysfs, which holds "4: ACTIVE" or another state. */
static bool is_active(const char *path)
{
        FERRY_CLEANUP(cleanup_file) FILE *in = fopen(path, "re");
        int state = 0;

        return in && fscanf(in, "%d", &state) == 1 && state == 4;
}

bool ucx_rdma_ports(char *list, size_t size)
{
        glob_t found;
        bool any = false;

        if (glob(PORTS, 0, NULL, &found) != 0)
                return false;
        for (size_t i = 0; i < found.gl_pathc; i++) {
                char device[64], port[16];
                size_t used = list ? strlen(list) : 0;

                if (sscanf(found.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%15[^/]/", device, port) != 2 ||
                    !is_active(found.gl_pathv[i]))
                        continue;
                any = true;
                if (list)
                        (void)snprintf(list + used, size - used, "%s%s:%s", used ? "," : "", device, port);
        }
        globfree(&found);
        return any;
}

/* CAP_IPC_LOCK lifts the limit. */
static bool may_lock_all(void)
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

        return syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

uint64_t ucx_memlock_limit(void)
{
        struct rlimit limit;

        if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
                return UINT64_MAX;
        return limit.rlim_cur;
}

bool ucx_check_memlock(void)
{
        uint64_t limit = ucx_memlock_limit();

        if (limit == UINT64_MAX || !ucx_rdma_ports(NULL, 0))
                return true;
        log_event(LOG_WARN,
                  limit < UCX_MEMLOCK_MIN
                          ? "RDMA not used: the limit of locked memory is too low"
                          : "RDMA locks the memory of all regions: those beyond the limit of locked memory will fail",
                  LOG_U("memlock_bytes", limit), LOG_S("advice", UCX_MEMLOCK_ADVICE));
        return limit >= UCX_MEMLOCK_MIN;
}

bool ucx_is_rdma(const char *lane)
{
        static const char *const prefixes[] = { "rc_", "dc_", "ud_", "srd", NULL };

        return ucx_begins_with(lane, prefixes);
}

bool ucx_has_lane(const struct ucx *ucx, bool (*is)(const char *lane))
{
        for (size_t i = 0; i < ucx->facts.n_transports; i++)
                if (is(ucx->lanes[i]))
                        return true;
        return false;
}

/* The reasons in the order in which a user would mend them. */
const char *ucx_no_rdma(const struct ucx *ucx, const struct ucx_config *config)
{
        if (ucx_has_lane(ucx, ucx_is_rdma))
                return NULL;
        if (config->ucx_tls)
                return "--transports names no RDMA transport that is available";
        if (!ucx_has_rdma())
                return "no RDMA device here";
        if (!ucx_rdma_ports(NULL, 0))
                return "no active RDMA port here";
        if (ucx->listen.loopback)
                return "the network transport listens on loopback (--data-listen)";
        if (config->interfaces)
                return "--interfaces names no RDMA port";
        if (ucx_memlock_limit() < UCX_MEMLOCK_MIN)
                return "the limit of locked memory is too small for RDMA (ulimit -l)";
        return "this UCX has no verbs for the RDMA devices here, or libibverbs lacks their provider library";
}
