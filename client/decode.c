/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/ferry.h>
#include <ferry/json.h>
#include <ferry/status.h>
#include <ferry/util.h>

static bool decode_text(struct json_object *value, const struct decode_field *field, char *target)
{
        if (!json_object_is_type(value, json_type_string) &&
            !(field->type == DECODE_LABEL && json_object_is_type(value, json_type_int)))
                return false;
        const char *text = json_object_get_string(value);
        if (!text)
                return false;
        size_t length = strlen(text);
        if (length >= field->size) {
                if (field->type != DECODE_PROSE)
                        return false;
                length = field->size - 1;
                while (length && ((unsigned char)text[length] & 0xc0) == 0x80)
                        length--;
        }
        memcpy(target, text, length);
        target[length] = '\0';
        return true;
}

static int decode_name(enum decode_type type, const char *name)
{
        if (type == DECODE_KIND)
                return ferry_kind_from_name(name);
        return type == DECODE_STATUS ? ferry_status_from_name(name) : ferry_layout_from_name(name);
}

static bool decode_value(struct json_object *value, const struct decode_field *field, void *target)
{
        char *at = (char *)target + field->offset;
        switch (field->type) {
        case DECODE_TEXT:
        case DECODE_LABEL:
        case DECODE_PROSE:
                return decode_text(value, field, at);
        case DECODE_UINT:
                return ferry_json_get_uint(value, (uint64_t *)(void *)at);
        case DECODE_BOOL:
                if (!json_object_is_type(value, json_type_boolean))
                        return false;
                *(bool *)(void *)at = json_object_get_boolean(value);
                return true;
        case DECODE_KIND:
        case DECODE_STATUS:
        case DECODE_LAYOUT:
                if (!json_object_is_type(value, json_type_string))
                        return false;
                *(int *)(void *)at = decode_name(field->type, json_object_get_string(value));
                return true;
        case DECODE_VALUE:
                *(struct json_object **)(void *)at = value;
                return true;
        }
        return false;
}

/* The values of all fields in one walk: to find a member by its name json-c hashes it. */
static void decode_find(struct json_object *json, const struct decode_field *fields, size_t n,
                        struct json_object **values)
{
        size_t next = 0; /* the field that is likely to come */
        json_object_object_foreach (json, key, value) {
                for (size_t tries = 0; tries < n; tries++) {
                        size_t i = next;
                        next = next + 1 < n ? next + 1 : 0;
                        if (strcmp(key, fields[i].name) == 0) {
                                values[i] = value;
                                break;
                        }
                }
        }
}

int decode_object(struct json_object *json, const struct decode_field *fields, size_t n, void *target,
                  const char **ret_field)
{
        struct json_object *values[DECODE_FIELDS_MAX] = { NULL };
        *ret_field = "not an object";
        if (!json_object_is_type(json, json_type_object))
                return -EPROTO;
        decode_find(json, fields, n, values);
        for (size_t i = 0; i < n; i++) {
                *ret_field = fields[i].name;
                if (!values[i]) {
                        if (fields[i].required)
                                return -EPROTO;
                } else if (!decode_value(values[i], &fields[i], target)) {
                        return -EPROTO;
                }
        }
        return 0;
}

int decode_error(struct json_object *json, struct decode_error *error, const char **ret_field)
{
        static const struct decode_field fields[] = {
                DECODE_FIELD("code", DECODE_TEXT, true, struct decode_error, code),
                DECODE_FIELD("detail", DECODE_PROSE, false, struct decode_error, detail),
        };
        if (!json)
                return 0;
        int r = decode_object(json, fields, FERRY_ARRAY_SIZE(fields), error, ret_field);
        if (r == 0) {
                int number = ferry_error_from_code(error->code, 0);
                error->number = number > 0 ? number : FERRY_E_OTHER;
        }
        return r;
}

static void decode_page_clear(const struct decode_list *list, struct decode_page *page)
{
        for (size_t i = 0; list->clear && i < page->n; i++)
                list->clear((char *)page->items + i * list->item_size);
        free(page->items);
        free(page->next);
        *page = (struct decode_page){ 0 };
}

static int decode_page_next(struct json_object *json, struct decode_page *page)
{
        struct json_object *next = json_object_object_get(json, "next");
        if (!next)
                return 0;
        if (!json_object_is_type(next, json_type_string))
                return -EPROTO;
        page->next = strdup(json_object_get_string(next));
        return page->next ? 0 : -ENOMEM;
}

int decode_page(struct json_object *json, const struct decode_list *list, struct decode_page *ret_page,
                const char **ret_field)
{
        struct json_object *items = json_object_object_get(json, list->key);
        struct decode_page page = { 0 };
        *ret_field = list->key;
        if (!json_object_is_type(items, json_type_array))
                return -EPROTO;
        size_t n = json_object_array_length(items);
        page.items = calloc(n ?: 1, list->item_size);
        if (!page.items)
                return -ENOMEM;
        int r = 0;
        for (; r == 0 && page.n < n; page.n += r == 0) {
                char *item = (char *)page.items + page.n * list->item_size;
                r = list->decode(json_object_array_get_idx(items, page.n), item, ret_field);
        }
        if (r == 0) {
                *ret_field = "next";
                r = decode_page_next(json, &page);
        }
        if (r < 0)
                decode_page_clear(list, &page);
        else
                *ret_page = page;
        return r;
}
