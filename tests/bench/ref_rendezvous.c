/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ref_ucx.h"

/* Bare chunked rendezvous: active messages of 1 MiB, 4 in flight; the end is the receiver's word that all is there. */

enum { AM_DATA = 1, AM_DONE = 2, CHUNK = 1 << 20, WINDOW = 4, EAGER_MAX = 8192 - 2 * 128 };

static uint64_t received;
static bool done;

static void tell_done(struct ref_ucx *u)
{
        static const ucp_request_param_t param = { 0 };
        ucs_status_ptr_t request = ucp_am_send_nbx(u->endpoint, AM_DONE, NULL, 0, NULL, 0, &param);

        if (UCS_PTR_IS_ERR(request))
                ref_fail("done", UCS_PTR_STATUS(request));
        if (request)
                ucp_request_free(request);
}

static void add_received(struct ref_ucx *u, uint64_t size)
{
        received += size;
        if (received == u->shared->size)
                tell_done(u);
}

static void on_stored(void *request, ucs_status_t status, size_t size, void *context)
{
        ucp_request_free(request);
        if (status != UCS_OK)
                ref_fail("receive", status);
        add_received(context, size);
}

static ucs_status_t on_data(void *context, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param)
{
        struct ref_ucx *u = context;
        ucp_request_param_t receive = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                .cb.recv_am = on_stored,
                .user_data = u,
        };
        ucs_status_ptr_t request;
        uint64_t offset;

        memcpy(&offset, header, sizeof(offset));
        if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
                memcpy(u->memory + offset, data, size);
                add_received(u, size);
                return UCS_OK;
        }
        request = ucp_am_recv_data_nbx(u->worker, data, u->memory + offset, size, &receive);
        if (UCS_PTR_IS_ERR(request))
                ref_fail("receive", UCS_PTR_STATUS(request));
        if (!request)
                add_received(u, size);
        return UCS_OK;
}

static ucs_status_t on_done(void *context, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param)
{
        done = true;
        return UCS_OK;
}

static void setup(struct ref_ucx *u)
{
        ref_set_handler(u, AM_DATA, on_data);
        ref_set_handler(u, AM_DONE, on_done);
}

static void begin(struct ref_ucx *u)
{
        received = 0;
}

static void run(struct ref_ucx *u, uint64_t size)
{
        ucs_status_ptr_t window[WINDOW] = { NULL };
        uint64_t offsets[WINDOW];
        unsigned slot = 0;

        done = false;
        for (uint64_t offset = 0; offset < size; offset += CHUNK, slot = (slot + 1) % WINDOW) {
                uint64_t n = size - offset < CHUNK ? size - offset : CHUNK;
                ucp_request_param_t param = {
                        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                        .flags = n > EAGER_MAX ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
                };

                ref_finish(u, window[slot]);
                offsets[slot] = offset; /* the header must stay until the send is complete */
                window[slot] = ucp_am_send_nbx(u->endpoint, AM_DATA, &offsets[slot], sizeof(offsets[slot]),
                                               u->memory + offset, n, &param);
        }
        for (unsigned i = 0; i < WINDOW; i++)
                ref_finish(u, window[i]);
        while (!done)
                (void)ucp_worker_progress(u->worker);
}

int main(int argc, char **argv)
{
        static const struct ref_test test = { UCP_FEATURE_AM, setup, begin, run };

        return ref_main(argc, argv, &test);
}
