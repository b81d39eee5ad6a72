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

/* A text that must be JSON, as the code under test sees it, until the end of the test. NULL = null. */
static inline struct json_object *unit_json_parse(const char *text)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL;

        if (ferry_json_parse(text, strlen(text), &json, &errors) != 0)
                fail_msg("%s: %s", text, errors.items[0].detail);
        assert_int_equal(errors.n, 0);
        return json ? keep_json(json) : NULL;
}

#endif
