/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/allowlist.h"
#include "base/util.h"

#include "unit.h"

static struct allowlist *admit(const char *const *entries, size_t n)
{
        struct allowlist *allowlist = NULL;

        assert_int_equal(allowlist_new(entries, n, false, &allowlist), 0);
        return allowlist;
}

TEST(hosts_are_admitted_by_name_address_and_network)
{
        static const char *const allow[] = { "10.1.0.0/16",   "192.168.7.9",           "2001:db8:5::/48",
                                             "fe80::/10",     "Worker-B.example",      "[fd00::1]",
                                             "172.16.0.0/12", "::ffff:203.0.113.0/120" };
        struct allowlist *allowlist = admit(allow, FERRY_ARRAY_SIZE(allow));

        FOR_EACH_TEXT (host, "10.1.0.0", "10.1.255.255", "192.168.7.9", "172.31.255.255", "::ffff:10.1.2.3",
                       "[::ffff:a01:203]", "203.0.113.77", "2001:db8:5:ffff::1", "[2001:db8:5::1]", "fe80::1%eth0",
                       "[fe80::1%25eth0]", "fd00::1", "worker-b.example", "WORKER-B.EXAMPLE.")
                assert_true(allowlist_admits(allowlist, host));
        FOR_EACH_TEXT (host, "10.2.0.0", "10.0.255.255", "192.168.7.8", "172.32.0.0", "::ffff:10.2.2.3", "203.0.114.77",
                       "2001:db8:6::1", "fec0::1", "fd00::2", "worker-c.example", "b.worker-b.example", "localhost",
                       "127.0.0.1", "::1", "", "[]", "10.1.0.0/16")
                assert_false(allowlist_admits(allowlist, host));
        allowlist_free(allowlist);
}

TEST(loopback_is_the_default_and_nobody_can_be_asked_for)
{
        struct allowlist *allowlist = admit(NULL, 0);

        assert_true(allowlist_admits(allowlist, "localhost"));
        assert_true(allowlist_admits(allowlist, "LOCALHOST."));
        assert_true(allowlist_admits(allowlist, "127.0.0.1"));
        assert_true(allowlist_admits(allowlist, "127.255.255.255"));
        assert_true(allowlist_admits(allowlist, "::1"));
        assert_true(allowlist_admits(allowlist, "::ffff:127.0.0.1"));
        assert_false(allowlist_admits(allowlist, "128.0.0.1"));
        assert_false(allowlist_admits(allowlist, "::2"));
        FOR_EACH_TEXT (host, "0.0.0.0", "0", "::", "[::]", "::ffff:192.0.2.1", "169.254.169.254", "127.0.0.1.example",
                       "localhost.example")
                assert_false(allowlist_admits(allowlist, host));
        allowlist_free(allowlist);
        assert_int_equal(allowlist_new(NULL, 0, true, &allowlist), 0);
        assert_false(allowlist_admits(allowlist, "localhost"));
        assert_false(allowlist_admits(allowlist, "127.0.0.1"));
        assert_false(allowlist_admits(allowlist, "::1"));
        allowlist_free(allowlist);
}

TEST(all_of_ipv6_is_not_all_of_ipv4)
{
        static const char *const all[] = { "::/0" }, *const zeros[] = { "::/64" };
        struct allowlist *allowlist = admit(zeros, 1);

        /* How IPv4 is kept begins with zeros, too. */
        assert_true(allowlist_admits(allowlist, "::2"));
        assert_false(allowlist_admits(allowlist, "10.0.0.1"));
        allowlist_free(allowlist);
        allowlist = admit(all, 1);
        assert_true(allowlist_admits(allowlist, "2001:db8::1"));
        assert_false(allowlist_admits(allowlist, "10.0.0.1"));
        assert_false(allowlist_admits(allowlist, "::ffff:10.0.0.1"));
        allowlist_free(allowlist);
}

TEST(entries_that_are_no_hosts_are_refused)
{
        FOR_EACH_TEXT (text, "", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8", "256.0.0.1", "::1/129",
                       "http://a", "a:80", "a b", "a..b", ".a", "10.0.0.0/0008", "1.2.3.4.5", "-1/8") {
                struct allowlist *allowlist = NULL;

                assert_int_equal(allowlist_new(&text, 1, false, &allowlist), -EINVAL);
                assert_null(allowlist);
        }
}

TEST(socket_addresses_are_judged_like_text)
{
        static const char *const allow[] = { "10.0.0.0/8", "fd00::/8" };
        struct sockaddr_in v4 = { .sin_family = AF_INET };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
        struct sockaddr other = { .sa_family = AF_UNIX };
        struct allowlist *allowlist = admit(allow, 2);

        v4.sin_addr.s_addr = htonl(0x0a010203);
        assert_true(allowlist_admits_address(allowlist, (struct sockaddr *)&v4));
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_false(allowlist_admits_address(allowlist, (struct sockaddr *)&v4));
        assert_int_equal(inet_pton(AF_INET6, "fd12::1", &v6.sin6_addr), 1);
        assert_true(allowlist_admits_address(allowlist, (struct sockaddr *)&v6));
        assert_int_equal(inet_pton(AF_INET6, "::ffff:10.9.9.9", &v6.sin6_addr), 1);
        assert_true(allowlist_admits_address(allowlist, (struct sockaddr *)&v6));
        assert_int_equal(inet_pton(AF_INET6, "::ffff:11.9.9.9", &v6.sin6_addr), 1);
        assert_false(allowlist_admits_address(allowlist, (struct sockaddr *)&v6));
        assert_false(allowlist_admits_address(allowlist, &other));
        allowlist_free(allowlist);
}
