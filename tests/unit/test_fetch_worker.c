/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

#include "base/util.h"
#include "peers_internal.h"
#include "unit.h"

#define SPEAKS "{\"protocol\":8,"
#define WORKER(more) SPEAKS "\"name\":\"w\",\"epoch\":\"00000000000000a5\",\"uptime_ms\":3" more "}"

static int classify(const char *text, struct ferry_metadata **ret_metadata)
{
        struct ferry_json_errors errors = { 0 };
        int error = fetch_worker.classify_body(text, strlen(text), ret_metadata, &errors);

        assert_int_equal(error, errors.error);
        return error;
}

TEST(what_is_no_worker_is_refused)
{
        struct ferry_metadata *m;

        FOR_EACH_TEXT (item, "{}", "[]", "7", SPEAKS "\"name\":\"w\"}", SPEAKS "\"name\":\"w\",\"epoch\":5}",
                       SPEAKS "\"name\":\"w\",\"epoch\":\"a5\"}",
                       SPEAKS "\"name\":\"w\",\"epoch\":\"00000000000000A5\"}",
                       SPEAKS "\"name\":\"w\",\"epoch\":\"0000000000000000\"}",
                       SPEAKS "\"name\":\"w\",\"epoch\":\"00000000000000a5a\"}",
                       SPEAKS "\"name\":\"\",\"epoch\":\"00000000000000a5\"}",
                       SPEAKS "\"name\":\"w\\nw\",\"epoch\":\"00000000000000a5\"}",
                       SPEAKS "\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\","
                              "\"epoch\":\"00000000000000a5\"}",
                       WORKER(",\"addresses\":{\"data\":1}"), WORKER(",\"addresses\":{\"data\":\"\"}"),
                       WORKER(",\"addresses\":{\"data\":\"a b:1\"}"))
                assert_int_equal(classify(item, &m), FERRY_E_INVALID_METADATA);
}

TEST(the_path_goes_after_the_base)
{
        static const struct {
                const char *base, *asked; /* NULL = refused */
        } cases[] = {
                { "http://h:1", "http://h:1/v1/worker" },
                { "http://h:1/", "http://h:1/v1/worker" },
                { "https://h/a//", "https://h/a/v1/worker" },
                { "http://h/a%20b", "http://h/a%20b/v1/worker" },
                { "http://[::1]:2", "http://[::1]:2/v1/worker" },
                { "http://h/?q", NULL },
                { "http://h/#f", NULL },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                CURLU *url = curl_url();
                char *path, *asked;
                const char *why = NULL;

                assert_int_equal(curl_url_set(url, CURLUPART_URL, cases[i].base, 0), CURLUE_OK);
                assert_int_equal(curl_url_get(url, CURLUPART_PATH, &path, 0), CURLUE_OK);
                int error = fetch_worker.locate(url, path, &why);
                assert_int_equal(error, cases[i].asked ? 0 : FERRY_E_INVALID_PARAMETER);
                assert_true((error != 0) == (why != NULL));
                if (cases[i].asked) {
                        assert_int_equal(curl_url_get(url, CURLUPART_URL, &asked, 0), CURLUE_OK);
                        assert_string_equal(asked, cases[i].asked);
                        curl_free(asked);
                }
                curl_free(path);
                curl_url_cleanup(url);
        }
}
