/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#include "answering_peer.h"
#include "etcd.h"

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/allowlist.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "easy/thread.h"
#include "http_moved.h"
#include "peers_internal.h"
#include "registry_internal.h"

/* Texts; questions to an etcd that the test plays; and a real one. test_registry_member.c has this worker's own name.
 */

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

/* A pair of a key, below the default prefix, and a value. */
static bool is_entry(const char *name, const char *value, struct registry_entry *ret_entry)
{
        FERRY_CLEANUP(cleanup_free) char *key = ferry_base64_encode(name, strlen(name));
        FERRY_CLEANUP(cleanup_free) char *base64 = ferry_base64_encode(value, strlen(value));
        const char *text = text_format("{\"key\":\"%s\",\"value\":\"%s\"}", key, base64);
        struct json_object *pair = registry_parse(text, strlen(text));
        bool good = registry_entry_read(pair, "/w/", ret_entry);

        (void)json_object_put(pair);
        return good;
}

TEST(an_entry_survives_its_text)
{
        const struct registry_entry entry = { .name = "a", .epoch = 17, .version = "1", .http = "https://h:1" };
        struct registry_entry back = { 0 };
        char *text = registry_entry_encode(&entry);

        assert_non_null(text);
        assert_true(is_entry("/w/a", text, &back));
        assert_memory_equal(&back, &entry, sizeof(entry));
        FOR_EACH_TEXT (key, "/w/b", "/w/ab", "/w/", "/v/a", "a", "")
                assert_false(is_entry(key, text, &back));
        free(text);
}

TEST(an_entry_is_checked)
{
        static const char newer[] = "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"colour\":{\"red\":[1]}}";
        struct registry_entry entry;

        FOR_EACH_TEXT (text, "", "[]", "null", "{}", "{\"name\":\"a\"}", "{\"name\":\"a\",\"epoch\":17}",
                       "{\"epoch\":\"00000000000000ab\"}", "{\"name\":\"a\",\"epoch\":\"0000000000000000\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000AB\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"http\":5}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"http\":[\"http://h\"]}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"http\":\"http://a b\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\",\"data\":\"\\u0007\"}",
                       "{\"name\":\"a\",\"epoch\":\"00000000000000ab\"} x")
                assert_false(is_entry("/w/a", text, &entry));
        assert_true(is_entry("/w/a", newer, &entry));
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
        struct easy_thread *thread = easy_thread_new();
        const struct registry_config config = { .url = "etcd://127.0.0.1:1", .thread = thread };
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
        easy_thread_free(thread);
}

/* ---- a registry that says what it likes to every question ---- */

static struct allowlist *loopback;

struct member {
        struct answering_peer *etcd; /* that the test plays; NULL = the real one */
        struct easy_thread *thread;
        struct registry *registry;
        struct peers *peers;
};

/* As a process that is killed: nothing is revoked. */
static void member_release(void *object)
{
        struct member *member = object;

        (void)peers_free(member->peers);
        easy_thread_stop(member->thread);
        (void)registry_free(member->registry);
        (void)easy_thread_free(member->thread);
        test_release(member->etcd);
        free(member);
}

/* A worker with a registry. Until the end of the test. */
static struct member *member_new(struct answering_peer *etcd, struct registry_config config)
{
        struct member *member = calloc(1, sizeof(*member));

        assert_non_null(member);
        member->etcd = etcd;
        member->thread = config.thread = easy_thread_new();
        assert_non_null(member->thread);
        assert_int_equal(registry_new(&config, &member->registry), 0);
        const struct peers_config peers = { .easy.allowlist = loopback,
                                            .thread = member->thread,
                                            .registry = member->registry };
        assert_int_equal(peers_new(&peers, &member->peers), 0);
        return test_keep(member, member_release);
}

static struct member *member_at(struct answering_peer *etcd, const char *endpoints, const char *user)
{
        const struct registry_config config = { .url = endpoints, .ttl_ms = TTL_MS, .user = user };

        return member_new(etcd, config);
}

/* A worker whose registry gives that answer, NULL = none, and so many bytes more. Until the end of the test. */
static struct member *member_of(const char *answer, size_t fill)
{
        struct answering_peer *liar = answering_peer_new(answer);

        liar->fill = fill;
        return member_at(answering_peer_go(liar), text_format("etcd://127.0.0.1:%u", liar->port), NULL);
}

static int join(struct member *member, const char *name, uint64_t epoch)
{
        struct registry_entry self = { .epoch = epoch, .version = "1", .http = "http://127.0.0.1:9300" };
        char message[256];

        (void)snprintf(self.name, sizeof(self.name), "%s", name);
        return registry_join(member->registry, &self, message, sizeof(message));
}

static enum registry_status status_of(struct member *member)
{
        struct registry_view view;

        registry_get_view(member->registry, &view);
        return view.status;
}

enum { PAGE = 30, MEMBERS = 100 };

struct result {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
        int error;
        char detail[256];
        struct registry_page page;
        uint64_t epochs[PAGE];
};

static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct result *result = context;

        pthread_mutex_lock(&result->lock);
        result->done = true;
        result->error = error;
        (void)snprintf(result->detail, sizeof(result->detail), "%s", detail ?: "");
        if (page)
                result->page = *page;
        for (size_t i = 0; page && i < page->n; i++)
                result->epochs[i] = page->entries[i].epoch;
        pthread_cond_signal(&result->changed);
        pthread_mutex_unlock(&result->lock);
}

static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        on_found(context, error, detail, NULL);
        ferry_metadata_free(metadata);
}

static void result_await(struct result *result)
{
        pthread_mutex_lock(&result->lock);
        WAIT_SIGNAL(&result->changed, &result->lock, result->done);
        pthread_mutex_unlock(&result->lock);
}

static void find_begin(struct member *member, const struct registry_query *query, struct result *result)
{
        *result = (struct result){ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
        assert_int_equal(registry_find(member->registry, query, on_found, result), 0);
}

static void find(struct member *member, const struct registry_query *query, struct result *result)
{
        find_begin(member, query, result);
        result_await(result);
}

static const struct registry_query any = { .limit = 10 };

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
                struct member *member = member_of(lies[i].answer, lies[i].fill);
                const uint64_t began = clock_now_us();
                struct result result;

                (void)test_row(lies[i].what);
                find(member, &any, &result);
                assert_int_equal(result.error, lies[i].empty ? 0 : FERRY_E_PEER_UNREACHABLE);
                assert_int_equal(result.page.n, 0);
                if (!lies[i].empty && (!*result.detail || !strstr(result.detail, lies[i].detail ?: "")))
                        fail_msg("%s", result.detail);
                /* It starts nevertheless. */
                assert_int_equal(join(member, "a", 17), 0);
                assert_int_equal(status_of(member), REGISTRY_UNREACHABLE);
                assert_true(clock_now_us() - began < 10000 * 1000);
                test_release(member);
        }
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
                struct result result = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
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

static bool starts_later;

int __real_easy_thread_start(struct easy_thread *thread);
int __wrap_easy_thread_start(struct easy_thread *thread);
int __wrap_easy_thread_start(struct easy_thread *thread)
{
        return starts_later ? 0 : __real_easy_thread_start(thread);
}

/* The questions are under way at once, so that each finds the last endpoint dead, which the first follows. */
TEST(each_of_several_questions_reaches_the_endpoint_that_lives)
{
        struct answering_peer *dead = answering_peer_new(""), *lives = answering_peer_start(OK HEADER "}");
        struct member *member =
                member_at(lives, text_format("etcd://127.0.0.1:%u,127.0.0.1:%u", lives->port, dead->port), NULL);
        struct result results[5];

        test_release(dead); /* nobody listens at its port */
        member->registry->endpoint = 1;
        starts_later = true;
        for (size_t i = 0; i < UNIT_COUNT(results); i++)
                find_begin(member, &any, &results[i]);
        starts_later = false;
        assert_int_equal(registry_wake(member->registry), 0);
        for (size_t i = 0; i < UNIT_COUNT(results); i++) {
                result_await(&results[i]);
                assert_int_equal(results[i].error, 0);
        }
        assert_int_equal(member->registry->endpoint, 0); /* the next one is asked there */
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
                        member_at(liar, text_format("etcd://127.0.0.1:%u", liar->port), "name:password");

                liar->later = OK HEADER "}";
                (void)answering_peer_go(liar);
                find(member, &any, &result);
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
        struct member *member = member_at(peer, text_format("etcd://127.0.0.1:%u", peer->port), "name:password");
        struct result result;

        find_begin(member, &any, &result);
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

/* The wait of 50 s ends, and the list is asked for. */
TEST(a_watch_that_floods_or_fails_ends)
{
        const struct registry_query query = { .limit = 10, .wait_ms = 50000 };

        FOR_EACH_TEXT (start, OK, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n") {
                struct answering_peer *liar = answering_peer_new(start);
                struct result result;

                liar->fill = 1 << 20;
                liar->later = OK HEADER ",\"more\":false}";
                struct member *member =
                        member_at(answering_peer_go(liar), text_format("etcd://127.0.0.1:%u", liar->port), NULL);
                find(member, &query, &result);
                assert_int_equal(result.error, FERRY_E_PEER_UNREACHABLE); /* that answer is too long as well */
                assert_int_equal(atomic_load(&liar->requests), 2);
                test_release(member);
        }
}

TEST(what_is_asked_ends_with_the_worker)
{
        const struct registry_query query = { .limit = 10, .wait_ms = 50000 };
        struct member *member = member_of(NULL, 0);
        struct result results[2];

        find_begin(member, &query, &results[0]);
        find_begin(member, &any, &results[1]);
        member->peers = peers_free(member->peers);
        for (size_t i = 0; i < UNIT_COUNT(results); i++) {
                result_await(&results[i]);
                assert_int_equal(results[i].error, FERRY_E_CANCELLED);
        }
        assert_int_equal(registry_find(member->registry, &query, on_found, &results[0]), FERRY_E_CANCELLED);
}

/* ---- a real etcd ---- */

static struct etcd etcd;
static unsigned n_prefixes; /* of the test: what one that failed left behind is not in the way of the next */

#define NEEDS_ETCD()                                                                                                   \
        do {                                                                                                           \
                n_prefixes++;                                                                                          \
                if (!etcd.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

static struct member *etcd_member(const char *user, uint64_t ttl_ms)
{
        const struct registry_config config = {
                .url = etcd.url, .prefix = text_format("/test/%u", n_prefixes), .ttl_ms = ttl_ms, .user = user
        };

        return member_new(NULL, config);
}

/* A worker that is registered. */
static struct member *etcd_joined(const char *name, uint64_t epoch, const char *user, uint64_t ttl_ms)
{
        struct member *member = etcd_member(user, ttl_ms);

        assert_int_equal(join(member, name, epoch), 0);
        WAIT_UNTIL(status_of(member) == REGISTRY_REGISTERED);
        return member;
}

/* Until etcd, of a busy machine, answers in time. */
static void find_answered(struct member *member, const struct registry_query *query, struct result *result)
{
        WAIT_UNTIL((find(member, query, result), result->error != FERRY_E_PEER_UNREACHABLE));
        assert_int_equal(result->error, 0);
}

/* The epoch that a name has; 0 = it is not there. */
static uint64_t epoch_of(struct member *member, const char *name)
{
        const struct registry_query query = { .name = name };
        struct result result;

        find_answered(member, &query, &result);
        return result.page.n ? result.epochs[0] : 0;
}

TEST(the_value_has_no_secret_and_ends_with_the_worker)
{
        const char *answer;
        struct member *a;

        NEEDS_ETCD();
        a = etcd_joined("a", 17, NULL, 10 * TTL_MS);
        answer = etcd_ask(&etcd, "/v3/kv/range", "{\"key\":\"AA==\",\"range_end\":\"AA==\"}"); /* all keys */
        assert_null(strstr(strstr(answer, "\"value\"") + 1, "\"value\""));
        /* {"epoch":"0000000000000011","name":"a","version":"1","http":"http://127.0.0.1:9300"}: nothing more is ever
         * there */
        assert_non_null(strstr(answer,
                               "\"value\":\"eyJlcG9jaCI6IjAwMDAwMDAwMDAwMDAwMTEiLCJuYW1lIjoiYSIsInZlcnNpb24iOiIx"
                               "IiwiaHR0cCI6Imh0dHA6Ly8xMjcuMC4wLjE6OTMwMCJ9\""));
        registry_leave(a->registry);
        registry_await_left(a->registry, WAIT_MS);
        assert_int_equal(status_of(a), REGISTRY_LEFT);
        assert_int_equal(epoch_of(a, "a"), 0);
}

TEST(a_user_of_etcd_is_let_in_and_nobody_else)
{
        static const char *const strangers[] = { NULL, "root:wrong", "nobody:right" };
        struct result result;
        struct member *a, *b;

        NEEDS_ETCD();
        (void)etcd_ask(&etcd, "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"right\"}");
        (void)etcd_ask(&etcd, "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
        (void)etcd_ask(&etcd, "/v3/auth/enable", "{}");
        a = etcd_joined("a", 17, "root:right", TTL_MS);
        for (size_t i = 0; i < UNIT_COUNT(strangers); i++) {
                b = etcd_member(strangers[i], TTL_MS);
                assert_int_equal(join(b, "b", 18), 0);
                WAIT_UNTIL(status_of(b) == REGISTRY_UNREACHABLE);
                find(b, &any, &result);
                assert_int_not_equal(result.error, 0);
                assert_non_null(strstr(result.detail, "etcdserver: ")); /* in its own words */
                test_release(b);
        }
        etcd_start_again(&etcd, false); /* it has forgotten the tokens that it gave */
        WAIT_UNTIL(epoch_of(a, "a") == 17);
        etcd_start_again(&etcd, true);
}

/* Pages until the last one; each member is there once. */
static void assert_all_there(struct member *member)
{
        struct registry_query query = { .limit = PAGE };
        bool seen[MEMBERS] = { false };
        size_t n = 0, pages = 0;
        struct result result;

        do {
                find_answered(member, &query, &result);
                for (size_t i = 0; i < result.page.n; i++, n++) {
                        uint64_t number = result.epochs[i] - 1;

                        assert_true(number < MEMBERS && !seen[number]);
                        seen[number] = true;
                }
                query.after = result.page.cursor;
                pages++;
        } while (query.after);
        assert_int_equal(n, MEMBERS);
        assert_int_equal(pages, (MEMBERS + PAGE - 1) / PAGE);
}

TEST(a_hundred_workers_live_through_a_restart)
{
        struct member *members[MEMBERS];

        NEEDS_ETCD();
        for (size_t i = 0; i < MEMBERS; i++) /* a busy machine may take a while for so many */
                members[i] = etcd_joined(text_format("w%zu", i), i + 1, NULL, 3 * TTL_MS);
        assert_all_there(members[0]);
        etcd_start_again(&etcd, true);
        for (size_t i = 0; i < MEMBERS; i++)
                WAIT_UNTIL(epoch_of(members[i], text_format("w%zu", i)) == i + 1);
        assert_all_there(members[1]);
}

static int setup(void **state)
{
        (void)state;
        log_set_level(LOG_ERROR);
        if (etcd_is_here())
                etcd_start(&etcd, NULL);
        return allowlist_new(NULL, 0, false, &loopback);
}

static int teardown(void **state)
{
        (void)state;
        etcd_clean(&etcd);
        loopback = allowlist_free(loopback);
        return 0;
}

TEST_GROUP(setup, teardown)
