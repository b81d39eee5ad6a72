/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include <ferry/encoding.h>

#include "json_document.h"

/* NULL: it is short, so that its elements are in the tree. */
static const struct json_list *list_of(struct json_object *array)
{
        return json_object_get_userdata(array);
}

size_t ferry_json_count(struct json_object *array)
{
        const struct json_list *list = list_of(array);

        return list ? list->n : json_object_array_length(array);
}

const char *ferry_json_text(struct json_object *value, size_t *ret_size)
{
        const struct json_list *list = json_object_is_type(value, json_type_array) ? list_of(value) : NULL;

        if (!list)
                return json_object_to_json_string_length(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
                                                         ret_size);
        *ret_size = list->size;
        return list->text;
}

struct ferry_json_elements ferry_json_elements(struct json_object *array)
{
        const struct json_list *list = list_of(array);

        if (!list)
                return (struct ferry_json_elements){ .array = array, .left = json_object_array_length(array) };
        return (struct ferry_json_elements){ .at = list->text + 1, .end = list->text + list->size, .left = list->n };
}

/* Makes the next elements in place of those before: json-c has more to do for each text than for an element. */
static int make_batch(struct ferry_json_elements *elements)
{
        elements->array = NULL;
        if (!elements->batch)
                elements->batch = json_document_new();
        if (!elements->batch ||
            json_document_read_elements(elements->batch, elements->at, (size_t)(elements->end - elements->at)) != 0)
                return -ENOMEM;
        elements->at = elements->batch->outline.end;
        while (*elements->at != ',' && *elements->at != ']')
                elements->at++;
        elements->at++;
        elements->array = elements->batch->root;
        elements->next = 0;
        return 0;
}

int ferry_json_next(struct ferry_json_elements *elements, struct json_object **ret_element)
{
        if (!elements->left)
                return 0;
        if (!elements->array || elements->next == json_object_array_length(elements->array)) {
                int r = make_batch(elements);

                if (r)
                        return r;
        }
        *ret_element = json_object_array_get_idx(elements->array, elements->next++);
        elements->left--;
        return 1;
}

void ferry_json_elements_clear(struct ferry_json_elements *elements)
{
        elements->batch = ferry_json_free(elements->batch);
}

/* Where the string whose quote is at at ends. */
static const char *string_end(const char *at)
{
        const char *quote = at, *before; /* the backslashes before the quote */

        do { /* by the library: most of what a batch holds is long strings */
                quote = strchr(quote + 1, '"');
                for (before = quote; before[-1] == '\\'; before--)
                        ;
        } while ((quote - before) % 2 != 0);
        return quote + 1;
}

static const char *value_end(const char *at)
{
        for (size_t depth = 0;; at++) {
                switch (*at) {
                case '"':
                        at = string_end(at) - 1;
                        break;
                case '[':
                case '{':
                        depth++;
                        break;
                case ']':
                case '}':
                case ',':
                        if (!depth)
                                return at;
                        depth -= *at != ',';
                        break;
                default:
                        break;
                }
        }
}

/* The text has been checked, so that something follows; it need not end with a NUL. */
static const char *skip_space(const char *at)
{
        while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
                at++;
        return at;
}

bool ferry_json_next_text(const char **at, const char **ret_text, size_t *ret_size)
{
        const char *start = skip_space(*at);

        if (*start == ']')
                return false;
        start = skip_space(start + 1);
        if (*start == ']')
                return false;
        *at = value_end(start);
        *ret_text = start;
        *ret_size = (size_t)(*at - start);
        return true;
}

/* Digits up to what follows the number. false: it is no integer, or too large. */
static bool take_uint(const char **at, uint64_t *ret_number)
{
        const char *end = ferry_uint_read(skip_space(*at), ret_number);

        if (!end || *ret_number > FERRY_JSON_INTEGER_MAX)
                return false;
        *at = skip_space(end);
        return **at == ',' || **at == ']';
}

int ferry_json_get_uints(struct json_object *array, uint64_t numbers[], size_t *ret_n)
{
        size_t n = ferry_json_count(array), size;
        const char *at = ferry_json_text(array, &size);

        if (!at)
                return -ENOMEM;
        for (*ret_n = 0; *ret_n < n; (*ret_n)++) {
                at++; /* the bracket, or the comma */
                if (!take_uint(&at, &numbers[*ret_n]))
                        break;
        }
        return 0;
}

bool ferry_json_get_uint(const struct json_object *value, uint64_t *ret_number)
{
        /* Asked for as unsigned, a negative number is 0. */
        if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
                return false;
        *ret_number = json_object_get_uint64(value);
        return true;
}
