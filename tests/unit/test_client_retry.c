/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"
#include "unit.h"

static const struct retry_facts broken = {
        .result = -ECONNRESET, .allowed = true, .by_status = true, .tries = 1, .retries = 4
};
static const struct retry_facts refused = {
        .status = 503, .allowed = true, .by_status = true, .tries = 1, .retries = 4
};
static uint64_t delay; /* of the latest decision */

/* Whether a request is sent again for facts that are changed: AGAIN(broken, f.tries = 5). */
#define AGAIN(facts, ...)                                                                                              \
        ({                                                                                                             \
                struct retry_facts f = facts;                                                                          \
                __VA_ARGS__;                                                                                           \
                retry_decide(&f, &delay);                                                                              \
        })

TEST(lost_connections_are_tried_again_and_nothing_else)
{
        FOR_EACH (int, lost, -ECONNRESET, -ECONNREFUSED)
                assert_true(AGAIN(broken, f.result = lost));
        FOR_EACH (int, other, -ETIMEDOUT, -EPROTO, -EMSGSIZE, -EACCES, -EHOSTUNREACH, -ENOMEM, -EINVAL)
                assert_false(AGAIN(broken, f.result = other));
}

TEST(only_429_and_503_are_tried_again)
{
        for (int status = 100; status < 600; status++)
                assert_int_equal(AGAIN(refused, f.status = status), status == 429 || status == 503);
        assert_false(AGAIN(refused, f.by_status = false)); /* the caller says that they are final */
        assert_true(AGAIN(broken, f.by_status = false));
}

/* Not by their number: a gateway that starts its worker anew refuses many requests. */
TEST(answers_of_a_gateway_are_tried_again_for_a_minute)
{
        struct retry_facts gateway = refused;
        gateway.gateway = true;
        gateway.status = 504;
        for (unsigned tries = 1; tries < 40; tries++) {
                assert_true(AGAIN(gateway, f.tries = tries));
                assert_int_equal(delay, tries < 6 ? 100u << (tries - 1) : 2000);
        }
        gateway.has_retry_after = true;
        gateway.retry_after_ms = 3000;
        assert_true(AGAIN(gateway, f.tries = 39));
        assert_int_equal(delay, 3000);
        assert_false(AGAIN(gateway, f.gateway_ms = RETRY_GATEWAY_MS));
        assert_false(AGAIN(gateway, f.allowed = false));
        assert_false(AGAIN(gateway, f.retries = 0));
}

TEST(what_must_not_be_repeated_is_not)
{
        assert_false(AGAIN(broken, f.allowed = false));
        assert_false(AGAIN(refused, f.allowed = false));
}

TEST(tries_are_counted)
{
        assert_true(AGAIN(broken, f.tries = 4));
        assert_false(AGAIN(broken, f.tries = 5));
        assert_false(AGAIN(broken, f.retries = 0));
}

TEST(retry_after_is_obeyed_to_the_letter_but_for_a_long_one)
{
        FOR_EACH (uint64_t, ms, 0, 3000, RETRY_AFTER_LONGEST_MS) {
                assert_true(AGAIN(refused, f.has_retry_after = true, f.retry_after_ms = ms, f.random = 12345));
                assert_int_equal(delay, ms);
        }
        assert_false(AGAIN(refused, f.has_retry_after = true, f.retry_after_ms = RETRY_AFTER_LONGEST_MS + 1));
}

TEST(delays_grow_and_stay_bounded_and_spread)
{
        uint64_t low, high, before = 0;
        for (unsigned tries = 1; tries <= 100; tries++) {
                assert_true(AGAIN(broken, f.retries = 100, f.tries = tries));
                high = low = delay;
                for (unsigned random = 1; random < 3000; random++) {
                        assert_true(AGAIN(broken, f.retries = 100, f.tries = tries, f.random = random));
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
