/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/error.h>
#include <ferry/json_write.h>
#include <ferry/metadata.h>
#include <ferry/status.h>

#include "base/allowlist.h"
#include "base/metrics.h"
#include "base/util.h"
#include "easy/thread.h"
#include "move/engine.h"
#include "peers/peers.h"

#include "unit.h"

#include "answering_peer.h"

/* ---- a fetch that is waited for ---- */

struct result {
        struct bell calls;
        int error;
        char detail[256];
        struct ferry_metadata *metadata;
};

static void result_free(void *object)
{
        struct result *result = object;

        ferry_metadata_free(result->metadata);
        free(result);
}

static struct result *result_new(void)
{
        struct result *result = test_keep(calloc(1, sizeof(*result)), result_free);

        result->calls = BELL;
        return result;
}

static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct result *result = context;

        result->error = error;
        (void)snprintf(result->detail, sizeof(result->detail), "%s", detail ?: "");
        result->metadata = metadata;
        bell_ring(&result->calls);
}

static void result_wait(struct result *result)
{
        bell_await(&result->calls, 1);
        assert_int_equal(result->calls.times, 1);
        assert_true((result->error == 0) == (result->metadata != NULL));
        assert_true(result->error == 0 || result->detail[0]);
}

#define METADATA_PATH "/v1/operations/op_0123456789abcdef/metadata"

static bool is_wanted(void *context)
{
        return context;
}

static int fetch_url(struct peers *peers, const char *url, struct result *result)
{
        char detail[256] = "";
        int r = peers_fetch_metadata(peers, url, on_fetched, is_wanted, result, detail, sizeof(detail));

        if (r)
                assert_true(r < 0 || detail[0]);
        return r;
}

static int fetch_from(struct peers *peers, const char *host, unsigned port, struct result *result)
{
        char url[256];

        (void)snprintf(url, sizeof(url), "http://%s:%u" METADATA_PATH, host, port);
        return fetch_url(peers, url, result);
}

/* One that has begun, and has come to its end. */
static struct result *fetch(struct peers *peers, const char *host, const struct answering_peer *peer)
{
        struct result *result = result_new();

        assert_int_equal(fetch_from(peers, host, peer->port, result), 0);
        result_wait(result);
        return result;
}

static struct allowlist *loopback;
static struct easy_thread *thread; /* of the peers made last */

TEST_KEEPS(thread, struct easy_thread, easy_thread_free)
TEST_KEEPS(peers, struct peers, peers_free)

/* Of those that admit loopback, unless config says otherwise. Until the end of the test. */
static struct peers *make_peers(const struct peers_config *config)
{
        struct peers_config made = config ? *config : (struct peers_config){ 0 };
        struct peers *peers = NULL;

        made.easy.allowlist = made.easy.allowlist ?: loopback;
        made.thread = thread = keep_thread(easy_thread_new());
        assert_int_equal(peers_new(&made, &peers), 0);
        return keep_peers(peers);
}

static int admit_loopback(void **state)
{
        return allowlist_new(NULL, 0, false, &loopback);
}

static int forget_loopback(void **state)
{
        loopback = allowlist_free(loopback);
        return 0;
}

/* A whole fetch from a peer with this answer. */
static const struct result *result_of(const char *answer, size_t fill, const struct peers_config *config)
{
        struct answering_peer *peer = answering_peer_new(answer);
        struct peers *peers = make_peers(config);
        const struct result *result;

        peer->fill = fill;
        result = fetch(peers, "127.0.0.1", answering_peer_go(peer));
        test_release(peers);
        return result;
}

static int error_of(const char *answer, size_t fill, const struct peers_config *config)
{
        return result_of(answer, fill, config)->error;
}

/* A complete answer with true metadata in it. */
static const char *good_answer(void)
{
        struct ferry_metadata_descriptor descriptor = { .device = "cpu", .ptr = 4096, .size = 77 };
        struct ferry_metadata metadata = { .operation_kind = FERRY_METADATA_READ,
                                           .key = { 1, 2, 3 },
                                           .protocol = FERRY_PROTOCOL,
                                           .worker = "a",
                                           .epoch = 5,
                                           .operation = 6,
                                           .http = "http://127.0.0.1:1",
                                           .n_descriptors = 1,
                                           .descriptors = &descriptor };
        struct ferry_json_writer writer = { 0 };
        const char *body;

        assert_int_equal(ferry_metadata_encode(&metadata, &writer), 0);
        body = text_keep(ferry_json_take(&writer, NULL));
        return text_format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                           strlen(body), body);
}

TEST(the_token_and_the_user_agent_are_sent)
{
        const struct peers_config config = { .token = "s3cret", .easy.user_agent = "ferryd/9" };
        struct answering_peer *peer = answering_peer_start(good_answer());

        assert_int_equal(fetch(make_peers(&config), "localhost", peer)->error, 0);
        assert_non_null(strstr(peer->request, "\r\nAuthorization: Bearer s3cret\r\n"));
        assert_non_null(strstr(peer->request, "\r\nUser-Agent: ferryd/9\r\n"));
}

TEST(a_connection_is_used_again)
{
        struct answering_peer *peer = answering_peer_new(good_answer());
        struct peers *peers = make_peers(NULL);

        peer->keep_alive = true;
        answering_peer_go(peer);
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(fetch(peers, "127.0.0.1", peer)->error, 0);
        assert_int_equal(peer->requests, 5);
        assert_int_equal(peer->accepted, 1);
}

TEST(answers_are_told_apart)
{
#define EMPTY "Content-Length: 0\r\n\r\n"
        static const struct {
                const char *answer;
                int error;
        } cases[] = {
                { "HTTP/1.1 404 Not Found\r\n" EMPTY, FERRY_E_STALE_METADATA },
                { "HTTP/1.1 410 Gone\r\n" EMPTY, FERRY_E_STALE_METADATA },
                { "HTTP/1.1 401 Unauthorized\r\n" EMPTY, FERRY_E_PEER_REFUSED },
                { "HTTP/1.1 403 Forbidden\r\n" EMPTY, FERRY_E_PEER_REFUSED },
                { "HTTP/1.1 409 Conflict\r\n" EMPTY, FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 500 Oops\r\n" EMPTY, FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 204 No Content\r\n\r\n", FERRY_E_TRANSFER_FAILED },
                { "HTTP/1.1 200 OK\r\n" EMPTY, FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot json!", FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", FERRY_E_INVALID_METADATA },
                { "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"descriptors\":", FERRY_E_PEER_LOST },
                { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", FERRY_E_PEER_LOST },
                { "HTTP/1.1 200 OK\r\nContent-Le", FERRY_E_INVALID_METADATA },
                { "", FERRY_E_PEER_LOST },
                { "SSH-2.0-OpenSSH_9.2\r\n", FERRY_E_TRANSFER_FAILED },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++)
                assert_int_equal(error_of(test_row(cases[i].answer), 0, NULL), cases[i].error);
}

TEST(a_proxy_in_the_environment_is_not_used)
{
        struct answering_peer *proxy = answering_peer_start("HTTP/1.1 404 Not Found\r\n" EMPTY);

        (void)setenv("http_proxy", text_format("http://127.0.0.1:%u", proxy->port), 1);
        assert_int_equal(error_of("HTTP/1.1 401 No\r\n" EMPTY, 0, NULL), FERRY_E_PEER_REFUSED);
        (void)unsetenv("http_proxy");
        assert_int_equal(proxy->accepted, 0);
}

TEST(a_body_beyond_the_limit_ends_the_fetch)
{
        const struct peers_config config = { .easy.max_body = 10000 };

        static const struct {
                const char *answer;
                size_t fill;
                bool too_large;
        } cases[] = {
                /* Announced and not, so that the count and not the header decides. */
                { "HTTP/1.1 200 OK\r\n\r\n", 64 << 20, true },
                { "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n", 64 << 20, true },
                { "HTTP/1.1 200 OK\r\n\r\n", 10001, true },
                { "HTTP/1.1 200 OK\r\n\r\n", 10000, false }, /* it is no metadata either, but read */
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                const struct result *result = result_of(cases[i].answer, cases[i].fill, &config);

                test_row(text_format("%.40s, %zu bytes", cases[i].answer, cases[i].fill));
                assert_int_equal(result->error, FERRY_E_INVALID_METADATA);
                assert_int_equal(strstr(result->detail, "too large") != NULL, cases[i].too_large);
        }
}

TEST(endless_headers_end_the_fetch)
{
        static char answer[300000];
        const struct result *result;
        size_t size = (size_t)snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\n");

        while (size + 64 < sizeof(answer))
                size += (size_t)snprintf(answer + size, sizeof(answer) - size, "X-Filler: %032d\r\n", 0);
        result = result_of(answer, 0, NULL);
        assert_int_equal(result->error, FERRY_E_INVALID_METADATA);
        assert_non_null(strstr(result->detail, "too large")); /* not: it has no body */
}

TEST(a_peer_that_never_answers_is_a_timeout)
{
        const struct peers_config config = { .easy.timeout_ms = 200 };

        assert_int_equal(error_of(NULL, 0, &config), FERRY_E_TIMEOUT);
}

TEST(urls_that_are_not_a_workers_metadata_are_refused)
{
        struct result *result = result_new();
        struct peers *peers = make_peers(NULL);

        FOR_EACH_TEXT (
                url, "", "127.0.0.1:9300" METADATA_PATH, "ftp://127.0.0.1" METADATA_PATH,
                "file:///v1/operations/op_1/metadata", "gopher://127.0.0.1" METADATA_PATH, "http://" METADATA_PATH,
                "http://user@127.0.0.1" METADATA_PATH, "http://user:password@127.0.0.1" METADATA_PATH,
                "http://127.0.0.1:99999" METADATA_PATH, "http://127.0.0.1/", "http://127.0.0.1/v1/operations//metadata",
                "http://127.0.0.1/v1/operations/op_1/metadata/", "http://127.0.0.1/v1/operations/op_1/metadata/x",
                "http://127.0.0.1/v1/operations/op_1", "http://127.0.0.1/v1/regions?x=/v1/operations/op_1/metadata",
                "http://127.0.0.1/#/v1/operations/op_1/metadata", "http://127.0.0.1 " METADATA_PATH,
                "http://127.0.0.1\r\nX: y" METADATA_PATH)
                assert_int_equal(fetch_url(peers, url, result), FERRY_E_INVALID_PARAMETER);
        test_release(peers);
        assert_int_equal(result->calls.times, 0);
}

/* "localhost" is admitted by ::1, but leads to 127.0.0.1 as well, which is not. */
TEST(the_address_behind_a_name_is_checked_again)
{
        static const char *const allow[] = { "::1" };
        struct peers_config config = { 0 };
        struct answering_peer *peer = answering_peer_start("HTTP/1.1 404 Not Found\r\n" EMPTY);
        struct allowlist *allowlist;
        struct peers *peers;
        struct result *result;

        assert_int_equal(allowlist_new(allow, 1, false, &allowlist), 0);
        config.easy.allowlist = allowlist;
        peers = make_peers(&config);
        result = fetch(peers, "localhost", peer);
        /* Unreachable where there is an ::1 to try. */
        assert_true(result->error == FERRY_E_FORBIDDEN || result->error == FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(peer->accepted, 0);
        test_release(peers);
        allowlist_free(allowlist);
}

/* libcurl knows that any name under localhost is this host; that of Ubuntu 22.04, 7.81, does not. */
TEST(a_name_that_is_admitted_may_lead_to_any_address)
{
        static const char *const allow[] = { "Worker.localhost" };
        struct peers_config config = { 0 };
        struct answering_peer *peer;
        struct allowlist *allowlist;
        struct peers *peers;

        if (curl_version_info(CURLVERSION_NOW)->version_num < 0x075800)
                skip();
        peer = answering_peer_start("HTTP/1.1 404 Not Found\r\n" EMPTY);
        assert_int_equal(allowlist_new(allow, 1, false, &allowlist), 0);
        config.easy.allowlist = allowlist;
        peers = make_peers(&config);
        assert_int_equal(fetch(peers, "worker.localhost", peer)->error, FERRY_E_STALE_METADATA);
        test_release(peers);
        allowlist_free(allowlist);
}

TEST(fetches_at_the_same_time_are_bounded)
{
        const struct peers_config config = { .max_fetches = 2 };
        struct answering_peer *peer = answering_peer_start(NULL);
        struct result *results[3] = { result_new(), result_new(), result_new() };
        struct peers *peers = make_peers(&config);

        assert_int_equal(fetch_from(peers, "127.0.0.1", peer->port, results[0]), 0);
        assert_int_equal(fetch_from(peers, "127.0.0.1", peer->port, results[1]), 0);
        assert_int_equal(fetch_from(peers, "127.0.0.1", peer->port, results[2]), FERRY_E_LIMIT_REACHED);
        test_release(peers);
        assert_int_equal(results[0]->calls.times + results[1]->calls.times, 2);
        assert_int_equal(results[2]->calls.times, 0);
}

TEST(ending_cancels_what_still_runs)
{
        struct answering_peer *peer = answering_peer_start(NULL);
        struct result *result = result_new();
        struct peers *peers = make_peers(NULL);

        assert_int_equal(fetch_from(peers, "127.0.0.1", peer->port, result), 0);
        test_release(peers);
        result_wait(result);
        assert_int_equal(result->error, FERRY_E_CANCELLED);
}

static size_t count_threads(void)
{
        glob_t tasks;
        size_t n;

        assert_int_equal(glob("/proc/self/task/*", 0, NULL, &tasks), 0);
        n = tasks.gl_pathc;
        globfree(&tasks);
        return n;
}

static void *do_nothing(void *argument)
{
        return argument;
}

/* An idle worker does without libcurl's memory. */
TEST(nothing_runs_before_the_first_fetch)
{
        struct peers *peers;
        char detail[128];
        pthread_t first;
        size_t before;

        /* ThreadSanitizer has a thread of its own from the program's first one on. */
        assert_int_equal(pthread_create(&first, NULL, do_nothing, NULL), 0);
        assert_int_equal(pthread_join(first, NULL), 0);
        before = count_threads();
        peers = make_peers(NULL);
        assert_int_equal(count_threads(), before);
        assert_int_equal(
                peers_check_url(peers, "http://127.0.0.1:1/v1/operations/op_1/metadata", detail, sizeof(detail)), 0);
        assert_int_equal(count_threads(), before + 1);
}

/* ---- notices ---- */

struct told {
        struct bell calls;
        struct engine_connection answer;
};

static void on_told(void *context, const struct engine_connection *answer)
{
        struct told *told = context;

        told->answer = *answer;
        bell_ring(&told->calls);
}

/* A notice to a peer with this answer: the request goes to *ret_request, which may be NULL. */
static struct engine_connection notice_to(const char *answer, bool renews, const char **ret_request)
{
        struct told *told = test_keep(calloc(1, sizeof(*told)), free);
        struct answering_peer *peer = answering_peer_start(answer);
        struct engine_connect spec = { .notice = { .operation = 0xab, .transfer = 0xcd, .renews = renews },
                                       .context = told,
                                       .connected = on_told };
        char detail[256] = "";

        told->calls = BELL;
        memset(spec.notice.key, 1, sizeof(spec.notice.key));
        spec.notice.ttl_ms = renews ? 1500 : 0;
        spec.peer.url = text_format("http://127.0.0.1:%u/base", peer->port);
        assert_int_equal(peers_notice(make_peers(NULL), &spec, detail, sizeof(detail)), 0);
        bell_await(&told->calls, 1);
        assert_true(told->answer.error == 0 || told->answer.detail[0]);
        if (ret_request)
                *ret_request = text_format("%s", peer->request);
        return told->answer;
}

#define STATE(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body

TEST(a_notice_is_a_post_with_the_key)
{
        struct engine_connection answer;
        const char *request;

        answer = notice_to(STATE("{\"status\":\"CANCELLED\"}"), false, &request);
        assert_int_equal(answer.error, 0);
        assert_int_equal(answer.status, FERRY_CANCELLED);
        assert_int_equal(answer.left_ms, 0);
        assert_string_equal(answer.transport, "http");
        assert_non_null(strstr(request, "POST /base/v1/operations/op_00000000000000ab/decline HTTP/1.1\r\n"));
        assert_non_null(strstr(request, "\r\nAuthorization: Bearer AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\r\n"));
        assert_non_null(strstr(request, "\r\nFerry-Transfer: xfr_00000000000000cd\r\n"));
        answer = notice_to(STATE("{\"status\":\"INITIALIZED\",\"expires_at\":\"2999-01-01T00:00:00.000Z\"}"), true,
                           &request);
        assert_int_equal(answer.error, 0);
        assert_int_equal(answer.status, FERRY_INITIALIZED);
        assert_in_range(answer.left_ms, UINT64_C(30000000000000), UINT64_C(31000000000000));
        assert_non_null(strstr(request, "/renew HTTP/1.1\r\n"));
        assert_non_null(strstr(request, "{\"ttl_ms\":1500}"));
}

TEST(answers_to_a_notice_are_told_apart)
{
        static const struct {
                const char *answer;
                int error;
        } cases[] = {
                { "HTTP/1.1 401 No\r\n" EMPTY, FERRY_E_PEER_REFUSED },
                { "HTTP/1.1 403 No\r\n" EMPTY, FERRY_E_FORBIDDEN },
                { "HTTP/1.1 404 No\r\n" EMPTY, FERRY_E_STALE_METADATA },
                { "HTTP/1.1 409 No\r\n" EMPTY, FERRY_E_ALREADY_CLAIMED },
                { "HTTP/1.1 410 No\r\n" EMPTY, FERRY_E_GONE },
                { "HTTP/1.1 503 No\r\n" EMPTY, FERRY_E_DRAINING },
                { "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n" EMPTY, FERRY_E_TRANSFER_FAILED },
                { STATE(""), FERRY_E_INVALID_METADATA },
                { STATE("[]"), FERRY_E_INVALID_METADATA },
                { STATE("{}"), FERRY_E_INVALID_METADATA },
                { STATE("{\"status\":\"GREAT\"}"), FERRY_E_INVALID_METADATA },
                { STATE("{\"status\":5}"), FERRY_E_INVALID_METADATA },
                { "", FERRY_E_PEER_LOST },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++)
                assert_int_equal(notice_to(test_row(cases[i].answer), false, NULL).error, cases[i].error);
        /* A time that is none: the worker says so, and it does not matter. */
        assert_int_equal(notice_to(STATE("{\"status\":\"COMPLETE\",\"expires_at\":\"soon\"}"), true, NULL).error, 0);
}

TEST_GROUP(admit_loopback, forget_loopback)
