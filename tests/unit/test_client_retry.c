/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "retry.h"

static const struct retry_facts broken = {
        .result = -ECONNRESET, .allowed = true, .by_status = true, .attempt = 1, .retries = 4
};
static const struct retry_facts refused = {
        .status = 503, .allowed = true, .by_status = true, .attempt = 1, .retries = 4
};

static void lost_connections_are_tried_again(void **state)
{
        static const int results[] = { -ECONNRESET, -ECONNREFUSED };
        for (size_t i = 0; i < 2; i++) {
                struct retry_facts facts = broken;
                uint64_t delay;
                facts.result = results[i];
                assert_true(retry_decide(&facts, &delay));
        }
}

static void other_failures_are_not(void **state)
{
        static const int results[] = { -ETIMEDOUT, -EPROTO, -EMSGSIZE, -EACCES, -EHOSTUNREACH, -ENOMEM, -EINVAL };
        uint64_t delay;
        for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
                struct retry_facts facts = broken;
                facts.result = results[i];
                assert_false(retry_decide(&facts, &delay));
        }
}

static void only_429_and_503_are_tried_again(void **state)
{
        uint64_t delay;
        for (int status = 100; status < 600; status++) {
                struct retry_facts facts = refused;
                facts.status = status;
                assert_int_equal(retry_decide(&facts, &delay), status == 429 || status == 503);
        }
}

static void a_status_is_final_when_the_caller_says_so(void **state)
{
        struct retry_facts facts = refused;
        uint64_t delay;
        facts.by_status = false;
        assert_false(retry_decide(&facts, &delay));
        facts = broken;
        facts.by_status = false;
        assert_true(retry_decide(&facts, &delay));
}

static void what_must_not_be_repeated_is_not(void **state)
{
        struct retry_facts facts = broken;
        uint64_t delay;
        facts.allowed = false;
        assert_false(retry_decide(&facts, &delay));
        facts = refused;
        facts.allowed = false;
        assert_false(retry_decide(&facts, &delay));
}

static void attempts_are_counted(void **state)
{
        struct retry_facts facts = broken;
        uint64_t delay;
        facts.attempt = 4;
        assert_true(retry_decide(&facts, &delay));
        facts.attempt = 5;
        assert_false(retry_decide(&facts, &delay));
        facts.attempt = 1;
        facts.retries = 0;
        assert_false(retry_decide(&facts, &delay));
}

static void retry_after_is_obeyed_to_the_letter(void **state)
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

static void a_long_retry_after_is_the_callers_business(void **state)
{
        struct retry_facts facts = refused;
        uint64_t delay;
        facts.has_retry_after = true;
        facts.retry_after_ms = RETRY_AFTER_LONGEST_MS + 1;
        assert_false(retry_decide(&facts, &delay));
}

static void delays_grow_and_stay_bounded_and_spread(void **state)
{
        struct retry_facts facts = broken;
        uint64_t low, high, before = 0;
        facts.retries = 100;
        for (facts.attempt = 1; facts.attempt <= 100; facts.attempt++) {
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lost_connections_are_tried_again),
                cmocka_unit_test(other_failures_are_not),
                cmocka_unit_test(only_429_and_503_are_tried_again),
                cmocka_unit_test(a_status_is_final_when_the_caller_says_so),
                cmocka_unit_test(what_must_not_be_repeated_is_not),
                cmocka_unit_test(attempts_are_counted),
                cmocka_unit_test(retry_after_is_obeyed_to_the_letter),
                cmocka_unit_test(a_long_retry_after_is_the_callers_business),
                cmocka_unit_test(delays_grow_and_stay_bounded_and_spread),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
