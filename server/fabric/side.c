/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

/*
 * A side is one UCX context, worker and, on the network, listener. The local side has shared memory only: whoever can
 * open its presence file is on this host and of this user. The network side has everything else.
 */

/*
 * The local side leaves cma out: it fails in the middle of a transfer where ptrace is restricted (Yama, seccomp), while
 * posix works for every process of the user, at the same speed in 1 MiB chunks.
 */
#define LOCAL_TRANSPORTS "posix"
#define NETWORK_TRANSPORTS "^sm" /* UCX's alias for all of shared memory, negated */

struct setting {
        const char *key, *value;
        bool force; /* also against UCX_<KEY> in the environment */
};

static int errno_of(ucs_status_t status)
{
        switch (status) {
        case UCS_ERR_NO_MEMORY:
                return -ENOMEM;
        case UCS_ERR_NO_DEVICE:
        case UCS_ERR_UNSUPPORTED:
                return -ENODEV;
        case UCS_ERR_BUSY:
                return -EADDRINUSE;
        case UCS_ERR_INVALID_ADDR:
        case UCS_ERR_UNREACHABLE:
                return -EADDRNOTAVAIL;
        case UCS_ERR_INVALID_PARAM:
                return -EINVAL;
        default:
                return -EIO;
        }
}

static int failed(const struct side *side, const char *what, ucs_status_t status)
{
        log_event(LOG_ERROR, "the data plane's side cannot be opened", LOG_S("side", side->name), LOG_S("step", what),
                  LOG_S("reason", ucs_status_string(status)));
        /* From 1.17 on at the latest, UCX tries beforehand and says that there is no such device. */
        if (side == &side->fabric->sides[SIDE_LOCAL] &&
            (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_DEVICE)) {
                log_event(LOG_ERROR,
                          "the shared-memory side takes 13 MiB of /dev/shm: make room there, or use --local off");
                return -ENOSPC;
        }
        return errno_of(status);
}

bool ucx_is_before(unsigned minor)
{
        unsigned major, its_minor, release;

        ucp_get_version(&major, &its_minor, &release);
        return major == 1 && its_minor < minor;
}

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
                if (ucp_config_modify(config, key_of_ucx(settings[i].key), settings[i].value) != UCS_OK)
                        log_event(LOG_DEBUG, "UCX does not know a setting", LOG_S("key", settings[i].key));
        }
}

static bool is_loopback(const struct sockaddr_storage *address)
{
        if (address->ss_family == AF_INET)
                return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) == 127;
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/*
 * TCP moves a rendezvous by PUT straight into its place, or in active messages of 64 KiB that are copied there: 256 MiB
 * in 42 or 62 ms (loopback, 1.13.1). But a process can be aborted by its peer's death while its PUT is not confirmed,
 * by an assertion in uct_tcp_ep_handle_put_ack (uct/tcp/tcp_ep.c, the same from 1.13 to 1.22; on in Debian's build):
 *
 *   uct_tcp_ep_progress_am_rx handles one after the other what one recv has brought. When handling one of them sends,
 *   and that send finds the connection reset, all PUTs are forgotten. If the confirmation of the last PUT lies behind
 *   it in the same buffer, it confirms a PUT that nobody waits for: abort.
 *
 * So nothing that is read in front of the confirmation of our last PUT may send over the same endpoint:
 *   - our own messages, receives and refusals: they are deferred until ucp_worker_progress is over (queue.c);
 *   - UCX's PUT, when the peer's RTR (ready to receive) is read, and its ATP (all is put), when an earlier confirmation
 *     is: every worker, whatever its UCX, posts one receive at a time for each endpoint, so the next RTR leaves after
 *     the confirmation, and there is no second PUT;
 *   - UCX's confirmation of a PUT of the peer: sent inside that loop only for one that lies in the buffer as a whole;
 *     shorter rendezvous than the buffer travel without PUT (FABRIC_PUT_ABOVE).
 * Nothing else that can stand there sends: eager messages, RTS, ATP, ATS, data, keep-alive.
 *
 * From 1.16 on, UCX's rendezvous is another (UCX_PROTO_ENABLE), for which this was not shown: there PUT stays off.
 */
static bool put_is_safe(void)
{
        return ucx_is_before(16);
}

static int context_open(struct side *side, bool network, const struct fabric_config *config, bool loopback)
{
        const struct setting settings[] = {
                { "TLS", network ? (config->transports ? config->transports : NETWORK_TRANSPORTS) : LOCAL_TRANSPORTS,
                  !network || config->transports },
                /* Listening on loopback must not open UCX's ports on the other interfaces. */
                { "NET_DEVICES",
                  network ? (config->interfaces ? config->interfaces
                             : loopback         ? "lo"
                                                : NULL)
                          : NULL,
                  config->interfaces != NULL },
                /* With peer error handling UCX leaves shared memory out unless told. The key serves posix and sysv. */
                { "MM_ERROR_HANDLING", network ? NULL : "y", true },
                /*
                 * Both processes must run to move bytes by shared memory. Where cores are short, that is once in some
                 * milliseconds, and what fits into the queue (8 KiB an element) moves each time: with UCX's default of
                 * 64 elements 0.08 GB/s on 2 cores with 3 busy programs, with 1024 0.8 GB/s; the same 11 GB/s where
                 * not. FABRIC_LOCAL_BYTES counts on this number.
                 */
                { "MM_FIFO_SIZE", network ? NULL : "1024", false },
                /* Our headers fit into the queue's elements, which stay in the cache; its buffers, 8 MiB, do not. */
                { "MM_FIFO_ELEM_SIZE", network ? NULL : "256", false },
                /*
                 * Local peers are watched by their pidfd. UCX's keep-alive would wake an idle worker every second, and
                 * look without a pause while the queue of a peer is full that has stopped.
                 */
                { "KEEPALIVE_INTERVAL", network ? "1s" : "inf", false },
                { "TCP_PUT_ENABLE", network && !side->put ? "n" : NULL, true },
                { "TCP_RX_SEG_SIZE", network ? "64k" : NULL, true }, /* FABRIC_PUT_ABOVE */
                /* Pieces are packed into buffers of this size: 1,000 of 16 KiB at 2.5 GB/s, with UCX's 8 KiB at 2.0. */
                { "TCP_TX_SEG_SIZE", network ? "64k" : NULL, false },
                /*
                 * So many pieces go out from where they are, without being packed; UCX's 6 are too few for pieces of
                 * 4 KiB. From 30 on UCX 1.13 aborts: it allows itself 1,200 bytes of stack for the list.
                 */
                { "TCP_MAX_IOV", network ? "20" : NULL, true },
                /*
                 * The kernel grows a socket's buffer beyond what the cache holds: on loopback 256 MiB take 43 ms with
                 * this size, 47 without. Over a wire it grows with the delay, and is left to the kernel.
                 */
                { "TCP_SNDBUF", network && loopback ? "256k" : NULL, false },
                /* Else a restart finds its port taken for as long as the kernel remembers old connections. */
                { "CM_REUSEADDR", network ? "y" : NULL, false },
                { "SOCKADDR_TLS_PRIORITY", network ? "tcp,rdmacm" : NULL, false },
        };
        ucp_params_t params = {
                .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                /* Not RMA: with it UCX serves reads and writes of any address to anyone connected. */
                .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                .name = side->name,
        };
        ucp_config_t *ucp_config;
        ucs_status_t status = ucp_config_read(NULL, NULL, &ucp_config);

        if (status != UCS_OK)
                return failed(side, "configuration", status);
        apply(ucp_config, settings, FERRY_ARRAY_SIZE(settings));
        status = ucp_init(&params, ucp_config, &side->context);
        ucp_config_release(ucp_config);
        return status == UCS_OK ? 0 : failed(side, "transports", status);
}

static int worker_open(struct side *side)
{
        ucp_worker_params_t params = {
                .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                /* One thread at a time: it is created here and used by who has the turn from then on. */
                .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        };
        ucp_am_handler_param_t handler = {
                .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                              UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                .id = WIRE_AM_ID,
                .flags = UCP_AM_FLAG_WHOLE_MSG,
                .cb = message_arrived,
                .arg = side,
        };
        ucs_status_t status = ucp_worker_create(side->context, &params, &side->worker);

        if (status != UCS_OK)
                return failed(side, "worker", status);
        status = ucp_worker_set_am_recv_handler(side->worker, &handler);
        if (status != UCS_OK)
                return failed(side, "message handler", status);
        status = ucp_worker_get_efd(side->worker, &side->event_fd);
        return status == UCS_OK ? 0 : failed(side, "event descriptor", status);
}

/* "HOST:PORT", "[v6]:PORT" to a socket address to bind. */
static int parse_address(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length)
{
        FERRY_CLEANUP(cleanup_free) char *copy = strdup(text);
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list;
        char *colon = copy ? strrchr(copy, ':') : NULL, *host = copy;
        size_t length;

        if (!copy)
                return -ENOMEM;
        if (!colon || colon[1] == '\0')
                return -EINVAL;
        *colon = '\0';
        length = strlen(host);
        if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
                host[length - 1] = '\0';
                host++;
        }
        if (getaddrinfo(*host ? host : NULL, colon + 1, &hints, &list) != 0)
                return -EADDRNOTAVAIL;
        memcpy(ret_address, list->ai_addr, list->ai_addrlen);
        *ret_length = list->ai_addrlen;
        freeaddrinfo(list);
        return 0;
}

/* UCX has one error for all that can be wrong with an address; the system tells them apart. */
static int probe_address(const struct sockaddr_storage *address, socklen_t length)
{
        int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;

        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
            bind(fd, (const struct sockaddr *)address, length) < 0)
                r = -errno;
        (void)close(fd);
        return r;
}

static int format_address(const struct sockaddr_storage *address, char *text, size_t size)
{
        char host[NI_MAXHOST], port[NI_MAXSERV];
        socklen_t length = address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

        if (getnameinfo((const struct sockaddr *)address, length, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return -EADDRNOTAVAIL;
        (void)snprintf(text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
        return 0;
}

static int listener_open(struct side *side, const struct sockaddr_storage *address, socklen_t length)
{
        ucp_listener_params_t params = {
                .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                .sockaddr = { .addr = (const struct sockaddr *)address, .addrlen = length },
                .conn_handler = { .cb = peer_accept, .arg = side },
        };
        ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
        ucs_status_t status = ucp_listener_create(side->worker, &params, &side->listener);

        if (status != UCS_OK)
                return failed(side, "listener", status);
        status = ucp_listener_query(side->listener, &attr);
        if (status != UCS_OK)
                return failed(side, "listener address", status);
        return format_address(&attr.sockaddr, side->fabric->facts.data_address,
                              sizeof(side->fabric->facts.data_address));
}

static int address_take(struct side *side)
{
        ucs_status_t status = ucp_worker_get_address(side->worker, &side->address, &side->address_size);

        return status == UCS_OK ? 0 : failed(side, "address", status);
}

int side_open(struct side *side, const struct fabric_config *config)
{
        bool network = side == &side->fabric->sides[SIDE_NETWORK];
        struct sockaddr_storage address = { 0 };
        socklen_t length = 0;
        int r = 0;

        side->put = network && put_is_safe();
        if (network)
                r = parse_address(config->data_listen, &address, &length);
        if (r == 0 && network)
                r = probe_address(&address, length);
        if (r < 0) {
                log_event(LOG_ERROR, "the data plane cannot listen there", LOG_S("data_listen", config->data_listen),
                          LOG_S("reason", strerror(-r)));
                return r;
        }
        r = context_open(side, network, config, network && is_loopback(&address));
        if (r == 0)
                r = worker_open(side);
        if (r == 0 && network)
                r = listener_open(side, &address, length);
        if (r == 0 && !network)
                r = address_take(side);
        if (r < 0)
                side_close(side);
        return r;
}

void side_close(struct side *side)
{
        if (side->address)
                ucp_worker_release_address(side->worker, side->address);
        if (side->listener)
                ucp_listener_destroy(side->listener);
        if (side->worker)
                ucp_worker_destroy(side->worker);
        if (side->context)
                ucp_cleanup(side->context);
        side->address = NULL;
        side->listener = NULL;
        side->worker = NULL;
        side->context = NULL;
}

int side_reopen(struct side *side, struct side *ret_old)
{
        struct side old = *side;
        int r;

        side->worker = NULL;
        side->address = NULL;
        side->event_fd = -1;
        r = worker_open(side);
        if (r == 0)
                r = address_take(side);
        if (r < 0) {
                if (side->worker)
                        ucp_worker_destroy(side->worker);
                *side = old;
                return r;
        }
        *ret_old = old;
        return 0;
}

void side_discard(struct side *old)
{
        ucp_worker_release_address(old->worker, old->address);
        ucp_worker_destroy(old->worker);
}

int side_register(struct side *side, void *address, size_t size, ucp_mem_h *ret_handle)
{
        ucp_mem_map_params_t params = {
                .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                .address = address,
                .length = size,
        };
        ucs_status_t status = ucp_mem_map(side->context, &params, ret_handle);

        if (status == UCS_OK)
                return 0;
        log_event(LOG_WARN, "memory cannot be registered", LOG_S("side", side->name), LOG_U("size", size),
                  LOG_S("reason", ucs_status_string(status)));
        return errno_of(status);
}

size_t side_transports(const struct side *side, char **names, size_t n, size_t n_max)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        char *save = NULL;

        if (!out)
                return n;
        ucp_context_print_info(side->context, out);
        (void)fclose(out);
        /* "#   resource 0  :  md 0  dev 0  flags ---- tcp/lo" */
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                char *slash = strchr(line, '/'), *start = slash;
                size_t i;

                if (!strstr(line, " resource ") || !slash)
                        continue;
                *slash = '\0';
                while (start > line && start[-1] != ' ')
                        start--;
                for (i = 0; i < n && strcmp(names[i], start) != 0; i++)
                        ;
                if (i == n && n < n_max && (names[n] = strdup(start)))
                        n++;
        }
        return n;
}
