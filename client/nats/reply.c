/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/util.h>

/* See reply.h. The text is parsed and checked as far as its keys and their types; pure. */

static bool is_code(const char *text)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
        return *text && strspn(text, letters) == strlen(text);
}

enum reply reply_read(const char *data, size_t size, char code[REPLY_CODE_SIZE])
{
        struct answer {
                struct json_object *descriptors;
                const char *blob, *key;
                uint64_t kind;
                char code[REPLY_CODE_SIZE];
        } a = { 0 };
        static const struct ferry_json_field fields[] = {
                FERRY_JSON_FIELD("descriptors", ARRAY, false, struct answer, descriptors),
                FERRY_JSON_FIELD("nixl_metadata", STRING, false, struct answer, blob),
                FERRY_JSON_FIELD("notification_key", STRING, false, struct answer, key),
                FERRY_JSON_FIELD("operation_kind", UINT, false, struct answer, kind),
                FERRY_JSON_FIELD("code", TEXT, false, struct answer, code),
        };
        struct ferry_json_errors errors = { .lenient = true };
        struct json_object *root = NULL;
        enum reply reply = REPLY_NONSENSE;
        if (size > REPLY_MAX || ferry_json_parse(data, size, &root, &errors) != 0)
                return REPLY_NONSENSE;
        bool good = ferry_json_decode(root, fields, FERRY_ARRAY_SIZE(fields), &a, "", &errors);
        if (good && a.descriptors && a.blob && a.key && a.kind) {
                reply = REPLY_METADATA;
        } else if (good && is_code(a.code)) {
                memcpy(code, a.code, sizeof(a.code));
                reply = REPLY_PROBLEM;
        }
        json_object_put(root);
        return reply;
}
