/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>

#include "json_check.h"
#include "json_document.h"

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

static int complain_of_length(struct ferry_json_errors *errors)
{
        ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "the text is too long");
        return FERRY_E_INVALID_JSON;
}

static void complain_of_fault(struct ferry_json_errors *errors, const struct json_fault *fault)
{
        ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", "line %zu, column %zu: %s", fault->line, fault->column,
                            fault->what);
}

int ferry_json_check(const char *text, size_t length, struct ferry_json_errors *errors)
{
        struct json_outline outline = { 0 };
        struct json_fault fault;
        int r;

        if (length > INT_MAX)
                return complain_of_length(errors);
        r = json_check(length ? text : "", length, &outline, &fault);
        json_outline_clear(&outline);
        if (r > 0)
                complain_of_fault(errors, &fault);
        return r;
}

int ferry_json_parse(const char *text, size_t length, const char *kept, struct ferry_json **ret_json,
                     struct ferry_json_errors *errors)
{
        struct ferry_json *json;
        struct json_fault fault;
        int r;

        if (length > INT_MAX)
                return complain_of_length(errors);
        json = json_document_new();
        if (!json)
                return -ENOMEM;
        json->outline.kept = kept;
        r = json_document_read(json, length ? text : "", length, &fault);
        if (r == 0) {
                *ret_json = json;
                return 0;
        }
        (void)ferry_json_free(json);
        if (r > 0)
                complain_of_fault(errors, &fault);
        return r;
}
