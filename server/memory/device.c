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
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/util.h"
#include "device_internal.h"
#include "memory/device.h"
#include "memory/gpu.h"

/*
 * Devices, as GET /v1/devices shows them: processors' memory, GPUs and RDMA cards, and the one decision about GPUDirect
 * RDMA (device_gpu_direct). An inventory is plain data, made for one question and freed by whoever asked. Thread: any,
 * but it may block for as long as a driver does.
 */

/* ---- RDMA cards ---- */

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

/* Runs once a process. A function that is missing leaves a sentence in missing, and the table is not used. */
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

/* The GIDs of a port that are set, as far as there is room. */
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

/*
 * Fills in one port; a port that the driver does not answer for has the state UNKNOWN. libibverbs declares query_port()
 * with the struct of older programs, hence the cast.
 */
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

/* The RDMA NICs by libibverbs; the default of device_source.fill. 0 (also when there are none) or -ENOMEM. */
static int device_nics_fill(void *context, struct device_inventory *inventory)
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

/* ---- memories ---- */

enum { PATH_SIZE = 512 };

static const struct device_paths system_paths = {
        .cpuinfo = "/proc/cpuinfo",
        .modules = "/sys/module",
};

/* The value of the first "key<blanks>: value" line of a file. false when there is none. */
static bool line_value(const char *path, const char *key, char *text, size_t size)
{
        FERRY_CLEANUP(cleanup_file) FILE *file = fopen(path, "re");
        if (!file)
                return false;
        char line[512];
        bool found = false;
        while (!found && fgets(line, sizeof(line), file)) {
                size_t n = strlen(key);
                if (strncmp(line, key, n) != 0)
                        continue;
                char *value = line + n + strspn(line + n, " \t");
                if (*value != ':')
                        continue;
                value += 1 + strspn(value + 1, " \t");
                value[strcspn(value, "\n")] = '\0';
                (void)snprintf(text, size, "%s", value);
                found = *value != '\0';
        }
        return found;
}

static void cpu_fill(const char *cpuinfo, struct device_memory *memory)
{
        (void)snprintf(memory->name, sizeof(memory->name), "cpu");
        struct utsname system;
        /* Some architectures have no model in cpuinfo. */
        if (!line_value(cpuinfo, "model name", memory->model, sizeof(memory->model)) && uname(&system) == 0)
                (void)snprintf(memory->model, sizeof(memory->model), "%.*s", (int)sizeof(memory->model) - 1,
                               system.machine);
        struct sysinfo info;
        if (sysinfo(&info) == 0)
                memory->total_bytes = (uint64_t)info.totalram * info.mem_unit;
}

static bool module_is_loaded(const char *directory, const char *name)
{
        char path[PATH_SIZE];
        int n = snprintf(path, sizeof(path), "%s/%s", directory, name);
        return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

int device_memories_fill(const struct device_paths *paths, struct device_inventory *inventory)
{
        const char *reason = "";
        const unsigned n_gpus = gpu_count(&reason);
        bool direct;

        inventory->memories = calloc(1 + n_gpus, sizeof(*inventory->memories));
        if (!inventory->memories)
                return -ENOMEM;
        inventory->n_gpus = n_gpus;
        if (n_gpus == 0)
                (void)snprintf(inventory->gpu_error, sizeof(inventory->gpu_error), "%s", reason);
        inventory->peer_memory =
                module_is_loaded(paths->modules, "nvidia_peermem") || module_is_loaded(paths->modules, "nv_peer_mem");
        cpu_fill(paths->cpuinfo, &inventory->memories[inventory->n_memories++]);
        for (unsigned n = 0; n < n_gpus; n++) {
                if (!gpu_describe(n, &inventory->memories[inventory->n_memories], &direct))
                        continue;
                inventory->n_memories++;
                inventory->n_gpus_direct += direct;
        }
        return 0;
}

int device_inventory_new(const struct device_ucx *ucx, const struct device_source *source,
                         struct device_inventory **ret_inventory)
{
        static const struct device_source verbs = { .fill = device_nics_fill };
        if (!source)
                source = &verbs;
        struct device_inventory *inventory = calloc(1, sizeof(*inventory));
        if (!inventory)
                return -ENOMEM;
        inventory->ucx = *ucx;
        int r = device_memories_fill(&system_paths, inventory);
        if (r == 0) {
                r = source->fill(source->context, inventory);
                if (r < 0 && r != -ENOMEM) {
                        if (inventory->rdma_error[0] == '\0')
                                (void)snprintf(inventory->rdma_error, sizeof(inventory->rdma_error), "%s",
                                               strerror(-r));
                        r = 0;
                }
        }
        if (r < 0) {
                device_inventory_free(inventory);
                return r;
        }
        *ret_inventory = inventory;
        return 0;
}

struct device_inventory *device_inventory_free(struct device_inventory *inventory)
{
        if (!inventory)
                return NULL;
        for (size_t i = 0; i < inventory->n_nics; i++)
                free(inventory->nics[i].ports);
        free(inventory->nics);
        free(inventory->memories);
        free(inventory);
        return NULL;
}

/* ---- GPUDirect ---- */

/* Whether any port of any card is ACTIVE. */
static bool has_active_port(const struct device_inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_nics; i++)
                for (size_t k = 0; k < inventory->nics[i].n_ports; k++)
                        if (strcmp(inventory->nics[i].ports[k].state, "ACTIVE") == 0)
                                return true;
        return false;
}

static void missing_add(struct device_gpu_direct *answer, const char *sentence)
{
        if (answer->n_missing < DEVICE_MISSING_MAX)
                (void)snprintf(answer->missing[answer->n_missing++], sizeof(answer->missing[0]), "%s", sentence);
}

/* The only place that decides about GPUDirect. Each check says whether it rules out GPU memory in UCX, too. */
void device_gpu_direct(const struct device_inventory *inventory, struct device_gpu_direct *ret_answer)
{
        const struct device_ucx *ucx = &inventory->ucx;
        bool is_auto = ucx->direct == DEVICE_GPUDIRECT_AUTO;
        char no_gpu[128], no_rdma[128];

        *ret_answer = (struct device_gpu_direct){ .memory = true };
        if (inventory->rdma_error[0] != '\0' && !has_active_port(inventory)) {
                char sentence[128];
                (void)snprintf(sentence, sizeof(sentence), "RDMA devices could not be listed: %.90s.",
                               inventory->rdma_error);
                missing_add(ret_answer, sentence);
        }
        (void)snprintf(no_gpu, sizeof(no_gpu), "%.120s.",
                       *inventory->gpu_error ? inventory->gpu_error : "There is no GPU");
        (void)snprintf(no_rdma, sizeof(no_rdma), "UCX uses no RDMA: %.105s.", ucx->no_rdma ? ucx->no_rdma : "");

        const struct {
                bool missing, memory;
                const char *sentence;
        } checks[] = {
                { inventory->n_nics == 0, false,
                  "There is no RDMA network card: install one and load its kernel driver (ibv_devinfo lists it)." },
                { inventory->n_nics > 0 && !has_active_port(inventory), false,
                  "No port of an RDMA network card is ACTIVE: connect it and set its link up (ibv_devinfo shows it)." },
                { has_active_port(inventory) && ucx->open && ucx->no_rdma, false, no_rdma },
                { inventory->n_gpus == 0, true, no_gpu },
                { inventory->n_gpus > 0 && inventory->n_gpus_direct == 0 && is_auto, true,
                  "The driver lets no RDMA card access the memory of these GPUs: use data centre or RTX GPUs." },
                { !ucx->open, true, "The network transport is not open: ferryd --data-listen opens it." },
                { ucx->open && !ucx->cuda, true,
                  "This UCX cannot move CUDA memory: take 1.19 or newer, --with-cuda, and cuda_copy in --transports." },
                { !inventory->peer_memory && is_auto, true,
                  "No peer memory kernel module is loaded: modprobe nvidia_peermem (or, with DMA-BUF, --gpu-direct "
                  "on)." },
                { ucx->direct == DEVICE_GPUDIRECT_OFF, true, "It is switched off: --gpu-direct off." },
        };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(checks); i++)
                if (checks[i].missing) {
                        missing_add(ret_answer, checks[i].sentence);
                        ret_answer->memory &= !checks[i].memory;
                }
        ret_answer->possible = ret_answer->n_missing == 0;
}
