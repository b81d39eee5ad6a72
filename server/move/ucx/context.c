/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * UCX's context and worker: the settings, ucp_init, ucp_worker_create, and the memory registered with the context. The
 * settings that work around a fault of UCX are in quirks.c; those here are choices of Ferry's. A user's UCX_* variables
 * override all that are not forced, and are named in the log when the start fails (ucx_environment).
 *
 * Thread: that which opens the transport; ucx_register_memory() any, since the context is made for several threads
 * (mt_workers_shared); the worker belongs to the holder of the progress lock.
 */

/* Whether a variable is one that UCX reads, and no flag overrides. */
static bool counts(const char *variable, const struct ucx_config *config)
{
        return strncmp(variable, "UCX_", strlen("UCX_")) == 0 &&
               !(config->ucx_tls && strncmp(variable, "UCX_TLS=", strlen("UCX_TLS=")) == 0) &&
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
        if (r == -ENODEV && (config->ucx_tls || config->interfaces))
                return r; /* the flags that choose are at fault, which the caller names */
        if (config->detail && environment && r != -EADDRINUSE && r != -ENOMEM)
                (void)snprintf(config->detail, TRANSPORT_REASON_SIZE,
                               "UCX cannot open the network transport (%s: %s; the log says more), and the environment "
                               "changes its settings: unset %.160s",
                               step, reason, environment);
        return r;
}

static void configure(const struct ucx *ucx, const struct ucx_config *config, const char *interfaces,
                      ucp_config_t *ucp_config)
{
        const struct ucx_setting settings[] = {
                { "TLS", config->ucx_tls ? config->ucx_tls : ucx_default_transports(), config->ucx_tls != NULL },
                { "NET_DEVICES", config->interfaces ? config->interfaces : interfaces, config->interfaces != NULL },
                { "KEEPALIVE_INTERVAL", "1s", false },
                /* The same as watch.c sets on all sockets. */
                { "TCP_KEEPIDLE", "1s", false },
                { "TCP_KEEPINTVL", "1s", false },
                { "TCP_KEEPCNT", "4", false },
                /* UCX packs pieces into buffers of this size: 1,000 of 16 KiB at 2.5 GB/s, with its 8 KiB at 2.0. */
                { "TCP_TX_SEG_SIZE", "64k", false },
                /* Of GPU memory register only the region, not the program's whole allocation around it. */
                { "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "", true },
                /*
                 * The kernel grows socket buffers beyond the size of the cache: on loopback 256 MiB take 43 ms with
                 * this size, 47 ms without. Over a network the buffer has to grow with the delay.
                 */
                { "TCP_SNDBUF", ucx->listen.loopback ? "256k" : NULL, false },
        };

        ucx_settings_apply(ucp_config, settings, FERRY_ARRAY_SIZE(settings));
        ucx_quirks_configure(ucx, config, interfaces, ucp_config);
}

/* UCX loads modules at several points, and each time their functions have to be redirected (ucx_quirks_redirect). */
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
        ucx_quirks_redirect();
        status = ucp.config_read(NULL, NULL, &ucp_config);
        if (status != UCS_OK)
                return ucx_failed(config, "configuration", status);
        configure(ucx, config, interfaces, ucp_config);
        status = ucx_quirks_init(ucx, &params, ucp_config);
        ucp.config_release(ucp_config);
        ucx_quirks_redirect(); /* it has loaded modules */
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

/*
 * GPU memory that cannot be registered is no fault: it is staged. Host memory is, and where RDMA devices pin it the
 * limit of locked memory is the likely reason.
 */
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
        bool locks;

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
        locks = ucx_memlock_limit() != UINT64_MAX && ucx_rdma_ports(NULL, 0);
        log_event(LOG_ERROR, "memory registration failed", LOG_S("transport", transport->name),
                  LOG_U("size", memory->size), LOG_S("reason", ucs.status_string(status)),
                  LOG_S("advice", locks ? UCX_MEMLOCK_ADVICE : NULL));
        return locks ? -ENOMEM : ucx_errno(status);
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

/* UCX has no function that lists the transports of a context: they are read from its printed form. */
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
