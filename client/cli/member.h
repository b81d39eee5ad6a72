/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MEMBER_H
#define CLI_MEMBER_H

#include <stdbool.h>

#include <json-c/json.h>

/* Members of an answer, which may be any JSON: what has another type than a worker's counts as missing. */

/* The text of a member, which the answer owns; none where it is missing or null. */
static inline const char *member_text(struct json_object *object, const char *name, const char *none)
{
        struct json_object *value;
        return json_object_object_get_ex(object, name, &value) && value ? json_object_get_string(value) : none;
}

/* The number of elements of a member that is a list, or 0. */
static inline size_t member_list(struct json_object *object, const char *name, struct json_object **ret_list)
{
        bool is_list =
                json_object_object_get_ex(object, name, ret_list) && json_object_is_type(*ret_list, json_type_array);
        return is_list ? json_object_array_length(*ret_list) : 0;
}

/* The first URL of a worker's or peer's addresses becomes a member of it, for a table. */
static inline void member_add_url(struct json_object *worker)
{
        struct json_object *addresses = NULL, *urls;
        json_object_object_get_ex(worker, "addresses", &addresses);
        if (member_list(addresses, "http", &urls))
                json_object_object_add(worker, "url", json_object_get(json_object_array_get_idx(urls, 0)));
}

/* The text of an element; "" where it is null. */
static inline const char *member_item(struct json_object *list, size_t i)
{
        const char *text = json_object_get_string(json_object_array_get_idx(list, i));
        return text ? text : "";
}

#endif
