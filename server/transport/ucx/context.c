/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * All transports except shared memory, which the local transport serves, and ud. UCX treats a failed completion of ud
 * as fatal, so one link flap aborts the process, even if ud is only the auxiliary transport of rc. So ud is excluded by
 * name; rc_verbs then connects by TCP's connection manager.
 */
#define TRANSPORTS "^sm,ud_verbs,ud_mlx5"
#define TRANSPORTS_NO_RDMA "^sm"               /* Before 1.18 UCX warns about unknown names. */
#define TRANSPORTS_CUDA TRANSPORTS ",cuda_ipc" /* by CUDA's IPC peers write GPU memory */

/*
 * TCP moves a rendezvous by PUT straight into its place, or by active messages of 64 KiB that are copied there: 256 MiB
 * take 42 or 62 ms (loopback, 1.13.1). But if a peer dies before it has confirmed our PUT, this process can abort by an
 * assertion in uct_tcp_ep_handle_put_ack (uct/tcp/tcp_ep.c, the same from 1.13 to 1.22; on in Debian's build):
 *
 *   uct_tcp_ep_progress_am_rx handles all messages of one recv, one after the other. If the handler of one of them
 *   sends, and the send finds the connection reset, UCX forgets all PUTs. If the confirmation of the last PUT follows
 *   that message in the same buffer, it matches no outstanding PUT: abort.
 *
 * So no message received ahead of the confirmation of our last PUT may cause a send over the same endpoint:
 *   - our own messages, receives and refusals: they are deferred until ucp_worker_progress returns (queue.c);
 *   - UCX's PUT, when it reads the peer's RTR (ready to receive), and UCX's ATP (all is put), when it reads an earlier
 *     confirmation: every worker, whatever its UCX, posts one receive at a time for each endpoint, so the next RTR
 *     leaves after the confirmation, and a second PUT does not exist;
 *   - UCX's confirmation of a PUT of the peer: sent inside that loop only for a PUT that lies in the buffer as a whole,
 *     and a rendezvous that would fit into the buffer travels without PUT (UCX_PUT_ABOVE).
 * The other messages cause no send: eager messages, RTS, ATP, ATS, data, keep-alive.
 *
 * From 1.16 on UCX uses another rendezvous (UCX_PROTO_ENABLE), for which this is not proven: there PUT stays off.
 */
static bool put_is_safe(void)
{
        return ucx_is_before(16);
}

struct setting {
        const char *key, *value; /* NULL = UCX's default */
        bool force;              /* overrides UCX_<KEY> in the environment */
};

/* Before 1.17, a program names the settings of a transport without its prefix; the environment always has it. */
static const char *key_of_ucx(const char *key)
{
        static const char prefix[] = "TCP_";
        size_t n = strlen(prefix);

        return strncmp(key, prefix, n) == 0 && ucx_is_before(17) ? key + n : key;
}

static void apply(ucp_config_t *config, const struct setting *settings, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char variable[64];

                (void)snprintf(variable, sizeof(variable), "UCX_%s", settings[i].key);
                if (!settings[i].value || (!settings[i].force && getenv(variable)))
                        continue;
                /* Other versions of UCX may not know a key; that must not be fatal. */
                if (ucp.config_modify(config, key_of_ucx(settings[i].key), settings[i].value) != UCS_OK)
                        log_event(LOG_DEBUG, "UCX setting unknown", LOG_S("key", settings[i].key));
        }
}

/* Whether a variable is one that UCX reads, and no flag overrides. */
static bool counts(const char *variable, const struct ucx_config *config)
{
        return strncmp(variable, "UCX_", strlen("UCX_")) == 0 &&
               !(config->transports && strncmp(variable, "UCX_TLS=", strlen("UCX_TLS=")) == 0) &&
               !(config->interfaces && strncmp(variable, "UCX_NET_DEVICES=", strlen("UCX_NET_DEVICES=")) == 0);
}

char *ucx_environment(const struct ucx_config *config)
{
        char *names = NULL;
        size_t size;
        FILE *out = open_memstream(&names, &size);

        if (!out)
                return NULL;
        for (char **variable = environ; *variable; variable++)
                if (counts(*variable, config))
                        (void)fprintf(out, "%s%.*s", ftell(out) ? ", " : "", (int)strcspn(*variable, "="), *variable);
        (void)fclose(out);
        if (names && !*names) {
                free(names);
                names = NULL;
        }
        return names;
}

int ucx_failed(const struct ucx_config *config, const char *step, ucs_status_t status)
{
        FERRY_CLEANUP(cleanup_free) char *environment = ucx_environment(config);
        const char *reason = ucs.status_string(status);
        int r = ucx_errno(status);

        log_event(LOG_ERROR, "network transport not opened", LOG_S("step", step), LOG_S("reason", reason),
                  LOG_S("environment", environment));
        if (r == -ENODEV && (config->transports || config->interfaces))
                return r; /* the flags that choose are at fault, which the caller names */
        if (config->detail && environment && r != -EADDRINUSE && r != -ENOMEM)
                (void)snprintf(config->detail, TRANSPORT_REASON_SIZE,
                               "UCX cannot open the network transport (%s: %s; the log says more), and the environment "
                               "changes its settings: unset %.160s",
                               step, reason, environment);
        return r;
}

/* Whether UCX gets a single interface. interfaces: what Ferry has chosen, or NULL. */
static bool is_one_interface(const struct ucx_config *config, const char *interfaces)
{
        const char *environment = getenv("UCX_NET_DEVICES");
        const char *list = config->interfaces ? config->interfaces : environment ? environment : interfaces;

        return list && if_nametoindex(list) > 0;
}

static void configure(const struct ucx *ucx, const struct ucx_config *config, const char *interfaces,
                      ucp_config_t *ucp_config)
{
        const char *transports = !ucx_is_before(18) ? TRANSPORTS_CUDA
                                 : ucx_has_rdma()   ? TRANSPORTS
                                                    : TRANSPORTS_NO_RDMA;
        const struct setting settings[] = {
                { "TLS", config->transports ? config->transports : transports, config->transports != NULL },
                { "NET_DEVICES", config->interfaces ? config->interfaces : interfaces, config->interfaces != NULL },
                /*
                 * Only lanes of the listener's address family: UCX 1.13 writes out of bounds if a lane of IPv4 gets a
                 * peer of IPv6.
                 */
                { "TCP_AF_PRIO", ucx->listen.address.ss_family == AF_INET ? "inet" : "inet6", true },
                { "KEEPALIVE_INTERVAL", "1s", false },
                /* The same as watch.c sets on all sockets. */
                { "TCP_KEEPIDLE", "1s", false },
                { "TCP_KEEPINTVL", "1s", false },
                { "TCP_KEEPCNT", "4", false },
                /*
                 * By default UCX's connect() blocks the progress thread, and with it the transfers to all peers: for
                 * two minutes if a firewall drops the packets.
                 */
                { "TCP_CONN_NB", "y", true },
                { "TCP_PUT_ENABLE", ucx->put ? NULL : "n", true },
                { "TCP_RX_SEG_SIZE", "64k", true }, /* UCX_PUT_ABOVE */
                /* UCX packs pieces into buffers of this size: 1,000 of 16 KiB at 2.5 GB/s, with its 8 KiB at 2.0. */
                { "TCP_TX_SEG_SIZE", "64k", false },
                /*
                 * The number of pieces that UCX sends in place, without packing them; its default of 6 is too few for
                 * pieces of 4 KiB. From 30 on UCX 1.13 aborts: it limits the list to 1,200 bytes of stack.
                 */
                { "TCP_MAX_IOV", "20", true },
                /*
                 * From 1.16 on, UCX compares its protocols for each new kind of connection, and each look at TCP takes
                 * 35 system calls: two fresh workers look 365 times with 1.18, 550 times with 1.20. It compares for
                 * three sets of attributes if "short" is best for the shortest messages, else for one. Over TCP the
                 * next best copies as often. RDMA is faster with "short", and needs no system calls. Before 1.18 this
                 * setting would turn off PUT and GET of a rendezvous.
                 */
                { "BCOPY_THRESH", ucx_is_before(18) || ucx_has_rdma() ? NULL : "0", false },
                /* Each look would also read all routes, to see which of several interfaces has the default route. */
                { "TCP_PREFER_DEFAULT", is_one_interface(config, interfaces) ? "n" : NULL, false },
                /* Of GPU memory register only the region, not the program's whole allocation around it. */
                { "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "", true },
                /*
                 * Parts are copied into UCX's buffers. That costs 15 to 20 % of the speed of 64 KiB to 4 MiB on
                 * loopback, and nothing over a network. Without the copy, about one link end in 1,000 aborts the
                 * worker: if the connection manager's socket reports the end of the peer before the data socket does,
                 * UCX 1.13 completes the request of a partly sent part, and uct_tcp completes it again when it finds
                 * its socket reset (uct_iface.h, comp->count > 0).
                 */
                { "ZCOPY_THRESH", ucx_is_before(16) ? "inf" : NULL, false },
                /*
                 * The kernel grows socket buffers beyond the size of the cache: on loopback 256 MiB take 43 ms with
                 * this size, 47 ms without. Over a network the buffer has to grow with the delay.
                 */
                { "TCP_SNDBUF", ucx->listen.loopback ? "256k" : NULL, false },
                /* Else a restart cannot bind its port while old connections are in TIME_WAIT. */
                { "CM_REUSEADDR", "y", false },
                /*
                 * With connections by rdmacm, the deletion of an RDMA link aborts the process, and so does the start
                 * where there is no RDMA.
                 */
                { "SOCKADDR_TLS_PRIORITY", "tcp", !ucx_has_rdma() },
        };

        apply(ucp_config, settings, FERRY_ARRAY_SIZE(settings));
}

/*
 * UCX can cache registrations only if it sees memory being unmapped: not with UCX_MEM_EVENTS=n, with ThreadSanitizer,
 * or where code may not be patched (systemd's MemoryDenyWriteExecute). Without the cache, 1.16 to 1.21 crash if a peer
 * fails during a rendezvous whose memory UCX has registered itself (openucx/ucx#11467), so message.c then passes our
 * own registration. With the cache it does not: UCX revokes a peer's access only to memory that UCX has registered
 * itself, and DC needs that. 1.16 goes without the cache: with it, requests of an endpoint closed by force may never
 * complete.
 */
static ucs_status_t init_context(struct ucx *ucx, const ucp_params_t *params, ucp_config_t *config)
{
        static const struct setting with = { "RCACHE_ENABLE", "y", false }, without = { "RCACHE_ENABLE", "n", false };
        ucs_status_t status;

        if (ucx_is_before(16) || !ucx_is_before(17)) {
                apply(config, &with, 1);
                status = ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, &ucx->context);
                ucx->cached = status == UCS_OK && !getenv("UCX_RCACHE_ENABLE");
                if (status == UCS_OK)
                        return status;
        }
        apply(config, &without, 1);
        return ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, &ucx->context);
}

int ucx_context_open(struct ucx *ucx, const struct ucx_config *config)
{
        FERRY_CLEANUP(cleanup_free) char *interfaces = NULL;
        ucp_params_t params = {
                .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                .mt_workers_shared = 1, /* memory is registered by other threads */
                /* Not RMA: with it UCX serves reads and writes of any address to anyone connected. */
                .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                .name = "ferry",
        };
        ucp_config_t *ucp_config;
        ucs_status_t status;
        int r = config->interfaces ? ucx_interfaces_check(config->interfaces)
                                   : ucx_interfaces(config, &ucx->listen, &interfaces);

        if (r < 0)
                return r;
        ucx->put = put_is_safe();
        ucx_redirect();
        status = ucp.config_read(NULL, NULL, &ucp_config);
        if (status != UCS_OK)
                return ucx_failed(config, "configuration", status);
        configure(ucx, config, interfaces, ucp_config);
        status = init_context(ucx, &params, ucp_config);
        ucp.config_release(ucp_config);
        ucx_redirect(); /* it has loaded modules */
        return status == UCS_OK ? 0 : ucx_failed(config, "transports", status);
}

int ucx_worker_open(struct ucx *ucx, const struct ucx_config *config, ucp_am_recv_callback_t arrived)
{
        ucp_worker_params_t params = {
                .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                /* One thread at a time: the holder of the engine's progress lock. */
                .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        };
        ucp_am_handler_param_t handler = {
                .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                              UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                .id = UCX_AM_ID,
                .flags = UCP_AM_FLAG_WHOLE_MSG,
                .cb = arrived,
                .arg = ucx,
        };
        ucs_status_t status = ucp.worker_create(ucx->context, &params, &ucx->worker);

        if (status != UCS_OK)
                return ucx_failed(config, "worker", status);
        status = ucp.worker_set_am_recv_handler(ucx->worker, &handler);
        if (status != UCS_OK)
                return ucx_failed(config, "message handler", status);
        status = ucp.worker_get_efd(ucx->worker, &ucx->base.fd);
        return status == UCS_OK ? 0 : ucx_failed(config, "event descriptor", status);
}

/* ---- memory ---- */

int ucx_register_memory(struct transport *transport, struct memory *memory)
{
        ucp_mem_map_params_t params = {
                .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                              UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                .address = memory->address,
                .length = memory->size,
                .memory_type = memory->space ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
        };
        ucp_mem_h handle;
        ucs_status_t status;
        uint64_t limit;

        if (memory->space && (memory->space->only_copied || !ucx_of(transport)->gpudirect))
                return 0; /* transfers stage it */
        status = ucp.mem_map(ucx_of(transport)->context, &params, &handle);
        if (status == UCS_OK) {
                memory->handles[transport->index] = handle;
                return 0;
        }
        if (memory->space) {
                log_event(LOG_INFO, "GPU memory cannot be registered: transfers copy it through host memory",
                          LOG_S("transport", transport->name), LOG_U("size", memory->size),
                          LOG_S("reason", ucs.status_string(status)));
                return 0;
        }
        limit = ucx_memlock_limit();
        if (limit != UINT64_MAX && ucx_rdma_ports(NULL, 0)) {
                log_event(LOG_ERROR, "memory registration failed", LOG_S("transport", transport->name),
                          LOG_U("size", memory->size), LOG_S("reason", ucs.status_string(status)),
                          LOG_U("memlock_bytes", limit), LOG_S("advice", UCX_MEMLOCK_ADVICE));
                return -ENOMEM;
        }
        log_event(LOG_ERROR, "memory registration failed", LOG_S("transport", transport->name),
                  LOG_U("size", memory->size), LOG_S("reason", ucs.status_string(status)));
        return ucx_errno(status);
}

void ucx_deregister_memory(struct transport *transport, struct memory *memory)
{
        void **handle = &memory->handles[transport->index];

        if (*handle)
                (void)ucp.mem_unmap(ucx_of(transport)->context, *handle);
        *handle = NULL;
}

/* ---- facts ---- */

/* Adds the transport of a line such as "#   resource 0  :  md 0  dev 0  flags ---- tcp/lo", once. */
static void add_lane(struct ucx *ucx, char *line)
{
        char *slash = strchr(line, '/'), *start = slash;
        size_t n = ucx->facts.n_transports;

        if (!strstr(line, " resource ") || !slash)
                return;
        *slash = '\0';
        while (start > line && start[-1] != ' ')
                start--;
        for (size_t i = 0; i < n; i++)
                if (strcmp(ucx->lanes[i], start) == 0)
                        return;
        if (n < UCX_LANES_MAX && (ucx->lanes[n] = strdup(start)))
                ucx->facts.n_transports++;
}

void ucx_context_facts(struct ucx *ucx)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        char *save = NULL;

        ucx->facts.transports = (const char *const *)ucx->lanes;
        if (!out)
                return;
        ucp.context_print_info(ucx->context, out);
        (void)fclose(out);
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                add_lane(ucx, line);
}
