/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx_internal.h"

/*
 * Memory of GPUs that UCX gets as it is, so that an RDMA card reads and writes it. All other payloads off the host are
 * staged (staged.c), also where UCX could copy them itself, which it does over TCP: it waits for each copy on the
 * thread that calls it, so that a GPU that stands still would hold up every transfer, and it aborts the process where a
 * copy fails (ucp_mem_type_pack), so that a GPU that is gone would end the worker.
 *
 * UCX has a card reach such memory where the card's memory domain has registered it, which nvidia_peermem or DMA-BUF
 * make possible. Between that and copies UCX chooses by its own estimates, and tells nobody. On endpoints with peer
 * error handling it has no pipeline of copies (UCX_RNDV_PIPELINE_ERROR_HANDLING), so that copies are left for what fits
 * into one fragment, 512 KiB, and for active messages: where card and GPU are near each other it takes neither. This
 * holds from 1.16 on; from 1.18 on CUDA's IPC can be left out without a complaint (context.c); from 1.19 on UCX asks
 * the driver about memory in that memory's context, before in that of the calling thread, which has none.
 */

static int no_cards(void *context, struct device_inventory *inventory)
{
        return 0;
}

/* Whether UCX is given memory of GPUs; device_gpu_direct decides. */
static bool is_possible(const struct device_ucx *ucx)
{
        static const struct device_source source = { .fill = no_cards };
        struct device_inventory *inventory;
        struct device_gpu_direct answer;

        /* Else the CUDA driver would be started for nothing. */
        if (!ucx->cuda || ucx->direct == DEVICE_DIRECT_OFF || device_inventory_new(ucx, &source, &inventory) < 0)
                return false;
        device_gpu_direct(inventory, &answer);
        device_inventory_free(inventory);
        return answer.memory;
}

void ucx_direct_open(struct ucx *ucx, const struct ucx_config *config)
{
        ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };
        bool cuda = ucp_context_query(ucx->context, &attr) == UCS_OK &&
                    (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;

        ucx->facts.device = (struct device_ucx){ .open = true,
                                                 .cuda = cuda && !ucx_is_before(19),
                                                 .no_rdma = ucx_no_rdma(ucx, config),
                                                 .direct = config->gpu_direct };
        ucx->direct = is_possible(&ucx->facts.device);
}

/*
 * Whether a card stops serving a peer when its endpoint is closed. Over DC it serves all that have the key, until the
 * memory is deregistered, which UCX does not do to memory that its user has registered.
 */
static bool is_closed_with_its_endpoint(const char *carrier)
{
        return ucx_is_rdma(carrier) && strncmp(carrier, "dc_", 3) != 0;
}

uint64_t ucx_direct_run(struct ucx_link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                        uint8_t **ret_address, struct memory **ret_memory)
{
        const struct ucx *ucx = ucx_of_link(link);
        uint64_t run;

        if (!ucx->direct || limit <= WIRE_INLINE_MAX || !is_closed_with_its_endpoint(ucx_carrier(&link->base)))
                return 0;
        run = stream_run_in_segment(stream, offset, limit, ret_address, ret_memory);
        if (run < limit && run < UCX_GATHER_BELOW)
                return 0;
        return (*ret_memory)->space && (*ret_memory)->handles[ucx->base.index] ? run : 0;
}
