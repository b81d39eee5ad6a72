/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "fuzz.h"

/* Any bytes as a body: parsed, decoded by a table that has every type. What was accepted is accepted again. */

static const char *const kinds[] = { "readable", "read", "writable", "write", NULL };

struct body {
        const char *kind, *name;
        uint64_t size;
        bool verify;
        struct json_object *descriptors, *remote_metadata;
};

static const struct ferry_json_field fields[] = {
        { "kind", FERRY_JSON_STRING, true, offsetof(struct body, kind), 0, 0, kinds },
        { "name", FERRY_JSON_STRING, false, offsetof(struct body, name), 1, 8, NULL },
        { "size", FERRY_JSON_UINT, false, offsetof(struct body, size), 1, 0, NULL },
        { "verify", FERRY_JSON_BOOL, false, offsetof(struct body, verify), 0, 0, NULL },
        { "descriptors", FERRY_JSON_ARRAY, true, offsetof(struct body, descriptors), 1, 4, NULL },
        { "remote_metadata", FERRY_JSON_OBJECT, false, offsetof(struct body, remote_metadata), 0, 0, NULL },
};

static const char *text_of(struct json_object *value)
{
        return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void decode(struct json_object *object)
{
        struct ferry_json_errors errors = { 0 };
        struct body body = { .name = "x", .size = 1 };

        if (!ferry_json_decode(object, fields, sizeof(fields) / sizeof(fields[0]), &body, "/b", &errors)) {
                fuzz_check_errors(&errors);
                return;
        }
        FUZZ_CHECK(errors.n == 0 && body.kind && body.descriptors);
        FUZZ_CHECK(strlen(body.name) >= 1 && strlen(body.name) <= 8);
        FUZZ_CHECK(body.size >= 1 && body.size <= FERRY_JSON_INTEGER_MAX);
        if (body.remote_metadata) {
                const char *text = text_of(body.remote_metadata);

                fuzz_decode_metadata(text, strlen(text));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL, *again = NULL;
        const char *text = (const char *)data;
        int r = ferry_json_parse(text, size, &json, &errors);

        if (r != 0) {
                FUZZ_CHECK(r == FERRY_E_INVALID_JSON && errors.n == 1);
                fuzz_check_errors(&errors);
                return 0;
        }
        decode(json);
        text = text_of(json);
        FUZZ_CHECK(ferry_json_parse(text, strlen(text), &again, &errors) == 0);
        json_object_put(again);
        json_object_put(json);
        return 0;
}
