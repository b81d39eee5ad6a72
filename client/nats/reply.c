/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/util.h>

static bool is_metadata(struct json_object *root)
{
        static const char *const members[] = { "descriptors", "nixl_metadata", "notification_key", "operation_kind" };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(members); i++)
                if (!json_object_object_get_ex(root, members[i], NULL))
                        return false;
        return true;
}

static bool read_code(struct json_object *root, char code[REPLY_CODE_SIZE])
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
        struct json_object *value = NULL;
        const char *text;
        if (!json_object_object_get_ex(root, "code", &value) || !json_object_is_type(value, json_type_string))
                return false;
        text = json_object_get_string(value);
        if (!*text || strlen(text) >= REPLY_CODE_SIZE || strspn(text, letters) != strlen(text))
                return false;
        memcpy(code, text, strlen(text) + 1);
        return true;
}

enum reply reply_read(const char *data, size_t size, char code[REPLY_CODE_SIZE])
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *root = NULL;
        enum reply reply = REPLY_NONSENSE;
        if (size > REPLY_MAX || ferry_json_parse(data, size, &root, &errors) != 0)
                return REPLY_NONSENSE;
        if (json_object_is_type(root, json_type_object) && is_metadata(root))
                reply = REPLY_METADATA;
        else if (json_object_is_type(root, json_type_object) && read_code(root, code))
                reply = REPLY_PROBLEM;
        json_object_put(root);
        return reply;
}
