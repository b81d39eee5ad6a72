/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_JSON_BUILD_H
#define HTTP_JSON_BUILD_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Documents out. Each function takes a NULL object or value as memory that was short and returns false, so that a
 * builder joins its calls with && and looks once at the end. Keys are literals. Pure.
 */

/* value is given up in any case. */
static inline bool json_add(struct json_object *object, const char *key, struct json_object *value)
{
        if (object && value &&
            !json_object_object_add_ex(object, key, value,
                                       JSON_C_OBJECT_ADD_KEY_IS_NEW | JSON_C_OBJECT_KEY_IS_CONSTANT))
                return true;
        json_object_put(value);
        return false;
}

static inline bool json_add_string(struct json_object *object, const char *key, const char *value)
{
        return json_add(object, key, json_object_new_string(value));
}

static inline bool json_add_uint(struct json_object *object, const char *key, uint64_t value)
{
        return json_add(object, key, json_object_new_uint64(value));
}

static inline bool json_add_bool(struct json_object *object, const char *key, bool value)
{
        return json_add(object, key, json_object_new_boolean(value));
}

/* value is given up in any case. */
static inline bool json_append(struct json_object *array, struct json_object *value)
{
        if (array && value && !json_object_array_add(array, value))
                return true;
        json_object_put(value);
        return false;
}

/* What a builder returns: the object, or NULL when something failed. */
static inline struct json_object *json_finish(struct json_object *object, bool ok)
{
        if (ok)
                return object;
        json_object_put(object);
        return NULL;
}

#endif
