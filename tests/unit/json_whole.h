/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_JSON_WHOLE_H
#define TESTS_JSON_WHOLE_H

#include <json-c/json.h>
#include <stdlib.h>

#include <ferry/json.h>

/* A value of a parsed text as json-c's own tree, lists and all, for json_object_put. NULL = null. */
static inline struct json_object *json_whole(struct json_object *value)
{
        struct ferry_json_elements elements;
        struct json_object *whole, *element;
        int more;

        switch (json_object_get_type(value)) {
        case json_type_object:
                whole = json_object_new_object();
                json_object_object_foreach (value, key, member)
                        if (json_object_object_add(whole, key, json_whole(member)) != 0)
                                abort();
                return whole;
        case json_type_array:
                whole = json_object_new_array();
                elements = ferry_json_elements(value);
                while ((more = ferry_json_next(&elements, &element)) > 0)
                        if (json_object_array_add(whole, json_whole(element)) != 0)
                                abort();
                ferry_json_elements_clear(&elements);
                if (more < 0 || json_object_array_length(whole) != ferry_json_count(value))
                        abort();
                return whole;
        default:
                return json_object_get(value);
        }
}

#endif
