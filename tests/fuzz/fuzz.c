/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <json-c/json.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

/* A text is UTF-8 when it can be read back from JSON. */
static void check_text(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *string, *back = NULL;
        const char *json;

        FUZZ_CHECK(strnlen(text, size) < size);
        string = json_object_new_string(text);
        json = json_object_to_json_string_ext(string, JSON_C_TO_STRING_PLAIN);
        FUZZ_CHECK(ferry_json_parse(json, strlen(json), &back, &errors) == 0);
        FUZZ_CHECK(strcmp(json_object_get_string(back), text) == 0);
        json_object_put(back);
        json_object_put(string);
}

void fuzz_check_errors(const struct ferry_json_errors *errors)
{
        FUZZ_CHECK(errors->n > 0 && errors->n <= FERRY_JSON_ERRORS && errors->error > 0);
        for (size_t i = 0; i < errors->n; i++) {
                const struct ferry_json_complaint *item = &errors->items[i];

                FUZZ_CHECK(item->detail[0] && (!item->pointer[0] || item->pointer[0] == '/'));
                check_text(item->pointer, sizeof(item->pointer));
                check_text(item->detail, sizeof(item->detail));
        }
}

static void check_accepted(struct json_object *object, const struct ferry_metadata *m)
{
        static const char *const keys[] = { "descriptors", "nixl_metadata", "notification_key", "operation_kind" };
        struct json_object *again = NULL;

        FUZZ_CHECK(ferry_metadata_encode(m, &again) == 0);
        FUZZ_CHECK(json_object_object_length(object) == 4);
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                FUZZ_CHECK(json_object_equal(json_object_object_get(object, keys[i]),
                                             json_object_object_get(again, keys[i])));
        json_object_put(again);
}

void fuzz_decode_metadata(struct json_object *object)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *m = NULL;
        int r = ferry_metadata_decode(object, "/remote_metadata", &m, &errors);

        if (r != 0) {
                FUZZ_CHECK(r == FERRY_E_INVALID_METADATA && errors.error == r && !m);
                fuzz_check_errors(&errors);
                return;
        }
        FUZZ_CHECK(errors.n == 0);
        check_accepted(object, m);
        (void)ferry_metadata_free(m);
}
