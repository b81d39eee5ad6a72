/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "fuzz.h"
#include "json_whole.h"

/*
 * Any bytes as a body: parsed, decoded by a table that has every type. What was accepted is, list by list, what json-c
 * reads in the text as a whole, and is accepted again.
 */

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
        { "remote_metadata", FERRY_JSON_KEPT, false, offsetof(struct body, remote_metadata), 0, 0, NULL },
};

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
                size_t size;
                const char *text = ferry_json_text(body.remote_metadata, &size);

                fuzz_decode_metadata(text, size);
        }
}

/* As a body comes in: a member is kept as its text, which is a document of its own. */
static void try_kept(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;

        FUZZ_CHECK(ferry_json_parse(text, size, "remote_metadata", &json, &errors) == 0);
        decode(ferry_json_root(json));
        (void)ferry_json_free(json);
}

static const char *text_of(struct json_object *value)
{
        return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* json-c's tree of the text. It takes more than RFC 8259 has, but what the RFC has it reads right. */
static struct json_object *read_whole(const char *text, size_t size)
{
        struct json_tokener *tokener = json_tokener_new_ex(FERRY_JSON_DEPTH + 2);
        struct json_object *object = json_tokener_parse_ex(tokener, text, (int)size);

        if (json_tokener_get_error(tokener) == json_tokener_continue)
                object = json_tokener_parse_ex(tokener, " ", 1);
        FUZZ_CHECK(json_tokener_get_error(tokener) == json_tokener_success);
        json_tokener_free(tokener);
        return object;
}

/* false: it is not JSON. */
static bool try(const char *text, size_t size)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL, *again = NULL;
        struct json_object *whole, *expected;
        int r = ferry_json_parse(text, size, NULL, &json, &errors);

        if (r != 0) {
                FUZZ_CHECK(r == FERRY_E_INVALID_JSON && errors.n == 1);
                fuzz_check_errors(&errors);
                return false;
        }
        try_kept(text, size);
        whole = json_whole(ferry_json_root(json));
        expected = read_whole(text, size);
        FUZZ_CHECK(strcmp(text_of(whole), text_of(expected)) == 0);
        text = text_of(whole);
        FUZZ_CHECK(ferry_json_parse(text, strlen(text), NULL, &again, &errors) == 0);
        FUZZ_CHECK(strcmp(text, text_of(ferry_json_root(again))) == 0); /* lists as they stood */
        (void)ferry_json_free(again);
        (void)ferry_json_free(json);
        json_object_put(expected);
        json_object_put(whole);
        return true;
}

/* Inputs are short; a list in one becomes long by space, which JSON is none the worse for. */
static void try_longer(const char *text, size_t size)
{
        enum { SPACES = 2048 };
        const char *bracket = memchr(text + size / 2, '[', size - size / 2) ?: memchr(text, '[', size);
        size_t n = bracket ? (size_t)(bracket + 1 - text) : 0;
        char *longer = n ? malloc(size + SPACES) : NULL;

        if (!longer)
                return;
        memcpy(longer, text, n);
        memset(longer + n, ' ', SPACES);
        memcpy(longer + n + SPACES, text + n, size - n);
        FUZZ_CHECK(try(longer, size + SPACES));
        free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (try((const char *)data, size))
                try_longer((const char *)data, size);
        return 0;
}
