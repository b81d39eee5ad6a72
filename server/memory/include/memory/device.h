/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_DEVICE_H
#define MEMORY_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The memory and RDMA hardware of the machine. device_inventory asks libibverbs, the CUDA driver and sysfs; the
 * inventory is plain data, so that a unit test can pass a fake to device_gpu_direct and to the JSON of /v1/devices.
 */

enum { DEVICE_NAME_SIZE = 64, DEVICE_GID_SIZE = 40, DEVICE_GIDS_MAX = 16, DEVICE_MISSING_MAX = 8 };

struct device_port {
        unsigned number;
        char state[16];      /* "ACTIVE", "DOWN", "INIT", "ARMED" */
        char link_layer[16]; /* "InfiniBand", "Ethernet" */
        unsigned lid;
        unsigned active_mtu; /* bytes */
        size_t n_gids;
        char gids[DEVICE_GIDS_MAX][DEVICE_GID_SIZE]; /* as an IPv6 address; all-zero ones are left out */
};

struct device_nic {
        char name[DEVICE_NAME_SIZE]; /* "mlx5_0" */
        uint64_t node_guid;
        size_t n_ports;
        struct device_port *ports;
};

struct device_memory {
        char name[16]; /* "cpu", "cuda:0" */
        char model[DEVICE_NAME_SIZE];
        uint64_t total_bytes; /* 0 = not known */
};

/* Whether UCX gets memory of GPUs as it is, on links that use RDMA. */
enum device_gpudirect {
        DEVICE_GPUDIRECT_AUTO, /* if the card can reach it, as far as can be seen here */
        DEVICE_GPUDIRECT_ON,   /* also where the kernel's part in it is not seen, as of DMA-BUF */
        DEVICE_GPUDIRECT_OFF,
};

/* The facts of the worker's network transport. */
struct device_ucx {
        bool open;           /* false = the next two mean nothing */
        bool cuda;           /* this UCX can move CUDA memory (ucp_context_query), and is new enough to be given it */
        const char *no_rdma; /* why no link of it can use RDMA, for users; NULL = it can. Borrowed */
        enum device_gpudirect direct;
};

struct device_inventory {
        size_t n_memories;
        struct device_memory *memories;
        size_t n_nics;
        struct device_nic *nics;
        size_t n_gpus;        /* that this process may use */
        size_t n_gpus_direct; /* whose driver lets RDMA cards reach their memory */
        char gpu_error[128];  /* why there are none; "" = there are some */
        struct device_ucx ucx;
        bool peer_memory;     /* kernel module nvidia_peermem (or nv_peer_mem) is loaded */
        char rdma_error[128]; /* why RDMA devices could not be listed; "" = they were */
};

/*
 * The source of RDMA devices; NULL = libibverbs. A test passes its own. fill sets n_nics, nics and rdma_error; nics and
 * each nic's ports are from malloc and become the inventory's. Its -errno (but -ENOMEM) ends up in rdma_error.
 */
struct device_source {
        int (*fill)(void *context, struct device_inventory *inventory);
        void *context;
};

/* 0 with *ret_inventory; -ENOMEM. Without RDMA n_nics is 0. Blocks shortly; any thread. */
int device_inventory_new(const struct device_ucx *ucx, const struct device_source *source,
                         struct device_inventory **ret_inventory);
struct device_inventory *device_inventory_free(struct device_inventory *inventory);

/* Whether GPU Direct RDMA is possible here; if not, sentences that name what is missing. */
struct device_gpu_direct {
        bool possible;
        bool memory; /* UCX may get memory of GPUs; if something is missing, it is a card or its link */
        size_t n_missing;
        char missing[DEVICE_MISSING_MAX][128];
};
void device_gpu_direct(const struct device_inventory *inventory, struct device_gpu_direct *ret_answer);

#endif
