/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_UCX_H
#define MOVE_UCX_H

#include "memory/device.h"
#include "message/transport.h"

/*
 * Peers anywhere, by UCX: active messages over ucp_listener endpoints with peer error handling and without
 * UCP_FEATURE_RMA; bulk by rendezvous, over TCP or RDMA. carrier is UCX's name of the lane: "tcp", "rc_verbs", ….
 * UCX's library is loaded by the first ucx_transport_new of the process, and stays.
 */

/* The strings stay as long as the transport. */
struct ucx_config {
        const char *data_listen; /* "HOST:PORT", "[v6]:PORT", "INTERFACE:PORT"; port 0 = any */
        const char *advertise;   /* host that peers use, or NULL: its interface counts as data_listen's does */
        const char *ucx_tls;     /* as UCX_TLS; NULL = all network ones but ud */
        const char *interfaces;  /* as UCX_NET_DEVICES; NULL = by the addresses above, and the active RDMA ports */
        enum device_gpudirect gpu_direct;
        uint32_t chunk_size; /* bytes of one rendezvous at most; 0 = by the measured round trip */
        uint32_t window;     /* chunks in flight over one link; 0 = default */
        char *detail;        /* of TRANSPORT_REASON_SIZE: why it was not opened, a sentence for users; may be NULL */
};

/* The properties of UCX on this machine. */
struct ucx_facts {
        struct device_ucx device;
        char data_address[TRANSPORT_ADDRESS_SIZE]; /* bound "host:port"; "" = it waits for its address */
        size_t n_transports;                       /* names of UCX transports in use, without duplicates */
        const char *const *transports;
};

/*
 * Where the address or interface is not there or not up yet, the transport waits for it (handlers->opened), connects to
 * nobody until then, and says so in the log.
 *
 * 0 with *ret_transport; -EADDRINUSE, -EADDRNOTAVAIL, -EINVAL (data_listen, transports, interfaces), -ENODEV (UCX has
 * no such transport), -ENOTSUP (this system has no UCX that can be loaded), other -errno. The reason is logged; where
 * config->detail can say more than the error it is filled in, else left alone.
 */
int ucx_transport_new(const struct ucx_config *config, const struct transport_handlers *handlers, size_t index,
                      struct transport **ret_transport);

/* Stays as long as the transport. */
const struct ucx_facts *ucx_transport_facts(const struct transport *transport);

/* "1.18.1"; text of at least 32 bytes. A transport must have been opened. Any thread. */
void ucx_version(char *text, size_t size);
#endif
