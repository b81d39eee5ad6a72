/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>

/*
 * Trees of JSON into structs, by a table of fields. All complaints about an object are collected, each with the pointer
 * to its place, so that a client learns of them at once. Texts and objects that a struct points to are the tree's.
 * Pure; any thread, a tree by one at a time.
 */

/* Where a value is to go, and where to complain about it: pointers are made only when there is something to say. */
struct place {
        void *target;
        const char *prefix;
        size_t index;     /* of the element at prefix; NO_INDEX = prefix is the object itself */
        const char *name; /* of the field; NULL = the object as a whole */
        struct ferry_json_errors *errors;
};

#define NO_INDEX SIZE_MAX

/* Room for one character more than a complaint keeps, so that it is seen where the complaint may end. */
enum { NAME_QUOTED = 64, POINTER_ROOM = FERRY_JSON_POINTER_SIZE + 4 };

#define COMPLAIN(place, error, ...)                                                                                    \
        ferry_json_complain((place)->errors, error, make_pointer(place, (char[POINTER_ROOM]){ "" }), __VA_ARGS__)
#define REFUSE(place, ...) (COMPLAIN(place, FERRY_E_INVALID_PARAMETER, __VA_ARGS__), false)

/* prefix + "/" + name, with ~ and / escaped as RFC 6901 has it. Too long a pointer is cut, never within an escape. */
static const char *make_pointer(const struct place *place, char pointer[POINTER_ROOM])
{
        const char *name = place->name;
        size_t n;

        if (place->index == NO_INDEX)
                n = (size_t)snprintf(pointer, POINTER_ROOM, "%s", place->prefix);
        else
                n = (size_t)snprintf(pointer, POINTER_ROOM, "%s/%zu", place->prefix, place->index);
        if (!name || n + 1 >= POINTER_ROOM)
                return pointer;
        pointer[n++] = '/';
        pointer[n] = '\0';
        for (; *name && n + 2 < POINTER_ROOM; name++) {
                if (*name == '~' || *name == '/') {
                        pointer[n++] = '~';
                        pointer[n++] = *name == '~' ? '0' : '1';
                } else {
                        pointer[n++] = *name;
                }
                pointer[n] = '\0';
        }
        return pointer;
}

bool ferry_json_get_uint(const struct json_object *value, uint64_t *ret_number)
{
        /* Asked for as unsigned, a negative number is 0. */
        if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
                return false;
        *ret_number = json_object_get_uint64(value);
        return true;
}

const char *ferry_json_get_text(struct json_object *object, const char *name, size_t size)
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

bool ferry_json_get_epoch(struct json_object *object, uint64_t *ret_epoch)
{
        const char *text = ferry_json_get_text(object, "epoch", FERRY_ID_TEXT_SIZE);

        return text && ferry_id_parse("", text, ret_epoch);
}

size_t ferry_json_get_uints(const struct json_object *array, uint64_t numbers[])
{
        size_t n = json_object_array_length(array), i = 0;

        while (i < n && ferry_json_get_uint(json_object_array_get_idx(array, i), &numbers[i]) &&
               numbers[i] <= FERRY_JSON_INTEGER_MAX)
                i++;
        return i;
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

/* Names all words that the field takes, as far as a complaint has room. Returns false. */
static bool refuse_name(const struct ferry_json_field *field, const struct place *place)
{
        char list[FERRY_JSON_DETAIL_SIZE];
        size_t n = 0;

        list[0] = '\0';
        for (size_t i = 0; field->names[i] && n < sizeof(list); i++)
                n += (size_t)snprintf(list + n, sizeof(list) - n, "%s\"%s\"", i ? ", " : "", field->names[i]);
        return REFUSE(place, "expected one of %s", list);
}

/* Whether the text is one of the field's words. */
static bool is_name(const struct ferry_json_field *field, const char *text)
{
        size_t i = 0;

        while (field->names[i] && strcmp(field->names[i], text) != 0)
                i++;
        return field->names[i];
}

static bool decode_string(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        const char *text = json_object_get_string(value);
        size_t size = (size_t)json_object_get_string_len(value);
        char bounds[48];

        if (field->names && !is_name(field, text))
                return refuse_name(field, place);
        if (size < field->min || size > upper_bound(field))
                return REFUSE(place, "expected a string of %s bytes", range(field, bounds));
        *(const char **)place->target = text;
        return true;
}

static bool decode_uint(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        uint64_t number;
        char bounds[48];

        if (!ferry_json_get_uint(value, &number) || number < field->min || number > upper_bound(field))
                return REFUSE(place, "expected an integer, %s", range(field, bounds));
        *(uint64_t *)place->target = number;
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

/* Copies the text into the struct. A FERRY_JSON_TEXT that does not fit is refused, a FERRY_JSON_PROSE cut. */
static bool decode_text(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        const char *text = json_object_get_string(value);
        size_t size = ferry_utf8_cut(text, field->max);
        char bounds[48];

        if (text[size] && field->type == FERRY_JSON_TEXT)
                return REFUSE(place, "expected a string of %s bytes", range(field, bounds));
        *(char *)mempcpy(place->target, text, size) = '\0';
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
        [FERRY_JSON_TEXT] = { json_type_string, "a string", decode_text },
        [FERRY_JSON_PROSE] = { json_type_string, "a string", decode_text },
};

/* Takes a word in the place of an integer: UINT64_MAX stands for it. */
static bool decode_uint_name(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        if (!is_name(field, json_object_get_string(value)))
                return REFUSE(place, "expected an integer, or \"%s\"", field->names[0]);
        *(uint64_t *)place->target = UINT64_MAX;
        return true;
}

/* Decodes a value into the field's place. false: there is a complaint. */
static bool decode_field(struct json_object *value, const struct ferry_json_field *field, const struct place *place)
{
        if (field->type == FERRY_JSON_UINT && field->names && json_object_is_type(value, json_type_string))
                return decode_uint_name(value, field, place);
        if (!json_object_is_type(value, types[field->type].type))
                return REFUSE(place, "expected %s", types[field->type].name);
        return types[field->type].decode(value, field, place);
}

/* Most texts name the fields in the order of the table: the search goes on behind the one before. */
static const struct ferry_json_field *find_field(const struct ferry_json_field *fields, size_t n, const char *name,
                                                 size_t *next)
{
        for (size_t tries = 0; tries < n; tries++) {
                const struct ferry_json_field *field = &fields[*next];

                *next = *next + 1 < n ? *next + 1 : 0;
                if (strcmp(field->name, name) == 0)
                        return field;
        }
        return NULL;
}

bool ferry_json_decode_element(struct json_object *object, const struct ferry_json_field *fields, size_t n,
                               void *target, const char *prefix, size_t i, struct ferry_json_errors *errors)
{
        struct place place = { .prefix = prefix, .index = i, .errors = errors };
        uint64_t seen = 0;
        size_t next = 0;
        bool good = true;

        if (!json_object_is_type(object, json_type_object))
                return REFUSE(&place, "expected an object");
        json_object_object_foreach (object, key, value) {
                const struct ferry_json_field *field = find_field(fields, n, key, &next);

                place.name = key;
                if (errors->lenient && (!field || !value))
                        continue;
                if (field) {
                        seen |= UINT64_C(1) << (field - fields);
                        place.target = (char *)target + field->offset;
                        good &= decode_field(value, field, &place);
                } else {
                        COMPLAIN(&place, FERRY_E_UNKNOWN_FIELD, "unknown field \"%.*s\"",
                                 (int)ferry_utf8_cut(key, NAME_QUOTED), key);
                        good = false;
                }
        }
        for (size_t k = 0; k < n; k++) {
                if (!fields[k].required || seen & UINT64_C(1) << k)
                        continue;
                place.name = fields[k].name;
                good = REFUSE(&place, "missing field \"%s\"", fields[k].name);
        }
        return good;
}

bool ferry_json_decode(struct json_object *object, const struct ferry_json_field *fields, size_t n, void *target,
                       const char *prefix, struct ferry_json_errors *errors)
{
        return ferry_json_decode_element(object, fields, n, target, prefix, NO_INDEX, errors);
}
