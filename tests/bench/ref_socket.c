/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ref_ucx.h"

/* "ref_socket socket MAX_SIZE": a bare round trip: a head is sent, a head and as many bytes as the run's size come. */

enum { AM_ASK = 1, AM_BYTES = 2, REPEATS = 200 };

static bool arrived;

static ucs_status_t on_ask(void *context, const void *header, size_t header_size, void *data, size_t size,
                           const ucp_am_recv_param_t *param)
{
        struct ref_ucx *u = context;

        ref_send(u, AM_BYTES, u->memory, u->shared->size);
        return UCS_OK;
}

static ucs_status_t on_bytes(void *context, const void *header, size_t header_size, void *data, size_t size,
                             const ucp_am_recv_param_t *param)
{
        struct ref_ucx *u = context;

        memcpy(u->memory, data, size);
        arrived = true;
        return UCS_OK;
}

static void setup(struct ref_ucx *u)
{
        ref_set_handler(u, AM_ASK, on_ask);
        ref_set_handler(u, AM_BYTES, on_bytes);
}

static void begin(struct ref_ucx *u)
{
}

static void run(struct ref_ucx *u, uint64_t size)
{
        arrived = false;
        ref_send(u, AM_ASK, NULL, 0);
        while (!arrived)
                (void)ref_progress(u);
}

int main(int argc, char **argv)
{
        static const struct ref_test test = { UCP_FEATURE_AM, setup, begin, run, .repeats = REPEATS };

        return ref_main(argc, argv, &test);
}
