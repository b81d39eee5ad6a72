/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "ucx_internal.h"

/*
 * Everything that depends on UCX's version, or that a fault of UCX needs. Each entry says what users would see without
 * it, and which version ends it. "Open": the source of 1.22.0 still has the fault. No other file asks for the version.
 *
 * Entries that shape the files around them are there, and named here:
 *   - library.c does not load UCX under a host name of 64 characters, with which it would abort. Open.
 *   - queue.c sends, posts and refuses nothing inside UCX's callbacks, and over TCP posts one receive at a time for an
 *     endpoint: PUT is safe only so (ucx_put_is_safe). Needed while a worker or its peer may have 1.15 or older.
 *   - message.c passes short rendezvous as a list of pieces, for the same reason. 1.16 ends it.
 *   - message.c packs more than UCX_FRAGMENT_PIECES pieces: 1.13 aborts on 16 of them. From 1.16 on UCX has another
 *     sender of pieces, of which nothing is known.
 *   - close.c runs rounds of progress after a forced close, until which a TCP lane may store what it reads. Open.
 *   - close.c closes by force where no message ever came, since UCX would wait to flush and in the end abort, and frees
 *     the requests of closes before it destroys the worker, which aborts as well. Seen with 1.13.1.
 *   - link.c reads the names of lanes from a printed text. 1.14 has ucp_ep_query.
 *   - watch.c enables keep-alive, which UCX sets on some sockets only. Open.
 *   - ucx.c warns of a listener that 28 bytes of a stranger abort, and of tcp, which stores where the peer says. Open.
 */

static bool is_before(unsigned minor)
{
        unsigned major, its_minor, release;

        ucp.get_version(&major, &its_minor, &release);
        return major == 1 && its_minor < minor;
}

/* ---- the process ---- */

#define EVENTS_MAX "16384" /* sockets: 4096 links of peers and as many of our own, with a spare each */

static void setup(void)
{
        static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
        struct sigaction now;

        /*
         * UCX installs handlers of fatal signals as it is loaded. 1.20 ends it, and warns if told to remove handlers
         * that it has not installed.
         */
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(fatal); i++)
                if (sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler != SIG_DFL)
                        ucs.debug_disable_signal(fatal[i]);
        /* Its default of 1,024 sockets allows only about 1,020 peers. 1.14 ends it. */
        if (is_before(14) && !getenv("UCX_ASYNC_MAX_EVENTS") &&
            ucs.global_opts_set_value("ASYNC_MAX_EVENTS", EVENTS_MAX) != UCS_OK)
                log_event(LOG_DEBUG, "UCX setting unknown", LOG_S("key", "ASYNC_MAX_EVENTS"));
}

void ucx_quirks_setup(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, setup);
}

/* ---- what may be used ---- */

/*
 * TCP moves a rendezvous by PUT straight into its place, or by active messages of 64 KiB that are copied there: 256 MiB
 * take 42 or 62 ms (loopback, 1.13.1). But if a peer dies before it has confirmed our PUT, this process can abort by an
 * assertion in uct_tcp_ep_handle_put_ack (uct/tcp/tcp_ep.c; on in Debian's build). Open:
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
bool ucx_put_is_safe(void)
{
        return is_before(16);
}

/*
 * The two ends of a link may order the lanes of several interfaces differently. Then each end uses another lane for
 * active messages, or waits for the other to connect, and sometimes no message arrives. Seen with 1.13.1; 1.14 ends it.
 * Loopback does not count: it leads to no other host.
 */
bool ucx_takes_one_interface(void)
{
        return is_before(14);
}

/* No lanes at ::1, so that a listener there is reached by nobody. 1.14 ends it. */
bool ucx_lacks_ipv6_loopback(void)
{
        return is_before(14);
}

/* Connects from an address that the kernel chooses, where peers on several networks look for lanes. 1.13 ends it. */
bool ucx_chooses_source(void)
{
        return is_before(13);
}

void ucx_connect_from(ucp_ep_params_t *params, const struct ucx_address *local)
{
#if UCP_API_VERSION >= UCP_VERSION(1, 13)
        params->field_mask |= UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR;
        params->local_sockaddr.addr = (const struct sockaddr *)&local->address;
        params->local_sockaddr.addrlen = local->length;
#endif
}

/* UCX registers a payload itself where it cannot be told of a registration. 1.13 ends it. */
void ucx_pass_registration(ucp_request_param_t *param, void *handle)
{
#if UCP_API_VERSION >= UCP_VERSION(1, 13)
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = handle;
#endif
}

/*
 * Asks the CUDA driver of the calling thread's context, which has none, instead of the memory's, so that an RDMA card
 * gets no GPU memory. 1.19 ends it.
 */
bool ucx_lacks_gpu_memory(void)
{
        return is_before(19);
}

/*
 * All transports except shared memory, which the local transport serves, and ud. UCX treats a failed completion of ud
 * as fatal, so one link flap aborts the process, even if ud is only the auxiliary transport of rc: so ud is excluded by
 * name, and rc_verbs connects by TCP's connection manager. Open. Before 1.18 UCX warns of names that it does not know.
 */
const char *ucx_default_transports(void)
{
        if (!is_before(18))
                return "^sm,ud_verbs,ud_mlx5,cuda_ipc"; /* by CUDA's IPC peers write GPU memory */
        return ucx_has_rdma() ? "^sm,ud_verbs,ud_mlx5" : "^sm";
}

/* ---- settings ---- */

/* A program names the settings of a transport without its prefix; the environment always has it. 1.17 ends it. */
static const char *key_of_ucx(const char *key)
{
        static const char prefix[] = "TCP_";
        size_t n = strlen(prefix);

        return strncmp(key, prefix, n) == 0 && is_before(17) ? key + n : key;
}

void ucx_settings_apply(ucp_config_t *config, const struct ucx_setting *settings, size_t n)
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

/* Whether UCX gets a single interface. interfaces: what Ferry has chosen, or NULL. */
static bool is_one_interface(const struct ucx_config *config, const char *interfaces)
{
        const char *environment = getenv("UCX_NET_DEVICES");
        const char *list = config->interfaces ? config->interfaces : environment ? environment : interfaces;

        return list && if_nametoindex(list) > 0;
}

void ucx_quirks_configure(const struct ucx *ucx, const struct ucx_config *config, const char *interfaces,
                          ucp_config_t *ucp_config)
{
        const struct ucx_setting settings[] = {
                /*
                 * Only lanes of the listener's address family: UCX writes out of bounds if a lane of IPv4 gets a peer
                 * of IPv6. Seen with 1.13.1.
                 */
                { "TCP_AF_PRIO", ucx->listen.address.ss_family == AF_INET ? "inet" : "inet6", true },
                /*
                 * By default connect() blocks the progress thread, and with it the transfers to all peers: for two
                 * minutes if a firewall drops the packets. Open.
                 */
                { "TCP_CONN_NB", "y", true },
                /* ucx_put_is_safe, and UCX_PUT_ABOVE */
                { "TCP_PUT_ENABLE", ucx_put_is_safe() ? NULL : "n", true },
                { "TCP_RX_SEG_SIZE", "64k", true },
                /*
                 * The number of pieces that UCX sends in place, without packing them; its default of 6 is too few for
                 * pieces of 4 KiB. From 30 on it aborts, since it limits the list to 1,200 bytes of stack. 1.16 ends
                 * the abort.
                 */
                { "TCP_MAX_IOV", "20", true },
                /*
                 * From 1.16 on, UCX compares its protocols for each new kind of connection, and each look at TCP takes
                 * 35 system calls: two fresh workers look 365 times with 1.18, 550 times with 1.20. It compares for
                 * three sets of attributes if "short" is best for the shortest messages, else for one. Over TCP the
                 * next best copies as often. RDMA is faster with "short", and needs no system calls. Before 1.18 this
                 * setting would turn off PUT and GET of a rendezvous. Not known to be ended.
                 */
                { "BCOPY_THRESH", is_before(18) || ucx_has_rdma() ? NULL : "0", false },
                /* Each look would also read all routes, to see which of several interfaces has the default route. */
                { "TCP_PREFER_DEFAULT", is_one_interface(config, interfaces) ? "n" : NULL, false },
                /*
                 * Fragments are copied into UCX's buffers. That costs 15 to 20 % of the speed of 64 KiB to 4 MiB on
                 * loopback, and nothing over a network. Without the copy, about one link end in 1,000 aborts the
                 * worker: if the connection manager's socket reports the end of the peer before the data socket does,
                 * UCX completes the request of a partly sent fragment, and uct_tcp completes it again when it finds its
                 * socket reset (uct_iface.h, comp->count > 0). Seen with 1.13.1; 1.16's protocols end it.
                 */
                { "ZCOPY_THRESH", is_before(16) ? "inf" : NULL, false },
                /* A restart cannot bind its port while old connections are in TIME_WAIT. Open: the default is "no". */
                { "CM_REUSEADDR", "y", false },
                /*
                 * With connections by rdmacm, the deletion of an RDMA link aborts the process, and so does the start
                 * where there is no RDMA. Seen with 1.13.1.
                 */
                { "SOCKADDR_TLS_PRIORITY", "tcp", !ucx_has_rdma() },
        };

        ucx_settings_apply(ucp_config, settings, FERRY_ARRAY_SIZE(settings));
}

/*
 * UCX can cache registrations only if it sees memory being unmapped: not with UCX_MEM_EVENTS=n, with ThreadSanitizer,
 * or where code may not be patched (systemd's MemoryDenyWriteExecute). Without the cache, it crashes if a peer fails
 * during a rendezvous whose memory UCX has registered itself, from 1.16 on; 1.22 ends it (openucx/ucx#11467). So
 * message.c then passes our own registration. With the cache it does not: UCX revokes a peer's access only to memory
 * that UCX has registered itself, and DC needs that. 1.16 goes without the cache: with it, requests of an endpoint
 * closed by force may never complete. 1.17 ends that.
 */
ucs_status_t ucx_quirks_init(struct ucx *ucx, const ucp_params_t *params, ucp_config_t *config)
{
        static const struct ucx_setting with = { "RCACHE_ENABLE", "y", false },
                                        without = { "RCACHE_ENABLE", "n", false };
        ucs_status_t status;

        if (is_before(16) || !is_before(17)) {
                ucx_settings_apply(config, &with, 1);
                status = ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, &ucx->context);
                ucx->cached = status == UCS_OK && !getenv("UCX_RCACHE_ENABLE");
                if (status == UCS_OK)
                        return status;
        }
        ucx_settings_apply(config, &without, 1);
        return ucp.init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, &ucx->context);
}

/* ---- routes ---- */

/*
 * From 1.20 on, UCX connects only where it finds a route to the peer, and two faults of that refuse peers that can be
 * reached:
 *   - it reads the routes once, at the first connection, and leaves out those by several gateways: where it finds none,
 *     the kernel is asked. Open;
 *   - 1.20, which Ubuntu 26.04 has, looks on loopback for a route to bytes of the peer's address that are no IP
 * address: loopback, whose peers UCX has just compared by network namespace, has a route. 1.21 ends it
 * (openucx/ucx#11202). UCX asks a function of its libucs, in 1.20.0 the first of these two, from 1.20.1 on the second.
 */

static bool is_unseen_loopback(int if_index)
{
        char name[IF_NAMESIZE];

        return !is_before(20) && is_before(21) && if_indextoname((unsigned)if_index, name) && strcmp(name, "lo") == 0;
}

struct question {
        struct nlmsghdr header;
        struct rtmsg route;
        char attributes[2 * RTA_SPACE(sizeof(struct in6_addr))];
};

static void add_address(struct question *question, unsigned short type, const void *address, size_t size)
{
        struct rtattr *attribute = (void *)((char *)question + question->header.nlmsg_len);

        attribute->rta_type = type;
        attribute->rta_len = (unsigned short)RTA_LENGTH(size);
        memcpy(RTA_DATA(attribute), address, size);
        question->header.nlmsg_len += (unsigned)RTA_SPACE(size);
}

/* Adds both ends. UCX connects from an interface's first IPv4 address, which the rules of the routing may ask for. */
static bool add_addresses(struct question *question, int if_index, const struct sockaddr *remote)
{
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        struct ifreq interface;

        question->route.rtm_family = (unsigned char)remote->sa_family;
        if (remote->sa_family == AF_INET6) {
                question->route.rtm_dst_len = 128;
                add_address(question, RTA_DST, &((const struct sockaddr_in6 *)(const void *)remote)->sin6_addr, 16);
                return true;
        }
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (remote->sa_family != AF_INET || !if_indextoname((unsigned)if_index, interface.ifr_name) ||
            ioctl(fd, SIOCGIFADDR, &interface) < 0)
                return false;
        question->route.rtm_dst_len = question->route.rtm_src_len = 32;
        add_address(question, RTA_DST, &((const struct sockaddr_in *)(const void *)remote)->sin_addr, 4);
        add_address(question, RTA_SRC, &((const struct sockaddr_in *)(const void *)&interface.ifr_addr)->sin_addr, 4);
        return true;
}

/* Whether the kernel sends through the interface what UCX sends to the peer. */
static bool kernel_routes(int if_index, const struct sockaddr *remote)
{
        FERRY_CLEANUP(cleanup_close) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        struct question question = {
                .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                            .nlmsg_type = RTM_GETROUTE,
                            .nlmsg_flags = NLM_F_REQUEST },
        };
        union {
                struct nlmsghdr header;
                char bytes[4096];
        } answer;
        ssize_t n;
        int size;

        if (!add_addresses(&question, if_index, remote) ||
            send(fd, &question, question.header.nlmsg_len, 0) != (ssize_t)question.header.nlmsg_len)
                return false;
        n = recv(fd, &answer, sizeof(answer), 0);
        if (n < 0 || !NLMSG_OK(&answer.header, (size_t)n) || answer.header.nlmsg_type != RTM_NEWROUTE)
                return false;
        size = (int)RTM_PAYLOAD(&answer.header);
        for (const struct rtattr *a = RTM_RTA(NLMSG_DATA(&answer.header)); RTA_OK(a, size); a = RTA_NEXT(a, size))
                if (a->rta_type == RTA_OIF && memcmp(RTA_DATA(a), &if_index, sizeof(if_index)) == 0)
                        return true;
        return false;
}

int ucx_route_exists(int if_index, const struct sockaddr *remote, uintptr_t option)
{
        int (*of_ucx)(int, const struct sockaddr *, uintptr_t);

        if (is_unseen_loopback(if_index))
                return 1;
        *(void **)&of_ucx = ucx_library_find("ucs_netlink_route_exists");
        return !of_ucx || of_ucx(if_index, remote, option) || kernel_routes(if_index, remote);
}

int ucx_is_best_route(int if_index, const struct sockaddr *remote)
{
        int (*of_ucx)(int, const struct sockaddr *);

        if (is_unseen_loopback(if_index))
                return 1;
        *(void **)&of_ucx = ucx_library_find("ucs_netlink_is_best_route");
        return !of_ucx || of_ucx(if_index, remote) || kernel_routes(if_index, remote);
}

/* ---- descriptors ---- */

/*
 * UCX opens listeners, connections, epolls and pipes without close-on-exec, from its own thread as well, so a program
 * that a worker's process starts would inherit them: the port stays bound after the worker's death, and peers connect
 * to nobody. Nothing but the call itself tells which descriptors are UCX's, and system() and posix_spawn() run no
 * handler that could close them. So the calls are answered here, which also has the descriptors closed in a child that
 * only forks. Open.
 */

static int private(int fd)
{
        if (fd >= 0)
                fork_private(fd);
        return fd;
}

static int open_socket(int domain, int type, int protocol)
{
        return private(socket(domain, type | SOCK_CLOEXEC, protocol));
}

static int accept_connection(int fd, struct sockaddr *address, socklen_t *length)
{
        return private(accept4(fd, address, length, SOCK_CLOEXEC));
}

static int open_epoll(int size)
{
        return private(epoll_create1(EPOLL_CLOEXEC));
}

static int open_pipe(int fds[2])
{
        int r = pipe2(fds, O_CLOEXEC);

        if (r == 0) {
                (void)private(fds[0]);
                (void)private(fds[1]);
        }
        return r;
}

static int open_timer(int clock, int flags)
{
        return private(timerfd_create(clock, flags | TFD_CLOEXEC));
}

/* ---- events ---- */

/*
 * UCX's own thread takes up to 16 events at once, keeps those that it cannot handle now for the progress thread, and
 * finds the handler of each by its descriptor. Meanwhile the engine may have closed that socket, and an accepted one
 * may have its number; or UCX waits for other events of it. So a socket that was closed while it was being connected
 * has UCX write to a new one before a word was read: an assertion (uct_tcp_sockcm_ep_progress_send; on in Debian's
 * build), or else a connection that never comes about. So a handler gets only events that it waits for now. 1.22 does
 * so for those that were kept (openucx/ucx#11458); for the others: open.
 */

enum { WATCHES = 1 << 16 }; /* descriptors from there on are left to UCX */

/* What the handler of a descriptor waits for. Written before UCX knows of it; read by any thread. */
static struct watch {
        _Atomic(ucs_async_event_cb_t) handler;
        atomic_int events; /* ucs_event_set_types_t */
} watches[WATCHES];

static bool has_failed(int fd)
{
        struct pollfd now = { .fd = fd };

        return poll(&now, 1, 0) == 1 && (now.revents & POLLERR);
}

void ucx_pass_event(int fd, ucs_event_set_types_t events, void *context)
{
        ucs_async_event_cb_t handler = atomic_load(&watches[fd].handler);
        int due = (int)events & atomic_load(&watches[fd].events) & ~UCS_EVENT_SET_EVERR;

        if ((events & UCS_EVENT_SET_EVERR) && has_failed(fd)) /* nobody has to wait for a failure */
                due |= UCS_EVENT_SET_EVERR;
        if (due)
                handler(fd, (ucs_event_set_types_t)due, context);
}

ucs_status_t ucx_watch_events(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events, ucs_async_event_cb_t handler,
                              void *context, ucs_async_context_t *async)
{
        ucs_status_t (*of_ucx)(ucs_async_mode_t, int, ucs_event_set_types_t, ucs_async_event_cb_t, void *,
                               ucs_async_context_t *);

        *(void **)&of_ucx = ucx_library_find("ucs_async_set_event_handler");
        if (fd >= 0 && fd < WATCHES) {
                atomic_store(&watches[fd].handler, handler);
                atomic_store(&watches[fd].events, (int)events);
                handler = ucx_pass_event;
        }
        return of_ucx(mode, fd, events, handler, context, async);
}

ucs_status_t ucx_watch_other_events(int fd, ucs_event_set_types_t events)
{
        ucs_status_t (*of_ucx)(int, ucs_event_set_types_t);

        *(void **)&of_ucx = ucx_library_find("ucs_async_modify_handler");
        if (fd >= 0 && fd < WATCHES)
                atomic_store(&watches[fd].events, (int)events);
        return of_ucx(fd, events);
}

/* ---- the functions that UCX gets from us ---- */

void ucx_quirks_redirect(void)
{
        static const struct ucx_redirect redirects[] = {
                { "socket", (void *)open_socket },
                { "accept", (void *)accept_connection },
                { "epoll_create", (void *)open_epoll },
                { "pipe", (void *)open_pipe },
                { "timerfd_create", (void *)open_timer },
                { "close", (void *)fork_private_close },
                { "ucs_async_set_event_handler", (void *)ucx_watch_events },
                { "ucs_async_modify_handler", (void *)ucx_watch_other_events },
                { "ucs_netlink_route_exists", (void *)ucx_route_exists },
                { "ucs_netlink_is_best_route", (void *)ucx_is_best_route },
        };

        ucx_redirect(redirects, FERRY_ARRAY_SIZE(redirects));
}
