/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json.h>

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>

#include "json_check.h"

/* A text that did not fit its buffer may end within a character; then the buffer ends before it. */
static void drop_half_character(char *text)
{
        size_t n = strlen(text), lead = n;
        unsigned char byte;

        while (lead > 0 && n - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
                lead--;
        if (lead == 0)
                return;
        byte = (unsigned char)text[--lead];
        if (byte >= 0xc0 && n - lead < (size_t)(byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2))
                text[lead] = '\0';
}

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
        drop_half_character(item->pointer);
        va_start(arguments, format);
        (void)vsnprintf(item->detail, sizeof(item->detail), format, arguments);
        va_end(arguments);
        drop_half_character(item->detail);
}

/*
 * Builds the tree of a text that json_check() passed, whose value takes size bytes. Without JSON_TOKENER_STRICT: all
 * that it refuses beyond the check are (from json-c 0.17 on) integers above 64 bits, and those are the decoder's to
 * complain of, by name. They saturate, which is far outside of what it accepts.
 */
static int build(struct json_tokener *tokener, const char *text, size_t size, struct json_object **ret_object)
{
        struct json_object *object;
        bool whole;

        json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
        object = json_tokener_parse_ex(tokener, text, (int)size);
        whole = json_tokener_get_parse_end(tokener) == size;
        /* A number alone goes on until something else comes. */
        if (json_tokener_get_error(tokener) == json_tokener_continue)
                object = json_tokener_parse_ex(tokener, " ", 1);
        /* Only memory can have stopped it. It does not always say so, and then gives a part of the tree. */
        if (json_tokener_get_error(tokener) != json_tokener_success || !whole || (!object && text[size - 1] != 'l')) {
                json_object_put(object);
                return -ENOMEM;
        }
        *ret_object = object;
        return 0;
}

int ferry_json_parse(const char *text, size_t length, struct json_object **ret_object, struct ferry_json_errors *errors)
{
        struct json_tokener *tokener;
        struct json_fault fault;
        size_t size;
        int r;

        if (length > INT_MAX) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "the text is too long");
                return FERRY_E_INVALID_JSON;
        }
        r = json_check(length ? text : "", length, &size, &fault);
        if (r > 0)
                ferry_json_complain(errors, r, "", "line %zu, column %zu: %s", fault.line, fault.column, fault.what);
        if (r)
                return r;
        /* It counts the values within the innermost brackets as one level more. */
        tokener = json_tokener_new_ex(FERRY_JSON_DEPTH + 2);
        if (!tokener)
                return -ENOMEM;
        r = build(tokener, text, size, ret_object);
        json_tokener_free(tokener);
        return r;
}
