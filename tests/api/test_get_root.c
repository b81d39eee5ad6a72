/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

WITH_WORKER(it_names_the_worker_and_links_to_what_is_there)
{
        struct json_object *root, *links;
        size_t n = 0;

        worker_start(w, "root-worker", NULL);
        root = call_json(w, 200, "GET", "/", NULL);
        assert_string_equal(json_text(root, "name"), "root-worker");
        assert_string_equal(json_text(root, "version"), ferry_version());
        links = json_member(root, "links");
        json_object_object_foreach (links, name, path) {
                struct ferry_answer answer;

                (void)name;
                assert_int_equal(ferry_request(w->client, "GET", json_object_get_string(path), NULL, NULL, 0, &answer),
                                 0);
                assert_int_equal(answer.http_status, 200);
                ferry_answer_clear(&answer);
                n++;
        }
        assert_true(n >= 9);
}

WITH_WORKER(it_needs_no_token_but_what_it_links_to_does)
{
        char path[] = "/tmp/ferry-test-token-XXXXXX";
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(dprintf(fd, "a-token-of-some-length-0123456789\n"), 34);
        worker_start_plain(w, "w", STRINGS("--listen", "127.0.0.1:0", "--token-file", path));
        (void)close(fd);
        (void)unlink(path);
        wire_expect(w, 200, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        wire_refused(w, 401, "unauthenticated", "GET /v1/worker HTTP/1.1\r\nHost: localhost\r\n\r\n");
}
