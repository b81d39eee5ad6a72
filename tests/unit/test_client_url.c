/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "url.h"

static void base_of(const char *url, const char *base, const char *socket)
{
        char *got_base = NULL, *got_socket = NULL;
        assert_int_equal(url_parse(url, &got_base, &got_socket), 0);
        assert_string_equal(got_base, base);
        if (socket)
                assert_string_equal(got_socket, socket);
        else
                assert_null(got_socket);
        free(got_base);
        free(got_socket);
}

TEST(base_urls_are_taken_without_their_final_slash)
{
        base_of("http://127.0.0.1:9300", "http://127.0.0.1:9300", NULL);
        base_of("http://127.0.0.1:9300/", "http://127.0.0.1:9300", NULL);
        base_of("HTTPS://worker.example//", "https://worker.example", NULL);
        base_of("http://[::1]:9300", "http://[::1]:9300", NULL);
        base_of("http://gate/ferry/a/", "http://gate/ferry/a", NULL);
}

TEST(unix_urls_name_a_socket)
{
        base_of("unix:/run/ferry.sock", "http://localhost", "/run/ferry.sock");
        base_of("unix:/with space?and#signs", "http://localhost", "/with space?and#signs");
}

TEST(urls_that_name_no_worker_are_refused)
{
        static const char *const wrong[] = {
                "",
                "127.0.0.1:9300",
                "ftp://host",
                "file:///etc/passwd",
                "http:/host",
                "http://",
                "http:///path",
                "http://:9300",
                "unix:",
                "http://user:secret@host",
                "http://host?query",
                "http://host#fragment",
                "http://ho st",
                "http://host\r\nX: y",
        };
        char *base = NULL, *socket = NULL;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_int_equal(url_parse(wrong[i], &base, &socket), -EINVAL);
        assert_int_equal(url_parse(NULL, &base, &socket), -EINVAL);
}

TEST(a_url_beyond_all_measure_is_refused)
{
        char *base = NULL, *socket = NULL, *url = calloc(1, 20001);
        memset(url, 'a', 20000);
        memcpy(url, "http://", 7);
        assert_int_equal(url_parse(url, &base, &socket), -EINVAL);
        free(url);
}

TEST(segments_cannot_leave_their_place)
{
        struct path p = { 0 };
        path_add(&p, "/v1/regions/");
        path_add_segment(&p, "../a b?c=d#\xc3\xa9%2f-._~Z9");
        path_add(&p, "/content");
        assert_int_equal(p.error, 0);
        assert_string_equal(p.text.data, "/v1/regions/..%2Fa%20b%3Fc%3Dd%23%C3%A9%252f-._~Z9/content");
        path_clear(&p);
}

TEST(an_empty_segment_is_an_error_that_sticks)
{
        struct path p = { 0 };
        path_add(&p, "/v1/regions/");
        path_add_segment(&p, "");
        path_add_segment(&p, "rgn_1");
        assert_int_equal(p.error, -EINVAL);
        path_clear(&p);
        path_add_segment(&p, NULL);
        assert_int_equal(p.error, -EINVAL);
        path_clear(&p);
}

TEST(a_path_has_an_end)
{
        struct path p = { 0 };
        char *id = calloc(1, 20001);
        memset(id, 'a', 20000);
        path_add_segment(&p, id);
        assert_int_equal(p.error, -EINVAL);
        path_clear(&p);
        free(id);
}

TEST(queries_hold_what_was_given_only)
{
        struct path p = { 0 };
        path_add(&p, "/v1/operations");
        path_query(&p, "kind", NULL);
        path_query_number(&p, "limit", 0);
        assert_string_equal(p.text.data, "/v1/operations");
        path_query(&p, "status", "IN&PROGRESS");
        path_query_number(&p, "limit", UINT64_MAX);
        path_query(&p, "after", "");
        assert_string_equal(p.text.data, "/v1/operations?status=IN%26PROGRESS&limit=18446744073709551615&after=");
        path_clear(&p);
}
