/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <ferry/options.h>

#include "unit.h"

static const char *near_one;
static unsigned n_complaints;

static void complain(const char *wrong, const char *near)
{
        assert_int_equal(strncmp(wrong, "FERRY_", strlen("FERRY_")), 0);
        near_one = near;
        n_complaints++;
}

/* What the worker and the command say of a variable. NULL = nothing. */
static const char *check(const char *variable)
{
        near_one = NULL;
        n_complaints = 0;
        assert_int_equal(clearenv(), 0);
        assert_int_equal(setenv(variable, "x", 1), 0);
        assert_int_equal(setenv("HOME", "/", 1), 0);
        ferry_variables_check(complain);
        assert_in_range(n_complaints, 0, 1);
        return near_one;
}

TEST(a_misspelt_variable_is_told_with_the_nearest)
{
        static const char *const rows[][2] = {
                { "FERRY_LISTN", "FERRY_LISTEN" },          { "FERRY_TOKENFILE", "FERRY_TOKEN_FILE" },
                { "FERRY_TOKEN", "FERRY_TOKEN_FILE" },      { "FERRY_MAX_CONNECTION", "FERRY_MAX_CONNECTIONS" },
                { "FERRY_NATS_CREDZ", "FERRY_NATS_CREDS" }, { "FERRY_URI", "FERRY_URL" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                test_row(rows[i][0]);
                assert_string_equal(check(rows[i][0]), rows[i][1]);
        }
}

/* Those of other programs of ours, of Kubernetes, of tests, and of anybody else. */
TEST(other_variables_are_not)
{
        FOR_EACH_TEXT (name, "FERRY_PORT", "FERRY_SERVICE_HOST", "FERRY_SERVICE_PORT", "FERRY_PORT_9300_TCP",
                       "FERRY_PORT_9300_TCP_ADDR", "FERRY_WORKER_LIBRARY", "FERRY_TEST_TLS", "FERRY_MIRROR", "FERRY_",
                       "FERRY", "FERRYD", "LISTN", "FERRY_A_NAME_THAT_IS_LONGER_THAN_ANY_THAT_FERRY_HAS_EVER_HAD")
                assert_null(check(name));
        for (size_t i = 0; i < ferry_variables_count; i++)
                assert_null(ferry_variables[i] ? check(ferry_variables[i]) : NULL);
}
