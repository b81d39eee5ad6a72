/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

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

void device_gpu_direct(const struct device_inventory *inventory, struct device_gpu_direct *ret_answer)
{
        char no_gpu[128];

        *ret_answer = (struct device_gpu_direct){ 0 };
        if (inventory->rdma_error[0] != '\0' && !has_active_port(inventory)) {
                char sentence[128];
                (void)snprintf(sentence, sizeof(sentence), "RDMA devices could not be asked: %.90s.",
                               inventory->rdma_error);
                missing_add(ret_answer, sentence);
        }
        (void)snprintf(no_gpu, sizeof(no_gpu), "%.120s.",
                       *inventory->gpu_error ? inventory->gpu_error : "There is no GPU");

        const struct {
                bool missing;
                const char *sentence;
        } checks[] = {
                { inventory->n_nics == 0,
                  "There is no RDMA network card: install one and load its kernel driver (ibv_devinfo lists it)." },
                { inventory->n_nics > 0 && !has_active_port(inventory),
                  "No port of an RDMA network card is ACTIVE: connect it and set its link up (ibv_devinfo shows it)." },
                { inventory->n_gpus == 0, no_gpu },
                { inventory->n_gpus > 0 && inventory->n_gpus_direct == 0,
                  "The driver lets no RDMA card reach the memory of these GPUs: that takes data centre or RTX ones." },
                { !inventory->ucx_cuda,
                  "This UCX cannot move CUDA memory: install a UCX that was built --with-cuda, and its CUDA modules." },
                { !inventory->peer_memory,
                  "No peer memory kernel module is loaded: run modprobe nvidia_peermem (older: nv_peer_mem)." },
        };
        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
                if (checks[i].missing)
                        missing_add(ret_answer, checks[i].sentence);
        ret_answer->possible = ret_answer->n_missing == 0;
}
