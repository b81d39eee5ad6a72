/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>

#include "documents/documents.h"
#include "unit.h"
#include "unit_json.h"

static struct json_object *problem_of(int error, bool retryable, const char *detail,
                                      const struct ferry_json_errors *errors)
{
        struct ferry_json_writer writer = { 0 };

        problem_write(&writer, error, retryable, detail, errors);
        return unit_json_read(&writer);
}

static const char *text_of(struct json_object *object, const char *key)
{
        struct json_object *value = NULL;

        if (!json_object_object_get_ex(object, key, &value))
                return NULL;
        return json_object_get_string(value);
}

TEST(a_problem_has_the_fields_of_rfc_9457)
{
        struct json_object *problem = problem_of(FERRY_E_REGION_IN_USE, true, "Someone uses it", NULL);

        assert_string_equal(text_of(problem, "type"), "/docs#error-region-in-use");
        assert_string_equal(text_of(problem, "title"), ferry_error_title(FERRY_E_REGION_IN_USE));
        assert_string_equal(text_of(problem, "status"), "409");
        assert_string_equal(text_of(problem, "detail"), "Someone uses it");
        assert_string_equal(text_of(problem, "code"), "region-in-use");
        assert_string_equal(text_of(problem, "retryable"), "true");
        assert_null(text_of(problem, "errors"));
}

TEST(a_problem_without_a_detail_repeats_its_title)
{
        assert_string_equal(text_of(problem_of(FERRY_E_DRAINING, true, "", NULL), "detail"),
                            ferry_error_title(FERRY_E_DRAINING));
        assert_string_equal(text_of(problem_of(FERRY_E_INTERNAL, true, NULL, NULL), "detail"),
                            ferry_error_title(FERRY_E_INTERNAL));
}

TEST(complaints_about_the_body_are_listed)
{
        struct ferry_json_errors errors = { .error = FERRY_E_OUT_OF_BOUNDS,
                                            .n = 2,
                                            .items = { { "/descriptors/0/size", "too large" }, { "/x", "what?" } } };
        struct json_object *problem = problem_of(errors.error, false, NULL, &errors), *list;

        assert_true(json_object_object_get_ex(problem, "errors", &list));
        assert_int_equal(json_object_array_length(list), 2);
        assert_string_equal(text_of(json_object_array_get_idx(list, 0), "pointer"), "/descriptors/0/size");
        assert_string_equal(text_of(json_object_array_get_idx(list, 1), "detail"), "what?");
}

TEST(errors_of_operations_alone_are_our_fault_as_a_problem)
{
        assert_int_equal(problem_status(FERRY_E_PEER_LOST), 500);
        assert_int_equal(problem_status(FERRY_E_NO_SPACE), 507);
        assert_int_equal(problem_status(FERRY_E_NOT_FOUND), 404);
}

TEST(limits_and_draining_say_when_to_come_again)
{
        assert_true(problem_retry_after(FERRY_E_LIMIT_REACHED) > 0);
        assert_true(problem_retry_after(FERRY_E_NO_SPACE) > 0);
        assert_true(problem_retry_after(FERRY_E_DRAINING) > 0);
        assert_int_equal(problem_retry_after(FERRY_E_NOT_FOUND), 0);
}
