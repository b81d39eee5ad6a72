/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "unit.h"

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "etcd.h"
#include "peers/peers.h"
#include "peers/registry.h"

/* Names in a real etcd: what befalls workers, and what befalls etcd. A member is a registry with its peers' thread. */

enum { TTL_MS = 2000, MANY_TTL_MS = 6000, MEMBERS = 100, PAGE = 30 };

struct member {
        struct registry *registry;
        struct peers *peers;
};

static struct etcd etcd;
static uint64_t ttl_ms; /* of the test's members */
static char prefix[32]; /* of the test: what one that failed left behind is not in the way of the next */

static const char *user; /* of the test's members; NULL = none */

static void member_start_at(struct member *member, const char *url)
{
        const struct registry_config config = { .url = url, .prefix = prefix, .ttl_ms = ttl_ms, .user = user };

        assert_int_equal(registry_new(&config, &member->registry), 0);
        const struct peers_config peers = { .registry = member->registry };
        assert_int_equal(peers_new(&peers, &member->peers), 0);
}

static int member_join(struct member *member, const char *name, uint64_t epoch, char message[256])
{
        struct registry_entry self = { .epoch = epoch,
                                       .version = "1",
                                       .http = "http://127.0.0.1:9300",
                                       .data = "127.0.0.1:9400",
                                       .started_at = "2026-11-20T11:01:52.123Z" };

        (void)snprintf(self.name, sizeof(self.name), "%s", name);
        return registry_join(member->registry, &self, message, 256);
}

/* As a process that is killed: nothing is revoked. */
static void member_die(struct member *member)
{
        member->peers = peers_free(member->peers);
        member->registry = registry_free(member->registry);
}

static void member_leave(struct member *member)
{
        struct registry_view view;

        registry_leave(member->registry);
        registry_await_left(member->registry, WAIT_MS);
        registry_get_view(member->registry, &view);
        assert_int_equal(view.status, REGISTRY_LEFT);
        member_die(member);
}

static void await_status(struct member *member, enum registry_status status)
{
        struct registry_view view;

        WAIT_UNTIL_OR((registry_get_view(member->registry, &view), view.status == status), "%s, not %s",
                      registry_status_name(view.status), registry_status_name(status));
}

/* Until it is there: a worker whose registry is late, as on a busy machine, starts without it. */
static void member_start(struct member *member, const char *name, uint64_t epoch)
{
        char message[256] = "";

        member_start_at(member, etcd.url);
        if (member_join(member, name, epoch, message) != 0)
                fail_msg("%s: %s", name, message);
        await_status(member, REGISTRY_REGISTERED);
}

/* ---- looking up, as a call ---- */

struct found {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool done;
        int error;
        char detail[256];
        size_t n;
        uint64_t cursor, revision;
        struct registry_entry entries[MEMBERS];
};

static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct found *found = context;

        pthread_mutex_lock(&found->lock);
        found->done = true;
        found->error = error;
        (void)snprintf(found->detail, sizeof(found->detail), "%s", detail);
        if (page) {
                assert_true(page->n <= MEMBERS);
                memcpy(found->entries, page->entries, page->n * sizeof(page->entries[0]));
                found->n = page->n;
                found->cursor = page->cursor;
                found->revision = page->revision;
        }
        pthread_cond_signal(&found->changed);
        pthread_mutex_unlock(&found->lock);
}

static void find_begin(struct member *member, const struct registry_query *query, struct found *found)
{
        *found = (struct found){ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
        assert_int_equal(registry_find(member->registry, query, on_found, found), 0);
}

static void find_end(struct found *found)
{
        pthread_mutex_lock(&found->lock);
        WAIT_SIGNAL(&found->changed, &found->lock, found->done);
        pthread_mutex_unlock(&found->lock);
}

static void find(struct member *member, const struct registry_query *query, struct found *found)
{
        find_begin(member, query, found);
        find_end(found);
}

/* The same until the registry answers in time. */
static void find_answered(struct member *member, const struct registry_query *query, struct found *found)
{
        WAIT_UNTIL((find(member, query, found), found->error != FERRY_E_PEER_UNREACHABLE));
        assert_int_equal(found->error, 0);
}

/* The epoch that a name has; 0 = it is not there. */
static uint64_t epoch_of(struct member *member, const char *name)
{
        const struct registry_query query = { .name = name, .limit = 1 };
        struct found found;

        find_answered(member, &query, &found);
        return found.n ? found.entries[0].epoch : 0;
}

static void await_epoch(struct member *member, const char *name, uint64_t epoch)
{
        WAIT_UNTIL(epoch_of(member, name) == epoch);
}

/* ---- tests ---- */

static int setup(void **state)
{
        (void)state;
        log_set_level(LOG_ERROR);
        if (etcd_is_here())
                etcd_start(&etcd, NULL);
        return 0;
}

static int each_setup(void **state)
{
        static unsigned n;

        (void)state;
        ttl_ms = TTL_MS;
        user = NULL;
        (void)snprintf(prefix, sizeof(prefix), "/test/%u", n++);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        etcd_clean(&etcd);
        return 0;
}

#define NEEDS_ETCD()                                                                                                   \
        do {                                                                                                           \
                if (!etcd.pid)                                                                                         \
                        skip();                                                                                        \
        } while (0)

TEST_WITH(a_worker_is_found_by_its_name_until_it_leaves, each_setup, NULL)
{
        const struct registry_query query = { .name = "a", .limit = 1 };
        struct member a, b;
        struct found found;

        NEEDS_ETCD();
        member_start(&a, "a", 17);
        member_start(&b, "b", 18);
        find_answered(&b, &query, &found);
        assert_int_equal(found.n, 1);
        assert_string_equal(found.entries[0].name, "a");
        assert_int_equal(found.entries[0].epoch, 17);
        assert_string_equal(found.entries[0].version, "1");
        assert_string_equal(found.entries[0].http, "http://127.0.0.1:9300");
        assert_string_equal(found.entries[0].data, "127.0.0.1:9400");
        assert_string_equal(found.entries[0].started_at, "2026-11-20T11:01:52.123Z");
        member_leave(&a);
        assert_int_equal(epoch_of(&b, "a"), 0);
        member_leave(&b);
}

TEST_WITH(the_value_has_six_members_and_no_secret, each_setup, NULL)
{
        struct member a;
        const char *answer;

        NEEDS_ETCD();
        member_start(&a, "a", 17);
        answer = etcd_ask(&etcd, "/v3/kv/range", "{\"key\":\"AA==\",\"range_end\":\"AA==\"}"); /* all keys */
        assert_null(strstr(strstr(answer, "\"value\"") + 1, "\"value\""));
        /* base64 of the whole value: nothing more is ever there */
        assert_non_null(strstr(answer,
                               "\"value\":\"eyJuYW1lIjoiYSIsImVwb2NoIjoiMDAwMDAwMDAwMDAwMDAxMSIsInZlcnNpb24iOiIxI"
                               "iwiaHR0cCI6Imh0dHA6Ly8xMjcuMC4wLjE6OTMwMCIsImRhdGEiOiIxMjcuMC4wLjE6OTQwMCIsInN0YX"
                               "J0ZWRfYXQiOiIyMDI2LTExLTIwVDExOjAxOjUyLjEyM1oifQ==\""));
        member_leave(&a);
}

/* Whether another worker of the name is refused; false: it starts without the registry, which is late. */
static bool is_taken(const char *name, char message[256])
{
        struct registry_view view;
        struct member member;
        int r;

        member_start_at(&member, etcd.url);
        r = member_join(&member, name, 18, message);
        registry_get_view(member.registry, &view);
        assert_int_not_equal(view.status, REGISTRY_REGISTERED);
        member_die(&member);
        assert_true(r == 0 || r == -EADDRINUSE);
        return r == -EADDRINUSE;
}

TEST_WITH(a_second_living_worker_of_a_name_is_told_at_once, each_setup, NULL)
{
        struct member first;
        char message[256] = "";

        NEEDS_ETCD();
        member_start(&first, "a", 17);
        WAIT_UNTIL(is_taken("a", message));
        assert_non_null(strstr(message, "the name a is taken"));
        assert_non_null(strstr(message, "http://127.0.0.1:9300"));
        assert_int_equal(epoch_of(&first, "a"), 17);
        member_leave(&first);
}

TEST_WITH(the_name_of_a_dead_worker_is_free_within_the_ttl, each_setup, NULL)
{
        struct member first, second;
        uint64_t began;

        NEEDS_ETCD();
        member_start(&first, "a", 17);
        member_die(&first);
        began = clock_now_us();
        member_start(&second, "a", 18);
        assert_true(clock_now_us() - began < (TTL_MS + 8000) * 1000); /* on a busy machine */
        assert_int_equal(epoch_of(&second, "a"), 18);
        member_leave(&second);
}

TEST_WITH(a_lease_that_is_lost_is_made_anew, each_setup, NULL)
{
        struct member a;

        NEEDS_ETCD();
        member_start(&a, "a", 17);
        etcd_start_again(&etcd, true); /* it knows of no lease */
        await_epoch(&a, "a", 17);
        await_status(&a, REGISTRY_REGISTERED);
        member_leave(&a);
}

TEST_WITH(a_registry_that_is_killed_and_comes_back_changes_nothing, each_setup, NULL)
{
        struct member a;

        NEEDS_ETCD();
        member_start(&a, "a", 17);
        etcd_kill(&etcd);
        await_status(&a, REGISTRY_UNREACHABLE);
        etcd_start_again(&etcd, false);
        await_status(&a, REGISTRY_REGISTERED);
        assert_int_equal(epoch_of(&a, "a"), 17);
        member_leave(&a);
}

TEST_WITH(a_worker_cut_off_longer_than_its_lease_comes_back, each_setup, NULL)
{
        struct member a;

        NEEDS_ETCD();
        member_start(&a, "a", 17);
        etcd_pause(&etcd);
        await_status(&a, REGISTRY_UNREACHABLE);
        etcd_resume(&etcd);
        await_status(&a, REGISTRY_REGISTERED);
        await_epoch(&a, "a", 17);
        member_leave(&a);
}

TEST_WITH(a_lookup_ends_although_the_registry_says_nothing, each_setup, NULL)
{
        const struct registry_query query = { .name = "a", .limit = 1 };
        struct member a;
        struct found found;

        NEEDS_ETCD();
        member_start_at(&a, etcd.url);
        etcd_pause(&etcd);
        find(&a, &query, &found);
        assert_int_equal(found.error, FERRY_E_PEER_UNREACHABLE);
        assert_true(*found.detail);
        etcd_resume(&etcd);
        member_die(&a);
}

TEST_WITH(a_worker_that_starts_without_its_registry_joins_it_later, each_setup, NULL)
{
        struct member a;
        char message[256] = "";
        uint64_t began = clock_now_us();

        NEEDS_ETCD();
        etcd_kill(&etcd);
        member_start_at(&a, etcd.url);
        assert_int_equal(member_join(&a, "a", 17, message), 0);
        assert_true(clock_now_us() - began < WAIT_MS / 2 * 1000);
        etcd_start_again(&etcd, false);
        await_status(&a, REGISTRY_REGISTERED);
        member_leave(&a);
}

TEST_WITH(the_next_endpoint_is_asked_when_one_fails, each_setup, NULL)
{
        struct member members[4];
        char name[8], message[256] = "";

        NEEDS_ETCD();
        const char *url = text_format("etcd://127.0.0.1:1,127.0.0.1:2,127.0.0.1:%d", etcd.port);
        for (size_t i = 0; i < UNIT_COUNT(members); i++) { /* they begin with any of them */
                (void)snprintf(name, sizeof(name), "m%zu", i);
                member_start_at(&members[i], url);
                assert_int_equal(member_join(&members[i], name, 17 + i, message), 0);
                await_status(&members[i], REGISTRY_REGISTERED);
        }
        for (size_t i = 0; i < UNIT_COUNT(members); i++)
                member_leave(&members[i]);
}

TEST_WITH(a_user_of_etcd_is_let_in_and_nobody_else, each_setup, NULL)
{
        static const char *const strangers[] = { NULL, "root:wrong", "nobody:right" };
        const struct registry_query query = { .name = "a", .limit = 1 };
        struct found *found;
        char message[256] = "";
        struct member a, b;

        NEEDS_ETCD();
        found = calloc(1, sizeof(*found));
        assert_non_null(found);
        (void)etcd_ask(&etcd, "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"right\"}");
        (void)etcd_ask(&etcd, "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
        (void)etcd_ask(&etcd, "/v3/auth/enable", "{}");
        user = "root:right";
        member_start(&a, "a", 17);
        for (size_t i = 0; i < UNIT_COUNT(strangers); i++) {
                user = strangers[i];
                member_start_at(&b, etcd.url);
                assert_int_equal(member_join(&b, "b", 18, message), 0);
                await_status(&b, REGISTRY_UNREACHABLE);
                find(&b, &query, found);
                assert_int_not_equal(found->error, 0);
                assert_non_null(strstr(found->detail, "etcdserver: ")); /* in its own words */
                member_die(&b);
        }
        etcd_start_again(&etcd, false); /* it has forgotten the tokens that it gave */
        await_epoch(&a, "a", 17);
        member_leave(&a);
        etcd_start_again(&etcd, true);
        free(found);
}

TEST_WITH(a_watch_ends_with_the_next_change, each_setup, NULL)
{
        const struct registry_query now = { .limit = MEMBERS };
        struct registry_query next = { .limit = MEMBERS, .wait_ms = WAIT_MS };
        struct found *found;
        struct member a, b;
        uint64_t began;

        NEEDS_ETCD();
        found = calloc(1, sizeof(*found));
        assert_non_null(found);
        member_start(&a, "a", 17);
        find_answered(&a, &now, found);
        assert_int_equal(found->n, 1);
        next.revision = found->revision;
        find_begin(&a, &next, found);
        began = clock_now_us();
        member_start(&b, "b", 18);
        find_end(found);
        assert_true(clock_now_us() - began < WAIT_MS / 2 * 1000);
        assert_int_equal(found->error, 0);
        assert_int_equal(found->n, 2);
        assert_true(found->revision > next.revision);

        /* Nothing happens: the time ends it. */
        next.revision = found->revision;
        next.wait_ms = 50;
        find_answered(&a, &next, found);
        assert_int_equal(found->n, 2);
        member_leave(&b);
        member_leave(&a);
        free(found);
}

/* Pages until the last one; asserts that each member is there once. */
static void assert_all_there(struct member *member, struct found *found)
{
        struct registry_query query = { .limit = PAGE };
        bool seen[MEMBERS] = { false };
        size_t n = 0, pages = 0;

        do {
                find_answered(member, &query, found);
                for (size_t i = 0; i < found->n; i++) {
                        size_t number = (size_t)found->entries[i].epoch - 1;

                        assert_true(number < MEMBERS && !seen[number]);
                        seen[number] = true;
                        n++;
                }
                query.after = found->cursor;
                pages++;
        } while (found->cursor);
        assert_int_equal(n, MEMBERS);
        assert_int_equal(pages, (MEMBERS + PAGE - 1) / PAGE);
}

TEST_WITH(a_hundred_workers_live_through_a_restart, each_setup, NULL)
{
        struct member *members;
        struct found *found;
        char name[16];

        NEEDS_ETCD();
        members = calloc(MEMBERS, sizeof(*members));
        found = calloc(1, sizeof(*found));
        assert_true(members && found);
        ttl_ms = MANY_TTL_MS; /* a busy machine may take a while for so many */
        for (size_t i = 0; i < MEMBERS; i++) {
                (void)snprintf(name, sizeof(name), "w%zu", i);
                member_start(&members[i], name, i + 1);
        }
        assert_all_there(&members[0], found);
        etcd_start_again(&etcd, true);
        for (size_t i = 0; i < MEMBERS; i++) {
                (void)snprintf(name, sizeof(name), "w%zu", i);
                await_epoch(&members[i], name, i + 1);
        }
        assert_all_there(&members[1], found);
        for (size_t i = 0; i < MEMBERS; i++)
                registry_leave(members[i].registry);
        for (size_t i = 0; i < MEMBERS; i++)
                member_leave(&members[i]);
        free(members);
        free(found);
}

TEST_GROUP(setup, teardown)
