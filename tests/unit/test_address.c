/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"
#include "base/util.h"

#include "unit.h"

TEST(split_takes_names_and_literals)
{
        static const struct {
                const char *text, *host;
                uint16_t port;
        } good[] = {
                { "127.0.0.1:9300", "127.0.0.1", 9300 },
                { "localhost:0", "localhost", 0 },
                { "[::1]:65535", "::1", 65535 },
                { "[fe80::1%eth0]:1", "fe80::1%eth0", 1 },
        };
        char host[ADDRESS_HOST_SIZE];
        uint16_t port;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(good); i++) {
                assert_true(address_split(good[i].text, host, &port));
                assert_string_equal(host, good[i].host);
                assert_int_equal(port, good[i].port);
        }
}

TEST(split_refuses_what_is_no_address)
{
        char host[ADDRESS_HOST_SIZE], text[ADDRESS_HOST_SIZE + 8];
        uint16_t port;

        FOR_EACH_TEXT (item, "", ":1", "localhost", "localhost:", "localhost:65536", "localhost:-1", "h:1x", "::1:80",
                       "[::1]", "[::1]80", "[localhost]:1", "[]:1", "[127.0.0.1]:1", "[::1:9", "h: 1", "[::g]:1",
                       "[1:2]:1")
                if (address_split(item, host, &port))
                        fail_msg("%s was taken", item);
        memset(text, 'a', sizeof(text));
        memcpy(text + ADDRESS_HOST_SIZE, ":1", 3);
        assert_false(address_split(text, host, &port));
}

TEST(host_is_found_with_and_without_port)
{
        char host[ADDRESS_HOST_SIZE];

        assert_true(address_host("Example.org.", host));
        assert_string_equal(host, "Example.org");
        assert_true(address_host("example.org:80", host));
        assert_string_equal(host, "example.org");
        assert_true(address_host("[::1]", host));
        assert_string_equal(host, "::1");
        assert_false(address_host("::1", host));
        assert_false(address_host("a b", host));
        assert_false(address_host("user@host", host));
        assert_false(address_host("host/path", host));
        assert_false(address_host("", host));
        assert_false(address_host("host:99999", host));
}

TEST(join_puts_brackets_around_v6)
{
        char text[ADDRESS_SIZE];

        address_join("::1", 80, text);
        assert_string_equal(text, "[::1]:80");
        address_join("h", 1, text);
        assert_string_equal(text, "h:1");
}

TEST(literals_are_told_from_names)
{
        assert_true(address_is_literal("10.0.0.1"));
        assert_true(address_is_literal("::1"));
        assert_true(address_is_literal("fe80::1%eth0"));
        assert_false(address_is_literal("10.0.0.1%eth0"));
        assert_false(address_is_literal("10.0.0"));
        assert_false(address_is_literal("localhost"));
        assert_true(address_is_wildcard("0.0.0.0"));
        assert_true(address_is_wildcard("::"));
        assert_false(address_is_wildcard("127.0.0.1"));
        assert_false(address_is_wildcard("*"));
}

TEST(publish_names_a_host_that_peers_can_reach)
{
        char text[ADDRESS_SIZE];

        address_publish("127.0.0.1:9", "node7", "10.0.0.1", text, sizeof(text));
        assert_string_equal(text, "node7:9");
        address_publish("0.0.0.0:9", NULL, "10.0.0.1", text, sizeof(text));
        assert_string_equal(text, "10.0.0.1:9");
        address_publish("[::]:9", NULL, "fd00::1", text, sizeof(text));
        assert_string_equal(text, "[fd00::1]:9");
        address_publish("0.0.0.0:9", NULL, "", text, sizeof(text));
        assert_string_equal(text, "0.0.0.0:9");
        address_publish("192.168.0.1:9", NULL, "10.0.0.1", text, sizeof(text));
        assert_string_equal(text, "192.168.0.1:9");
        address_publish("what", "x", "y", text, sizeof(text));
        assert_string_equal(text, "what");
}
