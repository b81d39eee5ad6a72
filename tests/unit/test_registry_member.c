/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "registry_internal.h"
#include "unit.h"

/* This worker's own name: each question, its answer, and the next step, on a clock that the test moves. */

#define KEY "L2ZlcnJ5L3dvcmtlcnMvYQ==" /* /ferry/workers/a */
#define VALUE "eyJuYW1lIjoiYSIsImVwb2NoIjoiMDAwMDAwMDAwMDAwMDBhYiIsImh0dHAiOiJodHRwOi8vMTkyLjAuMi4xOjkzMDAifQ=="
#define HOLDER "http://192.0.2.1:9300" /* of the value */

#define GRANT "/v3/lease/grant", "{\"TTL\":\"10\"}"
#define PUT                                                                                                            \
        "/v3/kv/txn", "\"create_revision\":\"0\"}],\"success\":[{\"request_put\":{\"key\":\"" KEY "\",\"value\":\"eyJ"
#define RENEW "/v3/lease/keepalive", "{\"ID\":\"7\"}"
#define REVOKE "/v3/lease/revoke", "{\"ID\":\"7\"}"

#define GRANTED "{\"header\":{},\"ID\":\"7\",\"TTL\":\"10\"}"
#define DONE "{\"header\":{},\"succeeded\":true}"
#define TAKEN(lease)                                                                                                   \
        "{\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"" KEY "\",\"value\":\"" VALUE "\",\"lease\":" lease  \
        "}]}}]}"
#define RENEWED "{\"result\":{\"ID\":\"7\",\"TTL\":\"10\"}}"
#define GONE "{\"result\":{\"ID\":\"7\"}}"
#define FAILS NULL
static const char silence[] = "", leave[] = "";

#define REGISTERING REGISTRY_REGISTERING
#define REGISTERED REGISTRY_REGISTERED
#define NAME_TAKEN REGISTRY_NAME_TAKEN
#define UNREACHABLE REGISTRY_UNREACHABLE
#define LEFT REGISTRY_LEFT

/* With a TTL of 10 s the worker renews after 3333 ms, and tries again after 833 ms, or more with other luck. */
static const struct story {
        const char *what;
        int joined;         /* the result of registry_join … */
        unsigned joined_ms; /* … and its time */
        uint64_t ttl_ms;    /* 0 = 10 s */
        struct {
                const char *path, *body; /* of the question; the path leave: the worker leaves, and asks nothing yet */
                unsigned after_ms;
                const char *answer;
                enum registry_status status; /* after the answer */
                unsigned times;              /* so many more of the same, each after a retry */
        } rows[8];                           /* when they end during registry_join, the last one for a path goes on */
} stories[] = {
        { .what = "a life",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, DONE, REGISTERED },
                    { RENEW, 3333, RENEWED, REGISTERED },
                    { RENEW, 3333, RENEWED, REGISTERED },
                    { leave },
                    { REVOKE, 0, "{}", LEFT } } },
        { .what = "etcd gives more time than the operator wants",
          .rows = { { GRANT, 0, "{\"ID\":\"7\",\"TTL\":\"86400\"}", REGISTERING },
                    { PUT, 0, DONE, REGISTERED },
                    { RENEW, 3333, RENEWED, REGISTERED } } },
        { .what = "etcd gives less time",
          .rows = { { GRANT, 0, "{\"ID\":7,\"TTL\":5}", REGISTERING },
                    { PUT, 0, DONE, REGISTERED },
                    { RENEW, 1666, RENEWED, REGISTERED } } },
        { .what = "the lease is lost",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, DONE, REGISTERED },
                    { RENEW, 3333, GONE, REGISTERING },
                    { GRANT, 0, "{\"ID\":\"8\",\"TTL\":\"10\"}", REGISTERING },
                    { "/v3/kv/txn", "\"lease\":\"8\"", 0, DONE, REGISTERED } } },
        { .what = "etcd is away longer than the lease lasts",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, DONE, REGISTERED },
                    { RENEW, 3333, FAILS, REGISTERED, 8 },
                    { RENEW, 833, "{\"result\":{\"ID\":\"8\",\"TTL\":\"10\"}}", UNREACHABLE },
                    { RENEW, 833, "{}", UNREACHABLE },
                    { RENEW, 833, "{\"result\":{\"ID\":\"7\",\"TTL\":\"86401\"}}", UNREACHABLE },
                    { RENEW, 833, RENEWED, REGISTERED } } },
        { .what = "etcd is away at first",
          .rows = { { GRANT, 0, FAILS, UNREACHABLE },
                    { GRANT, 833, GRANTED, UNREACHABLE },
                    { PUT, 0, DONE, REGISTERED } } },
        { .what = "etcd is away, and the worker leaves", .rows = { { GRANT, 0, FAILS, UNREACHABLE }, { leave } } },
        { .what = "etcd says nothing", .joined_ms = 5000, .rows = { { GRANT, 0, silence, REGISTERING } } },
        { .what = "etcd grants no lease",
          .rows = { { GRANT, 0, "{}", UNREACHABLE },
                    { GRANT, 833, "{\"ID\":\"-7\",\"TTL\":\"10\"}", UNREACHABLE },
                    { GRANT, 833, "{\"ID\":\"7\"}", UNREACHABLE },
                    { GRANT, 833, "{\"ID\":\"7\",\"TTL\":\"-1\"}", UNREACHABLE },
                    { GRANT, 833, "{\"ID\":\"7\",\"TTL\":\"86401\"}", UNREACHABLE },
                    { GRANT, 833, "{\"ID\":[7],\"TTL\":{}}", UNREACHABLE },
                    { GRANT, 833, GRANTED, UNREACHABLE } } },
        { .what = "etcd does not put the name: with the same lease again, while half of it is left",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, "{}", UNREACHABLE },
                    { PUT, 833, "{\"succeeded\":false,\"responses\":[]}", UNREACHABLE },
                    { PUT, 833, "{\"responses\":[{\"response_range\":{\"kvs\":[]}}]}", UNREACHABLE },
                    { PUT, 833, FAILS, UNREACHABLE, 3 },
                    { GRANT, 833, GRANTED, UNREACHABLE } } },
        { .what = "the answer to the put was lost",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, FAILS, UNREACHABLE },
                    { PUT, 833, TAKEN("\"7\""), REGISTERED } } },
        { .what = "the holder has died",
          .joined_ms = 2499,
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, TAKEN("\"8\""), NAME_TAKEN, 2 },
                    { PUT, 833, DONE, REGISTERED } } },
        { .what = "the holder lives",
          .joined = -EADDRINUSE,
          .joined_ms = 10000 + 1666 + 1500,
          .rows = { { GRANT, 0, GRANTED, REGISTERING }, { PUT, 0, TAKEN("\"8\""), NAME_TAKEN } } },
        { .what = "the key has no lease, and no worker",
          .joined = -EADDRINUSE,
          .joined_ms = 10000 + 1666 + 1500,
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, "{\"responses\":[{\"response_range\":{\"kvs\":[{}]}}]}", NAME_TAKEN } } },
        { .what = "the holder may live longer than a worker waits at its start",
          .ttl_ms = 60000,
          .joined_ms = 15000,
          .rows = { { "/v3/lease/grant", "\"60\"", 0, "{\"ID\":\"7\",\"TTL\":\"60\"}", REGISTERING },
                    { PUT, 0, TAKEN("\"8\""), NAME_TAKEN } } },
        { .what = "etcd fails while the name is taken",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, TAKEN("\"8\""), NAME_TAKEN },
                    { PUT, 833, FAILS, UNREACHABLE },
                    { PUT, 833, TAKEN("\"8\""), NAME_TAKEN },
                    { leave },
                    { REVOKE, 0, FAILS, LEFT } } },
        { .what = "the name is taken while the worker is cut off",
          .rows = { { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, DONE, REGISTERED },
                    { RENEW, 3333, GONE, REGISTERING },
                    { GRANT, 0, GRANTED, REGISTERING },
                    { PUT, 0, TAKEN("\"8\""), NAME_TAKEN, 6 },
                    { GRANT, 833, GRANTED, NAME_TAKEN },
                    { PUT, 0, DONE, REGISTERED } } },
};

/* ---- the etcd of a story ---- */

static const struct story *story;
static size_t row;
static unsigned times; /* that the row has been answered */
static struct registry *registry;
static uint64_t now_us, since_us;         /* of the clock, and of the last answer */
static struct registry_question question; /* that waits for its answer; path NULL = none */

uint64_t __wrap_clock_now_us(void);
uint64_t __wrap_clock_now_us(void)
{
        return now_us;
}

uint64_t __wrap_random_id(void);
uint64_t __wrap_random_id(void)
{
        return 0;
}

int __wrap_registry_ask(struct registry *asker, const struct registry_question *asked);
int __wrap_registry_ask(struct registry *asker, const struct registry_question *asked)
{
        assert_ptr_equal(asker, registry);
        assert_null(question.path);
        assert_non_null(asked->body);
        question = *asked;
        return 0;
}

/* Moves the clock to the next question. false: that comes after until, which it is now. */
static bool await_question(uint64_t until)
{
        while (!question.path) {
                uint64_t due = registry_member_run(registry, now_us);

                if (question.path)
                        break;
                if (due > until) {
                        now_us = until;
                        return false;
                }
                assert_true(due > now_us);
                now_us = due;
        }
        return true;
}

static void assert_status(enum registry_status status)
{
        struct registry_view view;

        registry_get_view(registry, &view);
        if (view.status != status)
                fail_msg("row %zu: %s", row, registry_status_name(view.status));
}

/* Answers a question as its row says. */
static void reply(size_t at)
{
        const char *text = story->rows[at].answer;
        struct json_object *answer = text ? registry_parse(text, strlen(text)) : NULL;
        const struct registry_question asked = question;

        assert_string_equal(asked.path, story->rows[at].path);
        if (!strstr(asked.body, story->rows[at].body))
                fail_msg("row %zu: %s", at, asked.body);
        free(asked.body);
        question.path = NULL;
        asked.called(asked.context, text ? 0 : FERRY_E_PEER_UNREACHABLE, "no answer", answer);
        (void)json_object_put(answer);
        since_us = now_us;
}

static void reply_in_turn(void)
{
        unsigned after_ms = times ? 833 : story->rows[row].after_ms;
        uint64_t waited_ms = (now_us - since_us) / 1000;

        if (waited_ms < after_ms || waited_ms > after_ms + 1)
                fail_msg("row %zu: after %llu ms", row, (unsigned long long)waited_ms);
        reply(row);
        assert_status(story->rows[row].status);
        if (times++ == story->rows[row].times) {
                row++;
                times = 0;
        }
}

/* During registry_join and registry_await_left. */
bool __wrap_condition_wait(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t until_us);
bool __wrap_condition_wait(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t until_us)
{
        size_t same = row;
        bool in_time = true;

        (void)changed;
        (void)pthread_mutex_unlock(lock);
        if (!await_question(until_us)) {
                in_time = false;
        } else if (story->rows[row].answer == silence) {
                now_us = until_us;
                in_time = false;
        } else if (row < UNIT_COUNT(story->rows) && story->rows[row].path) {
                reply_in_turn();
        } else {
                while (strcmp(story->rows[--same].path ?: "", question.path) != 0)
                        ;
                reply(same);
        }
        (void)pthread_mutex_lock(lock);
        return in_time;
}

/* The test is the thread. */
int __wrap_easy_thread_start(struct easy_thread *thread);
int __wrap_easy_thread_start(struct easy_thread *thread)
{
        (void)thread;
        return 0;
}

static void play(void)
{
        struct easy_thread *thread = easy_thread_new();
        const struct registry_config config = { .url = "etcd://h:1",
                                                .ttl_ms = story->ttl_ms ?: 10000,
                                                .thread = thread };
        const struct registry_entry self = { .name = "a", .epoch = 17 };
        char message[256] = "";

        assert_int_equal(registry_new(&config, &registry), 0);
        now_us = since_us = UINT64_C(1000000000);
        row = times = 0;
        question.path = NULL;
        assert_int_equal(registry_join(registry, &self, message, sizeof(message)), story->joined);
        if (story->joined_ms)
                assert_int_equal((now_us - UINT64_C(1000000000)) / 1000, story->joined_ms);
        assert_int_equal(strstr(message, "the name a is taken in the registry") != NULL, story->joined != 0);
        if (story->joined)
                assert_int_equal(strstr(message, HOLDER) != NULL, *registry->rival.name != '\0');
        while (row < UNIT_COUNT(story->rows) && story->rows[row].path && story->rows[row].answer != silence) {
                if (story->rows[row].path == leave) {
                        row++;
                        registry_leave(registry);
                        registry_await_left(registry, 1000);
                        assert_status(LEFT);
                } else {
                        assert_true(await_question(UINT64_MAX - 1));
                        reply_in_turn();
                }
        }
        if (question.path)
                free(question.body);
        registry = registry_free(registry);
        easy_thread_free(thread);
}

TEST(each_answer_has_its_next_step)
{
        log_set_level(LOG_ERROR);
        for (size_t i = 0; i < UNIT_COUNT(stories); i++) {
                story = &stories[i];
                (void)test_row(story->what);
                play();
        }
}

/* As long as any: the path of its URL fills the size of a URL. */
TEST(the_holder_of_a_name_is_read_however_long_its_value_is)
{
        struct registry_entry holder = { .name = "a", .epoch = 17, .http = "http://h:1/" }, read;
        struct json_object *pair;

        memset(holder.http + strlen(holder.http), 'x', sizeof(holder.http) - 1 - strlen(holder.http));
        memset(holder.version, '1', sizeof(holder.version) - 1);
        memset(holder.data, '9', sizeof(holder.data) - 1);
        char *value = registry_entry_encode(&holder), *base64 = ferry_base64_encode(value, strlen(value));
        const char *text = text_format("{\"key\":\"" KEY "\",\"value\":\"%s\"}", base64);
        pair = registry_parse(text, strlen(text));
        assert_true(registry_entry_read(pair, "/ferry/workers/", &read));
        assert_memory_equal(&read, &holder, sizeof(read));
        (void)json_object_put(pair);
        free(base64);
        free(value);
}
