/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "base/clock.h"
#include "registry_member.h"

/* Looking names up in a real etcd: who may, how long it takes, pages and waits. */

enum { MANY_TTL_MS = 6000, PAGE = 30 };

WITH_ETCD(a_lookup_ends_although_the_registry_says_nothing)
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

WITH_ETCD(a_user_of_etcd_is_let_in_and_nobody_else)
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
        member_user = "root:right";
        member_start(&a, "a", 17);
        for (size_t i = 0; i < UNIT_COUNT(strangers); i++) {
                member_user = strangers[i];
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

WITH_ETCD(a_watch_ends_with_the_next_change)
{
        const struct registry_query now = { .limit = MEMBERS_MAX };
        struct registry_query next = { .limit = MEMBERS_MAX, .wait_ms = WAIT_MS };
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
        bool seen[MEMBERS_MAX] = { false };
        size_t n = 0, pages = 0;

        do {
                find_answered(member, &query, found);
                for (size_t i = 0; i < found->n; i++) {
                        size_t number = (size_t)found->entries[i].epoch - 1;

                        assert_true(number < MEMBERS_MAX && !seen[number]);
                        seen[number] = true;
                        n++;
                }
                query.after = found->cursor;
                pages++;
        } while (found->cursor);
        assert_int_equal(n, MEMBERS_MAX);
        assert_int_equal(pages, (MEMBERS_MAX + PAGE - 1) / PAGE);
}

WITH_ETCD(a_hundred_workers_live_through_a_restart)
{
        struct member *members;
        struct found *found;
        char name[16];

        NEEDS_ETCD();
        members = calloc(MEMBERS_MAX, sizeof(*members));
        found = calloc(1, sizeof(*found));
        assert_true(members && found);
        member_ttl_ms = MANY_TTL_MS; /* a busy machine may take a while for so many */
        for (size_t i = 0; i < MEMBERS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "w%zu", i);
                member_start(&members[i], name, i + 1);
        }
        assert_all_there(&members[0], found);
        etcd_start_again(&etcd, true);
        for (size_t i = 0; i < MEMBERS_MAX; i++) {
                (void)snprintf(name, sizeof(name), "w%zu", i);
                await_epoch(&members[i], name, i + 1);
        }
        assert_all_there(&members[1], found);
        for (size_t i = 0; i < MEMBERS_MAX; i++)
                registry_leave(members[i].registry);
        for (size_t i = 0; i < MEMBERS_MAX; i++)
                member_leave(&members[i]);
        free(members);
        free(found);
}

TEST_GROUP(members_setup, members_teardown)
