/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "base/clock.h"
#include "registry_member.h"

/* Names in a real etcd: what befalls workers, and what befalls etcd. */

WITH_ETCD(a_worker_is_found_by_its_name_until_it_leaves)
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

WITH_ETCD(the_value_has_six_members_and_no_secret)
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

WITH_ETCD(a_second_living_worker_of_a_name_is_told_at_once)
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

WITH_ETCD(the_name_of_a_dead_worker_is_free_within_the_ttl)
{
        struct member first, second;
        uint64_t began;

        NEEDS_ETCD();
        member_start(&first, "a", 17);
        member_die(&first);
        began = clock_now_us();
        member_start(&second, "a", 18);
        assert_true(clock_now_us() - began < (MEMBER_TTL_MS + 8000) * 1000); /* on a busy machine */
        assert_int_equal(epoch_of(&second, "a"), 18);
        member_leave(&second);
}

WITH_ETCD(a_lease_that_is_lost_is_made_anew)
{
        struct member a;

        NEEDS_ETCD();
        member_start(&a, "a", 17);
        etcd_start_again(&etcd, true); /* it knows of no lease */
        await_epoch(&a, "a", 17);
        await_status(&a, REGISTRY_REGISTERED);
        member_leave(&a);
}

WITH_ETCD(a_registry_that_is_killed_and_comes_back_changes_nothing)
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

WITH_ETCD(a_worker_cut_off_longer_than_its_lease_comes_back)
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

WITH_ETCD(a_worker_that_starts_without_its_registry_joins_it_later)
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

WITH_ETCD(the_next_endpoint_is_asked_when_one_fails)
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

TEST_GROUP(members_setup, members_teardown)
