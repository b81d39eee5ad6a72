/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"
#include "unit.h"

static const struct retry_facts broken = {
        .result = -ECONNRESET, .allowed = true, .by_status = true, .tries = 1, .retries = 4
};
static const struct retry_facts refused = {
        .status = 503, .allowed = true, .by_status = true, .tries = 1, .retries = 4
};

TEST(lost_connections_are_tried_again)
{
        static const int results[] = { -ECONNRESET, -ECONNREFUSED };
        for (size_t i = 0; i < 2; i++) {
                struct retry_facts facts = broken;
                uint64_t delay;
                facts.result = results[i];
                assert_true(retry_decide(&facts, &delay));
        }
}

TEST(other_failures_are_not)
{
        static const int results[] = { -ETIMEDOUT, -EPROTO, -EMSGSIZE, -EACCES, -EHOSTUNREACH, -ENOMEM, -EINVAL };
        uint64_t delay;
        for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
                struct retry_facts facts = broken;
                facts.result = results[i];
                assert_false(retry_decide(&facts, &delay));
        }
}

TEST(only_429_and_503_are_tried_again)
{
        uint64_t delay;
        for (int status = 100; status < 600; status++) {
                struct retry_facts facts = refused;
                facts.status = status;
                assert_int_equal(retry_decide(&facts, &delay), status == 429 || status == 503);
        }
}

/* Not by their number: a gateway that starts its worker anew refuses many requests. */
TEST(answers_of_a_gateway_are_tried_again_for_a_minute)
{
        struct retry_facts facts = refused;
        uint64_t delay;
        facts.gateway = true;
        facts.status = 504;
        for (unsigned tries = 1; tries < 40; tries++) {
                facts.tries = tries;
                assert_true(retry_decide(&facts, &delay));
                assert_int_equal(delay, tries < 6 ? 100u << (tries - 1) : 2000);
        }
        facts.has_retry_after = true;
        facts.retry_after_ms = 3000;
        assert_true(retry_decide(&facts, &delay));
        assert_int_equal(delay, 3000);
        facts.gateway_ms = RETRY_GATEWAY_MS;
        assert_false(retry_decide(&facts, &delay));
        facts.gateway_ms = 0;
        facts.allowed = false;
        assert_false(retry_decide(&facts, &delay));
        facts.allowed = true;
        facts.retries = 0;
        assert_false(retry_decide(&facts, &delay));
}

TEST(a_status_is_final_when_the_caller_says_so)
{
        struct retry_facts facts = refused;
        uint64_t delay;
        facts.by_status = false;
        assert_false(retry_decide(&facts, &delay));
        facts = broken;
        facts.by_status = false;
        assert_true(retry_decide(&facts, &delay));
}

TEST(what_must_not_be_repeated_is_not)
{
        struct retry_facts facts = broken;
        uint64_t delay;
        facts.allowed = false;
        assert_false(retry_decide(&facts, &delay));
        facts = refused;
        facts.allowed = false;
        assert_false(retry_decide(&facts, &delay));
}

TEST(tries_are_counted)
{
        struct retry_facts facts = broken;
        uint64_t delay;
        facts.tries = 4;
        assert_true(retry_decide(&facts, &delay));
        facts.tries = 5;
        assert_false(retry_decide(&facts, &delay));
        facts.tries = 1;
        facts.retries = 0;
        assert_false(retry_decide(&facts, &delay));
}

TEST(retry_after_is_obeyed_to_the_letter)
{
        struct retry_facts facts = refused;
        uint64_t delay = 99;
        facts.has_retry_after = true;
        facts.random = 12345;
        assert_true(retry_decide(&facts, &delay));
        assert_int_equal(delay, 0);
        facts.retry_after_ms = 3000;
        assert_true(retry_decide(&facts, &delay));
        assert_int_equal(delay, 3000);
}

TEST(a_long_retry_after_is_the_callers_business)
{
        struct retry_facts facts = refused;
        uint64_t delay;
        facts.has_retry_after = true;
        facts.retry_after_ms = RETRY_AFTER_LONGEST_MS + 1;
        assert_false(retry_decide(&facts, &delay));
}

TEST(delays_grow_and_stay_bounded_and_spread)
{
        struct retry_facts facts = broken;
        uint64_t low, high, before = 0;
        facts.retries = 100;
        for (facts.tries = 1; facts.tries <= 100; facts.tries++) {
                facts.random = 0;
                assert_true(retry_decide(&facts, &low));
                high = low;
                for (facts.random = 1; facts.random < 3000; facts.random++) {
                        uint64_t delay;
                        assert_true(retry_decide(&facts, &delay));
                        assert_true(delay >= low);
                        high = delay > high ? delay : high;
                }
                assert_true(high <= RETRY_LONGEST_MS);
                assert_true(high >= before);
                assert_true(low >= high / 2);
                assert_true(high > low);
                before = high;
        }
        assert_int_equal(before, RETRY_LONGEST_MS);
}
