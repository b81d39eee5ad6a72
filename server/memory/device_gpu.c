/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <ferry/util.h>

#include "memory/device.h"

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
