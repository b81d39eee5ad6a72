/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <json-c/json.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/metadata.h>

/* A text is UTF-8 when it can be read back from JSON. */
static void check_text(const char *text, size_t size)
{
        struct ferry_json_writer writer = { 0 };
        struct ferry_json_errors errors = { 0 };
        struct json_object *back = NULL;
        size_t json_size;
        char *json;

        FUZZ_CHECK(strnlen(text, size) < size);
        ferry_json_put_string(&writer, text);
        json = ferry_json_take(&writer, &json_size);
        FUZZ_CHECK(ferry_json_parse(json, json_size, &back, &errors) == 0);
        FUZZ_CHECK(strcmp(json_object_get_string(back), text) == 0);
        json_object_put(back);
        free(json);
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

static void check_accepted(const char *text, size_t size, const struct ferry_metadata *m)
{
        struct ferry_json_writer writer = { 0 };
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL, *again;
        char *text_again;

        FUZZ_CHECK(ferry_json_parse(text, size, &json, &errors) == 0);
        FUZZ_CHECK(ferry_metadata_encode(m, &writer) == 0);
        text_again = ferry_json_take(&writer, NULL);
        again = json_tokener_parse(text_again);
        FUZZ_CHECK(json_object_equal(json, again));
        json_object_put(again);
        json_object_put(json);
        free(text_again);
}

void fuzz_decode_metadata(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *m = NULL;
        int r = ferry_metadata_decode(text, size, "/remote_metadata", &m, &errors);

        if (r != 0) {
                FUZZ_CHECK((r == FERRY_E_INVALID_METADATA || r == FERRY_E_PROTOCOL_MISMATCH) && errors.error == r &&
                           !m);
                fuzz_check_errors(&errors);
                return;
        }
        FUZZ_CHECK(errors.n == 0);
        check_accepted(text, size, m);
        (void)ferry_metadata_free(m);
}
