/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MEMBER_H
#define CLI_MEMBER_H

#include <json-c/json.h>

/* The text of a member of an answer, which owns it; none where there is no such member. */
static inline const char *member_text(struct json_object *object, const char *name, const char *none)
{
        struct json_object *value;
        return json_object_object_get_ex(object, name, &value) ? json_object_get_string(value) : none;
}

#endif
