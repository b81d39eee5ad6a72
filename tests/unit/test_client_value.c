/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/cli.h"
#include "unit.h"

TEST(a_host_and_a_port_are_what_a_url_or_an_address_names)
{
        static const struct {
                const char *text, *host, *port; /* host NULL = there is none */
        } texts[] = {
                { "http://a:1/x", "a", "1" },
                { "http://a/x:3", "a", "80" },
                { "https://a", "a", "443" },
                { "HTTPS://a", "a", "443" },
                { "http://[::1]", "[::1]", "80" },
                { "https://[fe80::1]:4/", "[fe80::1]", "4" },
                { "127.0.0.1:9", "127.0.0.1", "9" },
                { "[::1]:8", "[::1]", "8" },
                { "a", NULL, NULL },
                { "unix:/run/ferry:3", NULL, NULL },
                { "unix:///run/x.sock", NULL, NULL },
        };

        for (size_t i = 0; i < UNIT_COUNT(texts); i++) {
                char host[32], port[8];
                bool found = cli_host_port(texts[i].text, host, sizeof(host), port, sizeof(port));

                if (found != (texts[i].host != NULL) ||
                    (found && (strcmp(host, texts[i].host) != 0 || strcmp(port, texts[i].port) != 0)))
                        fail_msg("%s: %d", texts[i].text, found);
        }
}

TEST(numbers_sizes_and_times_have_their_units)
{
        assert_int_equal(cli_number("17", 0), 17);
        assert_int_equal(cli_size("1.5KiB", 0), 1536);
        assert_int_equal(cli_time("1.5s", 0), 1500);
        assert_int_equal(cli_time("0", 1), 0);
        assert_int_equal(cli_time(NULL, 7), 7);
}

TEST(a_value_that_is_not_of_its_kind_is_told)
{
        static const struct {
                const char *kind, *value;
                bool good;
        } values[] = {
                { "N", "17", true },           { "N", "0", false },          { "N", "", false },
                { "N", "1x", false },          { "N", "-1", false },         { "N", "9007199254740992", false },
                { "SIZE", "1.5K", true },      { "SIZE", "0", false },       { "SIZE", "0x10", false },
                { "SIZE", "4194304T", false }, { "SIZE", "4194303T", true }, { "SIZE", "1Q", false },
                { "TIME", "2m", true },        { "TIME", "s", false },       { "TIME", "1d", false },
                { "NAME", "\xc3\xa4", true },  { "NAME", "", true },         { "LABEL", "\xc3", false },
                { "FILE", "\xff", true },      { "FILE", "", false },
        };

        for (size_t i = 0; i < UNIT_COUNT(values); i++)
                if ((cli_value_wants(values[i].kind, values[i].value) == NULL) != values[i].good)
                        fail_msg("%s %s", values[i].kind, values[i].value);
}
