/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ref_memory.h"
#include "ref_ucx.h"

_Noreturn void ref_fail(const char *what, ucs_status_t status)
{
        (void)fprintf(stderr, "reference: %s: %s\n", what, ucs_status_string(status));
        exit(EXIT_FAILURE);
}

static void check(const char *what, ucs_status_t status)
{
        if (status != UCS_OK)
                ref_fail(what, status);
}

void ref_finish(struct ref_ucx *u, ucs_status_ptr_t request)
{
        ucs_status_t status;

        if (request == NULL)
                return;
        if (UCS_PTR_IS_ERR(request))
                ref_fail("request", UCS_PTR_STATUS(request));
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
                (void)ucp_worker_progress(u->worker);
        ucp_request_free(request);
        check("request", status);
}

void ref_set_handler(struct ref_ucx *u, unsigned id, ucp_am_recv_callback_t callback)
{
        const ucp_am_handler_param_t handler = {
                .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                              UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                .id = id,
                .flags = UCP_AM_FLAG_WHOLE_MSG,
                .cb = callback,
                .arg = u,
        };

        u->handlers[id] = callback;
        if (u->network && ucp_worker_set_am_recv_handler(u->worker, &handler) != UCS_OK)
                ref_fail("handler", UCS_ERR_INVALID_PARAM);
}

static void wire_send(const struct ref_ucx *u, unsigned id, const void *data, size_t size)
{
        unsigned header[REF_HEADER / sizeof(unsigned)] = { id };
        struct iovec parts[] = { { header, sizeof(header) }, { (void *)(uintptr_t)data, size } };
        const struct msghdr message = { .msg_iov = parts, .msg_iovlen = size ? 2 : 1 };

        if (sendmsg(u->wire, &message, MSG_NOSIGNAL) != (ssize_t)(sizeof(header) + size))
                ref_fail("send", UCS_ERR_IO_ERROR);
}

static unsigned wire_progress(struct ref_ucx *u)
{
        static unsigned message[16 << 10];
        ssize_t n = recv(u->wire, message, sizeof(message), MSG_DONTWAIT);

        if (n < REF_HEADER)
                return 0;
        (void)u->handlers[message[0]](u, NULL, 0, (uint8_t *)message + REF_HEADER, (size_t)n - REF_HEADER, NULL);
        return 1;
}

void ref_send(struct ref_ucx *u, unsigned id, const void *data, size_t size)
{
        static const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                                   .flags = UCP_AM_SEND_FLAG_EAGER };
        ucs_status_ptr_t request;

        if (!u->network) {
                wire_send(u, id, data, size);
                return;
        }
        request = ucp_am_send_nbx(u->endpoint, id, NULL, 0, data, size, &param);
        if (UCS_PTR_IS_ERR(request))
                ref_fail("send", UCS_PTR_STATUS(request));
        if (request)
                ucp_request_free(request);
}

unsigned ref_progress(struct ref_ucx *u)
{
        return u->network ? ucp_worker_progress(u->worker) : wire_progress(u);
}

/* ---- a round trip ---- */

enum { TRIP_ASK = 1, TRIP_BYTES = 2 };

static bool arrived;

static ucs_status_t on_ask(void *context, const void *header, size_t header_size, void *data, size_t size,
                           const ucp_am_recv_param_t *param)
{
        struct ref_ucx *u = context;

        ref_send(u, TRIP_BYTES, u->memory, u->shared->size);
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

void ref_trip_setup(struct ref_ucx *u)
{
        ref_set_handler(u, TRIP_ASK, on_ask);
        ref_set_handler(u, TRIP_BYTES, on_bytes);
}

void ref_trip(struct ref_ucx *u, bool polite)
{
        arrived = false;
        ref_send(u, TRIP_ASK, NULL, 0);
        while (!arrived)
                if (!ref_progress(u) && polite)
                        (void)sched_yield();
}

static void on_error(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
        const struct ref_ucx *u = context;

        if (atomic_load(&u->shared->running))
                ref_fail("the peer is lost", status);
}

static void send_to_peer(const struct ref_ucx *u, const void *data, size_t size)
{
        if (write(u->socket, data, size) != (ssize_t)size)
                ref_fail("the peer is gone", UCS_ERR_CONNECTION_RESET);
}

/* false at the end. */
static bool take_from_peer(const struct ref_ucx *u, void *data, size_t size)
{
        return recv(u->socket, data, size, MSG_WAITALL) == (ssize_t)size;
}

static void open_context(struct ref_ucx *u, uint64_t features)
{
        const struct {
                const char *key, *value;
        } settings[] = {
                { "TLS", "tcp,self" },
                { "NET_DEVICES", "lo" },
                { "KEEPALIVE_INTERVAL", "inf" },
                { "SOCKADDR_TLS_PRIORITY", "tcp" },
        };
        ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = features };
        ucp_worker_params_t worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                       .thread_mode = UCS_THREAD_MODE_SERIALIZED };
        ucp_config_t *config;

        check("configuration", ucp_config_read(NULL, NULL, &config));
        /* A key that this UCX does not know is none that it needs. */
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
                (void)ucp_config_modify(config, settings[i].key, settings[i].value);
        check("context", ucp_init(&params, config, &u->context));
        ucp_config_release(config);
        check("worker", ucp_worker_create(u->context, &worker, &u->worker));
}

static void open_memory(struct ref_ucx *u)
{
        ucp_mem_map_params_t params = { .field_mask =
                                                UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH };

        u->memory = ref_memory_new(u->memory_size, u->active ? 0x5a : 0);
        if (!u->memory)
                ref_fail("memory", UCS_ERR_NO_MEMORY);
        if (!u->network)
                return;
        params.address = u->memory;
        params.length = u->memory_size;
        check("registration", ucp_mem_map(u->context, &params, &u->registration));
}

static void open_endpoint(struct ref_ucx *u, ucp_ep_params_t *params)
{
        params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params->err_handler = (ucp_err_handler_t){ .cb = on_error, .arg = u };
        check("endpoint", ucp_ep_create(u->worker, params, &u->endpoint));
}

static void on_connection(ucp_conn_request_h request, void *context)
{
        ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };

        open_endpoint(context, &params);
}

static void listen_for_peer(struct ref_ucx *u)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        ucp_listener_params_t params = {
                .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                .sockaddr = { .addr = (struct sockaddr *)&address, .addrlen = sizeof(address) },
                .conn_handler = { .cb = on_connection, .arg = u },
        };
        ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
        ucp_listener_h listener;

        check("listener", ucp_listener_create(u->worker, &params, &listener));
        check("listener", ucp_listener_query(listener, &attr));
        memcpy(&address, &attr.sockaddr, sizeof(address));
        send_to_peer(u, &address, sizeof(address));
        while (!u->endpoint)
                (void)ucp_worker_progress(u->worker);
}

static void call_peer(struct ref_ucx *u)
{
        struct sockaddr_in address;
        ucp_ep_params_t params = {
                .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                .sockaddr = { .addr = (struct sockaddr *)&address, .addrlen = sizeof(address) },
        };

        if (!take_from_peer(u, &address, sizeof(address)))
                exit(EXIT_FAILURE);
        open_endpoint(u, &params);
}

static void connect_sides(struct ref_ucx *u, const struct ref_test *test)
{
        if (u->network)
                open_context(u, test->features);
        open_memory(u);
        test->setup(u);
        if (!u->network)
                return;
        if (u->active)
                call_peer(u);
        else
                listen_for_peer(u);
}

/* Sleeps between runs; spins in them. */
static int be_passive(struct ref_ucx *u, const struct ref_test *test)
{
        char go;

        while (take_from_peer(u, &go, 1)) {
                unsigned run = atomic_load(&u->shared->running);

                test->begin(u);
                atomic_store(&u->shared->ready, true);
                while (atomic_load_explicit(&u->shared->running, memory_order_relaxed) == run)
                        if (ref_progress(u) == 0 && test->polite)
                                (void)sched_yield();
        }
        return EXIT_SUCCESS;
}

static double run_once(struct ref_ucx *u, const struct ref_test *test, uint64_t size)
{
        static unsigned runs;
        unsigned repeats = test->repeats ? test->repeats : 1;
        struct timespec from, to;

        u->shared->size = size;
        atomic_store(&u->shared->ready, false);
        atomic_store(&u->shared->running, ++runs);
        send_to_peer(u, "g", 1);
        while (!atomic_load(&u->shared->ready))
                (void)ref_progress(u);
        (void)clock_gettime(CLOCK_MONOTONIC, &from);
        for (unsigned i = 0; i < repeats; i++)
                test->run(u, size);
        (void)clock_gettime(CLOCK_MONOTONIC, &to);
        atomic_store(&u->shared->running, 0);
        return ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9) / repeats;
}

static int be_active(struct ref_ucx *u, const struct ref_test *test)
{
        unsigned long long size;
        char line[64];

        while (fgets(line, sizeof(line), stdin)) {
                if (sscanf(line, "%llu", &size) != 1 || size == 0 || size > u->memory_size)
                        ref_fail("not a size", UCS_ERR_INVALID_PARAM);
                (void)printf("%.9f\n", run_once(u, test, size));
                (void)fflush(stdout);
        }
        return EXIT_SUCCESS;
}

int ref_main(int argc, char **argv, const struct ref_test *test)
{
        static struct ref_ucx u;
        pid_t parent = getpid(), child;
        int sockets[2], wires[2], r;

        if (argc != 3)
                ref_fail("usage: PROGRAM tcp|socket MAX_SIZE", UCS_ERR_INVALID_PARAM);
        u.network = strcmp(argv[1], "tcp") == 0;
        u.memory_size = strtoull(argv[2], NULL, 10);
        u.shared = mmap(NULL, sizeof(*u.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (u.shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wires) < 0)
                ref_fail("start", UCS_ERR_NO_MEMORY);
        child = fork();
        u.active = child != 0;
        u.socket = sockets[u.active];
        u.wire = wires[u.active];
        (void)close(sockets[!u.active]);
        (void)close(wires[!u.active]);
        if (!u.active) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        return EXIT_FAILURE;
        }
        connect_sides(&u, test);
        if (!u.active)
                return be_passive(&u, test);
        r = be_active(&u, test);
        (void)close(u.socket); /* ends the other process; nothing is left to save in either */
        (void)waitpid(child, NULL, 0);
        return r;
}
