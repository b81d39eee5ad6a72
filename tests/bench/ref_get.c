/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ref_ucx.h"

/* One ucp_get of the whole size: what one-sided libraries do. */

static void setup(struct ref_ucx *u)
{
        void *key;
        size_t size;
        ucs_status_t status;

        if (u->active)
                return;
        status = ucp_rkey_pack(u->context, u->registration, &key, &size);
        if (status != UCS_OK || size > sizeof(u->shared->key))
                ref_fail("remote key", status);
        memcpy(u->shared->key, key, size);
        u->shared->key_size = size;
        u->shared->address = (uint64_t)(uintptr_t)u->memory;
        ucp_rkey_buffer_release(key);
}

static void begin(struct ref_ucx *u)
{
}

static void run(struct ref_ucx *u, uint64_t size)
{
        static const ucp_request_param_t param = { 0 };
        static ucp_rkey_h key;

        /* Only when the endpoint is connected: UCX 1.18 takes the key to lanes that it no longer has (assertion). */
        if (!key) {
                ref_finish(u, ucp_ep_flush_nbx(u->endpoint, &param));
                if (ucp_ep_rkey_unpack(u->endpoint, u->shared->key, &key) != UCS_OK)
                        ref_fail("remote key", UCS_ERR_INVALID_PARAM);
        }
        ref_finish(u, ucp_get_nbx(u->endpoint, u->memory, size, u->shared->address, key, &param));
}

int main(int argc, char **argv)
{
        static const struct ref_test test = { UCP_FEATURE_RMA, setup, begin, run };

        return ref_main(argc, argv, &test);
}
