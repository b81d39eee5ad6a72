/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/status.h>

static bool decode_text(const struct ferry_json *value, const struct decode_field *field, char *target)
{
        if (value->kind != FERRY_JSON_TEXT && !(field->type == DECODE_LABEL && value->kind == FERRY_JSON_INTEGER))
                return false;
        size_t length = value->size;
        if (length >= field->size) {
                if (field->type != DECODE_PROSE)
                        return false;
                length = field->size - 1;
                while (length && ((unsigned char)value->text[length] & 0xc0) == 0x80)
                        length--;
        }
        memcpy(target, value->text, length);
        target[length] = '\0';
        return true;
}

static bool decode_value(const struct ferry_json *value, const struct decode_field *field, void *target)
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
                if (value->kind != FERRY_JSON_TRUE && value->kind != FERRY_JSON_FALSE)
                        return false;
                *(bool *)(void *)at = value->kind == FERRY_JSON_TRUE;
                return true;
        case DECODE_KIND:
        case DECODE_STATUS:
                if (value->kind != FERRY_JSON_TEXT)
                        return false;
                *(int *)(void *)at = field->type == DECODE_KIND ? ferry_kind_from_name(value->text)
                                                                : ferry_status_from_name(value->text);
                return true;
        }
        return false;
}

const struct ferry_json *decode_member(const struct ferry_json *json, const char *key)
{
        const struct ferry_json *value = ferry_json_member(json, key);
        return value && value->kind != FERRY_JSON_NULL ? value : NULL;
}

int decode_object(const struct ferry_json *json, const struct decode_field *fields, size_t n, void *target,
                  const char **ret_field)
{
        *ret_field = "not an object";
        if (!json || json->kind != FERRY_JSON_MEMBERS)
                return -EPROTO;
        for (size_t i = 0; i < n; i++) {
                *ret_field = fields[i].name;
                const struct ferry_json *value = decode_member(json, fields[i].name);
                if (!value) {
                        if (fields[i].required)
                                return -EPROTO;
                } else if (!decode_value(value, &fields[i], target)) {
                        return -EPROTO;
                }
        }
        return 0;
}

void decode_page_clear(const struct decode_list *list, struct decode_page *page)
{
        for (size_t i = 0; list->clear && i < page->n; i++)
                list->clear((char *)page->items + i * list->item_size);
        free(page->items);
        free(page->next);
        *page = (struct decode_page){ 0 };
}

static int decode_page_next(const struct ferry_json *json, struct decode_page *page)
{
        const struct ferry_json *next = decode_member(json, "next");
        if (!next)
                return 0;
        if (next->kind != FERRY_JSON_TEXT)
                return -EPROTO;
        page->next = strdup(next->text);
        return page->next ? 0 : -ENOMEM;
}

int decode_page(const struct ferry_json *json, const struct decode_list *list, struct decode_page *ret_page,
                const char **ret_field)
{
        const struct ferry_json *items = decode_member(json, list->key);
        struct decode_page page = { 0 };
        *ret_field = list->key;
        if (!items || items->kind != FERRY_JSON_LIST)
                return -EPROTO;
        page.items = calloc(items->size ? items->size : 1, list->item_size);
        if (!page.items)
                return -ENOMEM;
        int r = 0;
        for (const struct ferry_json *at = items + 1; r == 0 && page.n < items->size; at += at->span) {
                r = list->decode(at, (char *)page.items + page.n * list->item_size, ret_field);
                page.n += r == 0;
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
