/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx_internal.h"

/*
 * GPU memory that is passed to UCX in place, so that an RDMA card reads and writes it. All other payloads in device
 * memory are staged (queue.c), even if UCX could copy them itself, as over TCP. UCX waits for each copy on the calling
 * thread, so a GPU that hangs would block every transfer; and it aborts the process if a copy fails
 * (ucp_mem_type_pack), so a lost GPU would end the worker.
 *
 * A card can reach GPU memory that its memory domain has registered, through nvidia_peermem or DMA-BUF. UCX chooses
 * between the card and copies by its own estimates, and does not report the choice. On endpoints with peer error
 * handling UCX has no pipeline of copies (UCX_RNDV_PIPELINE_ERROR_HANDLING), which leaves copies for payloads within
 * one fragment, 512 KiB, and for active messages; if card and GPU are close, it takes neither. This holds from 1.16 on.
 */

static int no_cards(void *context, struct device_inventory *inventory)
{
        return 0;
}

/* Whether UCX gets GPU memory; device_gpu_direct decides. */
static bool is_possible(const struct device_ucx *ucx)
{
        static const struct device_source source = { .fill = no_cards };
        struct device_inventory *inventory;
        struct device_gpu_direct answer;

        /* Decided first, because the inventory starts the CUDA driver. */
        if (!ucx->cuda || ucx->direct == DEVICE_GPUDIRECT_OFF || device_inventory_new(ucx, &source, &inventory) < 0)
                return false;
        device_gpu_direct(inventory, &answer);
        device_inventory_free(inventory);
        return answer.memory;
}

void ucx_gpudirect_open(struct ucx *ucx, const struct ucx_config *config)
{
        ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };
        bool cuda = ucp.context_query(ucx->context, &attr) == UCS_OK &&
                    (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;

        ucx->facts.device = (struct device_ucx){ .open = true,
                                                 .cuda = cuda && !ucx_lacks_gpu_memory(),
                                                 .no_rdma = ucx_no_rdma(ucx, config),
                                                 .direct = config->gpu_direct };
        ucx->gpudirect = is_possible(&ucx->facts.device);
}

/*
 * Whether a card stops serving a peer once its endpoint is closed. Over DC a card serves every peer that has the key
 * until the memory is deregistered, and UCX does not deregister memory that its user has registered.
 */
static bool is_closed_with_its_endpoint(const char *carrier)
{
        return ucx_is_rdma(carrier) && strncmp(carrier, "dc_", 3) != 0;
}

uint64_t ucx_gpudirect_run(struct ucx_link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                           uint8_t **ret_address, struct memory **ret_memory)
{
        const struct ucx *ucx = ucx_of_link(link);
        uint64_t run;

        if (!ucx->gpudirect || limit <= WIRE_INLINE_MAX || !is_closed_with_its_endpoint(ucx_carrier(&link->base)))
                return 0;
        run = stream_run_in_segment(stream, offset, limit, ret_address, ret_memory);
        if (run < limit && run < UCX_GATHER_BELOW)
                return 0;
        return (*ret_memory)->space && (*ret_memory)->handles[ucx->base.index] ? run : 0;
}
