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
