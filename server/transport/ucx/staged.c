/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ucx_internal.h"

/*
 * Payloads in device memory. The staging threads (transport/staging.h) load a send into host memory before it is queued
 * for UCX (queue.c), and store a receive into device memory after UCX has received it (message.c). So the device copies
 * one chunk of the window while UCX moves another. UCX moves a payload that it gets in place (gpudirect.c) without
 * copies; its stage only checks the device memory.
 *
 *   send:     link->loading → ucx_send → … → end
 *   receive:  … → finished by UCX → link->storing → end
 */

void ucx_staged_load(struct ucx_message *m, void (*loaded)(struct message *message))
{
        struct ucx_link *link = ucx_link_of(m->base.link);

        if (!ucx_message_begin(m)) {
                ucx_message_end(m, MESSAGE_CANCELLED);
        } else if (!ucx_message_place(m)) {
                ucx_message_end(m, MESSAGE_NO_MEMORY);
        } else {
                DL_APPEND(link->loading, &m->base);
                stage_run(&m->base, m->device ? STAGING_CHECK : STAGING_LOAD, loaded);
        }
}

void ucx_staged_store_inline(struct ucx_message *m, const void *bytes)
{
        if (!ucx_message_begin(m)) {
                ucx_message_drop(ucx_of_link(ucx_link_of(m->base.link)), m);
        } else if (!ucx_message_stage(m)) {
                ucx_message_end(m, MESSAGE_NO_MEMORY);
        } else {
                memcpy(m->base.stage->bytes, bytes, m->base.length);
                ucx_message_store(m);
        }
}

static void end(struct message *message, enum message_result result)
{
        ucx_message_end(ucx_message_of(message), result);
}

void ucx_staged_end(struct ucx_link *link, const uint64_t *transfer, enum message_result result)
{
        stage_cancel(&link->loading, transfer, result, end);
        stage_cancel(&link->storing, transfer, result, end);
}
