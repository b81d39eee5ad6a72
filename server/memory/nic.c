/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "device_internal.h"

/*
 * RDMA NICs, by libibverbs. It is loaded at the first question, so that a worker runs where it is not installed: it
 * belongs to the drivers of a machine's cards, which fit no other libibverbs, and is part of no package of Ferry.
 */

#define LIBRARY "libibverbs.so.1" /* rdma-core has no other */

#define VERBS_FUNCTIONS(X)                                                                                             \
        X(get_device_list)                                                                                             \
        X(free_device_list)                                                                                            \
        X(get_device_name)                                                                                             \
        X(get_device_guid)                                                                                             \
        X(open_device)                                                                                                 \
        X(close_device)                                                                                                \
        X(query_device)                                                                                                \
        X(query_port)                                                                                                  \
        X(query_gid)

#define FIELD(name) __typeof__(ibv_##name) *(name);
static struct {
        VERBS_FUNCTIONS(FIELD)
} ibv;
#undef FIELD
static char missing[96]; /* why no function can be called; set once, by open_library */

static void open_library(void)
{
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

        if (!library) {
                (void)snprintf(missing, sizeof(missing),
                               LIBRARY " was not found: install libibverbs1 and ibverbs-providers (rdma-core)");
                return;
        }
#define FIND(name)                                                                                                     \
        if (!(*(void **)&ibv.name = dlsym(library, "ibv_" #name)))                                                     \
                (void)snprintf(missing, sizeof(missing), "%s has no ibv_%s", LIBRARY, #name);
        VERBS_FUNCTIONS(FIND)
#undef FIND
}

static const char *const state_names[] = {
        [IBV_PORT_NOP] = "NOP",     [IBV_PORT_DOWN] = "DOWN",     [IBV_PORT_INIT] = "INIT",
        [IBV_PORT_ARMED] = "ARMED", [IBV_PORT_ACTIVE] = "ACTIVE", [IBV_PORT_ACTIVE_DEFER] = "ACTIVE_DEFER",
};

static const char *state_name(unsigned state)
{
        return state < FERRY_ARRAY_SIZE(state_names) ? state_names[state] : "UNKNOWN";
}

static const char *link_layer_name(unsigned layer)
{
        switch (layer) {
        case IBV_LINK_LAYER_ETHERNET:
                return "Ethernet";
        case IBV_LINK_LAYER_INFINIBAND:
        case IBV_LINK_LAYER_UNSPECIFIED: /* what libibverbs shows for an unknown link layer */
                return "InfiniBand";
        default:
                return "UNKNOWN";
        }
}

static void gids_fill(struct ibv_context *verbs, struct device_port *port, int table_length)
{
        static const union ibv_gid zero;
        for (int i = 0; i < table_length && port->n_gids < DEVICE_GIDS_MAX; i++) {
                union ibv_gid gid;
                if (ibv.query_gid(verbs, (uint8_t)port->number, i, &gid) != 0 || memcmp(&gid, &zero, sizeof(gid)) == 0)
                        continue;
                if (inet_ntop(AF_INET6, gid.raw, port->gids[port->n_gids], DEVICE_GID_SIZE))
                        port->n_gids++;
        }
}

static void port_fill(struct ibv_context *verbs, unsigned number, struct device_port *port)
{
        struct ibv_port_attr attributes = { 0 };
        port->number = number;
        bool known = ibv.query_port(verbs, (uint8_t)number, (struct _compat_ibv_port_attr *)&attributes) == 0;
        (void)snprintf(port->state, sizeof(port->state), "%s", known ? state_name(attributes.state) : "UNKNOWN");
        (void)snprintf(port->link_layer, sizeof(port->link_layer), "%s",
                       known ? link_layer_name(attributes.link_layer) : "UNKNOWN");
        if (!known)
                return;
        port->lid = attributes.lid;
        /* IBV_MTU_256 is 1; each further value doubles the size. */
        port->active_mtu = attributes.active_mtu >= IBV_MTU_256 && attributes.active_mtu <= IBV_MTU_4096
                                   ? 128u << attributes.active_mtu
                                   : 0;
        gids_fill(verbs, port, attributes.gid_tbl_len);
}

/* 0; -ENOMEM; another -errno if the device does not answer. */
static int nic_fill(struct ibv_device *device, struct device_nic *nic)
{
        (void)snprintf(nic->name, sizeof(nic->name), "%s", ibv.get_device_name(device));
        nic->node_guid = be64toh(ibv.get_device_guid(device));
        errno = 0;
        struct ibv_context *verbs = ibv.open_device(device);
        if (!verbs)
                /* A driver's ENOMEM often means RLIMIT_MEMLOCK: not a reason to fail the inventory. */
                return errno == ENOMEM || errno == 0 ? -EIO : -errno;
        struct ibv_device_attr attributes;
        int r = -ibv.query_device(verbs, &attributes);
        if (r == 0) {
                nic->ports = calloc((size_t)attributes.phys_port_cnt + 1, sizeof(*nic->ports));
                r = nic->ports ? 0 : -ENOMEM;
        }
        if (r == 0) {
                nic->n_ports = attributes.phys_port_cnt;
                for (unsigned i = 0; i < nic->n_ports; i++)
                        port_fill(verbs, i + 1, &nic->ports[i]);
        }
        (void)ibv.close_device(verbs);
        return r;
}

static void error_set(struct device_inventory *inventory, const char *what, int error)
{
        (void)snprintf(inventory->rdma_error, sizeof(inventory->rdma_error), "%s: %s", what, strerror(error));
}

int device_nics_fill(void *context, struct device_inventory *inventory)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        int n = 0;

        (void)context;
        (void)pthread_once(&once, open_library);
        if (missing[0]) {
                (void)snprintf(inventory->rdma_error, sizeof(inventory->rdma_error), "%s", missing);
                return 0;
        }
        errno = 0;
        struct ibv_device **devices = ibv.get_device_list(&n);
        if (!devices && errno == ENOSYS)
                (void)snprintf(inventory->rdma_error, sizeof(inventory->rdma_error),
                               "the kernel has no RDMA support (module ib_uverbs is not loaded)");
        else if (!devices)
                error_set(inventory, "ibv_get_device_list failed", errno);
        if (!devices)
                return 0;
        int r = 0;
        inventory->nics = calloc((size_t)n + 1, sizeof(*inventory->nics));
        if (!inventory->nics)
                r = -ENOMEM;
        for (int i = 0; i < n && r == 0; i++) {
                struct device_nic *nic = &inventory->nics[inventory->n_nics++];
                r = nic_fill(devices[i], nic);
                if (r != 0 && r != -ENOMEM) {
                        error_set(inventory, nic->name, -r);
                        r = 0;
                }
        }
        ibv.free_device_list(devices);
        return r;
}
