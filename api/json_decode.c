/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>

/* Where a value is to go, and where to complain about it. */
struct place {
        void *target;
        const char *pointer;
        struct ferry_json_errors *errors;
};

#define REFUSE(place, ...)                                                                                             \
        (ferry_json_complain((place)->errors, FERRY_E_INVALID_PARAMETER, (place)->pointer, __VA_ARGS__), false)

/* prefix + "/" + name, with ~ and / escaped as RFC 6901 has it. Too long a pointer is cut, never within an escape. */
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

/* Never beyond what a JSON integer holds exactly, so that a saturated one is out of range in every table. */
static uint64_t upper_bound(const struct ferry_json_field *field)
{
        return field->max && field->max < FERRY_JSON_INTEGER_MAX ? field->max : FERRY_JSON_INTEGER_MAX;
}

/* "3 to 5" for a complaint, or the one value or the one bound that matters. */
static const char *range(const struct ferry_json_field *field, char text[48])
{
        uint64_t max = upper_bound(field);

        if (field->min == max)
                (void)snprintf(text, 48, "%" PRIu64, max);
        else if (field->min == 0 && max < FERRY_JSON_INTEGER_MAX)
                (void)snprintf(text, 48, "at most %" PRIu64, max);
        else
                (void)snprintf(text, 48, "%" PRIu64 " to %" PRIu64, field->min, max);
        return text;
}

static bool refuse_name(const struct ferry_json_field *field, const struct place *place)
{
        char list[FERRY_JSON_DETAIL_SIZE];
        size_t n = 0;

        list[0] = '\0';
        for (size_t i = 0; field->names[i] && n < sizeof(list); i++)
                n += (size_t)snprintf(list + n, sizeof(list) - n, "%s\"%s\"", i ? ", " : "", field->names[i]);
        return REFUSE(place, "expected one of %s", list);
}

static bool decode_string(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        const char *text = json_object_get_string(value);
        size_t n = strlen(text);
        char bounds[48];

        if (field->names) {
                size_t i = 0;

                while (field->names[i] && strcmp(field->names[i], text) != 0)
                        i++;
                if (!field->names[i])
                        return refuse_name(field, place);
        }
        if (n != (size_t)json_object_get_string_len(value))
                return REFUSE(place, "expected a string without NUL characters");
        if (n < field->min || n > upper_bound(field))
                return REFUSE(place, "expected a string of %s bytes", range(field, bounds));
        *(const char **)place->target = text;
        return true;
}

static bool decode_uint(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        uint64_t max = upper_bound(field);
        /* json-c saturates at both ends of its range, which no bound of ours reaches. */
        int64_t number = json_object_get_int64(value);
        char bounds[48];

        if (number < 0 || (uint64_t)number < field->min || (uint64_t)number > max)
                return REFUSE(place, "expected an integer, %s", range(field, bounds));
        *(uint64_t *)place->target = (uint64_t)number;
        return true;
}

static bool decode_bool(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        *(bool *)place->target = json_object_get_boolean(value);
        return true;
}

static bool decode_object(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        *(struct json_object **)place->target = value;
        return true;
}

static bool decode_array(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        size_t n = json_object_array_length(value);
        char bounds[48];

        if (n < field->min || n > upper_bound(field))
                return REFUSE(place, "expected an array of %s elements", range(field, bounds));
        *(struct json_object **)place->target = value;
        return true;
}

static const struct {
        enum json_type type;
        const char *name;
        bool (*decode)(struct json_object *value, const struct ferry_json_field *field, const struct place *place);
} types[] = {
        [FERRY_JSON_STRING] = { json_type_string, "a string", decode_string },
        [FERRY_JSON_UINT] = { json_type_int, "an integer", decode_uint },
        [FERRY_JSON_BOOL] = { json_type_boolean, "true or false", decode_bool },
        [FERRY_JSON_OBJECT] = { json_type_object, "an object", decode_object },
        [FERRY_JSON_ARRAY] = { json_type_array, "an array", decode_array },
};

static bool decode_field(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        if (!json_object_is_type(value, types[field->type].type))
                return REFUSE(place, "expected %s", types[field->type].name);
        return types[field->type].decode(value, field, place);
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
        struct place place = { .pointer = pointer, .errors = errors };
        bool good = true;

        if (!json_object_is_type(object, json_type_object)) {
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, prefix, "expected an object");
                return false;
        }
        json_object_object_foreach (object, key, value) {
                const struct ferry_json_field *field = find_field(fields, n, key);

                make_pointer(prefix, key, pointer);
                if (field) {
                        place.target = (char *)target + field->offset;
                        good &= decode_field(value, field, &place);
                } else {
                        ferry_json_complain(errors, FERRY_E_UNKNOWN_FIELD, pointer, "this field is not known");
                        good = false;
                }
        }
        for (size_t i = 0; i < n; i++) {
                if (!fields[i].required || json_object_object_get_ex(object, fields[i].name, NULL))
                        continue;
                make_pointer(prefix, fields[i].name, pointer);
                ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "this field is missing");
                good = false;
        }
        return good;
}
