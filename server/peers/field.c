/* SPDX-License-Identifier: Apache-2.0 */
#include "field.h"

#include <json-c/json.h>

#include <ferry/encoding.h>

const char *field_text(struct json_object *object, const char *name, size_t size)
{
        struct json_object *value = json_object_object_get(object, name);
        const char *text;

        if (!json_object_is_type(value, json_type_string) || (size_t)json_object_get_string_len(value) >= size)
                return NULL;
        text = json_object_get_string(value);
        for (const char *c = text; *c; c++)
                if (*c <= ' ' || *c >= 0x7f || *c == '"' || *c == '\\')
                        return NULL;
        return *text ? text : NULL;
}

bool field_epoch(struct json_object *object, uint64_t *ret_epoch)
{
        const char *text = field_text(object, "epoch", FERRY_ID_TEXT_SIZE);

        return text && ferry_id_parse("", text, ret_epoch);
}
