/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ucx_internal.h"

/*
 * A message's way through UCX: from ucx_message_send_now() or ucx_message_receive_now(), by one call of an _nbx
 * function, to ucx_message_finished(), which runs once for each, in the call or in a callback. In between UCX reads and
 * writes the payload's memory, the header and the list of pieces, so these stay; the message is in link->under_way.
 *
 * Thread: the holder of the progress lock. ucx_message_finished() sends and closes nothing itself (queue.c says why):
 * it marks the link.
 */

/* stream_pieces makes iovecs; UCX wants its own struct of the same shape. */
_Static_assert(sizeof(struct iovec) == sizeof(ucp_dt_iov_t) &&
                       offsetof(struct iovec, iov_base) == offsetof(ucp_dt_iov_t, buffer) &&
                       offsetof(struct iovec, iov_len) == offsetof(ucp_dt_iov_t, length),
               "iovec and ucp_dt_iov_t have one layout");

static struct ucx_link *link_of(const struct ucx_message *m)
{
        return ucx_link_of(m->base.link);
}

/* ---- payloads off the host ---- */

bool ucx_message_place(struct ucx_message *m)
{
        struct ucx_link *link = link_of(m);
        struct staging *staging = ucx_of_link(link)->staging;
        struct memory *memory;
        uint8_t *address;

        if (!ucx_message_is_rendezvous(m) ||
            ucx_gpudirect_run(link, m->base.stream, m->base.offset, m->base.length, &address, &memory) < m->base.length)
                address = NULL;
        m->device = address ? memory : NULL;
        m->base.gpu_path = address ? GPU_PATH_GPUDIRECT : message_gpu_path(&m->base, GPU_PATH_STAGED);
        return address ? stage_new(staging, &m->base, address) : stage_new_buffer(staging, &m->base);
}

/* ---- completions ---- */

void ucx_message_finished(struct ucx_message *m, ucs_status_t status)
{
        struct ucx_link *link = link_of(m);
        /* All failures but a want of memory are the link's. */
        enum message_result result = status == UCS_OK              ? MESSAGE_OK
                                     : status == UCS_ERR_NO_MEMORY ? MESSAGE_NO_MEMORY
                                                                   : MESSAGE_LOST;

        DL_DELETE(link->under_way, &m->base);
        if (m->descriptor)
                link->receiving -= m->base.length;
        else if (m->fragment)
                link->fragments_sending -= m->base.length;
        if (status == UCS_OK && ucx_message_is_rendezvous(m))
                ucx_pace_bulk(link, m->base.length, m->posted_us);
        free(m->pieces);
        free(m->packed);
        explicit_bzero(m->header, sizeof(m->header)); /* it has a key */
        if (result == MESSAGE_LOST)
                ucx_link_fail_status(link, status);
        if (link->base.state == LINK_FAILED)
                ucx_of_link(link)->sweep_wanted = true;
        else
                ucx_link_ready(link);
        /* The link is still there: only ucx_sweep ends links. */
        if (result == MESSAGE_OK && m->descriptor && m->base.stage) {
                if (staging_tasks(ucx_of_link(link)->staging)) {
                        stage_store(&m->base, m->device ? STAGING_CHECK : STAGING_STORE);
                        return;
                }
                result = MESSAGE_LOST; /* the worker is stopping */
        } else if (result == MESSAGE_OK && m->descriptor && m->base.verify && message_check(&m->base) < 0) {
                result = MESSAGE_DIFFERS;
        }
        if (result == MESSAGE_OK)
                m->base.copied = m->base.length;
        message_end(&m->base, result);
}

static void send_callback(void *request, ucs_status_t status, void *user_data)
{
        ucp.request_free(request);
        ucx_message_finished(user_data, status);
}

static void receive_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
        ucp.request_free(request);
        ucx_message_finished(user_data, status);
}

/* Handles the result of an _nbx call: done (NULL), failed, or a request whose callback will run. */
static void started(struct ucx_message *m, ucs_status_ptr_t result)
{
        if (result == NULL)
                ucx_message_finished(m, UCS_OK);
        else if (UCS_PTR_IS_ERR(result))
                ucx_message_finished(m, UCS_PTR_STATUS(result));
}

/* ---- sends and receives ---- */

/* A payload as passed to UCX. */
struct buffer {
        void *address;
        size_t count; /* bytes, or pieces */
        bool list;
        struct memory *memory; /* UCX uses its registration; NULL = UCX registers the payload itself */
};

/*
 * Finds the payload: one run of memory, or m->pieces. UCX moves one run by PUT, and a list of pieces, even of one, by
 * active messages. A PUT must not fit into TCP's receive buffer (quirks.c says why), so a short run is passed as a
 * list. false: out of memory.
 */
static bool find_payload(struct ucx_message *m, struct buffer *ret_buffer)
{
        uint64_t length = m->base.length, run;
        uint8_t *address = NULL;

        *ret_buffer = (struct buffer){ .count = length };
        if (length == 0)
                return true;
        if (m->base.stage) {
                address = m->base.stage->bytes;
                ret_buffer->memory = m->device;
                run = length;
        } else if (ucx_of_link(link_of(m))->cached)
                run = stream_run(m->base.stream, m->base.offset, length, &address);
        else
                run = stream_run_in_segment(m->base.stream, m->base.offset, length, &address, &ret_buffer->memory);
        if (run < length) {
                ret_buffer->count = stream_pieces(m->base.stream, m->base.offset, length, &m->pieces);
                ret_buffer->address = m->pieces;
                ret_buffer->list = true;
                return ret_buffer->count > 0;
        }
        ret_buffer->address = address;
        if (!m->descriptor && length <= UCX_PUT_ABOVE && ucx_message_is_rendezvous(m) && ucx_put_is_safe()) {
                m->piece = (struct iovec){ .iov_base = address, .iov_len = length };
                *ret_buffer = (struct buffer){ .address = &m->piece, .count = 1, .list = true };
        }
        return true;
}

/*
 * Packs the pieces of an eager message if there are more than UCX_FRAGMENT_PIECES. UCX sends up to 15 pieces and our
 * header at once, and more in several messages. But UCX 1.13 aborts on exactly 16: it counts the header twice in the
 * first of those messages, which then takes all the bytes (ucp_do_am_zcopy_multi; UCP_MAX_IOV is 16, TCP's own limit is
 * higher). So many pieces are so short that packing them is faster anyway. false: out of memory.
 */
static bool pack(struct ucx_message *m, struct buffer *buffer)
{
        if (!buffer->list || buffer->count <= UCX_FRAGMENT_PIECES || ucx_message_is_rendezvous(m))
                return true;
        m->packed = malloc(m->base.length);
        if (!m->packed)
                return false;
        (void)stream_load(m->base.stream, m->base.offset, m->packed, m->base.length);
        *buffer = (struct buffer){ .address = m->packed, .count = m->base.length };
        return true;
}

/* Tells UCX the kind of memory, so that it does not ask the CUDA driver, which may block. */
static void set_kind(const struct ucx *ucx, ucp_request_param_t *param, const struct buffer *buffer)
{
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param->memory_type = buffer->memory && buffer->memory->space ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
        if (buffer->list) {
                param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
                param->datatype = ucp_dt_make_iov();
        }
        if (!buffer->list && buffer->memory && buffer->memory->handles[ucx->base.index])
                ucx_pass_registration(param, buffer->memory->handles[ucx->base.index]);
}

/* Adds the message to those that UCX works on. */
static void enter(struct ucx_message *m)
{
        struct ucx_link *link = link_of(m);

        DL_APPEND(link->under_way, &m->base);
        if (m->descriptor)
                link->receiving += m->base.length;
        else if (m->fragment)
                link->fragments_sending += m->base.length;
        if (ucx_message_is_rendezvous(m))
                m->posted_us = clock_now_us();
}

void ucx_message_send_now(struct ucx_message *m)
{
        ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
                .flags = UCP_AM_SEND_FLAG_REPLY |
                         (ucx_message_is_rendezvous(m) ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER),
                .cb.send = send_callback,
                .user_data = m,
        };
        struct buffer buffer;

        enter(m);
        if (!find_payload(m, &buffer) || !pack(m, &buffer)) {
                ucx_message_finished(m, UCS_ERR_NO_MEMORY);
                return;
        }
        set_kind(ucx_of_link(link_of(m)), &param, &buffer);
        if (m->base.verify && !m->base.stage)
                (void)message_seal(&m->base);
        wire_encode(&m->base.header, m->header);
        ucx_watch_wake(ucx_of_link(link_of(m)));
        started(m, ucp.am_send_nbx(link_of(m)->endpoint, UCX_AM_ID, m->header, WIRE_SIZE, buffer.address, buffer.count,
                                   &param));
}

void ucx_message_receive_now(struct ucx_message *m)
{
        struct ucx *ucx = ucx_of_link(link_of(m));
        ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                .cb.recv_am = receive_callback,
                .user_data = m,
        };
        struct buffer buffer;

        enter(m);
        if ((m->base.stream->off_host && !ucx_message_place(m)) || !find_payload(m, &buffer)) {
                ucp.am_data_release(ucx->worker, m->descriptor);
                ucx_message_finished(m, UCS_ERR_NO_MEMORY);
                return;
        }
        set_kind(ucx, &param, &buffer);
        started(m, ucp.am_recv_data_nbx(ucx->worker, m->descriptor, buffer.address, buffer.count, &param));
}
