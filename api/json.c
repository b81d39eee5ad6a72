/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "json_check.h"

void ferry_json_complain(struct ferry_json_errors *errors, int error, const char *pointer, const char *format, ...)
{
        struct ferry_json_complaint *item;
        va_list arguments;

        if (errors->error == 0)
                errors->error = error;
        if (errors->n == FERRY_JSON_ERRORS)
                return;
        item = &errors->items[errors->n++];
        (void)snprintf(item->pointer, sizeof(item->pointer), "%s", pointer);
        va_start(arguments, format);
        (void)vsnprintf(item->detail, sizeof(item->detail), format, arguments);
        va_end(arguments);
}

/* ---- parsing ---- */

/* Members of all objects; less than the keys in the text when an object has a key twice. Depth is bounded by the check.
 */
static size_t count_members(struct json_object *value)
{
        size_t n = 0;

        if (json_object_is_type(value, json_type_object)) {
                json_object_object_foreach (value, key, member) {
                        (void)key;
                        n += 1 + count_members(member);
                }
        } else if (json_object_is_type(value, json_type_array)) {
                for (size_t i = 0; i < json_object_array_length(value); i++)
                        n += count_members(json_object_array_get_idx(value, i));
        }
        return n;
}

int ferry_json_parse(const char *text, size_t length, struct json_object **ret_object, struct ferry_json_errors *errors)
{
        struct json_tokener *tokener;
        struct json_object *object;
        struct json_fault fault;
        enum json_tokener_error result;
        size_t keys;

        if (length > INT_MAX / 2) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "the text is too long");
                return FERRY_E_INVALID_JSON;
        }
        if (json_check(text, length, &keys, &fault) < 0) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "line %zu, column %zu: %s", fault.line,
                                    fault.column, fault.what);
                return FERRY_E_INVALID_JSON;
        }
        tokener = json_tokener_new_ex(FERRY_JSON_DEPTH + 1);
        if (!tokener)
                return -ENOMEM;
        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        object = json_tokener_parse_ex(tokener, text, (int)length);
        result = json_tokener_get_error(tokener);
        /* A number alone goes on until something else comes. */
        if (result == json_tokener_continue) {
                object = json_tokener_parse_ex(tokener, " ", 1);
                result = json_tokener_get_error(tokener);
        }
        json_tokener_free(tokener);
        if (result != json_tokener_success) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "%s", json_tokener_error_desc(result));
                json_object_put(object);
                return FERRY_E_INVALID_JSON;
        }
        if (count_members(object) != keys) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "an object has the same key twice");
                json_object_put(object);
                return FERRY_E_INVALID_JSON;
        }
        *ret_object = object;
        return 0;
}

/* ---- decoding by tables ---- */

/* prefix + "/" + name, with ~ and / escaped as RFC 6901 has it. Too long a pointer is cut. */
static void make_pointer(const char *prefix, const char *name, char pointer[FERRY_JSON_POINTER_SIZE])
{
        size_t n = (size_t)snprintf(pointer, FERRY_JSON_POINTER_SIZE, "%s/", prefix);

        for (; *name && n + 2 < FERRY_JSON_POINTER_SIZE; name++) {
                if (*name == '~' || *name == '/') {
                        pointer[n++] = '~';
                        pointer[n++] = *name == '~' ? '0' : '1';
                } else {
                        pointer[n++] = *name;
                }
                pointer[n] = '\0';
        }
}

static uint64_t upper_bound(const struct ferry_json_field *field)
{
        return field->max ? field->max : FERRY_JSON_INTEGER_MAX;
}

static bool in_names(const char *const *names, const char *text)
{
        for (; *names; names++)
                if (strcmp(*names, text) == 0)
                        return true;
        return false;
}

static bool decode_string(struct json_object *value, const struct ferry_json_field *field, void *target,
                          const char *pointer, struct ferry_json_errors *errors)
{
        const char *text = json_object_get_string(value);
        size_t n = strlen(text);

        if (n < field->min || n > upper_bound(field)) {
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "must have %llu to %llu bytes, not %zu",
                                    (unsigned long long)field->min, (unsigned long long)upper_bound(field), n);
                return false;
        }
        if (field->names && !in_names(field->names, text)) {
                char list[FERRY_JSON_DETAIL_SIZE / 2] = "";

                for (size_t i = 0, at = 0; field->names[i] && at < sizeof(list); i++)
                        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s\"%s\"", i ? ", " : "",
                                               field->names[i]);
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "must be one of %s", list);
                return false;
        }
        *(const char **)target = text;
        return true;
}

static bool decode_uint(struct json_object *value, const struct ferry_json_field *field, void *target,
                        const char *pointer, struct ferry_json_errors *errors)
{
        /* Both getters saturate, so nothing outside can look like something inside. */
        int64_t number = json_object_get_int64(value);
        uint64_t max = upper_bound(field);

        if (number < 0 || (uint64_t)number < field->min || (uint64_t)number > max) {
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "must be from %llu to %llu",
                                    (unsigned long long)field->min, (unsigned long long)max);
                return false;
        }
        *(uint64_t *)target = (uint64_t)number;
        return true;
}

static bool decode_array(struct json_object *value, const struct ferry_json_field *field, void *target,
                         const char *pointer, struct ferry_json_errors *errors)
{
        size_t n = json_object_array_length(value);

        if (n < field->min || n > upper_bound(field)) {
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer,
                                    "must have %llu to %llu elements, not %zu", (unsigned long long)field->min,
                                    (unsigned long long)upper_bound(field), n);
                return false;
        }
        *(struct json_object **)target = value;
        return true;
}

static bool decode_field(struct json_object *value, const struct ferry_json_field *field, void *target,
                         const char *pointer, struct ferry_json_errors *errors)
{
        static const struct {
                enum json_type type;
                const char *name;
        } types[] = {
                [FERRY_JSON_STRING] = { json_type_string, "a string" },
                [FERRY_JSON_UINT] = { json_type_int, "an integer" },
                [FERRY_JSON_BOOL] = { json_type_boolean, "true or false" },
                [FERRY_JSON_OBJECT] = { json_type_object, "an object" },
                [FERRY_JSON_ARRAY] = { json_type_array, "an array" },
        };

        if (!json_object_is_type(value, types[field->type].type)) {
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "must be %s", types[field->type].name);
                return false;
        }
        switch (field->type) {
        case FERRY_JSON_STRING:
                return decode_string(value, field, target, pointer, errors);
        case FERRY_JSON_UINT:
                return decode_uint(value, field, target, pointer, errors);
        case FERRY_JSON_BOOL:
                *(bool *)target = json_object_get_boolean(value);
                return true;
        case FERRY_JSON_OBJECT:
                *(struct json_object **)target = value;
                return true;
        case FERRY_JSON_ARRAY:
                return decode_array(value, field, target, pointer, errors);
        }
        return false;
}

static const struct ferry_json_field *find_field(const struct ferry_json_field *fields, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(fields[i].name, name) == 0)
                        return &fields[i];
        return NULL;
}

bool ferry_json_decode(struct json_object *object, const struct ferry_json_field *fields, size_t n, void *target,
                       const char *prefix, struct ferry_json_errors *errors)
{
        char pointer[FERRY_JSON_POINTER_SIZE];
        bool good = true;

        if (!json_object_is_type(object, json_type_object)) {
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, prefix, "must be an object");
                return false;
        }
        json_object_object_foreach (object, key, value) {
                const struct ferry_json_field *field = find_field(fields, n, key);

                make_pointer(prefix, key, pointer);
                if (!field) {
                        ferry_json_complain(errors, FERRY_E_UNKNOWN_FIELD, pointer, "is not a known field");
                        good = false;
                } else {
                        good &= decode_field(value, field, (char *)target + field->offset, pointer, errors);
                }
        }
        for (size_t i = 0; i < n; i++) {
                if (!fields[i].required || json_object_object_get_ex(object, fields[i].name, NULL))
                        continue;
                make_pointer(prefix, fields[i].name, pointer);
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "is missing");
                good = false;
        }
        return good;
}
