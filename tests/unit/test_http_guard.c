/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include <ferry/error.h>

#include "serve_internal.h"
#include "unit.h"

static const char *framing(const char *length, const char *encoding, const char *version)
{
        struct http_headers headers = { .content_length = length, .transfer_encoding = encoding };

        return guard_framing_fault(&headers, version);
}

TEST(plain_framing_is_admitted)
{
        assert_null(framing(NULL, NULL, "HTTP/1.1"));
        assert_null(framing("12", NULL, "HTTP/1.1"));
        assert_null(framing(NULL, "Chunked", "HTTP/1.1"));
        assert_null(framing("0", NULL, "HTTP/1.0"));
}

TEST(doubtful_framing_is_refused)
{
        struct http_headers twice = { .content_length = "1", .fault = "Content-Length" };

        assert_non_null(framing("5", "chunked", "HTTP/1.1"));
        assert_non_null(framing(NULL, "gzip, chunked", "HTTP/1.1"));
        assert_non_null(framing(NULL, "chunked, chunked", "HTTP/1.1"));
        assert_non_null(framing(NULL, "identity", "HTTP/1.1"));
        assert_non_null(framing(NULL, "", "HTTP/1.1"));
        assert_non_null(framing(NULL, "chunked", "HTTP/1.0"));
        assert_non_null(framing("5, 5", NULL, "HTTP/1.1"));
        assert_non_null(framing("-5", NULL, "HTTP/1.1"));
        assert_non_null(framing("", NULL, "HTTP/1.1"));
        assert_non_null(guard_framing_fault(&twice, "HTTP/1.1"));
}

static const char *const names[] = { "worker.example", NULL };

TEST(own_names_and_literals_are_hosts)
{

        FOR_EACH_TEXT (text, "127.0.0.1", "127.0.0.1:9300", "[::1]:9300", "10.1.2.3:80", "localhost:9300", "LOCALHOST",
                       "Worker.Example:80", "localhost.")
                if (!guard_host_allowed(text, names, 2))
                        fail_msg("%s was refused", text);
}

TEST(foreign_names_are_no_hosts)
{

        FOR_EACH_TEXT (each, "evil.example", "worker.example.evil", "localhost.evil", "127.0.0.1.evil",
                       "evil.localhost", "", ":80", "127.0.0.1:x", "[localhost]", "user@127.0.0.1", "127.0.0.1 evil",
                       "::1")
                if (guard_host_allowed(each, names, 2))
                        fail_msg("%s was admitted", each);
}

TEST(origins_match_exactly)
{
        static const char *const allowed[] = { "https://ui.example" };

        assert_true(guard_origin_allowed("https://UI.example", allowed, 1));
        assert_false(guard_origin_allowed("http://ui.example", allowed, 1));
        assert_false(guard_origin_allowed("https://ui.example.evil", allowed, 1));
        assert_false(guard_origin_allowed("null", allowed, 1));
        assert_false(guard_origin_allowed("https://ui.example", NULL, 0));
}

TEST(the_own_origin_is_that_of_the_page)
{
        assert_true(guard_origin_own("http://localhost:9300", "localhost:9300", false, NULL));
        assert_true(guard_origin_own("https://Worker.example", "worker.example", true, NULL));
        assert_true(guard_origin_own("http://[::1]:9300", "[::1]:9300", false, NULL));
        assert_true(guard_origin_own("https://proxy.example", "10.0.0.1:9300", false, "https://proxy.example/"));
        assert_false(guard_origin_own("https://localhost:9300", "localhost:9300", false, NULL));
        assert_false(guard_origin_own("http://localhost:9301", "localhost:9300", false, NULL));
        assert_false(guard_origin_own("http://localhost:9300.evil", "localhost:9300", false, NULL));
        assert_false(guard_origin_own("http://localhost:9300", NULL, false, NULL));
        assert_false(guard_origin_own("https://proxy.example.evil", "x", false, "https://proxy.example"));
        assert_false(guard_origin_own("null", "x", false, NULL));
        assert_false(guard_origin_own("", "", false, ""));
}

static const struct guard_tokens none, alone = { .full = "full" },
                                       tokens = { .full = "full", .peer = "peer", .metrics = "metrics" };

TEST(without_a_token_all_is_open_but_what_takes_a_key)
{
        static const char key[] = "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

        assert_int_equal(guard_authorize(key, &none, HTTP_AUTH_KEY), 0);
        assert_int_equal(guard_authorize(NULL, &none, HTTP_AUTH_KEY), FERRY_E_UNAUTHENTICATED);
        assert_int_equal(guard_authorize("Bearer x", &none, HTTP_AUTH_KEY), FERRY_E_UNAUTHENTICATED);
        assert_int_equal(guard_authorize(NULL, &none, HTTP_AUTH_FULL_OR_KEY), 0);
        assert_int_equal(guard_authorize(key, &alone, HTTP_AUTH_FULL_OR_KEY), 0);
        assert_int_equal(guard_authorize(NULL, &alone, HTTP_AUTH_FULL_OR_KEY), FERRY_E_UNAUTHENTICATED);
        assert_int_equal(guard_authorize("Bearer x", &alone, HTTP_AUTH_FULL_OR_KEY), FERRY_E_UNAUTHENTICATED);
        assert_int_equal(guard_authorize("Bearer full", &alone, HTTP_AUTH_FULL_OR_KEY), 0);
        assert_int_equal(guard_authorize("Bearer peer", &tokens, HTTP_AUTH_FULL_OR_KEY), FERRY_E_FORBIDDEN);
        assert_int_equal(guard_authorize(NULL, &none, HTTP_AUTH_FULL), 0);
        assert_int_equal(guard_authorize("Bearer x", &none, HTTP_AUTH_FULL), 0);
}

TEST(the_table_is_well_formed)
{
        for (size_t i = 0; i < http_routes_count; i++) {
                const struct http_route *route = &http_routes[i];
                assert_int_equal(route->path[0], '/');
                assert_non_null(route->handler);
                assert_true((route->body == HTTP_BODY_STREAM) == (route->take != NULL));
                assert_true(islower((unsigned char)route->operation_id[0]));
                assert_true(route->parameters < 1u << HTTP_PARAMETER_COUNT);
                for (size_t k = 0; k < i; k++) {
                        assert_string_not_equal(route->operation_id, http_routes[k].operation_id);
                        assert_true(strcmp(route->path, http_routes[k].path) ||
                                    strcmp(route->method, http_routes[k].method));
                }
        }
}
