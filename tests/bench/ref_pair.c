/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "ref.h"

/*
 * Two processes with one wire between them and nothing else: what it gives when nobody asks for REST, checks or
 * progress. "ref_pair tcp MAX_SIZE": a UCX worker each, configured as Ferry's, and a chunked rendezvous: active
 * messages of 1 MiB, 4 in flight; the end is the receiver's word that all is there. "ref_pair socket MAX_SIZE": a Unix
 * socket, and a round trip: a head is sent, a head and as many bytes as the run's size come, 200 times, of which the
 * mean is told.
 *
 * The active process (the parent) is told sizes; between runs both sleep, so that they disturb nobody; during one, both
 * spin.
 */

enum {
        HEAD = 112, /* bytes of a message before its payload, as Ferry has */
        TRIPS = 200,
        AM_DATA = 1,
        AM_DONE = 2,
        CHUNK = 1 << 20,
        WINDOW = 4,
        EAGER_MAX = 8192 - 2 * 128,
};

static bool network, active;
static int control, wire; /* sockets to the other process: for starts, and for messages where there is no network */
static uint8_t *memory;
static uint64_t memory_size;

struct shared {
        atomic_uint running; /* number of the run that is on; 0 = none */
        atomic_bool ready;
        uint64_t size; /* of the run */
};

static struct shared *shared;

static _Noreturn void fail(const char *what, ucs_status_t status)
{
        (void)fprintf(stderr, "ref_pair: %s: %s\n", what, ucs_status_string(status));
        exit(EXIT_FAILURE);
}

static void check(const char *what, ucs_status_t status)
{
        if (status != UCS_OK)
                fail(what, status);
}

static void send_to_peer(const void *data, size_t size)
{
        if (write(control, data, size) != (ssize_t)size)
                fail("the peer is gone", UCS_ERR_CONNECTION_RESET);
}

/* false at the end. */
static bool take_from_peer(void *data, size_t size)
{
        return recv(control, data, size, MSG_WAITALL) == (ssize_t)size;
}

/* ---- a round trip over a Unix socket ---- */

static void wire_send(size_t size)
{
        static const uint8_t head[HEAD];
        struct iovec parts[] = { { (void *)(uintptr_t)head, sizeof(head) }, { memory, size } };
        const struct msghdr message = { .msg_iov = parts, .msg_iovlen = size ? 2 : 1 };

        if (sendmsg(wire, &message, MSG_NOSIGNAL) != (ssize_t)(sizeof(head) + size))
                fail("send", UCS_ERR_IO_ERROR);
}

/* Bytes behind the head of a message that has come; -1 = none. */
static ssize_t wire_take(void)
{
        static uint8_t message[64 << 10];
        ssize_t n = recv(wire, message, sizeof(message), MSG_DONTWAIT);

        if (n < HEAD)
                return -1;
        memcpy(memory, message + HEAD, (size_t)n - HEAD);
        return n - HEAD;
}

static void serve_trip(void)
{
        if (wire_take() == 0)
                wire_send(shared->size);
}

static void make_trips(void)
{
        for (int i = 0; i < TRIPS; i++) {
                wire_send(0);
                while (wire_take() < 0)
                        ;
        }
}

/* ---- a rendezvous over UCX ---- */

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint; /* to the other process */
static uint64_t received;
static bool done;

/* Waits for the result of an _nbx call. */
static void finish(ucs_status_ptr_t request)
{
        ucs_status_t status;

        if (request == NULL)
                return;
        if (UCS_PTR_IS_ERR(request))
                fail("request", UCS_PTR_STATUS(request));
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
                (void)ucp_worker_progress(worker);
        ucp_request_free(request);
        check("request", status);
}

static void add_received(uint64_t size)
{
        static const ucp_request_param_t param = { 0 };
        ucs_status_ptr_t request;

        received += size;
        if (received < shared->size)
                return;
        request = ucp_am_send_nbx(endpoint, AM_DONE, NULL, 0, NULL, 0, &param);
        if (UCS_PTR_IS_ERR(request))
                fail("done", UCS_PTR_STATUS(request));
        if (request)
                ucp_request_free(request);
}

static void on_stored(void *request, ucs_status_t status, size_t size, void *unused)
{
        ucp_request_free(request);
        check("receive", status);
        add_received(size);
}

static ucs_status_t on_data(void *unused, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param)
{
        static const ucp_request_param_t receive = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                                     .cb.recv_am = on_stored };
        ucs_status_ptr_t request;
        uint64_t offset;

        memcpy(&offset, header, sizeof(offset));
        if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
                memcpy(memory + offset, data, size);
                add_received(size);
                return UCS_OK;
        }
        request = ucp_am_recv_data_nbx(worker, data, memory + offset, size, &receive);
        if (UCS_PTR_IS_ERR(request))
                fail("receive", UCS_PTR_STATUS(request));
        if (!request)
                add_received(size);
        return UCS_OK;
}

static ucs_status_t on_done(void *unused, const void *header, size_t header_size, void *data, size_t size,
                            const ucp_am_recv_param_t *param)
{
        done = true;
        return UCS_OK;
}

static void send_chunks(void)
{
        ucs_status_ptr_t window[WINDOW] = { NULL };
        uint64_t offsets[WINDOW], size = shared->size;
        unsigned slot = 0;

        done = false;
        for (uint64_t offset = 0; offset < size; offset += CHUNK, slot = (slot + 1) % WINDOW) {
                uint64_t n = size - offset < CHUNK ? size - offset : CHUNK;
                ucp_request_param_t param = {
                        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                        .flags = n > EAGER_MAX ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
                };

                finish(window[slot]);
                offsets[slot] = offset; /* the header must stay until the send is complete */
                window[slot] = ucp_am_send_nbx(endpoint, AM_DATA, &offsets[slot], sizeof(offsets[slot]),
                                               memory + offset, n, &param);
        }
        for (unsigned i = 0; i < WINDOW; i++)
                finish(window[i]);
        while (!done)
                (void)ucp_worker_progress(worker);
}

/* ---- UCX's connection ---- */

static void on_error(void *unused, ucp_ep_h failed, ucs_status_t status)
{
        if (atomic_load(&shared->running))
                fail("the peer is lost", status);
}

static void set_handler(unsigned id, ucp_am_recv_callback_t callback)
{
        const ucp_am_handler_param_t handler = {
                .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                              UCP_AM_HANDLER_PARAM_FIELD_CB,
                .id = id,
                .flags = UCP_AM_FLAG_WHOLE_MSG,
                .cb = callback,
        };

        check("handler", ucp_worker_set_am_recv_handler(worker, &handler));
}

static void open_context(void)
{
        static const char *const settings[][2] = {
                { "TLS", "tcp,self" },
                { "NET_DEVICES", "lo" },
                { "KEEPALIVE_INTERVAL", "inf" },
                { "SOCKADDR_TLS_PRIORITY", "tcp" },
        };
        ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM };
        ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                              .thread_mode = UCS_THREAD_MODE_SERIALIZED };
        ucp_mem_map_params_t map = {
                .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                .address = memory,
                .length = memory_size,
        };
        ucp_mem_h registration;
        ucp_config_t *config;

        check("configuration", ucp_config_read(NULL, NULL, &config));
        /* A key that this UCX does not know is none that it needs. */
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
                (void)ucp_config_modify(config, settings[i][0], settings[i][1]);
        check("context", ucp_init(&params, config, &context));
        ucp_config_release(config);
        check("worker", ucp_worker_create(context, &worker_params, &worker));
        check("registration", ucp_mem_map(context, &map, &registration));
        set_handler(AM_DATA, on_data);
        set_handler(AM_DONE, on_done);
}

static void open_endpoint(ucp_ep_params_t *params)
{
        params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params->err_handler = (ucp_err_handler_t){ .cb = on_error };
        check("endpoint", ucp_ep_create(worker, params, &endpoint));
}

static void on_connection(ucp_conn_request_h request, void *unused)
{
        ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };

        open_endpoint(&params);
}

static void listen_for_peer(void)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        ucp_listener_params_t params = {
                .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                .sockaddr = { .addr = (struct sockaddr *)&address, .addrlen = sizeof(address) },
                .conn_handler = { .cb = on_connection },
        };
        ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
        ucp_listener_h listener;

        check("listener", ucp_listener_create(worker, &params, &listener));
        check("listener", ucp_listener_query(listener, &attr));
        memcpy(&address, &attr.sockaddr, sizeof(address));
        send_to_peer(&address, sizeof(address));
        while (!endpoint)
                (void)ucp_worker_progress(worker);
}

static void call_peer(void)
{
        struct sockaddr_in address;
        ucp_ep_params_t params = {
                .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                .sockaddr = { .addr = (struct sockaddr *)&address, .addrlen = sizeof(address) },
        };

        if (!take_from_peer(&address, sizeof(address)))
                exit(EXIT_FAILURE);
        open_endpoint(&params);
}

/* ---- runs ---- */

static void be_passive(void)
{
        char go;

        while (take_from_peer(&go, 1)) {
                unsigned run = atomic_load(&shared->running);

                received = 0;
                atomic_store(&shared->ready, true);
                while (atomic_load_explicit(&shared->running, memory_order_relaxed) == run) {
                        if (network)
                                (void)ucp_worker_progress(worker);
                        else
                                serve_trip();
                }
        }
}

static double run_once(uint64_t size)
{
        static unsigned runs;
        double start, seconds;

        if (size == 0 || size > memory_size)
                fail("not a size", UCS_ERR_INVALID_PARAM);
        shared->size = size;
        atomic_store(&shared->ready, false);
        atomic_store(&shared->running, ++runs);
        send_to_peer("g", 1);
        while (!atomic_load(&shared->ready))
                if (network)
                        (void)ucp_worker_progress(worker);
        start = ref_now();
        if (network)
                send_chunks();
        else
                make_trips();
        seconds = ref_now() - start;
        atomic_store(&shared->running, 0);
        return network ? seconds : seconds / TRIPS;
}

int main(int argc, char **argv)
{
        pid_t parent = getpid(), child;
        int controls[2], wires[2];

        if (argc != 3)
                fail("usage: ref_pair tcp|socket MAX_SIZE", UCS_ERR_INVALID_PARAM);
        network = strcmp(argv[1], "tcp") == 0;
        memory_size = strtoull(argv[2], NULL, 10);
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, controls) < 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wires) < 0)
                fail("start", UCS_ERR_NO_MEMORY);
        child = fork();
        active = child != 0;
        control = controls[active];
        wire = wires[active];
        (void)close(controls[!active]);
        (void)close(wires[!active]);
        if (!active) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        return EXIT_FAILURE;
        }
        memory = ref_memory_new(memory_size, active ? 0x5a : 0);
        if (!memory)
                fail("memory", UCS_ERR_NO_MEMORY);
        if (network) {
                open_context();
                if (active)
                        call_peer();
                else
                        listen_for_peer();
        }
        if (active) {
                ref_answer(run_once);
                (void)close(control); /* ends the other process; nothing is left to save in either */
                (void)waitpid(child, NULL, 0);
        } else {
                be_passive();
        }
        return EXIT_SUCCESS;
}
