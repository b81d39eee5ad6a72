/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * The UCX transport: its set-up and its table of functions (struct transport_ops); move/ucx.h is the contract. A
 * transport whose address is not there yet has no worker: it opens no links, and its descriptor is that of
 * address_wait.c. One round takes what UCX has (ucp_worker_progress), then does what was deferred inside: copies that
 * are done, messages that waited, links that failed.
 *
 * Thread: the holder of the progress lock, but for ucx_address_wait_register() of the table and on_staged().
 */

/* The address has come: opens the transport. */
static bool open_when_address_is_up(struct ucx *ucx)
{
        if (!ucx->address_wait || !ucx_address_wait_check(ucx))
                return false;
        if (ucx->base.handlers.opened)
                ucx->base.handlers.opened(ucx->base.handlers.context, &ucx->base);
        log_event(LOG_INFO, "network transport opened", LOG_S("data", ucx->facts.data_address));
        return true;
}

static bool progress(struct transport *transport)
{
        struct ucx *ucx = ucx_of(transport);
        bool any;

        if (!ucx->worker)
                return open_when_address_is_up(ucx);
        ucx_watch_run(ucx);
        any = ucx_worker_progress(ucx) > 0;
        any |= ucx_collect_copies(ucx);
        any |= ucx_queue_flush(ucx);
        any |= ucx_sweep(ucx);
        return any;
}

static bool arm(struct transport *transport)
{
        struct ucx *ucx = ucx_of(transport);

        if (!ucx->worker)
                return true;
        return !ucx->refused && !ucx->ready && !ucx->sweep_wanted && ucp.worker_arm(ucx->worker) == UCS_OK;
}

static uint64_t deadline(const struct transport *transport)
{
        const struct ucx *ucx = FERRY_CONTAINER_OF(transport, const struct ucx, base);

        return ucx->worker ? ucx->watch_us : UINT64_MAX;
}

/*
 * A link to the peer's listener. An endpoint that UCX has made but cannot use becomes a link that fails, since only
 * close.c may end it. NULL with *ret_error.
 */
static struct link *connect_link(struct transport *transport, const struct transport_peer *peer, int *ret_error)
{
        struct ucx *ucx = ucx_of(transport);
        ucp_ep_params_t params = {
                .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                .sockaddr = { .addr = peer->address, .addrlen = peer->address_length },
        };
        struct ucx_address local = ucx->listen; /* peers look for the lanes at the connection's source address */
        struct ucx_link *link;
        ucs_status_t status;

        ((struct sockaddr_in *)(void *)&local.address)->sin_port = 0; /* at the same place in both families */
        *ret_error = ucx->stopping ? -ESHUTDOWN : -ENODEV;
        if (!ucx->worker && !ucx->stopping)
                *ret_error = -ENETDOWN;
        if (!ucx->worker || !peer->address)
                return NULL;
        if (peer->address->sa_family != ucx->listen.address.ss_family) {
                log_event(LOG_INFO, "UCX connects within one address family only",
                          LOG_S("data", ucx->facts.data_address));
                *ret_error = -EAFNOSUPPORT;
                return NULL;
        }
        if (!ucx->listen.loopback && !ucx->listen.wildcard)
                ucx_connect_from(&params, &local);
        link = ucx_link_new(ucx, false);
        if (!link) {
                *ret_error = -ENOMEM;
                return NULL;
        }
        memcpy(&link->peer, peer->address, peer->address_length);
        ucx_watch_wake(ucx);
        status = ucx_link_connect(link, &params);
        if (status == UCS_OK)
                return &link->base;
        if (link->endpoint) { /* close it */
                ucx_link_fail_status(link, status);
                return &link->base;
        }
        log_event(LOG_INFO, "endpoint not created", LOG_S("transport", transport->name),
                  LOG_S("reason", ucs.status_string(status)));
        link_free(&link->base);
        *ret_error = -EHOSTUNREACH;
        return NULL;
}

/* Undoes ucx_context_open() and ucx_context_facts(). All memory must have been deregistered. */
static void close_context(struct ucx *ucx)
{
        if (ucx->context)
                ucp.cleanup(ucx->context);
        ucx->context = NULL;
        for (size_t i = 0; i < ucx->facts.n_transports; i++)
                free(ucx->lanes[i]);
        ucx->facts.n_transports = 0;
}

static void ucx_free(struct transport *transport)
{
        struct ucx *ucx = ucx_of(transport);
        struct link *link, *next;

        ucx_shut_down(transport, 0);
        DL_FOREACH_SAFE (transport->links, link, next)
                link_free(link);
        ucx_watch_end(ucx);
        close_context(ucx);
        ucx_address_wait_free(ucx);
        (void)staging_free(ucx->staging);
        free(ucx);
}

static const struct transport_ops ops = {
        .free = ucx_free,
        .shut_down = ucx_shut_down,
        .progress = progress,
        .arm = arm,
        .deadline = deadline,
        .register_memory = ucx_address_wait_register,
        .deregister_memory = ucx_address_wait_deregister,
        .connect = connect_link,
        .send = ucx_send,
        .receive = ucx_receive,
        .cancel = ucx_cancel,
        .fail = ucx_link_fail,
        .request_size = ucx_request_size,
        .fit = ucx_fit,
        .window = ucx_window,
        .carrier = ucx_carrier,
};

/* ---- tasks and buffers for payloads in device memory ---- */

/* A task of staging has run. Thread: one of the pool. staging_stop() waits for the last before UCX's worker ends. */
static void on_staged(void *context)
{
        const struct ucx *ucx = context;

        (void)ucp.worker_signal(ucx->worker);
}

/* A buffer is free: every link may ask again. */
static void on_staging_room(void *context)
{
        struct ucx *ucx = context;
        struct link *base;

        DL_FOREACH (ucx->base.links, base) {
                ucx_link_of(base)->room = true;
                ucx_link_ready(ucx_link_of(base));
        }
}

/* ---- set-up ---- */

/* Whether a lane leads to other processes. */
static bool leads_outside(const char *lane)
{
        static const char *const inside[] = {
                "self", "cma", "posix", "sysv", "xpmem", "knem", "cuda", "gdr_copy", NULL
        };

        return !ucx_begins_with(lane, inside);
}

static bool is_tcp(const char *lane)
{
        return strcmp(lane, "tcp") == 0;
}

/*
 * Warns of a network without a device, and of faults of UCX that nothing above it can prevent: a certain message of 28
 * bytes to its listener aborts the process, and its tcp transport stores incoming bytes at the address that the message
 * names.
 */
static void warn_of_network(const struct ucx *ucx, const struct ucx_config *config)
{
        FERRY_CLEANUP(cleanup_free) char *environment = ucx_environment(config);
        const char *data = ucx->facts.data_address;
        char version[32];

        if (!ucx_has_lane(ucx, leads_outside))
                log_event(LOG_WARN, "the network transport cannot move bytes: UCX finds none of its devices",
                          LOG_S("data", data), LOG_S("environment", environment),
                          LOG_S("advice", environment ? "unset these variables, or check --interfaces and --transports"
                                                      : "check --interfaces and --transports, and whether /sys shows "
                                                        "this network"));
        if (ucx->listen.loopback) {
                log_event(LOG_INFO,
                          "UCX's listener has no protection: every user of this machine can crash this worker",
                          LOG_S("data", data));
                return;
        }
        ucx_version(version, sizeof(version));
        if (ucx_chooses_source())
                log_event(
                        LOG_WARN,
                        "this version of UCX connects from an address that the kernel chooses: peers on a machine with "
                        "several networks may not reach it",
                        LOG_S("ucx_version", version), LOG_S("advice", "install UCX 1.13 or newer"));
        log_event(LOG_WARN,
                  ucx_has_lane(ucx, is_tcp)
                          ? "UCX over TCP has no protection: every host that reaches its ports can write this "
                            "worker's memory or crash it"
                          : "UCX's listener has no protection: every host that reaches its port can crash this "
                            "worker",
                  LOG_S("data", data), LOG_S("advice", "use a network on which every host is trusted"));
}

/* Opens UCX at an address that is up. Leaves nothing behind on failure. */
static int open_network(struct ucx *ucx, const struct ucx_config *config)
{
        int r = ucx_context_open(ucx, config);

        if (r == 0)
                r = ucx_worker_open(ucx, config, ucx_message_arrived);
        if (r == 0)
                r = ucx_listener_open(ucx, config);
        if (r < 0) {
                ucx_listener_close(ucx);
                close_context(ucx);
                return r;
        }
        ucx_context_facts(ucx);
        ucx_gpudirect_open(ucx, config);
        warn_of_network(ucx, config);
        return 0;
}

/* Opens UCX at the address, or waits for the address. Returns 0 or -errno, logged. */
static int open_or_wait(struct ucx *ucx, const struct ucx_config *config)
{
        const char *missing;
        int r = ucx_address_parse(config->data_listen, &ucx->listen);

        if (r == 0)
                r = ucx_address_check(&ucx->listen, &missing);
        if (r == -EAGAIN)
                return ucx_address_wait_new(ucx, config, missing, open_network);
        return r == 0 ? open_network(ucx, config) : r;
}

int ucx_transport_new(const struct ucx_config *config, const struct transport_handlers *handlers, size_t index,
                      struct transport **ret_transport)
{
        struct ucx *ucx;
        int r = ucx_library_load(config->detail);

        if (r < 0)
                return r;
        ucx_quirks_setup();
        ucx = calloc(1, sizeof(*ucx));
        if (!ucx)
                return -ENOMEM;
        transport_init(&ucx->base, &ops, "ucx", index, handlers);
        ucx->base.message_size = sizeof(struct ucx_message);
        ucx->chunk_max = config->chunk_size ? config->chunk_size : WIRE_CHUNK_MAX;
        ucx->chunk_first = ucx->chunk_max < UCX_CHUNK_DEFAULT ? ucx->chunk_max : UCX_CHUNK_DEFAULT;
        ucx->window = config->window ? config->window : TRANSPORT_WINDOW_DEFAULT;
        r = staging_new(on_staged, on_staging_room, ucx, 1, &ucx->staging);
        if (r == 0)
                r = open_or_wait(ucx, config);
        if (r < 0) {
                ucx_free(&ucx->base);
                return r;
        }
        *ret_transport = &ucx->base;
        return 0;
}

const struct ucx_facts *ucx_transport_facts(const struct transport *transport)
{
        return &FERRY_CONTAINER_OF(transport, const struct ucx, base)->facts;
}
