/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_JSON_H
#define TESTS_UNIT_JSON_H

#include <json-c/json.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/json_write.h>

/* Between json-c, which the tests build and look into documents with, and what is under test. After cmocka.h. */

/* Until the end of the test. */
TEST_KEEPS(json, struct json_object, json_object_put)

/* What was written, read by json-c, until the end of the test. The writer is empty afterwards. */
static inline struct json_object *unit_json_read(struct ferry_json_writer *writer)
{
        char *text = ferry_json_take(writer, NULL);
        struct json_object *object = text ? json_tokener_parse(text) : NULL;

        free(text);
        return keep_json(object);
}

TEST_KEEPS(ferry_json, struct ferry_json, ferry_json_free)

/* A text that must be JSON, as the code under test sees it, until the end of the test. An object that is its member
 * kept stays text. */
static inline struct ferry_json *unit_json_parse_keeping(const char *text, const char *kept)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;

        if (ferry_json_parse(text, strlen(text), kept, &json, &errors) != 0)
                fail_msg("%s: %s", text, errors.items[0].detail);
        assert_int_equal(errors.n, 0);
        return keep_ferry_json(json);
}

static inline struct ferry_json *unit_json_parse(const char *text)
{
        return unit_json_parse_keeping(text, NULL);
}

#endif
