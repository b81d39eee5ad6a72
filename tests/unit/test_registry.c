/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#include "answering_peer.h"

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

#include "base/allowlist.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "http_moved.h"
#include "name_url.h"
#include "registry_internal.h"

/* Without a registry: what is said to one, and one that lies. tests/unit/test_registry_etcd.c has a real one. */

enum { TTL_MS = 2000 };

/* ---- texts ---- */

TEST(endpoints_have_a_scheme_a_host_and_a_port)
{
        FOR_EACH_TEXT (text, "etcd://h:2379", "http://127.0.0.1:2379", "https://[::1]:2379", "etcd://a:1,b:2,c:3",
                       "https://a:1,http://b:2", "http://etcd.svc.local:2379/", "etcd://a:1/,etcd://b:2/")
                if (!registry_url_is_valid(text))
                        fail_msg("%s", text);
        FOR_EACH_TEXT (item, "", "h:2379", "etcd://", "etcd://h", "etcd://:2379", "consul://h:8500", "etcd://h:1,",
                       "etcd://h:1,,h:2", "http://u:p@h:1", "http://h:1/path", "etcd://h:123456", "etcd://h:1 ",
                       "etcd://h:x", "etcd://a\"b:1")
                if (registry_url_is_valid(item))
                        fail_msg("%s", item);
}

TEST(a_prefix_is_visible_text)
{
        char longest[REGISTRY_PREFIX_MAX + 2];

        assert_true(registry_prefix_is_valid("/ferry/workers/"));
        assert_true(registry_prefix_is_valid("x"));
        assert_false(registry_prefix_is_valid(""));
        assert_false(registry_prefix_is_valid("a b"));
        assert_false(registry_prefix_is_valid("a\"b"));
        assert_false(registry_prefix_is_valid("\x80"));
        memset(longest, 'x', sizeof(longest));
        longest[REGISTRY_PREFIX_MAX] = '\0';
        assert_true(registry_prefix_is_valid(longest));
        longest[REGISTRY_PREFIX_MAX] = 'x';
        longest[REGISTRY_PREFIX_MAX + 1] = '\0';
        assert_false(registry_prefix_is_valid(longest));
}

TEST(an_entry_survives_its_text)
{
        const struct registry_entry entry = { .name = "a", .epoch = 17, .version = "1", .http = "https://h:1" };
        struct registry_entry back = { 0 };
        char *text = registry_entry_encode(&entry);

        assert_non_null(text);
        assert_int_equal(registry_entry_decode(text, strlen(text), "a", &back), 0);
        assert_memory_equal(&back, &entry, sizeof(entry));
        assert_int_equal(registry_entry_decode(text, strlen(text), "b", &back), FERRY_E_INVALID_METADATA);
        free(text);
}

TEST(an_entry_is_checked)
{
        static const char newer[] = "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"colour\":{\"red\":[1]}}";
        struct registry_entry entry;

        FOR_EACH_TEXT (text, "", "[]", "null", "{}", "{\"name\":\"a\"}", "{\"name\":\"a\",\"epoch\":17}",
                       "{\"name\":\"a\",\"epoch\":\"0000000000000000\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000AB\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"http\":5}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"http\":[\"http://h\"]}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"http\":\"http://a b\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"data\":\"\\u0007\"}",
                       "{\"name\":\"a\",\"name\":\"a\",\"epoch\":\"00000000000000ab\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\"} x")
                if (registry_entry_decode(text, strlen(text), "a", &entry) != FERRY_E_INVALID_METADATA)
                        fail_msg("%s", text);
        assert_int_equal(registry_entry_decode(newer, strlen(newer), "a", &entry), 0);
        assert_int_equal(entry.epoch, 0xab);
}

TEST(names_in_urls_are_checked)
{
        static const struct {
                const char *url;
                bool worker, good;
        } cases[] = {
                { "ferry://a", true, true },
                { "ferry://a/", true, true },
                { "ferry://a/op_0123456789abcdef", true, false },
                { "ferry://a/op_0123456789abcdef", false, true },
                { "ferry://a.b-c_9/v1/operations/op_0123456789abcdef/metadata", false, true },
                { "ferry://a/op_0123456789abcdef/metadata", false, false },
                { "ferry://a/v1/operations/op_0123456789abcdef", false, false },
                { "ferry://a/v1/operations/op_0123456789abcdef/content", false, false },
                { "ferry://a/../v1/operations/op_0123456789abcdef/metadata", false, false },
                { "ferry://a/op_0", false, false },
                { "ferry://a/op_0000000000000000", false, false },
                { "ferry://a/rgn_0123456789abcdef", false, false },
                { "ferry://a:80/op_0123456789abcdef", false, false },
                { "ferry://u@a/op_0123456789abcdef", false, false },
                { "ferry:///op_0123456789abcdef", false, false },
                { "ferry://", true, false },
                { "ferry://a?x", true, false },
                { "ferry://"
                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                  true, false },
        };
        /* Never asked here. */
        const struct registry_config config = { .url = "etcd://127.0.0.1:1" };
        struct registry *registry;
        char detail[256];

        assert_int_equal(registry_new(&config, &registry), 0);
        for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
                int error = name_url_check(registry, cases[i].url, cases[i].worker, detail, sizeof(detail));

                if (error != (cases[i].good ? 0 : FERRY_E_INVALID_PARAMETER))
                        fail_msg("%s: %d", cases[i].url, error);
        }
        assert_int_equal(name_url_check(NULL, "ferry://a", true, detail, sizeof(detail)), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(detail, "--registry"));
        registry = registry_free(registry);
}

/* ---- a registry that says what it likes to every question ---- */

static struct allowlist *loopback;

struct member {
        struct answering_peer *liar;
        struct registry *registry;
        struct peers *peers;
};

static void member_release(void *object)
{
        struct member *member = object;

        (void)peers_free(member->peers);
        (void)registry_free(member->registry);
        test_release(member->liar);
        free(member);
}

/* A worker whose registry is that peer, at the endpoints. Until the end of the test. */
static struct member *member_new(struct answering_peer *liar, const char *endpoints, const char *user)
{
        const struct registry_config config = { .url = endpoints, .ttl_ms = TTL_MS, .user = user };
        struct member *member = calloc(1, sizeof(*member));

        assert_non_null(member);
        member->liar = liar;
        assert_int_equal(registry_new(&config, &member->registry), 0);
        const struct peers_config peers = { .allowlist = loopback, .registry = member->registry };
        assert_int_equal(peers_new(&peers, &member->peers), 0);
        return test_keep(member, member_release);
}

/* A worker whose registry gives that answer, NULL = none, and so many bytes more. Until the end of the test. */
static struct member *member_of(const char *answer, size_t fill)
{
        struct answering_peer *liar = answering_peer_new(answer);

        liar->fill = fill;
        return member_new(answering_peer_go(liar), text_format("etcd://127.0.0.1:%u", liar->port), NULL);
}

struct result {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
        int error;
        char detail[256];
        size_t n;
};

static void result_set(struct result *result, int error, const char *detail, size_t n)
{
        pthread_mutex_lock(&result->lock);
        result->done = true;
        result->error = error;
        result->n = n;
        (void)snprintf(result->detail, sizeof(result->detail), "%s", detail ?: "");
        pthread_cond_signal(&result->changed);
        pthread_mutex_unlock(&result->lock);
}

static void result_await(struct result *result)
{
        pthread_mutex_lock(&result->lock);
        WAIT_SIGNAL(&result->changed, &result->lock, result->done);
        pthread_mutex_unlock(&result->lock);
}

static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        result_set(context, error, detail, page ? page->n : 0);
}

static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        result_set(context, error, detail, 0);
        ferry_metadata_free(metadata);
}

#define OK "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define HEADER "{\"header\":{\"revision\":\"5\"}"
/* {"name":"a","epoch":"00000000000000ab","http":"…"} under /ferry/workers/a */
#define PAIR(value) "{\"key\":\"L2ZlcnJ5L3dvcmtlcnMvYQ==\",\"create_revision\":\"2\",\"value\":\"" value "\"}"
#define AT_OUTSIDE "eyJuYW1lIjoiYSIsImVwb2NoIjoiMDAwMDAwMDAwMDAwMDBhYiIsImh0dHAiOiJodHRwOi8vMTkyLjAuMi4xOjkzMDAifQ=="
#define AT_FERRY "eyJuYW1lIjoiYSIsImVwb2NoIjoiMDAwMDAwMDAwMDAwMDBhYiIsImh0dHAiOiJmZXJyeTovL2EifQ=="

static const struct lie {
        const char *what, *answer;
        size_t fill;
        bool empty; /* what it says is right, but there is no worker in it */
        const char *detail;
} lies[] = {
        { "nothing", NULL, 0, false },
        { "the end", "", 0, false },
        { "no HTTP", "SSH-2.0-OpenSSH\r\n", 0, false },
        { "HTML", OK "<html></html>", 0, false },
        { "no JSON", OK "{\"header\":", 0, false },
        { "a list", OK "[]", 0, false },
        { "an empty object", OK "{}", 0, false },
        { "too much", OK, 16 << 20, false, "too large" },
        { "endless headers", "HTTP/1.1 200 OK\r\nX: ", 1 << 20, false },
        { "a redirect", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\n\r\n", 0, false },
        { "a fault", "HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n{\"error\":\"x\"}", 0, false },
        { "a revision that is none", OK "{\"header\":{\"revision\":\"-5\"}}", 0, false },
        { "a list that is none", OK HEADER ",\"kvs\":\"x\"}", 0, false },
        { "pairs that are none", OK HEADER ",\"kvs\":[1,null,\"x\",[],{}]}", 0, true },
        { "a value that is no base64", OK HEADER ",\"kvs\":[" PAIR("%%%") "]}", 0, true },
        { "a value that is no worker", OK HEADER ",\"kvs\":[" PAIR("aGVsbG8=") "]}", 0, true },
        { "a key of another prefix",
          OK HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\",\"value\":\"" AT_OUTSIDE "\"}]}", 0, true },
};

TEST(what_a_registry_says_is_not_believed)
{
        for (size_t i = 0; i < UNIT_COUNT(lies); i++) {
                const struct registry_query query = { .limit = 10 };
                struct result result = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, "", 0 };
                struct member *member = member_of(lies[i].answer, lies[i].fill);
                const uint64_t began = clock_now_us();

                assert_int_equal(registry_find(member->registry, &query, on_found, &result), 0);
                result_await(&result);
                if (result.error != (lies[i].empty ? 0 : FERRY_E_PEER_UNREACHABLE) || result.n != 0)
                        fail_msg("%s: %d %s, %zu", lies[i].what, result.error, result.detail, result.n);
                if (!lies[i].empty && (!*result.detail || !strstr(result.detail, lies[i].detail ?: "")))
                        fail_msg("%s: %s", lies[i].what, result.detail);
                if (clock_now_us() - began > 10000 * 1000)
                        fail_msg("%s: it took too long", lies[i].what);
                test_release(member);
        }
}

TEST(a_worker_starts_whatever_its_registry_says)
{
        static const struct registry_entry self = { .name = "a", .epoch = 17 };

        for (size_t i = 0; i < UNIT_COUNT(lies); i++) {
                struct member *member = member_of(lies[i].answer, lies[i].fill);
                const uint64_t began = clock_now_us();
                struct registry_view view;
                char message[256];

                if (registry_join(member->registry, &self, message, sizeof(message)) != 0)
                        fail_msg("%s: %s", lies[i].what, message);
                if (clock_now_us() - began > 10000 * 1000)
                        fail_msg("%s: it took too long", lies[i].what);
                registry_get_view(member->registry, &view);
                if (view.status != REGISTRY_UNREACHABLE)
                        fail_msg("%s: %s", lies[i].what, registry_status_name(view.status));
                test_release(member);
        }
}

/* A day, says the registry; the name would be lost until then if that were not true. */
TEST(a_lease_is_renewed_as_often_as_the_operator_wants)
{
        static const struct registry_entry self = { .name = "a", .epoch = 17 };
        struct member *member = member_of(OK "{\"ID\":\"7\",\"TTL\":\"86400\"}", 0);
        char message[256];

        member->liar->later = OK HEADER ",\"succeeded\":true,\"result\":{\"ID\":\"7\",\"TTL\":\"86400\"}}";
        assert_int_equal(registry_join(member->registry, &self, message, sizeof(message)), 0);
        WAIT_UNTIL(atomic_load(&member->liar->requests) > 2);
}

TEST(an_address_that_the_registry_says_is_checked_as_any)
{
        static const struct {
                const char *answer, *detail;
                int error;
        } cases[] = {
                { OK HEADER ",\"kvs\":[" PAIR(AT_OUTSIDE) "]}", "--allow-peer", FERRY_E_FORBIDDEN },
                { OK HEADER ",\"kvs\":[" PAIR(AT_FERRY) "]}", "no HTTP address", FERRY_E_PEER_UNREACHABLE },
                { OK HEADER "}", "no worker named a", FERRY_E_PEER_UNREACHABLE },
                { OK HEADER ",\"kvs\":[" PAIR("aGVsbG8=") "]}", "value for the name a is not a worker's",
                  FERRY_E_PEER_UNREACHABLE },
                { "HTTP/1.1 401 No\r\nConnection: close\r\n\r\n", "the registry cannot be asked",
                  FERRY_E_PEER_UNREACHABLE },
        };

        for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
                struct result result = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, "", 0 };
                struct member *member = member_of(cases[i].answer, 0);
                char detail[256];

                assert_int_equal(peers_fetch_metadata(member->peers, "ferry://a/op_0123456789abcdef", on_fetched, NULL,
                                                      &result, detail, sizeof(detail)),
                                 0);
                result_await(&result);
                assert_int_equal(result.error, cases[i].error);
                if (!strstr(result.detail, cases[i].detail))
                        fail_msg("%s", result.detail);
                test_release(member);
        }
}

static int wake_later(void *context)
{
        (void)context;
        return 0;
}

/* The questions are under way at once, so that each finds the first endpoint dead. */
TEST(each_of_several_questions_reaches_the_endpoint_that_lives)
{
        enum { QUESTIONS = 5 };
        const struct registry_query query = { .limit = 10 };
        struct answering_peer *dead = answering_peer_new(""), *lives = answering_peer_start(OK HEADER "}");
        struct member *member =
                member_new(lives, text_format("etcd://127.0.0.1:%u,127.0.0.1:%u", dead->port, lives->port), NULL);
        struct result results[QUESTIONS];
        int (*wake)(void *context);

        test_release(dead); /* nobody listens at its port */
        member->registry->endpoint = 0;
        wake = member->registry->wake;
        member->registry->wake = wake_later;
        for (size_t i = 0; i < QUESTIONS; i++) {
                results[i] = (struct result){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, "", 0 };
                assert_int_equal(registry_find(member->registry, &query, on_found, &results[i]), 0);
        }
        member->registry->wake = wake;
        assert_int_equal(wake(member->registry->wake_context), 0);
        for (size_t i = 0; i < QUESTIONS; i++) {
                result_await(&results[i]);
                if (results[i].error)
                        fail_msg("question %zu: %s", i, results[i].detail);
        }
        assert_int_equal(member->registry->endpoint, 1); /* the next one is asked there */
}

static void ask(struct member *member, struct result *result)
{
        const struct registry_query query = { .limit = 10 };

        *result = (struct result){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, "", 0 };
        assert_int_equal(registry_find(member->registry, &query, on_found, result), 0);
}

TEST(the_first_endpoint_follows_the_last)
{
        struct answering_peer *dead = answering_peer_new(""), *lives = answering_peer_start(OK HEADER "}");
        struct member *member =
                member_new(lives, text_format("etcd://127.0.0.1:%u,127.0.0.1:%u", lives->port, dead->port), NULL);
        struct result result;

        test_release(dead);
        member->registry->endpoint = 1;
        ask(member, &result);
        result_await(&result);
        assert_int_equal(result.error, 0);
}

/* ---- a registry that wants to know who asks ---- */

#define TOKEN(text) OK "{\"token\":" text "}"

TEST(a_token_that_cannot_be_sent_is_not_taken)
{
        const struct {
                const char *answer;
                bool good;
        } rows[] = {
                { TOKEN("\"abc.7\""), true },
                { text_format(TOKEN("\"%0*d\""), REGISTRY_TOKEN_SIZE - 1, 1), true },
                { text_format(TOKEN("\"%0*d\""), REGISTRY_TOKEN_SIZE, 1), false },
                { TOKEN("\"abc\\r\\nX-Other: 1\""), false },
                { TOKEN("\"\""), false },
                { TOKEN("7"), false },
                { OK "{}", false },
        };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct answering_peer *liar = answering_peer_new(test_row(rows[i].answer));
                struct result result;
                struct member *member =
                        member_new(liar, text_format("etcd://127.0.0.1:%u", liar->port), "name:password");

                liar->later = OK HEADER "}";
                (void)answering_peer_go(liar);
                ask(member, &result);
                result_await(&result);
                assert_int_equal(result.error, rows[i].good ? 0 : FERRY_E_PEER_UNREACHABLE);
                assert_int_equal(atomic_load(&liar->requests), rows[i].good ? 2 : 1);
                test_release(member);
        }
}

/* Every token is good, and none is: the answers to a question, and to the same one with a new token. */
TEST(a_token_is_renewed_once_for_a_question)
{
        static const char refused[] = "HTTP/1.1 401 No\r\nConnection: close\r\n\r\n";
        const char *const answers[] = { TOKEN("\"a\""), refused, TOKEN("\"b\""), refused };
        struct answering_peer *peer = answering_peer_new(NULL);
        struct member *member = member_new(peer, text_format("etcd://127.0.0.1:%u", peer->port), "name:password");
        struct result result;

        ask(member, &result);
        for (size_t i = 0; i < UNIT_COUNT(answers); i++) {
                int fd = accept(peer->fd, NULL, NULL);
                char request[REQUEST_SIZE];

                take_whole(fd, request);
                assert_int_equal(strstr(request, "\r\nAuthorization: ") != NULL, i % 2);
                assert_int_equal(strstr(request, "/v3/auth/authenticate") != NULL, !(i % 2));
                answer(fd, answers[i]);
                (void)close(fd);
        }
        result_await(&result);
        assert_int_equal(result.error, FERRY_E_PEER_REFUSED);
}

TEST(what_is_asked_ends_with_the_worker)
{
        const struct registry_query query = { .limit = 10, .wait_ms = 50000 };
        struct result result = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, "", 0 };
        struct member *member = member_of(NULL, 0);

        assert_int_equal(registry_find(member->registry, &query, on_found, &result), 0);
        member->peers = peers_free(member->peers);
        result_await(&result);
        assert_int_equal(result.error, FERRY_E_CANCELLED);
        assert_int_equal(registry_find(member->registry, &query, on_found, &result), FERRY_E_CANCELLED);
}

static int setup(void **state)
{
        (void)state;
        log_set_level(LOG_ERROR);
        return allowlist_new(NULL, 0, false, &loopback);
}

static int teardown(void **state)
{
        (void)state;
        loopback = allowlist_free(loopback);
        return 0;
}

TEST_GROUP(setup, teardown)

/* A URL as long as any: the answer of etcd is longer than the lists that the JSON tree of the whole holds. */
TEST(the_holder_of_a_name_is_read_however_long_its_value_is)
{
        struct registry_entry holder = { .name = "a", .epoch = 17, .http = "http://h:1/" };
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;
        struct etcd_put put;

        memset(holder.http + strlen(holder.http), 'x', sizeof(holder.http) - 1 - strlen(holder.http));
        memset(holder.version, '1', sizeof(holder.version) - 1);
        memset(holder.data, '9', sizeof(holder.data) - 1);
        char *value = registry_entry_encode(&holder), *base64 = ferry_base64_encode(value, strlen(value));
        const char *text = text_format("{\"header\":{},\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"cC9h\","
                                       "\"lease\":\"7\",\"value\":\"%s\"}]}}]}",
                                       base64);
        assert_int_equal(ferry_json_parse(text, strlen(text), NULL, &json, &errors), 0);
        assert_true(etcd_read_put(ferry_json_root(json), "p/", &put));
        assert_false(put.put);
        assert_int_equal(put.lease, 7);
        assert_string_equal(put.holder.http, holder.http);
        (void)ferry_json_free(json);
        free(base64);
        free(value);
}
