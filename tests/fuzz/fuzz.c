/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

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
        struct ferry_json *back = NULL;
        size_t json_size;
        char *json;

        FUZZ_CHECK(strnlen(text, size) < size);
        ferry_json_put_string(&writer, text);
        json = ferry_json_take(&writer, &json_size);
        FUZZ_CHECK(ferry_json_parse(json, json_size, &back, &errors) == 0);
        FUZZ_CHECK(back->kind == FERRY_JSON_TEXT && strcmp(back->text, text) == 0);
        (void)ferry_json_free(back);
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

static char *text_of(const struct ferry_json *value)
{
        struct ferry_json_writer writer = { 0 };

        FUZZ_CHECK(value);
        ferry_json_put_value(&writer, value);
        return ferry_json_take(&writer, NULL);
}

/* The members may come in another order. Those of a descriptor, too, so that only their number is compared. */
static void check_accepted(const struct ferry_json *object, const struct ferry_metadata *m)
{
        static const char *const keys[] = { "nixl_metadata", "notification_key", "operation_kind" };
        struct ferry_json_writer writer = { 0 };
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *again = NULL;
        size_t size;
        char *text;

        FUZZ_CHECK(ferry_metadata_encode(m, &writer) == 0);
        text = ferry_json_take(&writer, &size);
        FUZZ_CHECK(ferry_json_parse(text, size, &again, &errors) == 0);
        FUZZ_CHECK(object->size == 4 && again->size == 4);
        FUZZ_CHECK(ferry_json_member(object, "descriptors")->size == ferry_json_member(again, "descriptors")->size);
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                char *one = text_of(ferry_json_member(object, keys[i])),
                     *other = text_of(ferry_json_member(again, keys[i]));

                FUZZ_CHECK(strcmp(one, other) == 0);
                free(one);
                free(other);
        }
        (void)ferry_json_free(again);
        free(text);
}

void fuzz_decode_metadata(const struct ferry_json *object)
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
