/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/admission.h"
#include "base/util.h"

#include "unit.h"

static struct admission *admit(const char *const *entries, size_t n)
{
        struct admission *admission = NULL;

        assert_int_equal(admission_new(entries, n, false, &admission), 0);
        return admission;
}

TEST(admission_is_by_name_address_and_network)
{
        static const char *const allow[] = { "10.1.0.0/16",   "192.168.7.9",           "2001:db8:5::/48",
                                             "fe80::/10",     "Worker-B.example",      "[fd00::1]",
                                             "172.16.0.0/12", "::ffff:203.0.113.0/120" };
        static const struct {
                const char *host;
                bool admitted;
        } cases[] = {
                { "10.1.0.0", true },
                { "10.1.255.255", true },
                { "10.2.0.0", false },
                { "10.0.255.255", false },
                { "192.168.7.9", true },
                { "192.168.7.8", false },
                { "172.31.255.255", true },
                { "172.32.0.0", false },
                { "::ffff:10.1.2.3", true },
                { "[::ffff:a01:203]", true },
                { "::ffff:10.2.2.3", false },
                { "203.0.113.77", true },
                { "203.0.114.77", false },
                { "2001:db8:5:ffff::1", true },
                { "[2001:db8:5::1]", true },
                { "2001:db8:6::1", false },
                { "fe80::1%eth0", true },
                { "[fe80::1%25eth0]", true },
                { "fec0::1", false },
                { "fd00::1", true },
                { "fd00::2", false },
                { "worker-b.example", true },
                { "WORKER-B.EXAMPLE.", true },
                { "worker-c.example", false },
                { "b.worker-b.example", false },
                { "localhost", false },
                { "127.0.0.1", false },
                { "::1", false },
                { "", false },
                { "[]", false },
                { "10.1.0.0/16", false },
        };
        struct admission *admission = admit(allow, FERRY_ARRAY_SIZE(allow));

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                print_message("%s\n", cases[i].host);
                assert_int_equal(admission_host(admission, cases[i].host), cases[i].admitted);
        }
        admission_free(admission);
}

TEST(loopback_is_the_default_and_nobody_can_be_asked_for)
{
        struct admission *admission = admit(NULL, 0);

        assert_true(admission_host(admission, "localhost"));
        assert_true(admission_host(admission, "LOCALHOST."));
        assert_true(admission_host(admission, "127.0.0.1"));
        assert_true(admission_host(admission, "127.255.255.255"));
        assert_true(admission_host(admission, "::1"));
        assert_true(admission_host(admission, "::ffff:127.0.0.1"));
        assert_false(admission_host(admission, "128.0.0.1"));
        assert_false(admission_host(admission, "::2"));
        admission_free(admission);
        assert_int_equal(admission_new(NULL, 0, true, &admission), 0);
        assert_false(admission_host(admission, "localhost"));
        assert_false(admission_host(admission, "127.0.0.1"));
        assert_false(admission_host(admission, "::1"));
        admission_free(admission);
}

TEST(all_of_ipv6_is_not_all_of_ipv4)
{
        static const char *const all[] = { "::/0" }, *const zeros[] = { "::/64" };
        struct admission *admission = admit(zeros, 1);

        /* How IPv4 is kept begins with zeros, too. */
        assert_true(admission_host(admission, "::2"));
        assert_false(admission_host(admission, "10.0.0.1"));
        admission_free(admission);
        admission = admit(all, 1);
        assert_true(admission_host(admission, "2001:db8::1"));
        assert_false(admission_host(admission, "10.0.0.1"));
        assert_false(admission_host(admission, "::ffff:10.0.0.1"));
        admission_free(admission);
}

TEST(entries_that_are_no_hosts_are_refused)
{
        static const char *const bad[] = { "",          "10.0.0.0/33", "10.0.0.0/",     "10.0.0.0/x", "10.0.0/8",
                                           "256.0.0.1", "::1/129",     "http://a",      "a:80",       "a b",
                                           "a..b",      ".a",          "10.0.0.0/0008", "1.2.3.4.5",  "-1/8" };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                struct admission *admission = NULL;

                print_message("%s\n", bad[i]);
                assert_int_equal(admission_new(&bad[i], 1, false, &admission), -EINVAL);
                assert_null(admission);
        }
}

TEST(socket_addresses_are_judged_like_text)
{
        static const char *const allow[] = { "10.0.0.0/8", "fd00::/8" };
        struct sockaddr_in v4 = { .sin_family = AF_INET };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
        struct sockaddr other = { .sa_family = AF_UNIX };
        struct admission *admission = admit(allow, 2);

        v4.sin_addr.s_addr = htonl(0x0a010203);
        assert_true(admission_address(admission, (struct sockaddr *)&v4));
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_false(admission_address(admission, (struct sockaddr *)&v4));
        assert_int_equal(inet_pton(AF_INET6, "fd12::1", &v6.sin6_addr), 1);
        assert_true(admission_address(admission, (struct sockaddr *)&v6));
        assert_int_equal(inet_pton(AF_INET6, "::ffff:10.9.9.9", &v6.sin6_addr), 1);
        assert_true(admission_address(admission, (struct sockaddr *)&v6));
        assert_int_equal(inet_pton(AF_INET6, "::ffff:11.9.9.9", &v6.sin6_addr), 1);
        assert_false(admission_address(admission, (struct sockaddr *)&v6));
        assert_false(admission_address(admission, &other));
        admission_free(admission);
}
