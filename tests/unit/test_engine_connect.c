/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <ferry/error.h>
#include <ferry/status.h>

#include "base/clock.h"
#include "base/util.h"
#include "connect_fixture.h"
#include "faulty_transport.h"
#include "local_directory.h"
#include "moved_clock.h"

static const char *const transports[2] = { "shm", "tcp" };

/* Peers that cannot be reached are remembered, the latest ones, and not without end. */
TEST(those_that_are_not_reached_are_remembered_within_bounds)
{
        enum { ASKED = 1100, KEPT = 1024, PAGE = 100 };
        struct world *w = world_new(true, false);
        struct engine_peer_view *page = calloc(PAGE, sizeof(*page));
        uint64_t cursor = 0, next = 1000 + ASKED - KEPT;
        ssize_t n;

        assert_non_null(page);
        for (uint64_t i = 0; i < ASKED; i++)
                ask(w, 1000 + i, "");
        await(w, ASKED, 0);
        do {
                n = engine_peers_page(w->ends[0].engine, &cursor, page, PAGE);
                assert_in_range(n, 1, PAGE);
                for (ssize_t i = 0; i < n; i++) {
                        assert_int_equal(page[i].epoch, next++);
                        assert_int_equal(page[i].state, ENGINE_PEER_DISCONNECTED);
                        assert_int_equal(page[i].error, FERRY_E_PEER_UNREACHABLE);
                }
        } while (cursor);
        assert_int_equal(next, 1000 + ASKED);
        free(page);
}

/* How long a write of all takes, from its start to its end. */
static uint64_t write_us(struct world *w)
{
        move(w, ENGINE_WRITE);
        return w->ended_us - w->started_us;
}

/* Its first chunk counts, although nothing is heard of the peer before that has moved. */
TEST(a_cold_write_takes_no_less_than_a_warm_one)
{
        struct world *w = world_of(false, true, LARGE, NULL);
        uint64_t cold_us = write_us(w), warm_us = UINT64_MAX;

        for (int i = 0; i < 5; i++) {
                uint64_t took_us = write_us(w);

                warm_us = took_us < warm_us ? took_us : warm_us;
        }
        assert_in_range(cold_us, warm_us / 4, UINT64_MAX);
}

/* The peer asks who it is by a HELLO alone: whatever is no name is none. */
TEST(a_peer_is_known_by_the_name_that_it_says_if_that_is_one)
{
        static const struct {
                const char *says, *name;
        } rows[] = {
                { "worker-1.example_2", "worker-1.example_2" },
                { NULL, "" },
                { "", "" },
                { "a b", "" },
                { "w\npeer=root", "" },
                { "w\"", "" },
                { "\xff\xfe", "" },
                { "../../w", "" },
        };

        for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
                struct world *w = world_of(i % 2, !(i % 2), SIZE, rows[i / 2].says);
                struct engine_peer_view view;
                uint64_t cursor = 0;

                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                assert_int_equal(w->connection.error, 0);
                assert_int_equal(engine_peers_page(w->ends[1].engine, &cursor, &view, 1), 1);
                assert_int_equal(view.epoch, w->ends[0].epoch);
                assert_string_equal(view.name, rows[i / 2].name);
        }
}

TEST(many_at_once_share_one_link)
{
        enum { N = 50 };

        for (int network = 0; network < 2; network++) {
                struct world *w = world_new(!network, network);

                for (int i = 0; i < N; i++)
                        ask(w, w->ends[1].epoch, data_of(&w->ends[1]));
                await(w, N, 0);
                assert_int_equal(w->connection.error, 0);
                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                assert_true(w->connection.reused);
        }
}

TEST(another_worker_at_the_address_is_told_apart)
{
        struct world *w = world_new(false, true);

        connect_to(w, w->ends[1].epoch ^ 2, data_of(&w->ends[1]));
        assert_int_equal(w->connection.error, FERRY_E_STALE_METADATA);
        assert_false(w->connection.reused);
}

TEST(nobody_there_is_unreachable)
{
        struct world *w = world_new(true, true);
        char data[ENGINE_ADDRESS_SIZE];
        uint64_t epoch = w->ends[1].epoch;

        strcpy(data, data_of(&w->ends[1]));
        end_stop(&w->ends[1]);
        connect_to(w, epoch, data); /* the port is closed, the socket is gone */
        assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        connect_to(w, epoch, "");
        assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        connect_to(w, epoch, "no-such-host.invalid:1");
        assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        assert_true(w->connection.detail[0]);
}

static void close_kept(void *fd)
{
        (void)close((int)(intptr_t)fd);
}

/* Takes connections, and says nothing. */
static const char *silent_address(void)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 5), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
        (void)test_keep((void *)(intptr_t)fd, close_kept);
        return text_format("127.0.0.1:%d", ntohs(address.sin_port));
}

/* Stopping answers each: the peer is silent, so that they are all still waiting, transfers as well. */
TEST(stopping_ends_them_all)
{
        const char *data = silent_address();
        struct engine_connect spec = { 0 };
        struct world *w = world_new(false, true);

        for (int i = 0; i < 5; i++)
                ask(w, w->ends[1].epoch, data);
        start_move(w, ENGINE_READ, data);
        engine_stop(w->ends[0].engine);
        await(w, 5, 1);
        assert_int_equal(w->connection.error, FERRY_E_CANCELLED);
        assert_int_equal(w->outcome.error, FERRY_E_CANCELLED);
        assert_int_equal(w->outcome.connect_us, 0); /* it never did */
        spec.peer.epoch = w->ends[1].epoch;
        assert_int_equal(engine_connect(w->ends[0].engine, &spec), -ESHUTDOWN);
}

/* ---- a path that has failed ---- */

/* Starts a transfer to that address, and returns how long it took, in ms, to find nobody. */
static uint64_t miss_ms(struct world *w, const char *data)
{
        uint64_t start_us = clock_now_us();
        int before = w->ended;

        start_move(w, ENGINE_READ, data);
        await(w, w->connected, before + 1);
        assert_int_equal(w->outcome.error, FERRY_E_PEER_UNREACHABLE);
        return (clock_now_us() - start_us) / 1000;
}

/* The only peer of the first end. */
static struct engine_peer_view view_of_peer(struct world *w)
{
        struct engine_peer_view view;
        uint64_t cursor = 0;

        assert_int_equal(engine_peers_page(w->ends[0].engine, &cursor, &view, 1), 1);
        return view;
}

static uint64_t retry_of(struct world *w, const char *transport)
{
        const struct engine_peer_view view = view_of_peer(w);

        for (size_t i = 0; i < UNIT_COUNT(view.unused) && view.unused[i].transport; i++)
                if (strcmp(view.unused[i].transport, transport) == 0)
                        return view.unused[i].retry_unix_ms;
        return 0;
}

/* ---- HTTP, where no link is found ---- */

/* What the engine has handed over; guarded by the progress lock until it is told that it is over. */
struct handed {
        int refuses; /* with which error it is refused; 0 = it is done at once */
        int n;
        uint32_t connect_ms;
        char url[64];
};

static int take(struct handed *handed, const struct engine_peer *peer, char *detail, size_t detail_size)
{
        handed->n++;
        (void)snprintf(handed->url, sizeof(handed->url), "%s", peer->url);
        (void)snprintf(detail, detail_size, "not so");
        return handed->refuses;
}

static int take_transfer(void *context, const struct engine_transfer *transfer, char *detail, size_t detail_size)
{
        struct handed *handed = context;
        int r = take(handed, &transfer->peer, detail, detail_size);

        handed->connect_ms = transfer->connect_ms_max;
        if (r == 0)
                transfer->ended(transfer->context, &(struct engine_outcome){ .bytes = 1, .transport = "http" });
        return r;
}

static int take_notice(void *context, const struct engine_connect *spec, char *detail, size_t detail_size)
{
        int r = take(context, &spec->peer, detail, detail_size);

        if (r == 0)
                spec->connected(spec->context, &(struct engine_connection){ .transport = "http", .left_ms = 7 });
        return r;
}

static void take_cancel(void *context, uint64_t id, int reason)
{
        (void)context;
        (void)id;
        (void)reason;
}

static struct world *world_with_http(struct handed *handed, bool local, bool network)
{
        const struct engine_http http = { take_transfer, take_cancel, take_notice, handed, handed };
        struct world *w = world_new(local, network);

        w->has_fallback = true;
        engine_set_http(w->ends[0].engine, &http);
        return w;
}

/* Whose peer is not there. */
static struct world *world_by_http(struct handed *handed)
{
        struct world *w = world_with_http(handed, true, false);

        end_stop(&w->ends[1]);
        return w;
}

TEST(a_transfer_that_finds_no_link_goes_over_http)
{
        struct handed handed = { 0 };
        struct world *w = world_by_http(&handed);

        start_move(w, ENGINE_READ, "");
        await(w, 0, 1);
        assert_int_equal(w->outcome.error, 0);
        assert_string_equal(w->outcome.transport, "http");
        assert_string_equal(handed.url, FALLBACK_URL);
        assert_in_range(handed.connect_ms, CONNECT_MS * 3 / 10, CONNECT_MS); /* the rest of the time to connect */
        handed.refuses = FERRY_E_FORBIDDEN;
        (void)miss_ms(w, "");
        assert_non_null(strstr(w->outcome.detail, "; HTTP: not so"));
        assert_string_equal(view_of_peer(w).detail, w->outcome.detail);
        engine_set_http(w->ends[0].engine, NULL);
        (void)miss_ms(w, "");
        assert_non_null(strstr(w->outcome.detail, "; HTTP: the worker is shutting down"));
        assert_int_equal(handed.n, 2);
        w->has_fallback = false;
        (void)miss_ms(w, "");
        assert_null(strstr(w->outcome.detail, "HTTP"));
}

TEST(what_a_peer_refuses_by_its_link_is_not_tried_over_http)
{
        struct handed handed = { 0 };
        struct world *w = world_with_http(&handed, false, true);

        w->ends[1].epoch++; /* another worker is there */
        start_move(w, ENGINE_READ, data_of(&w->ends[1]));
        await(w, 0, 1);
        assert_int_equal(w->outcome.error, FERRY_E_STALE_METADATA);
        assert_int_equal(handed.n, 0);
}

TEST(a_notice_that_finds_no_link_is_said_over_http)
{
        struct handed handed = { 0 };
        struct world *w = world_by_http(&handed);

        w->notice = (struct engine_notice){ .operation = 1, .transfer = 2, .renews = true };
        connect_to(w, w->ends[1].epoch, "");
        assert_int_equal(w->connection.error, 0);
        assert_int_equal(w->connection.left_ms, 7);
        assert_string_equal(handed.url, FALLBACK_URL);
        handed.refuses = FERRY_E_FORBIDDEN;
        connect_to(w, w->ends[1].epoch, "");
        assert_int_equal(w->connection.error, FERRY_E_FORBIDDEN);
        assert_string_equal(w->connection.detail, "not so");
        handed.refuses = -ENOMEM; /* the reason of the links stays */
        connect_to(w, w->ends[1].epoch, "");
        assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        assert_null(strstr(w->connection.detail, "not so"));
        w->notice.operation = 0; /* what only connects needs a link */
        connect_to(w, w->ends[1].epoch, "");
        assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(handed.n, 3);
}

/* ---- a path that has failed, where something is left ---- */

enum { AT_ONCE_MS = CONNECT_MS / 2 };

TEST(only_the_first_transfer_waits_for_a_path_that_fails)
{
        const char *data = silent_address();
        struct world *w = world_new(false, true);

        w->has_fallback = true;
        assert_in_range(miss_ms(w, data), AT_ONCE_MS, 10 * CONNECT_MS);
        for (int i = 0; i < 10; i++)
                assert_in_range(miss_ms(w, data), 0, AT_ONCE_MS);
        assert_in_range(retry_of(w, "tcp"), clock_unix_ms() - CONNECT_MS, clock_unix_ms() + 1000);
        later_us += 1000000; /* it is tried again beside them */
        for (int i = 0; i < 10; i++)
                assert_in_range(miss_ms(w, data), 0, AT_ONCE_MS);
        assert_int_equal(view_of_peer(w).state, ENGINE_PEER_CONNECTING);
        w->has_fallback = false; /* nothing is left that it could go by */
        assert_in_range(miss_ms(w, data), 1, 10 * CONNECT_MS);
        assert_in_range(miss_ms(w, data), AT_ONCE_MS, 10 * CONNECT_MS);
}

TEST(a_path_that_works_again_is_used_after_a_pause)
{
        struct world *w = world_new(false, true);
        uint64_t epoch = w->ends[1].epoch;
        const char *data = text_format("%s", data_of(&w->ends[1]));

        w->ends[1].data_listen = data;
        end_stop(&w->ends[1]);
        w->has_fallback = true;
        (void)miss_ms(w, data);
        end_start(&w->ends[1], false, true, SIZE);
        assert_int_equal(w->ends[1].epoch, epoch);
        assert_in_range(miss_ms(w, data), 0, AT_ONCE_MS); /* not before the pause is over */
        later_us += 1000001;
        (void)miss_ms(w, data);
        WAIT_UNTIL(view_of_peer(w).state == ENGINE_PEER_CONNECTED);
        assert_int_equal(retry_of(w, "tcp"), 0);
        move(w, ENGINE_READ);
        assert_string_equal(w->outcome.transport, "tcp");
        assert_int_equal(w->outcome.connect_us, 0); /* the link is there */
}

TEST(connecting_tries_a_path_that_has_failed_now)
{
        struct world *w = world_new(false, true);
        const char *data = text_format("%s", data_of(&w->ends[1]));

        w->ends[1].data_listen = data;
        end_stop(&w->ends[1]);
        w->has_fallback = true;
        (void)miss_ms(w, data);
        end_start(&w->ends[1], false, true, SIZE);
        connect_to(w, w->ends[1].epoch, data);
        assert_int_equal(w->connection.error, 0);
        move(w, ENGINE_READ);
}

TEST(another_address_of_the_peer_is_tried_at_once)
{
        const char *data = silent_address();
        struct world *w = world_new(false, true);

        w->has_fallback = true;
        (void)miss_ms(w, data);
        move(w, ENGINE_READ);
}

/* Takes no connection from its queue. */
static void take_the_place_of(const struct world *w, int *ret_fd)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%016llx.sock", local_directory(),
                       (unsigned long long)w->ends[1].epoch);
        assert_int_equal(unlink(address.sun_path), 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 5), 0);
        *ret_fd = fd;
}

/* A local socket that leads nowhere: the network is left, also for transfers that have nothing else. */
TEST(a_local_path_that_fails_leaves_the_network)
{
        struct world *w = world_new(true, true);
        int fd;

        take_the_place_of(w, &fd);
        (void)miss_ms(w, data_of(&w->ends[1]));
        for (int i = 0; i < 3; i++) {
                move(w, ENGINE_READ);
                assert_string_equal(w->outcome.transport, "tcp");
        }
        assert_in_range(retry_of(w, "shm"), 1, UINT64_MAX);
        (void)close(fd);
}

TEST(connecting_goes_on_by_the_network_where_the_local_path_fails)
{
        struct world *w = world_new(true, true);
        int fd;

        take_the_place_of(w, &fd);
        ask(w, w->ends[1].epoch, data_of(&w->ends[1]));
        WAIT_UNTIL(view_of_peer(w).state == ENGINE_PEER_CONNECTING);
        (void)close(fd); /* with the connection in its queue */
        await(w, 1, 0);
        assert_int_equal(w->connection.error, 0);
        assert_string_equal(w->connection.transport, "tcp");
}

/* ---- HELLO ---- */

static void forget_plan(void *plan)
{
        faulty_set_plan(NULL);
}

static int planned; /* for test_keep */

static void plan_faults(struct faulty_plan plan)
{
        faulty_set_plan(&plan);
        (void)test_keep(&planned, forget_plan);
}

static enum fault count_hello(void *context, const struct wire_header *header)
{
        atomic_uint *n = context;

        *n += header->type == WIRE_HELLO;
        return FAULT_NONE;
}

TEST(one_hello_opens_a_link)
{
        for (int network = 0; network < 2; network++) {
                static atomic_uint n;
                struct world *w;

                n = 0;
                plan_faults((struct faulty_plan){ .script = count_hello, .context = &n });
                w = world_new(!network, network);
                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                assert_int_equal(n, 1);
                move(w, ENGINE_READ);
                assert_int_equal(n, 1);
                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1])); /* checks the link */
                assert_int_equal(n, 2);

                n = 0;
                w = world_new(!network, network);
                move(w, ENGINE_READ);
                assert_int_equal(n, 1);
        }
}

/* At once, not at the end of the connect time. */
TEST(a_link_whose_hello_finds_no_memory_ends)
{
        for (int network = 0; network < 2; network++) {
                struct world *w;

                plan_faults((struct faulty_plan){ .per_mille = { [FAULT_NO_MEMORY] = 1000 } });
                w = world_new(!network, network);
                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
                assert_string_equal(w->connection.detail, "out of memory");
                assert_int_equal(faulty_count(FAULT_NO_MEMORY), 1);
        }
}

/* UCX's own thread may hold an event of a socket that the engine closes while it is being connected. */
TEST(links_given_up_as_they_begin_harm_no_other)
{
        for (int i = 0; i < 300; i++) {
                struct world *w;

                plan_faults((struct faulty_plan){ .per_mille = { [FAULT_NO_MEMORY] = 1000 } });
                w = world_new(false, true);
                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        }
}

/* ---- notices ---- */

static struct engine_notice notice_of(bool renews)
{
        struct engine_notice notice = { .operation = 11, .transfer = random_id(), .renews = renews };

        notice.ttl_ms = renews ? 60000 : 0;
        memset(notice.key, 7, sizeof(notice.key));
        return notice;
}

TEST(a_notice_is_said_and_answered)
{
        for (int i = 0; i < 8; i++) {
                bool network = i & 1, renews = i & 2, connected = i & 4;
                struct world *w = world_new(!network, network);
                struct heard heard;

                if (connected)
                        connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                w->notice = notice_of(renews);
                connect_to(w, w->ends[1].epoch, data_of(&w->ends[1]));
                assert_int_equal(w->connection.error, 0);
                assert_string_equal(w->connection.transport, transports[network]);
                assert_int_equal(w->connection.status, FERRY_CANCELLED);
                assert_int_equal(w->connection.left_ms, w->notice.ttl_ms + 5);
                heard = heard_by(&w->ends[1]);
                assert_int_equal(heard.n, 1);
                assert_int_equal(heard.last.operation, 11);
                assert_int_equal(heard.last.transfer, w->notice.transfer);
                assert_int_equal(heard.last.renews, renews);
                assert_int_equal(heard.last.ttl_ms, w->notice.ttl_ms);
                assert_memory_equal(heard.last.key, w->notice.key, sizeof(heard.last.key));
        }
}

TEST(a_refusal_of_a_notice_is_told)
{
        static const struct {
                int answer, told;
        } rows[] = {
                { FERRY_E_ALREADY_CLAIMED, FERRY_E_ALREADY_CLAIMED },
                { FERRY_E_FORBIDDEN, FERRY_E_FORBIDDEN },
                { FERRY_E_GONE, FERRY_E_GONE },
                { FERRY_E_STALE_METADATA, FERRY_E_STALE_METADATA },
                { FERRY_E_PEER_REFUSED, FERRY_E_PEER_REFUSED },
                { FERRY_E_CANCELLED_BY_PEER, FERRY_E_CANCELLED_BY_PEER },
                { -12, FERRY_E_INTERNAL },
                { 4711, FERRY_E_PEER_REFUSED },
        };
        struct world *w = world_new(true, false);

        w->notice = notice_of(false);
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                end_refuses(&w->ends[1], rows[i].answer);
                connect_to(w, w->ends[1].epoch, "");
                assert_int_equal(w->connection.error, rows[i].told);
                assert_int_equal(heard_by(&w->ends[1]).n, i + 1);
        }
}

TEST(a_notice_for_a_worker_that_is_not_there)
{
        struct world *w = world_new(false, true);

        w->notice = notice_of(false);
        connect_to(w, w->ends[1].epoch + 1, data_of(&w->ends[1]));
        assert_int_equal(w->connection.error, FERRY_E_STALE_METADATA);
        connect_to(w, w->ends[1].epoch, "");
        assert_int_equal(w->connection.error, FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(heard_by(&w->ends[1]).n, 0);
}
