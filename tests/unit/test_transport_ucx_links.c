/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <net/if.h>
#include <ucs/config/types.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include "base/log.h"
#include "ucx_fixture.h"

/* How links and the network transport begin and end, and what UCX is told. */

TEST(a_shut_down_flushes_what_was_sent)
{
        struct pair *p = pair_connected();
        struct outcome o = { 0 };

        post(&p->n[0], WIRE_DATA, 0, 100, &o);
        p->n[0].transport->ops->shut_down(p->n[0].transport, clock_now_us() + 100000);
        assert_int_equal(o.done, 1);
        assert_int_equal(o.result, MESSAGE_OK);
        assert_int_equal(p->n[0].ended, 1);
        AWAIT(p, p->n[1].received_bytes == 100 && p->n[1].ended == 1);
}

/* The peer stands still while it connects: UCX has nobody to flush to, and aborts when it is made to wait. */
TEST(a_shut_down_does_not_wait_for_a_peer_that_never_spoke)
{
        enum { PATIENCE_US = 100000 };
        struct pair *p = pair_new();
        int error = 0;

        assert_non_null(pair_link(p, &error));
        AWAIT(p, p->n[1].accepted == 1);
        p->n[1].transport->ops->shut_down(p->n[1].transport, clock_now_us() + PATIENCE_US);
        assert_int_equal(p->n[1].ended, 1);
}

/* A header of other bytes, beneath the transport. */
static void send_raw(struct node *node, const void *header, size_t size)
{
        ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY };
        ucs_status_ptr_t request =
                ucp.am_send_nbx(ucx_link_of(node->link)->endpoint, UCX_AM_ID, header, size, NULL, 0, &param);

        if (UCS_PTR_IS_PTR(request))
                ucp.request_free(request);
}

TEST(foreign_bytes_are_dropped)
{
        static const char foreign[WIRE_SIZE] = "this is no message of ours";
        struct pair *p = pair_connected();

        send_raw(&p->n[0], foreign, sizeof(foreign));
        send_raw(&p->n[0], foreign, 3);
        move(p, 0, 100);
        assert_int_equal(p->n[1].messages, 1);
}

TEST(another_version_ends_the_link_and_is_named)
{
        struct pair *p = pair_connected();
        struct wire_header header = make_header(WIRE_HELLO, 0, 0);
        uint8_t bytes[WIRE_SIZE];

        wire_encode(&header, bytes);
        bytes[4] = FERRY_PROTOCOL - 1;
        send_raw(&p->n[0], bytes, sizeof(bytes));
        AWAIT(p, p->n[1].ended == 1 && p->n[0].ended == 1);
        assert_int_equal(p->n[1].link->error, FERRY_E_PROTOCOL_MISMATCH);
        assert_string_equal(p->n[1].link->detail,
                            "the peer speaks protocol 7, this worker protocol 8: upgrade the peer, which is older");
        assert_int_equal(p->n[1].messages, 0);
}

/* The answer has this worker's number, by which another build tells its user the same. */
TEST(another_build_hears_what_this_worker_speaks)
{
        struct pair *p = pair_new();
        struct wire_header header = make_header(WIRE_HELLO, 0, 0);
        uint8_t bytes[WIRE_SIZE];
        int error;

        p->n[0].link = pair_link(p, &error);
        assert_non_null(p->n[0].link);
        wire_encode(&header, bytes);
        bytes[4] = FERRY_PROTOCOL + 1;
        send_raw(&p->n[0], bytes, sizeof(bytes));
        AWAIT(p, p->n[0].ended == 1 && p->n[1].ended == 1);
        assert_int_equal(p->n[1].link->error, FERRY_E_PROTOCOL_MISMATCH);
        assert_int_equal(p->n[1].messages, 0);
        assert_true(p->n[0].link->connect_us > 0); /* set by the first message of the peer */
}

TEST(nobody_is_unreachable)
{
        struct pair *p = pair_new();
        struct outcome o = { 0 };
        int error = 0;

        p->n[0].link = connect_to(&p->n[0], "127.0.0.1:1", &error);
        if (p->n[0].link) {
                post(&p->n[0], WIRE_HELLO, 0, 0, &o);
                AWAIT(p, p->n[0].ended == 1);
                assert_int_equal(p->n[0].link->error, FERRY_E_PEER_UNREACHABLE);
                assert_non_null(strstr(p->n[0].link->detail, "the peer's data port 127.0.0.1:1: check its worker"));
                assert_int_equal(o.done, 1);
                assert_int_equal(o.result, MESSAGE_LOST);
        } else {
                assert_int_equal(error, -EHOSTUNREACH);
        }
}

TEST(a_link_that_the_engine_refuses_is_unreachable)
{
        struct pair *p = pair_new();
        int error;

        p->n[1].refuse_links = true;
        p->n[0].link = pair_link(p, &error);
        send_header(&p->n[0], WIRE_HELLO);
        AWAIT(p, p->n[0].ended == 1);
        assert_int_equal(p->n[0].link->error, FERRY_E_PEER_UNREACHABLE);
        assert_null(p->n[1].transport->links);
}

TEST(every_way_to_write_loopback_carries_bytes)
{
        FOR_EACH_TEXT (address, "127.0.0.1:0", "lo:0", "localhost:0") {
                struct pair *p = pair_new_at("127.0.0.1:0", address);

                pair_connect(p);
                move(p, 0, 1 << 20);
                pair_free(p);
        }
}

/* UCX before 1.14 takes no lane of IPv6 on loopback. */
TEST(ipv6_loopback_carries_bytes_or_is_refused)
{
        const struct ucx_config config = { .data_listen = "[::1]:0" };
        struct node node = { 0 };
        struct pair *p;

        if (ucx_takes_one_interface()) {
                assert_int_equal(node_open_with(&node, &config), -EADDRNOTAVAIL);
                return;
        }
        p = pair_new_at("[::1]:0", "[::1]:0");
        pair_connect(p);
        move(p, 0, 1 << 20);
}

/* UCX would write beyond its memory. */
TEST(a_peer_of_another_address_family_is_refused)
{
        struct pair *p = pair_new();
        int error = 0;

        assert_null(connect_to(&p->n[0], "[::1]:9400", &error));
        assert_int_equal(error, -EAFNOSUPPORT);
}

TEST(an_address_that_ucx_cannot_serve_is_refused)
{
        static const struct {
                const char *listen;
                int error;
        } cases[] = {
                { "127.0.0.5:0", -EADDRNOTAVAIL }, /* UCX serves 127.0.0.1 alone */
                { "127.0.0.1", -EINVAL },
                { "127.0.0.1:", -EINVAL },
        };

        for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
                const struct ucx_config config = { .data_listen = cases[i].listen };
                struct node node = { 0 };

                assert_int_equal(node_open_with(&node, &config), cases[i].error);
        }
}

TEST(short_payloads_and_pieces_travel_in_parts)
{
        struct pair *p = pair_connected();
        struct node *n = &p->n[0];
        const struct transport_ops *ops = n->transport->ops;
        bool force_inline;

        assert_int_equal(ops->fit(n->link, &n->stream, 0, WIRE_INLINE_MAX, &force_inline), WIRE_INLINE_MAX);
        assert_false(force_inline);
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 512 << 10, &force_inline), UCX_FRAGMENT_SIZE);
        assert_true(force_inline);
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &force_inline), 4 << 20);
        assert_false(force_inline);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, MEMORY_SIZE), 4 << 20);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, 1000), 1000);
        assert_int_equal(ops->window(n->link), 16 << 20);
        node_set_stream(n, 1000, 16 << 10, 20 << 10);
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &force_inline), UCX_FRAGMENT_SIZE);
        assert_true(force_inline);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, 16000 << 10), 2 << 20);
}

TEST(over_a_long_link_all_payloads_travel_in_parts)
{
        struct pair *p = pair_connected();
        struct node *n = &p->n[0];
        struct ucx *ucx = ucx_of(n->transport);
        const struct transport_ops *ops = n->transport->ops;
        bool force_inline;

        ucx_link_of(n->link)->rtt_us = 50000;
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &force_inline),
                         4 << 20); /* on loopback they do not */
        assert_int_equal(ops->window(n->link), 16 << 20);
        ucx->listen.loopback = false;
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &force_inline), UCX_FRAGMENT_SIZE);
        assert_true(force_inline);
        assert_int_equal(ops->request_size(n->link, &n->stream, 0, MEMORY_SIZE), 4 << 20);
        assert_int_equal(ops->window(n->link), 160000000);
        ucx->chunk_max = 8 << 20; /* --chunk-size */
        assert_int_equal(ops->window(n->link), 32 << 20);
        ucx_link_of(n->link)->rtt_us = 1000;
        assert_int_equal(ops->fit(n->link, &n->stream, 0, 4 << 20, &force_inline), 4 << 20);
        assert_false(force_inline);
        assert_int_equal(ops->window(n->link), 16 << 20);
}

/* A late first answer must not make it one for good. */
TEST(a_link_that_only_seemed_long_is_found_out)
{
        struct pair *p = pair_connected();
        struct ucx_link *link = ucx_link_of(p->n[0].link);

        ucx_of(p->n[0].transport)->listen.loopback = false;
        link->rtt_us = TIMEOUT_US;
        move(p, 0, 1000);
        AWAIT(p, link->rtt_us < UCX_LONG_RTT_US);
}

/* As if the link were a long one for the receiver alone, since over a long link all travels in parts. */
TEST(the_chunk_grows_with_the_round_trip)
{
        struct pair *p = pair_connected();
        struct ucx_link *link = ucx_link_of(p->n[0].link);
        const struct transport_ops *ops = p->n[0].transport->ops;

        assert_in_range(link->rtt_us, 0, TIMEOUT_US);
        ucx_of(p->n[0].transport)->watch_us = UINT64_MAX - 1; /* never: it would find it out */
        link->rtt_us = TIMEOUT_US;
        move(p, 1, 4 << 20);
        assert_int_equal(ops->window(p->n[0].link), 16 << 20); /* on loopback it never does */
        ucx_of(p->n[0].transport)->listen.loopback = false;
        move(p, 1, 4 << 20);
        AWAIT(p, p->n[0].rooms == 1);
        assert_int_equal(ops->request_size(p->n[0].link, &p->n[0].stream, 0, MEMORY_SIZE), MEMORY_SIZE);
        assert_int_equal(ops->window(p->n[0].link), 4 * (uint64_t)WIRE_CHUNK_MAX);
        link->rtt_us = 1;
        link->chunk = 8 << 20;
        move(p, 1, 8 << 20);
        assert_int_equal(ops->window(p->n[0].link), 16 << 20);
}

TEST(the_chunk_stays_within_what_was_asked_for)
{
        enum { CHUNK = 64 << 10 };
        const struct ucx_config config = { .data_listen = "127.0.0.1:0", .chunk_size = CHUNK, .window = 2 };
        struct node node = { 0 };
        struct ucx_link *link;

        assert_int_equal(node_open_with(&node, &config), 0);
        link = ucx_link_new(ucx_of(node.transport), false);
        assert_int_equal(ucx_window(&link->base), 2 * CHUNK);
        ucx_of(node.transport)->listen.loopback = false;
        link->rtt_us = TIMEOUT_US;
        ucx_pace_bulk(link, CHUNK, clock_now_us());
        assert_int_equal(ucx_window(&link->base), 2 * CHUNK);
        link_free(&link->base);
        node.transport->ops->free(node.transport);
}

static unsigned fake_minor; /* 0 = none */

static __typeof__(ucp_get_version) *real_get_version;

static void fake_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
        real_get_version(major, minor, release);
        *minor = fake_minor;
}

/* Has UCX say that it is 1.<minor>; 0 = what it is. */
static void fake_version(unsigned minor)
{
        assert_int_equal(ucx_library_load(NULL), 0);
        if (!real_get_version)
                real_get_version = ucp.get_version;
        fake_minor = minor;
        ucp.get_version = minor ? fake_get_version : real_get_version;
}

/* In place of libucs: the older ones have neither function. */
static int no_route(void)
{
        return 0;
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
        if (strncmp(name, "ucs_netlink_", strlen("ucs_netlink_")) == 0 && handle != RTLD_DEFAULT)
                return (void *)no_route;
        return __real_dlsym(handle, name);
}

TEST(ucx_1_20_alone_gets_a_route_over_loopback)
{
        const struct sockaddr nowhere = { .sa_family = AF_UNSPEC }; /* the kernel knows no route either */
        struct if_nameindex *interfaces = if_nameindex();

        assert_non_null(interfaces);
        assert_true(if_nametoindex("lo") > 0);
        FOR_EACH (unsigned, minor, 19, 20, 21) {
                fake_version(minor);
                for (struct if_nameindex *i = interfaces; i->if_index; i++) {
                        bool yes = minor == 20 && strcmp(i->if_name, "lo") == 0;

                        assert_int_equal(ucx_route_exists((int)i->if_index, &nowhere, 0), yes);
                        assert_int_equal(ucx_is_best_route((int)i->if_index, &nowhere), yes);
                }
        }
        fake_version(0);
        if_freenameindex(interfaces);
}

static void note_events(int fd, ucs_event_set_types_t events, void *context)
{
        (void)fd;
        *(int *)context |= (int)events;
}

/* UCX may have kept an event of the socket that had the descriptor's number before. */
TEST(a_handler_gets_only_events_that_it_waits_for)
{
        const int all = UCS_EVENT_SET_EVREAD | UCS_EVENT_SET_EVWRITE | UCS_EVENT_SET_EVERR;
        ucs_status_t (*forget)(int fd, int sync);
        int fds[2], heard = 0;

        (void)pair_new(); /* loads UCX */
        *(void **)&forget = ucx_library_find("ucs_async_remove_handler");
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        assert_int_equal(ucx_watch_events(UCS_ASYNC_MODE_POLL, fds[0], UCS_EVENT_SET_EVREAD, note_events, &heard, NULL),
                         UCS_OK);
        ucx_pass_event(fds[0], UCS_EVENT_SET_EVWRITE | UCS_EVENT_SET_EVERR, &heard);
        assert_int_equal(heard, 0);
        ucx_pass_event(fds[0], (ucs_event_set_types_t)all, &heard);
        assert_int_equal(heard, UCS_EVENT_SET_EVREAD);
        heard = 0;
        assert_int_equal(ucx_watch_other_events(fds[0], UCS_EVENT_SET_EVWRITE), UCS_OK);
        ucx_pass_event(fds[0], (ucs_event_set_types_t)all, &heard);
        assert_int_equal(heard, UCS_EVENT_SET_EVWRITE);
        assert_int_equal(forget(fds[0], 1), UCS_OK);
        close(fds[0]);
        close(fds[1]);
}

/* Of each interface: only the one named lo has a route to the address, which is one of loopback. */
static void assert_only_lo_leads_to(const void *loopback)
{
        struct if_nameindex *interfaces = if_nameindex();

        assert_non_null(interfaces);
        fake_version(21);
        for (struct if_nameindex *i = interfaces; i->if_index; i++) {
                bool yes = strcmp(i->if_name, "lo") == 0;

                assert_int_equal(ucx_route_exists((int)i->if_index, loopback, 0), yes);
                assert_int_equal(ucx_is_best_route((int)i->if_index, loopback), yes);
        }
        fake_version(0);
        if_freenameindex(interfaces);
}

TEST(a_route_that_ucx_does_not_find_is_the_kernels_answer)
{
        const struct sockaddr_in four = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8) };
        const struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        FERRY_CLEANUP(cleanup_close) int fd = socket(AF_INET6, SOCK_DGRAM, 0);

        assert_only_lo_leads_to(&four);
        if (bind(fd, (const struct sockaddr *)&six, sizeof(six)) == 0) /* IPv6 is there */
                assert_only_lo_leads_to(&six);
}

static int saved_stderr = -1;

static void stderr_catch(int *ret_file)
{
        char path[] = "/tmp/test_transport_ucx.XXXXXX";

        *ret_file = mkstemp(path);
        saved_stderr = dup(STDERR_FILENO);
        assert_true(*ret_file >= 0 && saved_stderr >= 0);
        (void)unlink(path);
        (void)dup2(*ret_file, STDERR_FILENO);
}

/* What was written meanwhile; to be freed. */
static char *stderr_release(int file)
{
        enum { SIZE = 1 << 20 };
        char *text = unit_alloc(SIZE);
        ssize_t size;

        (void)dup2(saved_stderr, STDERR_FILENO);
        (void)close(saved_stderr);
        size = pread(file, text, SIZE - 1, 0);
        assert_true(size >= 0);
        text[size] = '\0';
        (void)close(file);
        return text;
}

TEST(ucx_cannot_flood_the_log)
{
        static ucs_log_component_config_t component = { .log_level = UCS_LOG_LEVEL_WARN, .name = "TEST" };
        __typeof__(ucs_log_dispatch) *dispatch;
        size_t lines = 0;
        char *text;
        int file;

        log_setup(LOG_INFO, LOG_LOGFMT);
        assert_int_equal(ucx_library_load(NULL), 0);
        *(void **)&dispatch = ucx_library_find("ucs_log_dispatch");
        assert_non_null(dispatch);
        stderr_catch(&file);
        for (int i = 0; i < 10000; i++)
                dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_ERROR, &component, "line %d", i);
        text = stderr_release(file);
        for (const char *at = text; (at = strstr(at, "text=")); at++)
                lines++;
        assert_in_range(lines, 1, 2 * UCX_LOG_BURST); /* of one second, or of two */
        free(text);
}

/* tests/network/run has it come. */
TEST(an_address_that_is_not_there_is_waited_for)
{
        FOR_EACH_TEXT (item, "198.51.100.77:0", "[2001:db8::77]:0", "nosuch0:0") {
                static uint8_t page[4096];
                struct memory memory = { .address = page, .size = sizeof(page), .id = 1, .fd = -1 };
                const struct ucx_config config = { .data_listen = item };
                struct node node = { 0 };
                char *text;
                int file, error = 0;

                stderr_catch(&file);
                assert_int_equal(node_open_with(&node, &config), 0);
                text = stderr_release(file);
                assert_non_null(strstr(text, "network transport waits"));
                assert_non_null(strstr(text, item));
                free(text);
                assert_string_equal(ucx_transport_facts(node.transport)->data_address, "");
                assert_int_equal(node.transport->ops->register_memory(node.transport, &memory), 0);
                assert_null(connect_to(&node, "127.0.0.1:9", &error));
                assert_int_equal(error, -ENETDOWN);
                (void)node.transport->ops->progress(node.transport);
                assert_true(node.transport->ops->arm(node.transport));
                node.transport->ops->deregister_memory(node.transport, &memory);
                node.transport->ops->free(node.transport);
        }
}

/* The names of a transport's settings are others from 1.17 on; one that UCX does not know has no effect. */
TEST(ucx_knows_every_setting)
{
        char *text;
        int file;

        stderr_catch(&file);
        log_setup(LOG_DEBUG, LOG_LOGFMT);
        pair_free(pair_connected());
        log_setup(LOG_INFO, LOG_LOGFMT);
        text = stderr_release(file);
        assert_int_not_equal(text[0], '\0');
        assert_null(strstr(text, "UCX setting unknown"));
        assert_null(strstr(text, "invalid configuration")); /* UCX's own words about those of transports */
        free(text);
}

/* As the network transport does whose listener fails: the descriptor of its worker is gone with that. */
static int fail_to_open(struct ucx *ucx, const struct ucx_config *config)
{
        ucx->base.fd = -1;
        return -EADDRINUSE;
}

TEST(a_transport_that_cannot_open_at_its_late_address_goes_on_watching)
{
        const struct ucx_config config = { .data_listen = "127.0.0.1:0" };
        struct ucx *ucx = test_keep(calloc(1, sizeof(*ucx)), free);
        int fd;

        assert_int_equal(ucx_address_parse(config.data_listen, &ucx->listen), 0);
        assert_int_equal(ucx_address_wait_new(ucx, &config, "the interface", fail_to_open), 0);
        fd = ucx->base.fd;
        assert_false(ucx_address_wait_check(ucx));
        assert_int_equal(ucx->base.fd, fd);
        ucx_address_wait_free(ucx);
}
