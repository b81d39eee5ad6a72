/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "fuzz.h"

/* Any bytes as a body: parsed, decoded by a table that has every type, and what was accepted is accepted again. */

static const char *const kinds[] = { "readable", "read", "writable", "write", NULL };

struct body {
        const char *kind, *name;
        uint64_t size;
        bool verify;
        const struct ferry_json *descriptors, *remote_metadata;
};

static const struct ferry_json_field fields[] = {
        { "kind", FERRY_JSON_STRING, true, offsetof(struct body, kind), 0, 0, kinds },
        { "name", FERRY_JSON_STRING, false, offsetof(struct body, name), 1, 8, NULL },
        { "size", FERRY_JSON_UINT, false, offsetof(struct body, size), 1, 0, NULL },
        { "verify", FERRY_JSON_BOOL, false, offsetof(struct body, verify), 0, 0, NULL },
        { "descriptors", FERRY_JSON_ARRAY, true, offsetof(struct body, descriptors), 1, 4, NULL },
        { "remote_metadata", FERRY_JSON_OBJECT, false, offsetof(struct body, remote_metadata), 0, 0, NULL },
};

static void decode(const struct ferry_json *object)
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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *object = NULL, *again = NULL;
        struct ferry_json_writer writer = { 0 }, second = { 0 };
        size_t length;
        char *text, *same;
        int r = ferry_json_parse((const char *)data, size, &object, &errors);

        if (r != 0) {
                FUZZ_CHECK(r == FERRY_E_INVALID_JSON && errors.n == 1);
                fuzz_check_errors(&errors);
                return 0;
        }
        decode(object);
        ferry_json_put_value(&writer, object);
        text = ferry_json_take(&writer, &length);
        FUZZ_CHECK(ferry_json_parse(text, length, &again, &errors) == 0);
        ferry_json_put_value(&second, again);
        same = ferry_json_take(&second, NULL);
        FUZZ_CHECK(strcmp(text, same) == 0);
        free(text);
        free(same);
        (void)ferry_json_free(again);
        (void)ferry_json_free(object);
        return 0;
}
